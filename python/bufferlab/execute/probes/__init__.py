"""Probes that the command line asks for: refused early, told to the core, and kept as tables."""
