"""Predicts a run's reads with other settings, from its recorded page accesses and a model of its buffer manager."""
