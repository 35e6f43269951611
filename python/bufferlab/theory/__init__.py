"""Theoretical predictions for a buffer pool: pure functions from numbers to numbers, without files or measurements."""
