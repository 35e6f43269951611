"""The ground of all figures: the sheet, the colours of series, the numbers at an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

#: Stand-ins that `for_page` turns into the page's own colours, so that a figure follows dark mode.
INK, FAINT = "#1b1f24", "#d5d9de"
SERIES_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
FONT_SIZE = 11.5


def canvas(width_in: float, height_in: float) -> Canvas:
    """Return a sheet to draw on, without pyplot and its global state."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width_in, height_in), layout="constrained")


def colour_of(place: int) -> str:
    """Return the colour of a series by its place; the seventh has the first's."""
    return SERIES_COLOURS[place % len(SERIES_COLOURS)]


def tick(value: float) -> str:
    """Return a number as an axis shows it."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == 0 else f"{value:g}"
