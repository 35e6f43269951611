"""Draws figures as SVG with matplotlib: the same data gives the same bytes, whenever and wherever it is drawn.

Text stays text, so it can be read aloud and searched. Colours are Okabe and Ito's (2008), told apart by any eye, and
series differ by marker too. matplotlib is imported on first use, because it costs half a second.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from bufferlab.report import words
from bufferlab.report.model import Dot, Figure, PointsPlot, Series, TimePlot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Stand-ins that `for_page` turns into the page's own colours, so that a figure follows dark mode.
INK, FAINT = "#1b1f24", "#d5d9de"
SERIES_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_FONT_SIZE = 11.5

_STYLE: dict[str, Any] = {
    "font.family": ["sans-serif"],
    "font.size": _FONT_SIZE,
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
    """The figure as a standalone SVG document on a white ground."""
    import matplotlib as mpl

    with mpl.rc_context():
        # A user's matplotlibrc must not change a report, and ids are made from the figure's own name.
        mpl.rcdefaults()
        style: Any = {**_STYLE, "svg.hashsalt": figure.id}
        mpl.rcParams.update(style)
        points = isinstance(figure.plot, PointsPlot)
        drawn = _draw_points(figure.plot) if points else _draw_times(figure.plot)  # type: ignore[arg-type]
        text = StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Title": figure.title})
    return _on_white(text.getvalue())


def for_page(svg: str, figure: Figure) -> str:
    """The SVG as part of an HTML page: ids of its own, the page's colours, no ground, and words for a screen reader."""
    body = svg[svg.index("<svg") :].replace(_GROUND, "")
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'\b(id="|url\(#|href="#)', lambda found: f"{found[1]}{figure.id}-", body)
    for colour, variable in _page_colours().items():
        body = body.replace(colour, variable)
    width_pt = float(re.findall(r' width="([\d.]+)pt"', body)[0])
    opening = f'<svg role="img" aria-label="{escape(figure.alt)}" style="max-width: {width_pt * 4 / 3:.0f}px"'
    return _without_size(body).replace("<svg", opening, 1)


def _without_size(body: str) -> str:
    return re.sub(r' (?:width|height)="[\d.]+pt"', "", body, count=2)


def _page_colours() -> dict[str, str]:
    series = {colour: f"var(--series-{place})" for place, colour in enumerate(SERIES_COLOURS)}
    return {INK: "var(--ink)", FAINT: "var(--line)", **series}


_GROUND = '<rect width="100%" height="100%" fill="#ffffff"/>'


def _on_white(svg: str) -> str:
    """Markdown viewers have dark modes too, and dark text needs a light ground there."""
    place = svg.index(">", svg.index("<svg")) + 1
    return svg[:place] + "\n " + _GROUND + svg[place:]


def _canvas(width_in: float, height_in: float) -> Canvas:
    """A sheet to draw on, without pyplot and its global state."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width_in, height_in), layout="constrained")


def _draw_points(plot: PointsPlot) -> Canvas:
    figure = _canvas(8.4, 4.5)
    axes = figure.subplots()
    if plot.x_is_log:
        axes.set_xscale("log", base=2)
    if plot.y_is_log:
        axes.set_yscale("log")
    for place, series in enumerate(plot.series):
        _draw_series(axes, series, SERIES_COLOURS[place % 6], _MARKERS[place % 6], plot)
    _x_ticks(axes, plot)
    _y_ticks(axes, plot)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.grid(visible=False, axis="x")
    if len(plot.series) > 1:
        axes.legend()
    return figure


def _draw_series(axes: Axes, series: Series, colour: str, marker: str, plot: PointsPlot) -> None:
    xs = [dot.x for dot in series.dots]
    axes.plot(xs, [dot.mean for dot in series.dots], color=colour, linewidth=1.6, label=series.label or None, zorder=2)
    for dot in series.dots:
        offsets = _beside(dot.x, len(dot.runs), plot.x_is_log)
        axes.plot(offsets, dot.runs, marker, markersize=6, fillstyle="none", color=colour, alpha=0.75, zorder=3)
        _draw_mean(axes, dot, colour, marker)
        if plot.value_labels:
            _label_mean(axes, dot, falling=series.dots[-1].mean < series.dots[0].mean)


def _draw_mean(axes: Axes, dot: Dot, colour: str, marker: str) -> None:
    if dot.ci_low is not None and dot.ci_high is not None:
        below, above = max(0.0, dot.mean - dot.ci_low), max(0.0, dot.ci_high - dot.mean)
        axes.errorbar(dot.x, dot.mean, [[below], [above]], color=INK, capsize=5, linewidth=1.8, zorder=4)
    axes.plot([dot.x], [dot.mean], marker, markersize=4.5, color=colour, zorder=5)


def _label_mean(axes: Axes, dot: Dot, *, falling: bool) -> None:
    """The value stands on the side of its point where the line does not go."""
    top = max(dot.mean, dot.ci_high or dot.mean, *dot.runs)
    place: Any = {"xytext": (4, 7), "ha": "left"} if falling else {"xytext": (-4, 7), "ha": "right"}
    axes.annotate(words.number(dot.mean), (dot.x, top), textcoords="offset points", fontweight="bold", **place)


def _beside(x: float, count: int, is_log: bool) -> list[float]:
    """Runs stand to the right of their point, so that they do not hide its interval."""
    steps = [0.09 + 0.045 * place for place in range(count)]
    return [x * 2.0**step if is_log else x + step for step in steps]


def _x_ticks(axes: Axes, plot: PointsPlot) -> None:
    dots = {dot.x: dot.tick for series in plot.series for dot in series.dots}
    axes.set_xticks(list(dots), labels=list(dots.values()))
    axes.minorticks_off()
    low, high = min(dots), max(dots)
    if plot.x_is_log:
        axes.set_xlim(low / 1.35, high * 1.45)
    else:
        axes.set_xlim(low - 0.5, high + 0.5)


def _y_ticks(axes: Axes, plot: PointsPlot) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    if not plot.y_is_log and not plot.y_from_zero:
        return
    if not plot.y_is_log:
        top = max(bound for series in plot.series for dot in series.dots for bound in (dot.ci_high or 0.0, *dot.runs))
        axes.set_ylim(0, top * 1.15 or 1.0)
        return
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.1, high * 1.3)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == 0 else f"{value:g}"


def _draw_times(plot: TimePlot) -> Canvas:
    rows, columns = len(plot.row_labels), len(plot.columns)
    figure = _canvas(max(5.0, 2.3 * columns), 2.1 * rows + 0.8)
    grid = figure.subplots(rows, columns, sharey="row", squeeze=False)
    for row in range(rows):
        for column in range(columns):
            axes = grid[row][column]
            for place, trace in enumerate(plot.traces[row][column]):
                axes.plot(
                    trace.t_s, [_gap(value) for value in trace.values], color=SERIES_COLOURS[place % 6], linewidth=1.2
                )
            starts = [trace.window_start_s for trace in plot.traces[row][column] if trace.window_start_s is not None]
            if starts:
                axes.axvspan(0, min(starts), color=FAINT, alpha=0.6, linewidth=0)
            axes.yaxis.set_major_formatter(lambda value, _: _tick(value))
            if row == 0:
                axes.set_title(plot.columns[column], fontsize=_FONT_SIZE)
            if row == rows - 1:
                axes.set_xlabel("Time (s)")
        values = [value for traces in plot.traces[row] for trace in traces for value in trace.values if value]
        grid[row][0].set_ylim(0, 1.08 * max(values, default=1.0))
        grid[row][0].set_ylabel(plot.row_labels[row])
    return figure


def _gap(value: float | None) -> float:
    return float("nan") if value is None else value
