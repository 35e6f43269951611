"""Advises on the pool of a server that runs: what it would read with more memory or less, and how sure that is."""
