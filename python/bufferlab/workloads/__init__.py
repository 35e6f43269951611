"""The workloads bufferlab knows: one file each, one line each in registry.py."""
