"""The statistics: functions from numbers to estimates, with numpy and scipy, without files, clocks, units or per cent.

`fit` fits points and blocks together; `verdict` says which claims the intervals allow.
"""
