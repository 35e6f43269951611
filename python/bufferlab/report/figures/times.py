"""Draws metrics over time: a row for each metric, a column for each point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bufferlab.chapter.blocks import TimePlot
from bufferlab.report.figures.canvas import FAINT, FONT_SIZE, INK, SERIES_COLOURS, canvas, tick

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


def draw_times(plot: TimePlot) -> Canvas:
    """Draw every run as a line, the warm-up as a grey ground, and means of stretches as black lines."""
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
