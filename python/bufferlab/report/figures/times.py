"""Draws a rate over time: a panel for each point, two or three in a row, all on the same vertical axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bufferlab.chapter.blocks import TimePlot
from bufferlab.report.figures.canvas import (
    FAINT,
    FONT_SIZE,
    INK,
    SERIES_COLOURS,
    SMALL_SIZE,
    canvas,
    series_id,
    tick,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

#: The characters of a panel's title where three stand in a row.
_SHORT_TITLE = 14


def draw_times(plot: TimePlot) -> Canvas:
    """Draw every run as a line, the warm-up as a grey ground, and means of stretches as black lines."""
    columns = min(_most_in_a_row(plot.panels), len(plot.panels))
    rows = -(-len(plot.panels) // columns)
    lines = max(title.count("\n") + 1 for title in plot.panels)
    figure = canvas(0.8 + (1.2 + 0.17 * lines) * rows if rows > 1 else 2.6)
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for place in range(rows * columns):
        axes = grid[place // columns][place % columns]
        if place >= len(plot.panels):
            axes.set_visible(False)
            continue
        traces = plot.traces[place]
        for run, trace in enumerate(traces):
            ys = [float("nan") if value is None else value for value in trace.values]
            style = "." if sum(value is not None for value in trace.values) < 2 else ""
            axes.plot(
                trace.t_s, ys, color=SERIES_COLOURS[run % 6], linewidth=1.2, marker=style, gid=series_id(axes, run)
            )
            for level in trace.levels:
                axes.hlines(level.mean, level.start_s, level.end_s, color=INK, linewidth=1.6, zorder=4)
        starts = [trace.window_start_s for trace in traces if trace.window_start_s is not None]
        if starts:
            axes.axvspan(0, min(starts), color=FAINT, alpha=0.6, linewidth=0)
        axes.yaxis.set_major_formatter(lambda value, _: tick(value))
        axes.set_title(plot.panels[place], fontsize=SMALL_SIZE)
        if place + columns >= len(plot.panels):
            axes.set_xlabel("Time (s)")
        axes.locator_params(axis="x", nbins=4)
    values = [value for traces in plot.traces for trace in traces for value in trace.values if value]
    grid[0][0].set_ylim(0, 1.08 * max(values, default=1.0))
    figure.supylabel(wrapped(plot.y_label, 28 if rows == 1 else 60), fontsize=FONT_SIZE)
    return figure


def _most_in_a_row(titles: Sequence[str]) -> int:
    return 3 if max(len(line) for title in titles for line in title.split("\n")) <= _SHORT_TITLE else 2
