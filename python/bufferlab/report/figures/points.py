"""Draws metrics over the points of a sweep: runs as dots, means with intervals, theory as curves; one or in panels."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bufferlab.chapter import words
from bufferlab.chapter.blocks import INTERVAL_REACH, Dot, PanelsPlot, PointsPlot, Series
from bufferlab.report.figures.canvas import FONT_SIZE, INK, SERIES_COLOURS, canvas, colour_of, tick
from bufferlab.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_MARKERS = ("o", "s", "^", "D", "v", "P")


def draw_points(plot: PointsPlot) -> Canvas:
    """Draw one metric over the points."""
    figure = canvas(8.4, 5.4 if plot.marks or len(plot.series) > 4 else 4.7 if len(plot.series) > 2 else 4.5)
    axes = figure.subplots()
    _draw_on(axes, plot)
    style: Any = {"fontsize": FONT_SIZE - 1.5, "labelspacing": 0.3}
    if plot.marks or len(plot.series) > 2:
        # The legend stands above the axes, where no line goes through it.
        figure.legend(loc="outside upper left", ncols=2 if any(len(s.label) > 16 for s in plot.series) else 4, **style)
    elif len(plot.series) > 1 or plot.curves:
        axes.legend(**style)
    return figure


def draw_panels(plot: PanelsPlot) -> Canvas:
    """Draw panels, two in a row; every panel has its own vertical axis."""
    rows = (len(plot.panels) + 1) // 2
    figure = canvas(8.4, 3.1 * rows + 0.4)
    grid = figure.subplots(rows, 2, squeeze=False)
    for place, panel in enumerate(plot.panels):
        axes = grid[place // 2][place % 2]
        _draw_on(axes, panel)
        # The metric stands above its panel, where a long name does not collide with the numbers.
        axes.set_title(panel.y_label, fontsize=FONT_SIZE, loc="left")
        axes.set_ylabel("")
        if place + 2 < len(plot.panels):
            axes.set_xlabel("")
    for place in range(len(plot.panels), 2 * rows):
        grid[place // 2][place % 2].set_visible(False)
    if plot.panels and len(plot.panels[0].series) > 1:
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=2, fontsize=FONT_SIZE - 1.5)
    return figure


def _draw_on(axes: Axes, plot: PointsPlot) -> None:
    """Draw a metric over the points on these axes, the only ones of a figure or one of several."""
    if plot.x_is_log:
        axes.set_xscale("log", base=2)
    if plot.y_is_log:
        axes.set_yscale("log")
    width = _step_width(plot)
    for place, series in enumerate(plot.series):
        _draw_series(axes, series, place, plot, width)
    _x_ticks(axes, plot, width)
    _y_ticks(axes, plot)
    _draw_curves(axes, plot)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.grid(visible=False, axis="x")


def _draw_series(axes: Axes, series: Series, place: int, plot: PointsPlot, width: float) -> None:
    colour, marker = colour_of(place), _MARKERS[place % len(_MARKERS)]
    xs = [dot.x for dot in series.dots]
    # Colours and markers come again after six series; the line then tells them apart.
    line = ("-", "--", ":")[place // len(SERIES_COLOURS) % 3] if series.joined else ""
    style: Any = {
        "color": colour,
        "linewidth": 1.6,
        "linestyle": line,
        "marker": marker,
        "markersize": 4.5,
        "zorder": 2,
    }
    axes.plot(xs, [dot.mean for dot in series.dots], label=series.label or None, **style)
    for dot in series.dots:
        offsets = _beside(dot.x, len(dot.runs), width, is_log=plot.x_is_log)
        axes.plot(offsets, dot.runs, marker, markersize=6, fillstyle="none", color=colour, alpha=0.75, zorder=3)
        _draw_mean(axes, dot, colour, marker)
        if plot.value_labels:
            _label_mean(axes, dot, falling=series.dots[-1].mean < series.dots[0].mean)


def _draw_curves(axes: Axes, plot: PointsPlot) -> None:
    """Draw theory's curves, and marks on the axis; they come last and do not move the limits that the dots set."""
    limits = axes.get_xlim(), axes.get_ylim()
    for curve in plot.curves:
        axes.plot(
            curve.xs,
            curve.ys,
            color=colour_of(curve.series),
            linewidth=1.3,
            alpha=0.9,
            zorder=1,
            label=curve.label or None,
        )
    for mark in plot.marks:
        line: Any = {"linestyle": (0, (4, 3)) if mark.dashed else (0, (1, 2)), "linewidth": 1.4, "zorder": 0}
        axes.axvline(mark.x, color=colour_of(mark.series), label=mark.label or None, **line)
    axes.set_xlim(limits[0])
    axes.set_ylim(limits[1])


def _draw_mean(axes: Axes, dot: Dot, colour: str, marker: str) -> None:
    if dot.ci_low is not None and dot.ci_high is not None:
        below, above = max(0.0, dot.mean - dot.ci_low), max(0.0, dot.ci_high - dot.mean)
        axes.errorbar(dot.x, dot.mean, [[below], [above]], color=INK, capsize=5, linewidth=1.8, zorder=4)
    axes.plot([dot.x], [dot.mean], marker, markersize=4.5, color=colour, zorder=5)


def _label_mean(axes: Axes, dot: Dot, *, falling: bool) -> None:
    """Write the value on the side of its point where the line does not go."""
    top = max(dot.mean, dot.ci_high or dot.mean, *dot.runs)
    place: Any = {"xytext": (4, 7), "ha": "left"} if falling else {"xytext": (-4, 7), "ha": "right"}
    axes.annotate(words.number(dot.mean), (dot.x, top), textcoords="offset points", fontweight="bold", **place)


def _step_width(plot: PointsPlot) -> float:
    """Return one step of the axis: doublings on a logarithmic one, else a share of its length."""
    xs = sorted({dot.x for series in plot.series for dot in series.dots})
    if len(xs) < 2:
        return 1.0
    span = math.log2(xs[-1] / xs[0]) if plot.x_is_log else xs[-1] - xs[0]
    return span / max(4, len(xs) - 1) if plot.x_is_log or span != len(xs) - 1 else 1.0


def _beside(x: float, count: int, width: float, *, is_log: bool) -> list[float]:
    """Return places to the right of a point for its runs, so that they do not hide its interval."""
    steps = [width * (0.09 + 0.045 * place) for place in range(count)]
    return [x * 2.0**step if is_log else x + step for step in steps]


def _x_ticks(axes: Axes, plot: PointsPlot, width: float) -> None:
    dots = {dot.x: dot.tick for series in plot.series for dot in series.dots}
    low, high = min(dots), max(dots)
    places = [math.log2(x) if plot.x_is_log else x for x in sorted(dots)]
    crowded = len(dots) > 1 and min(b - a for a, b in pairwise(places)) < 0.075 * (places[-1] - places[0])
    if crowded:
        _round_ticks(axes, plot)
    else:
        axes.set_xticks(list(dots), labels=list(dots.values()))
    axes.minorticks_off()
    if plot.x_is_log:
        axes.set_xlim(low / 2 ** (0.43 * width), high * 2 ** (0.54 * width))
    else:
        axes.set_xlim(low - 0.5 * width, high + 0.5 * width)


def _round_ticks(axes: Axes, plot: PointsPlot) -> None:
    """Set round numbers at the axis, where the dots are too many to be named one by one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    decades = LogLocator(base=4) if plot.x_in_bytes else LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=12)
    axes.xaxis.set_major_locator(decades if plot.x_is_log else MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: format_bytes(x) if plot.x_in_bytes else tick(x)))


def _y_ticks(axes: Axes, plot: PointsPlot) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    if not plot.y_is_log and not plot.y_from_zero:
        return
    if not plot.y_is_log:
        dots = [dot for series in plot.series for dot in series.dots]
        reach = INTERVAL_REACH * max(value for dot in dots for value in (dot.mean, *dot.runs))
        top = max(bound for dot in dots for bound in (dot.mean, min(dot.ci_high or 0.0, reach), *dot.runs))
        axes.set_ylim(0, top * 1.15 or 1.0)
        return
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    low, high = axes.get_ylim()
    values = [value for series in plot.series for dot in series.dots for value in (dot.mean, *dot.runs)]
    low, high = max(low, min(values) / INTERVAL_REACH**2), min(high, max(values) * INTERVAL_REACH**2)
    axes.set_ylim(low / 1.1, high * 1.3)
