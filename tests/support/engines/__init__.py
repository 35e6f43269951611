"""Scripted engines, which misbehave as tests ask."""
