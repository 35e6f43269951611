"""Observes a running server without changing it: its pool's misses, and the reads that other pool sizes would have."""
