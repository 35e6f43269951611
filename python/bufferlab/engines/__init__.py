"""The engines bufferlab knows: one folder each, one line each in registry.py."""
