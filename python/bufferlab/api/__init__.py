"""The Python interface: the functions of `import bufferlab as bl`. docs/python.md shows each function at work.

The functions return the commands' results as polars frames. They compute nothing that no command computes.
"""
