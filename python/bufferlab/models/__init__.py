"""Predicts the reads of runs under other settings, from page accesses and a model of the buffer manager."""
