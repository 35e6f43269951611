"""Looks at a server that runs: no load, no change, no right beyond looking."""
