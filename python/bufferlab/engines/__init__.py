"""The engines that bufferlab supports: each has a folder, and a line in registry.py."""
