"""The Python interface: what `import bufferlab as bl` offers. docs/python.md shows each function at work.

It returns polars frames of what the commands compute. It computes nothing that a command does not.
"""

# Reading a run needs the families' metrics, which the registry hands to `results`.
import bufferlab.engines.registry  # noqa: F401
