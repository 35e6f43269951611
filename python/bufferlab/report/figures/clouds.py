"""Draws figures with very many dots: requests over time, and histograms of them. Colours are those of every figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bufferlab.chapter.blocks import HistogramPlot, ScatterPlot, Steps
from bufferlab.report.figures.canvas import INK, SMALL_SIZE, canvas, colour_of, legend, tick
from bufferlab.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


def draw_scatter(plot: ScatterPlot) -> Canvas:
    """Draw small dots; those of different clouds differ in colour and form."""
    figure = canvas(4.4)
    axes = figure.subplots()
    for place, cloud in enumerate(plot.clouds):
        marker = (".", "+", "x")[place % 3]
        axes.plot(cloud.xs, cloud.ys, marker, markersize=3, color=colour_of(place), alpha=0.7, label=cloud.label)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.yaxis.set_major_formatter(lambda value, _: tick(value))
    if len(plot.clouds) > 1:
        legend(figure, *axes.get_legend_handles_labels())
    return figure


def draw_histograms(plot: HistogramPlot) -> Canvas:
    """Draw panels side by side, each with a logarithmic axis and its own unit."""
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
        axes.tick_params(axis="x", labelrotation=30)
        axes.minorticks_off()
        if len(steps) > 1:
            axes.legend(fontsize=SMALL_SIZE)
    grid[0][0].set_ylabel("Requests (%)")
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
