"""Turns figures into SVG with matplotlib: the same data gives the same bytes on every run and every host.

Text stays text, so it can be read aloud and searched. The colours are Okabe and Ito's (2008), which colour-blind
people can distinguish, and series differ by marker too. matplotlib is imported on first use, because that takes half a
second.

This file draws bars, clouds of dots, histograms and rates over time; points.py and effects.py draw the rest.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from bufferlab.chapter import words
from bufferlab.chapter.elements import (
    EffectsPlot,
    Figure,
    HistogramPlot,
    PanelsPlot,
    PointsPlot,
    ScatterPlot,
    StackedPlot,
    Steps,
    TimePlot,
    Trace,
)
from bufferlab.report.figures.canvas import (
    FAINT,
    FONT_SIZE,
    INK,
    QUIET,
    SERIES_COLOURS,
    SMALL_SIZE,
    canvas,
    colour_of,
    legend,
    series_id,
    show_numbers,
    tick,
    titled,
    with_titles,
    wrapped,
)
from bufferlab.report.figures.effects import draw_effects
from bufferlab.report.figures.points import draw_panels, draw_points
from bufferlab.texts import printable
from bufferlab.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_STYLE: dict[str, Any] = {
    "font.family": ["sans-serif"],
    "font.size": FONT_SIZE,
    "svg.fonttype": "none",
    # A dollar sign in a label must not begin a formula.
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


#: The most characters in a line of the source below a figure.
_SOURCE_CHARACTERS = 60


# Cache the pictures: all formats of a report show the same figures.
@lru_cache(maxsize=256)
def draw(figure: Figure) -> str:
    """Return the figure as a standalone SVG document on a white background."""
    return _document(figure)


def _document(figure: Figure) -> str:
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        # matplotlib draws a character that no font has as a box. Its warning would print the raw character.
        warnings.filterwarnings("ignore", message="Glyph")
        # A user's matplotlibrc must not change a report. The salt makes ids that depend only on the figure's name.
        mpl.rcdefaults()
        style: Any = {**_STYLE, "svg.hashsalt": figure.id}
        mpl.rcParams.update(style)
        drawn = _drawn(figure.plot)
        if figure.source:
            source = "\n".join(wrapped(line, _SOURCE_CHARACTERS) for line in figure.source.split("\n"))
            drawn.supxlabel(source, x=0.01, ha="left", fontsize=SMALL_SIZE, color=QUIET)
        _lay_out(drawn)
        text = StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Title": figure.title})
    # XML has no control characters, not even escaped ones.
    return _on_white(with_titles(printable(text.getvalue())))


def _lay_out(drawn: Canvas) -> None:
    """Lay out the figure here. Otherwise savefig would draw it twice, the first time only for the layout."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(drawn)
    # matplotlib's SVG has 72 dots per inch, so letters must be measured at that resolution.
    drawn.dpi = 72
    engine = drawn.get_layout_engine()
    if engine is not None:
        engine.execute(drawn)
        drawn.set_layout_engine(None)
    heights = [end for axes in drawn.axes for end in axes.get_position().intervaly]
    for text in drawn.texts:
        # matplotlib centres the common title of the vertical axes on the whole picture, not on the panels.
        if text.get_rotation() == 90:
            text.set_y((min(heights) + max(heights)) / 2)


def _drawn(
    plot: PointsPlot | TimePlot | PanelsPlot | EffectsPlot | StackedPlot | ScatterPlot | HistogramPlot,
) -> Canvas:
    match plot:
        case PointsPlot():
            return draw_points(plot)
        case PanelsPlot():
            return draw_panels(plot)
        case EffectsPlot():
            return draw_effects(plot)
        case StackedPlot():
            return draw_stacked(plot)
        case TimePlot():
            return draw_times(plot)
        case ScatterPlot():
            return draw_scatter(plot)
        case HistogramPlot():
            return draw_histograms(plot)


def for_page(svg: str, figure: Figure) -> str:
    """Return the SVG for an HTML page: with unique ids, the page's colours, no background, and a text for the blind."""
    body = svg[svg.index("<svg") :].replace(_GROUND, "")
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'\b(id="|url\(#|href="#)', lambda found: f"{found[1]}{figure.id}-", body)
    for colour, variable in _page_colours().items():
        body = body.replace(colour, variable)
    width_pt = float(re.findall(r' width="([\d.]+)pt"', body)[0])
    opening = f'<svg role="img" aria-label="{escape(figure.alt)}" style="max-width: {width_pt * 1.6:.0f}px"'
    return _without_size(body).replace("<svg", opening, 1)


def _without_size(body: str) -> str:
    return re.sub(r' (?:width|height)="[\d.]+pt"', "", body, count=2)


def _page_colours() -> dict[str, str]:
    series = {colour: f"var(--series-{place})" for place, colour in enumerate(SERIES_COLOURS)}
    return {INK: "var(--ink)", FAINT: "var(--line)", QUIET: "var(--quiet)", **series}


_GROUND = '<rect width="100%" height="100%" fill="#ffffff"/>'


def _on_white(svg: str) -> str:
    """Return the SVG on a white background, because Markdown viewers have dark modes, which hide dark text."""
    place = svg.index(">", svg.index("<svg")) + 1
    return svg[:place] + "\n " + _GROUND + svg[place:]


def draw_stacked(plot: StackedPlot) -> Canvas:
    """Draw one stacked bar for each point, with its parts in per cent; return the figure."""
    figure = canvas(3.6)
    axes = figure.subplots()
    places = range(len(plot.bars))
    below = [0.0] * len(plot.bars)
    for part, name in enumerate(plot.parts):
        heights = [100 * shares[part] for shares in plot.shares]
        # Hatching separates the parts for readers who cannot distinguish the colours.
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
    legend(figure, *axes.get_legend_handles_labels())
    return figure


def draw_scatter(plot: ScatterPlot) -> Canvas:
    """Draw clouds of small dots, which differ in colour and form; return the figure."""
    figure = canvas(4.4)
    axes = figure.subplots()
    for place, cloud in enumerate(plot.clouds):
        marker = (".", "+", "x")[place % 3]
        axes.plot(cloud.xs, cloud.ys, marker, markersize=3, color=colour_of(place), alpha=0.7, label=cloud.label)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    show_numbers(axes.yaxis)
    if len(plot.clouds) > 1:
        legend(figure, *axes.get_legend_handles_labels())
    return figure


def draw_histograms(plot: HistogramPlot) -> Canvas:
    """Draw histograms in panels side by side, each over a logarithmic axis with its unit; return the figure."""
    count = len(plot.panels)
    figure = canvas(3.6)
    grid = figure.subplots(1, count, squeeze=False)
    for place, (axes, steps) in enumerate(zip(grid[0], plot.panels, strict=True)):
        _draw_steps(axes, steps)
        axes.set_xlabel(plot.x_labels[place])
        if plot.x_in_bytes[place]:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(lambda value, _: format_bytes(value))
        else:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: tick(value))
        if count > 1:
            axes.tick_params(axis="x", labelrotation=30)
        axes.minorticks_off()
        if len(steps) > 1:
            axes.legend(fontsize=SMALL_SIZE)
    grid[0][0].set_ylabel(plot.y_label)
    return figure


def _draw_steps(axes: Axes, all_steps: tuple[Steps, ...]) -> None:
    for place, steps in enumerate(all_steps):
        heights = [100 * share for share in steps.shares]
        style = ("-", "--", ":")[place % 3]
        axes.stairs(heights, steps.edges, color=colour_of(place), label=steps.label, linewidth=1.6, linestyle=style)
        if len(all_steps) == 1:
            axes.stairs(heights, steps.edges, color=colour_of(place), fill=True, alpha=0.25)
    axes.set_ylim(0, None)
    axes.spines["bottom"].set_color(INK)


#: The most characters in a line of a panel's title for three panels in a row.
_SHORT_TITLE = 14


def draw_times(plot: TimePlot) -> Canvas:
    """Draw values over time, a panel per point: runs as lines, the warm-up in grey, means of stretches in black.

    Return the figure.
    """
    columns = min(_most_in_a_row(plot.panels), len(plot.panels))
    rows = -(-len(plot.panels) // columns)
    lines = max(title.count("\n") + 1 for title in plot.panels)
    figure = canvas(0.8 + (1.2 + 0.17 * lines) * rows if rows > 1 else 2.6)
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    _vertical_axis(grid[0][0], plot)
    for place in range(rows * columns):
        axes = grid[place // columns][place % columns]
        if place >= len(plot.panels):
            axes.set_visible(False)
            continue
        traces = plot.traces[place]
        for run, trace in enumerate(traces):
            ys = [float("nan") if value is None or (plot.y_is_log and not value) else value for value in trace.values]
            style = "." if sum(value is not None for value in trace.values) < 2 else ""
            width, alpha = (5.0, 0.4) if trace.is_wide else (1.2, None)
            axes.plot(
                trace.t_s, ys, color=SERIES_COLOURS[run % 6], linewidth=width, alpha=alpha, marker=style,
                gid=titled(series_id(axes, run), _trace_title(plot, place, trace)),
            )  # fmt: skip
            for level in trace.levels:
                axes.hlines(level.mean, level.start_s, level.end_s, color=INK, linewidth=1.6, zorder=4)
        starts = [trace.window_start_s for trace in traces if trace.window_start_s is not None]
        if starts:
            axes.axvspan(0, min(starts), color=FAINT, alpha=0.6, linewidth=0)
        axes.set_title(plot.panels[place], fontsize=SMALL_SIZE)
        if place + columns >= len(plot.panels):
            axes.set_xlabel("Time (s)")
        axes.locator_params(axis="x", nbins=4)
    figure.supylabel(wrapped(plot.y_label, 28 if rows == 1 else 60), fontsize=FONT_SIZE)
    return figure


def _vertical_axis(axes: Axes, plot: TimePlot) -> None:
    """Set the scale, ends and numbers of the vertical axis, which all panels share, before anything is drawn."""
    from matplotlib.ticker import LogLocator

    low, high = _height(plot)
    if plot.y_is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(lambda value, _: tick(value))
        axes.yaxis.set_minor_locator(LogLocator(subs=()))
    else:
        show_numbers(axes.yaxis)
    axes.set_ylim(low, high)


def _trace_title(plot: TimePlot, place: int, trace: Trace) -> str:
    """Return the text of the tooltip of a run's line: the run, and the mean of its measured samples."""
    measured = _measured(trace)
    name = f"{plot.panels[place]}, {trace.label}".replace("\n", " ")
    return f"{name}: {words.number(sum(measured) / len(measured))} in the mean of its samples" if measured else name


def _measured(trace: Trace) -> list[float]:
    """Return the values of a trace after its warm-up."""
    return [
        value
        for t_s, value in zip(trace.t_s, trace.values, strict=True)
        if value is not None and t_s > (trace.window_start_s or 0.0)
    ]


def _height(plot: TimePlot) -> tuple[float, float]:
    """Return the ends of the vertical axis: zero and the largest value, or ends near the values after the warm-up."""
    traces = [trace for traces in plot.traces for trace in traces]
    if plot.y_is_log:
        above = [value for trace in traces for value in trace.values if value]
        return min(above) / 1.3, max(above) * 1.3
    if plot.y_from_zero:
        return 0.0, 1.08 * max((value for trace in traces for value in trace.values if value), default=1.0)
    measured = [value for trace in traces for value in _measured(trace)]
    low, high = min(measured, default=0.0), max(measured, default=1.0)
    room = 0.1 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _most_in_a_row(titles: Sequence[str]) -> int:
    return 3 if max(len(line) for title in titles for line in title.split("\n")) <= _SHORT_TITLE else 2
