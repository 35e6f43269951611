"""Loaded databases: the cache of them, a run's copy, the check of its data, and what killed processes left."""
