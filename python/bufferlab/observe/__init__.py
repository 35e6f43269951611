"""Looks at a server that runs already: its pool's counters once a second, and what they mean. Changes nothing."""
