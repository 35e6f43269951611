"""Probes that the command line asks for: refused early, passed to the core, and kept as tables."""
