"""Draws effects as ratios with their intervals, in a forest plot: a row per effect, a panel per metric."""

from __future__ import annotations

from itertools import pairwise
from math import log
from typing import TYPE_CHECKING

from bufferlab.chapter.elements import EffectsPlot, Ratio
from bufferlab.chapter.words import kept_together
from bufferlab.report.figures.canvas import INK, SMALL_SIZE, canvas, colour_of, legend, series_id, tick, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: The maximum number of characters in a line of a row's name, if panels are side by side.
_ROW_CHARACTERS = 20
_MARKERS = ("o", "s", "^", "D")
#: The share of the figure's width that the label of a tick needs.
_TICK_SHARE = 0.16
#: Sets of ticks, from dense to sparse: the first set whose labels do not touch is used.
_TICKS = (
    (0.8, 0.9, 1.0, 1.1, 1.2),
    (0.6, 0.8, 1.0, 1.25, 1.6),
    (0.5, 0.7, 1.0, 1.4, 2.0),
    (0.25, 0.5, 1.0, 2.0, 4.0),
    (0.1, 0.3, 1.0, 3.0, 10.0),
    (0.04, 0.2, 1.0, 5.0, 25.0),
    (0.01, 0.1, 1.0, 10.0, 100.0),
    (0.001, 0.03, 1.0, 30.0, 1000.0),
    (0.0001, 0.01, 1.0, 100.0, 10000.0),
    (1e-6, 0.001, 1.0, 1000.0, 1e6),
)


def draw_effects(plot: EffectsPlot) -> Canvas:
    """Draw each effect at its ratio, and a line at one, which means no effect; return the figure."""
    count = len(plot.series)
    figure = canvas(1.5 + len(plot.rows) * (0.3 + 0.17 * count))
    grid = figure.subplots(1, len(plot.panels), squeeze=False, sharey=True)
    for panel, (axes, title, ratios) in enumerate(zip(grid[0], plot.panels, plot.ratios, strict=True)):
        axes.set_xscale("log")
        low, high = plot.limits(panel)
        axes.set_xlim(low, high)
        for place, name in enumerate(plot.series):
            found = [(row, one[place]) for row, one in enumerate(ratios)]
            _draw_series(axes, [(row, ratio) for row, ratio in found if ratio is not None], name, place, count)
        axes.axvline(1.0, color=INK, linewidth=1.0, zorder=0)
        ticks = _ticks(low, high, _TICK_SHARE * len(plot.panels))
        axes.set_xticks(ticks, labels=[f"× {tick(one)}" for one in ticks])
        axes.minorticks_off()
        axes.set_title(wrapped(title, 22), fontsize=SMALL_SIZE, loc="left")
        axes.set_ylim(len(plot.rows) - 0.5, -0.5)
        of_row = _ROW_CHARACTERS if len(plot.panels) > 1 else 2 * _ROW_CHARACTERS
        axes.set_yticks(range(len(plot.rows)), labels=[wrapped(kept_together(row), of_row) for row in plot.rows])
        axes.tick_params(axis="y", length=0)
    if count > 1:
        legend(figure, *grid[0][0].get_legend_handles_labels())
    return figure


def _draw_series(axes: Axes, found: list[tuple[int, Ratio]], name: str, place: int, count: int) -> None:
    colour, marker = colour_of(place), _MARKERS[place % len(_MARKERS)]
    shift = 0.62 / count * (place - (count - 1) / 2)
    ys, xs = [row + shift for row, _ in found], [ratio.value for _, ratio in found]
    axes.plot(xs, ys, marker, markersize=6, color=colour, label=name, zorder=3, gid=series_id(axes, place))
    for y, (_, ratio) in zip(ys, found, strict=True):
        if ratio.low is not None and ratio.high is not None:
            _draw_interval(axes, ratio.low, ratio.high, y, colour)


def _draw_interval(axes: Axes, low: float, high: float, y: float, colour: str) -> None:
    """Draw an interval, with an arrow at an end that lies outside of the axes."""
    left, right = axes.get_xlim()
    axes.plot([max(low, left), min(high, right)], [y, y], color=colour, linewidth=2.0, zorder=2)
    if low < left:
        axes.plot([left], [y], "<", markersize=6, color=colour, clip_on=False, zorder=2)
    if high > right:
        axes.plot([right], [y], ">", markersize=6, color=colour, clip_on=False, zorder=2)


def _ticks(low: float, high: float, apart: float) -> list[float]:
    """Return the ticks of an axis: the densest set in which neighbours are at least the share `apart` of the axis's
    length apart."""
    found: list[float] = [1.0]
    for places in _TICKS:
        found = [place for place in places if low <= place <= high]
        gaps = [log(b / a) / log(high / low) for a, b in pairwise(found)]
        if all(gap >= apart for gap in gaps):
            break
    return found
