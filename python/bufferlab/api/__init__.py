"""The Python interface: what `import bufferlab as bl` offers. docs/python.md shows each function at work.

It returns polars frames of what the commands compute. It computes nothing that a command does not.
"""
