"""The Python interface: the functions of `import bufferlab as bl`. docs/python.md has an example of each function.

The functions return the commands' results as polars frames. They compute nothing that no command computes.
"""
