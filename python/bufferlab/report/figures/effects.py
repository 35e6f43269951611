"""Draws effects as ratios with their intervals about one: a forest plot, a row per effect and a panel per metric."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from bufferlab.chapter.blocks import EffectsPlot, Ratio
from bufferlab.report.figures.canvas import INK, SMALL_SIZE, canvas, colour_of, legend, series_id, tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_MARKERS = ("o", "s", "^", "D")
#: The factor by which the axis reaches past the effects; intervals that are longer leave the picture.
_REACH = 4.0
_MOST_TICKS = 4
#: Places at the axis, from close to far between; the first of these with few enough places is taken.
_TICKS = (
    (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0),
    (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    (0.01, 0.04, 0.2, 1.0, 5.0, 25.0, 100.0),
    (0.01, 0.1, 1.0, 10.0, 100.0),
    (0.01, 1.0, 100.0),
    (1.0,),
)


def draw_effects(plot: EffectsPlot) -> Canvas:
    """Draw each effect where its ratio lies. The line at one is no effect."""
    count = len(plot.series)
    figure = canvas(1.5 + len(plot.rows) * (0.3 + 0.17 * count))
    grid = figure.subplots(1, len(plot.panels), squeeze=False, sharey=True)
    for axes, title, ratios in zip(grid[0], plot.panels, plot.ratios, strict=True):
        axes.set_xscale("log")
        for place, name in enumerate(plot.series):
            found = [(row, one[place]) for row, one in enumerate(ratios)]
            _draw_series(axes, [(row, ratio) for row, ratio in found if ratio is not None], name, place, count)
        axes.axvline(1.0, color=INK, linewidth=1.0, zorder=0)
        low, high = _limits([ratio for one in ratios for ratio in one if ratio is not None])
        axes.set_xlim(low, high)
        ticks = next(some for of in _TICKS if len(some := [one for one in of if low <= one <= high]) <= _MOST_TICKS)
        axes.set_xticks(ticks, labels=[f"× {tick(one)}" for one in ticks])
        axes.minorticks_off()
        axes.set_title(fill(title, 22), fontsize=SMALL_SIZE, loc="left")
        axes.set_ylim(len(plot.rows) - 0.5, -0.5)
        axes.set_yticks(range(len(plot.rows)), labels=[fill(row, 20) for row in plot.rows])
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
            axes.plot([max(ratio.low, 1e-6), ratio.high], [y, y], color=colour, linewidth=2.0, zorder=2)


def _limits(ratios: list[Ratio]) -> tuple[float, float]:
    values = [ratio.value for ratio in ratios] or [1.0]
    ends = [end for ratio in ratios for end in (ratio.low, ratio.high) if end is not None]
    low, high = min(values) / _REACH, max(values) * _REACH
    reached = [*values, 1.0, *(min(max(end, low), high) for end in ends)]
    return min(0.9, min(reached) / 1.15), max(1.1, max(reached) * 1.15)
