"""Advice for a server that runs: what it would read a second in a larger or smaller pool, and how sure that is."""
