"""The common parts of all figures: the canvas, the colours of series, the legend, the numbers at an axis."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas

#: Placeholders that `for_page` replaces by the page's colours, so that a figure follows dark mode.
INK, FAINT, QUIET = "#1b1f24", "#d5d9de", "#57606a"
SERIES_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
FONT_SIZE, SMALL_SIZE = 10.5, 10.0
#: The width of every figure, in inches. On a telephone the whole figure is visible, with readable letters.
WIDTH_IN = 5.2
#: The most characters in a line of a legend.
_LEGEND_CHARACTERS = 66
_TITLED = re.compile(r'<g id="([^"|]*)\|([^"]*)">')
#: The most digits after the point at an axis.
_MOST_DIGITS = 6


def canvas(height_in: float) -> Canvas:
    """Return a new matplotlib figure, without pyplot and its global state."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(WIDTH_IN, height_in), layout="constrained")


def series_id(axes: Axes, place: int) -> str:
    """Return the id of a series in the SVG, made of the panel's number and the series' place in it."""
    figure = axes.get_figure()
    assert figure is not None
    return f"panel-{figure.axes.index(axes)}-series-{place}"


def titled(id: str, title: str) -> str:
    """Return an artist's id that also holds a title; `with_titles` makes of it the SVG element's tooltip."""
    return f"{id}|{title}"


def with_titles(svg: str) -> str:
    """Return the SVG in which ids made by `titled` are split again, into the id and a title element (a tooltip)."""
    return _TITLED.sub(lambda found: f'<g id="{found[1]}"><title>{found[2]}</title>', svg).replace('<g id="">', "<g>")


def legend_in(labels: Sequence[str]) -> float:
    """Return the height in inches that a legend needs above the axes; 0 for a single series."""
    return 0.19 * -(-len(labels) // _columns(labels)) if len(labels) > 1 else 0.0


def _columns(labels: Sequence[str]) -> int:
    longest = max(map(len, labels)) + 6
    return max(1, min(len(labels), 4, _LEGEND_CHARACTERS // longest))


def legend(figure: Canvas, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Put the legend above the axes, where no line crosses it, in as many columns as its words allow."""
    if labels:
        style: Any = {"fontsize": SMALL_SIZE, "labelspacing": 0.3, "columnspacing": 1.2, "handlelength": 1.6}
        figure.legend(handles, labels, loc="outside upper left", ncols=_columns(labels), **style)


def wrapped(text: str, characters: int) -> str:
    """Return a text in lines of at most `characters` characters; words with hyphens stay whole."""
    return fill(text, characters, break_on_hyphens=False)


def colour_of(place: int) -> str:
    """Return the colour of a series by its place; colours repeat after six series."""
    return SERIES_COLOURS[place % len(SERIES_COLOURS)]


def tick(value: float, step: float = 1.0) -> str:
    """Return a number as an axis shows it, with enough digits to differ from a number that is `step` away.

    >>> tick(96.5), tick(96.5, step=0.25), tick(1200.0, step=200.0), tick(0.0, step=0.25)
    ('96', '96.50', '1,200', '0')
    """
    if value == 0 or abs(value) < 10:
        return f"{value:g}"
    scaled = (step * 10**digits for digits in range(_MOST_DIGITS))
    digits = next((digits for digits, whole in enumerate(scaled) if abs(whole - round(whole)) < 1e-6), _MOST_DIGITS)
    return f"{value:,.{digits}f}"


def show_numbers(axis: Axis) -> None:
    """Set the format of a linear axis's numbers, with enough digits to keep any two numbers apart."""
    from matplotlib.ticker import Formatter

    class Numbers(Formatter):
        step = 1.0

        def set_locs(self, locs: Sequence[float]) -> None:
            self.step = min((round(b - a, _MOST_DIGITS) for a, b in pairwise(sorted(locs))), default=1.0)

        def __call__(self, value: float, _: float | None = None) -> str:
            return tick(value, self.step)

    axis.set_major_formatter(Numbers())
