"""Turns figures into SVG with matplotlib: the same data gives the same bytes at any time and on any host.

Text stays text, so it can be read aloud and searched. Colours are Okabe and Ito's (2008), told apart by any eye, and
series differ by marker too. matplotlib is imported on first use, because it costs half a second.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from bufferlab.chapter.blocks import (
    EffectsPlot,
    Figure,
    HistogramPlot,
    PanelsPlot,
    PointsPlot,
    ScatterPlot,
    StackedPlot,
    TimePlot,
)
from bufferlab.report.figures.canvas import FAINT, FONT_SIZE, INK, QUIET, SERIES_COLOURS, SMALL_SIZE
from bufferlab.report.figures.clouds import draw_histograms, draw_scatter
from bufferlab.report.figures.effects import draw_effects
from bufferlab.report.figures.points import draw_panels, draw_points
from bufferlab.report.figures.stacked import draw_stacked
from bufferlab.report.figures.times import draw_times
from bufferlab.texts import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

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

    with mpl.rc_context(), warnings.catch_warnings():
        # A character that no font has is drawn as a box; the warning would put it on the terminal as it is.
        warnings.filterwarnings("ignore", message="Glyph")
        # A user's matplotlibrc must not change a report, and ids are made from the figure's own name.
        mpl.rcdefaults()
        style: Any = {**_STYLE, "svg.hashsalt": figure.id}
        mpl.rcParams.update(style)
        drawn = _drawn(figure.plot)
        if figure.source:
            drawn.supxlabel(figure.source, x=0.01, ha="left", fontsize=SMALL_SIZE, color=QUIET)
        _lay_out(drawn)
        text = StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Title": figure.title})
    # XML has no control characters, not even escaped ones.
    return _on_white(printable(text.getvalue()))


def _lay_out(drawn: Canvas) -> None:
    """Find the places of all that is drawn. Without this savefig draws twice, the first time for the places alone."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(drawn)
    # SVG is drawn with this number of dots, and letters are measured in them.
    drawn.dpi = 72
    engine = drawn.get_layout_engine()
    if engine is not None:
        engine.execute(drawn)
        drawn.set_layout_engine(None)


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
    """Return the SVG as part of an HTML page: unique ids, the page's colours, no ground, words for a screen reader."""
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
    """Put a white ground behind the SVG: Markdown viewers have dark modes too, where dark text needs it."""
    place = svg.index(">", svg.index("<svg")) + 1
    return svg[:place] + "\n " + _GROUND + svg[place:]
