"""Statistics: numbers in, estimates out. Pure numpy and scipy; no files, clocks, units or percent.

`fit` fits points and blocks together; `verdict` says which claims the intervals allow.
"""
