"""Loaded databases: their cache, a run's copy, the check of its data, and the removal of killed processes' files."""
