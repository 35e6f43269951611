"""Draws the figures of a report: `svg` makes text of the other files' drawings; each draws one kind of figure."""
