"""The workloads that bufferlab knows: each has a folder here and a line in registry.py."""
