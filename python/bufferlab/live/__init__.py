"""Looks at a server that runs, without changing it: the misses of its pool, and the reads of other pool sizes."""
