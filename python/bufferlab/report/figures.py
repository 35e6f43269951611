"""Draws figures as SVG with matplotlib: the same data gives the same bytes at any time and on any host.

Text stays text, so it can be read aloud and searched. Colours are Okabe and Ito's (2008), told apart by any eye, and
series differ by marker too. matplotlib is imported on first use, because it costs half a second.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from html import escape
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bufferlab.chapter import words
from bufferlab.chapter.blocks import (
    INTERVAL_REACH,
    Dot,
    Figure,
    HistogramPlot,
    PanelsPlot,
    PointsPlot,
    ScatterPlot,
    Series,
    StackedPlot,
    TimePlot,
)
from bufferlab.report.canvas import FAINT, FONT_SIZE, INK, SERIES_COLOURS, canvas, colour_of, tick
from bufferlab.report.clouds import draw_histograms, draw_scatter
from bufferlab.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_MARKERS = ("o", "s", "^", "D", "v", "P")
#: The fewest CSS pixels for a point of a figure's width.
_NARROWEST = 0.76

_STYLE: dict[str, Any] = {
    "font.family": ["sans-serif"],
    "font.size": FONT_SIZE,
    "svg.fonttype": "none",
    # A label may hold a dollar sign, and must be shown as it is.
    "text.parse_math": False,
    "text.usetex": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "path.simplify": False,
}


@lru_cache(maxsize=32)
def draw(figure: Figure) -> str:
    """Return the figure as a standalone SVG document on a white ground."""
    import matplotlib as mpl

    with mpl.rc_context():
        # A user's matplotlibrc must not change a report, and ids are made from the figure's own name.
        mpl.rcdefaults()
        style: Any = {**_STYLE, "svg.hashsalt": figure.id}
        mpl.rcParams.update(style)
        drawn = _drawn(figure.plot)
        text = StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Title": figure.title})
    return _on_white(text.getvalue())


def _drawn(plot: PointsPlot | TimePlot | PanelsPlot | StackedPlot | ScatterPlot | HistogramPlot) -> Canvas:
    match plot:
        case PointsPlot():
            return _draw_points(plot)
        case PanelsPlot():
            return _draw_panels(plot)
        case StackedPlot():
            return _draw_stacked(plot)
        case TimePlot():
            return _draw_times(plot)
        case ScatterPlot() | HistogramPlot():
            return draw_scatter(plot) if isinstance(plot, ScatterPlot) else draw_histograms(plot)


def for_page(svg: str, figure: Figure) -> str:
    """Return the SVG as part of an HTML page: unique ids, the page's colours, no ground, words for a screen reader."""
    body = svg[svg.index("<svg") :].replace(_GROUND, "")
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'\b(id="|url\(#|href="#)', lambda found: f"{found[1]}{figure.id}-", body)
    for colour, variable in _page_colours().items():
        body = body.replace(colour, variable)
    width_pt = float(re.findall(r' width="([\d.]+)pt"', body)[0])
    # Below this width its words could not be read: then the figure scrolls, and the page does not.
    size = f"max-width: {width_pt * 4 / 3:.0f}px; min-width: {width_pt * _NARROWEST:.0f}px"
    opening = f'<svg role="img" aria-label="{escape(figure.alt)}" style="{size}"'
    return _without_size(body).replace("<svg", opening, 1)


def _without_size(body: str) -> str:
    return re.sub(r' (?:width|height)="[\d.]+pt"', "", body, count=2)


def _page_colours() -> dict[str, str]:
    series = {colour: f"var(--series-{place})" for place, colour in enumerate(SERIES_COLOURS)}
    return {INK: "var(--ink)", FAINT: "var(--line)", **series}


_GROUND = '<rect width="100%" height="100%" fill="#ffffff"/>'


def _on_white(svg: str) -> str:
    """Put a white ground behind the SVG: Markdown viewers have dark modes too, where dark text needs it."""
    place = svg.index(">", svg.index("<svg")) + 1
    return svg[:place] + "\n " + _GROUND + svg[place:]


def _draw_points(plot: PointsPlot) -> Canvas:
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


def _draw_panels(plot: PanelsPlot) -> Canvas:
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


def _draw_stacked(plot: StackedPlot) -> Canvas:
    figure = canvas(8.4, 4.7)
    axes = figure.subplots()
    places = range(len(plot.bars))
    below = [0.0] * len(plot.bars)
    for part, name in enumerate(plot.parts):
        heights = [100 * shares[part] for shares in plot.shares]
        # Hatching tells the parts apart where colours do not.
        style: Any = {
            "color": colour_of(part),
            "edgecolor": INK,
            "hatch": ("", "///", "...")[part % 3],
            "linewidth": 0.6,
        }
        axes.bar(places, heights, 0.62, bottom=below, label=name, **style)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set_xticks(list(places), labels=list(plot.bars))
    axes.set_ylim(0, 100)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.grid(visible=False, axis="x")
    figure.legend(loc="outside upper left", ncols=len(plot.parts), fontsize=FONT_SIZE - 1.5)
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
    """Draw a model's curves, and marks on the axis; they come last and do not move the limits that the dots set."""
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


def _draw_times(plot: TimePlot) -> Canvas:
    rows, columns = len(plot.row_labels), len(plot.columns)
    figure = canvas(max(5.0, 2.3 * columns), 2.1 * rows + 0.8)
    grid = figure.subplots(rows, columns, sharey="row", squeeze=False)
    for row in range(rows):
        for column in range(columns):
            axes = grid[row][column]
            for place, trace in enumerate(plot.traces[row][column]):
                axes.plot(
                    trace.t_s, [_gap(value) for value in trace.values], color=SERIES_COLOURS[place % 6], linewidth=1.2
                )
            for trace in plot.traces[row][column]:
                for level in trace.levels:
                    axes.hlines(level.mean, level.start_s, level.end_s, color=INK, linewidth=1.6, zorder=4)
            starts = [trace.window_start_s for trace in plot.traces[row][column] if trace.window_start_s is not None]
            if starts:
                axes.axvspan(0, min(starts), color=FAINT, alpha=0.6, linewidth=0)
            axes.yaxis.set_major_formatter(lambda value, _: tick(value))
            if row == 0:
                axes.set_title(plot.columns[column], fontsize=FONT_SIZE)
            if row == rows - 1:
                axes.set_xlabel("Time (s)")
        values = [value for traces in plot.traces[row] for trace in traces for value in trace.values if value]
        grid[row][0].set_ylim(0, 1.08 * max(values, default=1.0))
        grid[row][0].set_ylabel(plot.row_labels[row])
    return figure


def _gap(value: float | None) -> float:
    return float("nan") if value is None else value
