"""Scripted engines that misbehave as tests ask."""
