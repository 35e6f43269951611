"""Draws metrics over the points of a sweep, in one figure or in panels: runs as dots, means with intervals, curves.

If the horizontal axis has words, no line joins the dots, and dots of several series at one place are drawn side by
side. If it has numbers, they are drawn so close that a reader takes them for one place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from textwrap import fill
from typing import TYPE_CHECKING, Any

from bufferlab.chapter import words
from bufferlab.chapter.elements import INTERVAL_REACH, WHOLE_SERIES, Dot, PanelsPlot, PointsPlot, Series
from bufferlab.report.figures.canvas import (
    FONT_SIZE,
    QUIET,
    SERIES_COLOURS,
    SMALL_SIZE,
    canvas,
    colour_of,
    legend,
    legend_in,
    series_id,
    show_numbers,
    tick,
    titled,
    wrapped,
)
from bufferlab.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_MARKERS = ("o", "s", "^", "D", "v", "P")
#: The height of a name at the end of a line, as a share of the axes' height.
_END_ROOM = 0.1
#: On an axis of words, the width of all series at one place together, as a share of the distance to the next place.
_SPREAD = 0.72
#: The same share (of the distance between places) on an axis of numbers. It is small, because a place on the axis means
#: a number, but large enough to separate intervals.
_CLOSE = 0.22
#: The least width of the area around a mean in which its runs are drawn, as a share of a step of the axis.
_RUNS_ROOM = 0.1
#: The largest distance of a run's dot from its mean, as a share of the distance to the next point. Further away it
#: would look like a run of the next point.
_RUNS_REACH = 0.15
#: The styles of lines that were not measured. Lines of reference are wider and drawn below the others, so that they
#: stay visible if lines coincide.
_LOOKS: dict[str, dict[str, Any]] = {
    "line": {"linewidth": 1.3, "alpha": 0.9, "zorder": 1},
    "dashed": {"linewidth": 1.3, "alpha": 0.9, "zorder": 1.5, "linestyle": (0, (3.0, 2.0))},
    "yardstick": {"linewidth": 3.6, "alpha": 0.6, "zorder": 0.8, "linestyle": (0, (2.0, 1.0))},
    "floor": {"linewidth": 1.5, "alpha": 0.9, "zorder": 0.9, "linestyle": (0, (1.0, 1.5))},
}
#: The approximate share of a figure's height that its axes fill. The second number is the factor by which ticks are
#: closer together if names at the ends of lines make the axes narrower.
_AXES_SHARE, _NAMES_CROWD = 0.68, 1.25
#: The most characters of one line of ticks on an axis of words, summed over all its places.
_TICK_CHARACTERS = 56
#: The most characters in a line of the horizontal axis's title, and in a line of the vertical axis's title.
_X_CHARACTERS = 55
_Y_CHARACTERS = 32
#: The most tick numbers of a logarithmic vertical axis in a whole figure, and in a panel.
_TICKS, _PANEL_TICKS = 12, 7
#: If there is no room to name all points at the axis, up to this many points get some names. With more points the axis
#: has round numbers instead.
_MOST_NAMED = 8
#: The most names that are drawn slanted at the axis of a figure without panels, and the most letters of each.
_MOST_ASLANT, _NAME = 14, 12


def draw_points(plot: PointsPlot) -> Canvas:
    """Draw one metric over the points of a sweep; return the figure."""
    lines = 0.0 if plot.names_at_ends else legend_in([series.label for series in plot.series])
    height_in = max(3.4 + lines, 3.6 if len(plot.series) < 3 and not plot.marks else 4.1)
    figure = canvas(height_in)
    axes = figure.subplots()
    _draw_on(axes, plot)
    _y_ticks(axes, plot)
    _draw_curves(axes, plot)
    if plot.names_at_ends:
        _name_ends(axes, plot, height_in)
        return figure
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1 or plot.curves or plot.marks:
        legend(figure, handles, labels)
    return figure


def draw_panels(plot: PanelsPlot) -> Canvas:
    """Draw panels, two in a row; return the figure. Panels share one vertical axis if all show the same metric."""
    rows = (len(plot.panels) + 1) // 2
    of_legend = legend_in([series.label for series in plot.panels[0].series])
    figure = canvas((2.0 + max(map(_words_in, plot.panels))) * rows + 0.4 + of_legend)
    grid = figure.subplots(rows, 2, squeeze=False, sharey=plot.is_one_metric)
    every = replace(plot.panels[0], series=tuple(series for panel in plot.panels for series in panel.series))
    for place, panel in enumerate(plot.panels):
        axes = grid[place // 2][place % 2]
        _draw_on(axes, panel, columns=2)
        _y_ticks(axes, every if plot.is_one_metric else panel, most=_PANEL_TICKS)
        _draw_curves(axes, panel)
        # Write the metric's name above its panel: at the axis a long name would collide with the numbers.
        title = panel.title or panel.y_label
        title = f"{title}, logarithmic" if panel.y_is_log and not plot.is_one_metric else title
        axes.set_title(wrapped(words.kept_together(title), 26), fontsize=SMALL_SIZE, loc="left")
        axes.set_ylabel("")
        if place + 2 < len(plot.panels):
            axes.set_xlabel("")
            axes.tick_params(axis="x", labelbottom=not panel.x_is_names)
    for place in range(len(plot.panels), 2 * rows):
        grid[place // 2][place % 2].set_visible(False)
    if len({panel.y_label for panel in plot.panels}) == 1:
        # The title runs along the whole height of the figure. In one low row of panels a long line would reach the
        # legend, so lines are shorter there.
        title = wrapped(plot.panels[0].y_label, _Y_CHARACTERS // 2 if rows == 1 else 2 * _Y_CHARACTERS)
        figure.supylabel(title, fontsize=FONT_SIZE)
    if plot.panels and len(plot.panels[0].series) > 1:
        legend(figure, *grid[0][0].get_legend_handles_labels())
    return figure


def _draw_on(axes: Axes, plot: PointsPlot, columns: int = 1) -> None:
    """Draw a metric over the points on these axes; `columns` is the number of panels side by side in the figure."""
    if plot.x_is_log:
        axes.set_xscale("log", base=2)
    if plot.y_is_log:
        axes.set_yscale("log")
    width = _step_width(plot)
    for place, series in enumerate(plot.series):
        _draw_series(axes, series, place, plot, width)
    unit = _x_ticks(axes, plot, width, columns)
    axes.set_xlabel(wrapped(f"{plot.x_label}{unit}", _X_CHARACTERS // columns))
    axes.set_ylabel(wrapped(plot.y_label, _Y_CHARACTERS))
    if plot.note:
        axes.set_title(plot.note, fontsize=SMALL_SIZE, loc="left", color=QUIET)
    axes.grid(visible=False, axis="x")


def _draw_series(axes: Axes, series: Series, place: int, plot: PointsPlot, width: float) -> None:
    if any(curve.series == place and curve.look in WHOLE_SERIES for curve in plot.curves):
        return  # Such a series is drawn only as its curve.
    colour, marker = colour_of(place), _MARKERS[place % len(_MARKERS)]
    # If there are curves, dots are not moved to the side, because each must lie on its curve.
    is_alone = len(plot.series) == 1 or bool(plot.curves and not plot.x_is_words)
    room = width * (_SPREAD if is_alone else (_SPREAD if plot.x_is_words else _CLOSE) / len(plot.series))
    shift = 0.0 if is_alone else room * (place - (len(plot.series) - 1) / 2)
    xs = [_moved(dot.x, shift, is_log=plot.x_is_log) for dot in series.dots]
    nearest = _nearest(plot)
    has_bars = all(band.series != place for band in plot.bands)
    # Colours and markers repeat after six series. Then the style of the line differs.
    line = ("-", "--", ":")[place // len(SERIES_COLOURS) % 3] if series.joined and not plot.x_is_words else ""
    style: Any = {"color": colour, "linewidth": 1.6, "linestyle": line, "marker": marker, "markersize": 4.5}
    axes.plot(
        xs, [dot.mean for dot in series.dots], label=series.label or None, zorder=3, gid=series_id(axes, place), **style
    )
    for x, dot in zip(xs, series.dots, strict=True):
        beside = _beside(x, len(dot.runs), max(room, _RUNS_ROOM * width), nearest, is_log=plot.x_is_log)
        axes.plot(beside, dot.runs, marker, markersize=5, fillstyle="none", color=colour, alpha=0.6, zorder=2)
        _draw_mean(axes, dot, x, colour, marker, has_bar=has_bars)
        axes.plot([x], [dot.mean], "o", markersize=16, alpha=0, zorder=6, gid=titled("", dot_title(series, dot)))
        if plot.value_labels:
            _label_mean(axes, dot, x, falling=series.dots[-1].mean < series.dots[0].mean)


def dot_title(series: Series, dot: Dot) -> str:
    """Return the text of a dot's tooltip: its place, its mean with the interval, its runs."""
    place = ", ".join(filter(None, [series.label, dot.tick.replace("\n", " = ")]))
    ends = "" if dot.ci_low is None or dot.ci_high is None else f" ({words.outward_range(dot.ci_low, dot.ci_high)})"
    return f"{place}: {words.number(dot.mean)}{ends}, n = {len(dot.runs)}" if dot.runs else f"{place}: {dot.mean:.4g}"


def _draw_curves(axes: Axes, plot: PointsPlot) -> None:
    """Draw curves of theory, bands, and marks on the axis. They do not change the limits, which the dots have set."""
    limits = axes.get_xlim(), axes.get_ylim()
    for band in plot.bands:
        shade: Any = {"color": colour_of(band.series), "alpha": 0.2, "linewidth": 0, "zorder": 0.5}
        axes.fill_between(band.xs, band.lows, band.highs, **shade)
    for curve in plot.curves:
        is_all = curve.look in WHOLE_SERIES
        name = plot.series[curve.series].label if is_all else curve.label
        gid = series_id(axes, curve.series) if is_all else None
        style = {**_LOOKS[curve.look], "color": colour_of(curve.series), "label": name or None, "gid": gid}
        axes.plot(curve.xs, curve.ys, **style)
    for mark in plot.marks:
        line: Any = {"linestyle": (0, (4, 3)) if mark.dashed else (0, (1, 2)), "linewidth": 1.4, "zorder": 0}
        axes.axvline(mark.x, color=colour_of(mark.series), label=mark.label or None, **line)
    axes.set_xlim(limits[0])
    axes.set_ylim(limits[1])
    _write_ends(axes, [(one.series, one.end, (one.xs[-1], one.ys[-1])) for one in plot.curves if one.end], _END_ROOM)


def _name_ends(axes: Axes, plot: PointsPlot, height_in: float) -> None:
    """Write names into the axes: series' names at the ends of their lines or next to their dots, marks' names at the
    top."""
    right = max(dot.x for series in plot.series for dot in series.dots)
    ends: list[tuple[int, str, tuple[float, float]]] = []
    for place, series in enumerate(plot.series):
        curve = next((one for one in plot.curves if one.series == place), None)
        last = (curve.xs[-1], curve.ys[-1]) if curve else (series.dots[-1].x, series.dots[-1].mean)
        if curve or series.joined or last[0] == right:
            ends.append((place, series.label, last))
        else:
            axes.annotate(series.label, last, (7, 5), textcoords="offset points", fontsize=SMALL_SIZE, zorder=6)
    _write_ends(axes, ends, 1.3 * SMALL_SIZE / (72 * _AXES_SHARE * height_in))
    for mark in plot.marks:
        at: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top"}
        axes.annotate(mark.label, (mark.x, 1.0), (5, -2), fontsize=SMALL_SIZE, **at)


def _write_ends(axes: Axes, ends: Sequence[tuple[int, str, tuple[float, float]]], least: float) -> None:
    """Write names to the right of the axes, each near the height at which its line ends.

    Names are at least the share `least` of the axes' height apart.
    """
    across = [float(axes.transAxes.inverted().transform(axes.transData.transform(end))[1]) for _, _, end in ends]
    for (place, name, end), height in zip(ends, apart(across, least), strict=True):
        way: Any = {"arrowstyle": "-", "color": colour_of(place), "linewidth": 1.0, "shrinkA": 1, "shrinkB": 4}
        at: Any = {"textcoords": "axes fraction", "va": "center", "annotation_clip": False, "arrowprops": way}
        axes.annotate(name, end, (1.02, height), fontsize=SMALL_SIZE, **at)


def apart(wanted: Sequence[float], least: float) -> list[float]:
    """Return heights from 0 to 1 near the wanted ones, in the same order, and at least `least` from each other.

    >>> [round(height, 2) for height in apart([0.5, 0.52, 0.98, 0.99], 0.1)]
    [0.5, 0.6, 0.9, 1.0]
    """
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    heights = [0.0] * len(wanted)
    low = 0.0
    for place in order:
        heights[place] = max(wanted[place], low)
        low = heights[place] + least
    high = 1.0
    for place in reversed(order):
        heights[place] = min(heights[place], high)
        high = heights[place] - least
    return heights


def _draw_mean(axes: Axes, dot: Dot, x: float, colour: str, marker: str, *, has_bar: bool) -> None:
    if has_bar and dot.ci_low is not None and dot.ci_high is not None:
        below, above = max(0.0, dot.mean - dot.ci_low), max(0.0, dot.ci_high - dot.mean)
        axes.errorbar(x, dot.mean, [[below], [above]], color=colour, capsize=4, linewidth=1.8, zorder=4)
    axes.plot([x], [dot.mean], marker, markersize=5.5, color=colour, zorder=5)


def _label_mean(axes: Axes, dot: Dot, x: float, *, falling: bool) -> None:
    """Write the mean's value next to its point, on the side away from the line."""
    reach = max(dot.mean, *dot.runs)
    end = dot.ci_high or dot.mean
    # If the interval ends outside of the picture, a label above its end would be invisible.
    top = max(reach, end if end < INTERVAL_REACH * reach else reach)
    place: Any = {"xytext": (4, 7), "ha": "left"} if falling else {"xytext": (-4, 7), "ha": "right"}
    axes.annotate(words.number(dot.mean), (x, top), textcoords="offset points", fontweight="bold", **place)


def _nearest(plot: PointsPlot) -> float:
    """Return the smallest step between two places of the axis, in the units of `_moved`."""
    xs = sorted({dot.x for series in plot.series for dot in series.dots})
    return min(((math.log2(b / a) if plot.x_is_log else b - a) for a, b in pairwise(xs)), default=math.inf)


def _step_width(plot: PointsPlot) -> float:
    """Return the length of one step of the axis, in the units of `_moved`: its span divided by its points, at least 4.

    A step is 1 on an axis of words or of consecutive numbers.
    """
    xs = sorted({dot.x for series in plot.series for dot in series.dots})
    if len(xs) < 2 or plot.x_is_words:
        return 1.0
    span = math.log2(xs[-1] / xs[0]) if plot.x_is_log else xs[-1] - xs[0]
    return span / max(4, len(xs) - 1) if plot.x_is_log or span != len(xs) - 1 else 1.0


def _beside(x: float, count: int, room: float, nearest: float, *, is_log: bool) -> list[float]:
    """Return the places on the axis at which a mean's runs are drawn: on both sides of the mean, so that they do not
    hide its interval.

    `room` is the width for the runs, `nearest` the distance to the next point, from which the runs stay away.
    """
    shares = [0.16 + 0.07 * (place // 2) for place in range(count)]
    room = min(room, _RUNS_REACH * nearest / max(shares, default=1.0))
    return [_moved(x, (1 if place % 2 else -1) * room * share, is_log=is_log) for place, share in enumerate(shares)]


def _moved(x: float, step: float, *, is_log: bool) -> float:
    """Return the place on the axis that is `step` away from x; on a logarithmic axis a step of 1 is a doubling."""
    return x * 2.0**step if is_log else x + step


def _x_ticks(axes: Axes, plot: PointsPlot, width: float, columns: int) -> str:
    """Set the ticks of the horizontal axis, and return " (unit)" for its title, or "".

    The unit goes into the title if the ticks are too close for it.
    """
    dots = {dot.x: dot.tick for series in plot.series for dot in series.dots}
    low, high = min(dots), max(dots)
    places = [math.log2(x) if plot.x_is_log else x for x in sorted(dots)]
    nearest = min((b - a for a, b in pairwise(places)), default=math.inf)
    is_crowded = plot.names_at_ends or any(curve.end for curve in plot.curves)
    # The axis reaches half a step beyond both ends.
    room = columns * (_NAMES_CROWD if is_crowded else 1) * (places[-1] - places[0] + width)
    labels, unit = [dots[x] for x in sorted(dots)], ""
    if plot.x_is_words:
        axes.set_xticks(list(dots) if any(labels) else [], labels=_broken(labels, columns) if any(labels) else [])
    elif plot.x_is_names:
        shown = _with_room(places, (places[-1] - places[0]) / (_MOST_ASLANT // columns))
        names = [labels[place][:_NAME] for place in shown]
        axes.set_xticks([sorted(dots)[place] for place in shown], labels=names, rotation=40, ha="right")
    elif len(dots) > _MOST_NAMED and nearest < _width(labels) * room:
        _round_ticks(axes, plot)
    else:
        if nearest < _width(labels) * room:
            labels, unit = _without_unit(labels)
        shown = _with_room(places, _width(labels) * room)
        axes.set_xticks([sorted(dots)[place] for place in shown], labels=[labels[place] for place in shown])
    axes.minorticks_off()
    if plot.x_is_log:
        axes.set_xlim(low / 2 ** (0.5 * width), high * 2 ** (0.5 * width))
    else:
        axes.set_xlim(low - 0.5 * width, high + 0.5 * width)
    return unit


def _width(labels: Sequence[str]) -> float:
    """Return the share of the axis's length that each of these labels needs."""
    return max(0.085, 0.026 * max(len(line) for label in labels for line in label.split("\n")))


def _with_room(places: Sequence[float], least: float) -> list[int]:
    """Return the indices of the places that get a name: both ends, and others at least `least` from all named ones.

    As many places as possible get a name. Among such choices, take the one whose smallest gap is largest.

    >>> _with_room([0.0, 0.5, 1.0, 1.9, 2.0], 0.9), _with_room([6.0, 7.0, 7.58, 8.0, 9.0], 0.5)
    ([0, 2, 4], [0, 1, 3, 4])
    """
    best: list[tuple[int, float, list[int]]] = [(1, math.inf, [0])]
    for place in range(1, len(places)):
        gaps = [(places[place] - places[found[-1]], count, least_gap, found) for count, least_gap, found in best]
        # The last place has a name even if it is close to the first.
        reached = [
            (count + 1, min(gap, least_gap), [*found, place]) for gap, count, least_gap, found in gaps if gap >= least
        ]
        best += [max(reached)] if reached else [(2, 0.0, [0, place])] if place == len(places) - 1 else []
    return best[-1][2]


def _broken(labels: list[str], columns: int) -> list[str]:
    """Return the labels of an axis of words, broken into lines that fit between its places."""
    room = max(6, _TICK_CHARACTERS // columns // len(labels))
    return ["\n".join(fill(line, room) for line in label.split("\n")) for label in labels]


def _words_in(plot: PointsPlot) -> float:
    """Return the height in inches that a panel's labels need for their second and later lines."""
    labels = list({dot.x: dot.tick for series in plot.series for dot in series.dots}.values())
    lines = [label.count("\n") for label in _broken(labels, 2)] if plot.x_is_words else [0]
    return 0.19 * max(lines)


def _without_unit(labels: list[str]) -> tuple[list[str], str]:
    """Return labels of shares with the sizes below them ("10 %\\n64 MiB") without the unit, and the unit in brackets.

    If sizes have different units, the labels stay as they are, and the unit is "".
    """
    units = {label.rpartition("\n")[2].partition(" ")[2] if "\n" in label else "" for label in labels}
    (unit, *others) = units
    if others or not unit:
        return labels, ""
    return [label.removesuffix(f" {unit}") for label in labels], f" ({unit})"


def _round_ticks(axes: Axes, plot: PointsPlot) -> None:
    """Set round numbers at the horizontal axis, for more dots than can be named one by one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, MultipleLocator

    sizes = [dot.x for series in plot.series for dot in series.dots]
    # An axis needs at least two ticks: powers of four are too far apart for pools that differ by less than 16 times.
    powers = 2 if min(sizes) * 16 > max(sizes) else 4
    decades = LogLocator(base=powers) if plot.x_in_bytes else LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=12)
    most = max(sizes)
    even = MultipleLocator(2.0 ** math.floor(math.log2(most / 3))) if plot.x_in_bytes else MaxNLocator(6)
    axes.xaxis.set_major_locator(decades if plot.x_is_log else even)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: format_bytes(x) if plot.x_in_bytes else tick(x)))


def _y_ticks(axes: Axes, plot: PointsPlot, most: int = _TICKS) -> None:
    from matplotlib.ticker import LogLocator, MultipleLocator

    if plot.y_in_bytes or plot.y_is_log:
        axes.yaxis.set_major_formatter(lambda value, _: format_bytes(value) if plot.y_in_bytes else tick(value))
    else:
        show_numbers(axes.yaxis)
    if plot.y_limits is None:
        return
    low, high = plot.y_limits
    axes.set_ylim(low, high)
    if plot.y_is_log:
        in_a_decade = most / math.log10(high / low)
        subs = (1.0, 2.0, 5.0) if in_a_decade >= 3 else (1.0, 3.0) if in_a_decade >= 2 else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(base=4) if plot.y_in_bytes else LogLocator(subs=subs))
    elif plot.y_in_bytes and (reached := plot.y_span[1]) > 0:
        axes.yaxis.set_major_locator(MultipleLocator(2.0 ** math.floor(math.log2(reached / 3))))
