"""Draws bars whose parts add up to a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bufferlab.chapter.blocks import StackedPlot
from bufferlab.report.figures.canvas import INK, canvas, colour_of, legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


def draw_stacked(plot: StackedPlot) -> Canvas:
    """Draw one bar for each point, in per cent."""
    figure = canvas(3.6)
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
    legend(figure, *axes.get_legend_handles_labels())
    return figure
