"""Probes that the user requests on the command line: refused early, passed to the core, and stored as tables."""
