"""Draws the figures of a report: `svg` makes text of what the other files draw, one for each kind of figure."""
