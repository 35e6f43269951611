"""Looks at a server that runs: the misses of its pool, and the reads of other sizes. Changes nothing."""
