"""The second figure of the chapter on other pools: pages written, predicted for each pool, with the measured points.

A pool whose writes depend on the speed of the load has a range, which is drawn as an interval.
"""

from __future__ import annotations

from collections.abc import Sequence

from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Curve, Dot, Figure, PointsPlot, Series
from bufferlab.chapter.points_figure import dot, side_by_side
from bufferlab.report.predicted_writes import told_pages
from bufferlab.results.metrics import WORK, Work
from bufferlab.results.page_traces import OtherPool, PoolsOfTrace
from bufferlab.units import format_bytes

_ID = "other-pools-writes"
_TITLE = "What other pools would have written"
_CAPTION = (
    "Predicted: a model of the server's buffer manager replayed the page accesses of the traced run, once for each "
    "pool. An interval is a range: for a slower load than the traced run's, and for a faster one. Measured: the runs "
    "of this sweep, means with their 95 % intervals where there are several."
)


def told_writes(pool: OtherPool, work: int) -> str:
    """Return the predicted writes of a pool per unit of work in words; "" for a model without writes."""
    return told_pages(pool.writes, work) if pool.writes else ""


def written_plot(
    analysis: Analysis, of: PoolsOfTrace, points: Sequence[PointRuns], pool: str, unit: Work, label: str
) -> PointsPlot | None:
    """Return the plot of one group of points; None if the model predicts no writes for any of its pools."""
    metric, work = f"writes_per_{unit}", of.traced.work[unit]
    predicted = tuple(found for one in of.pools if (found := _dot(one, work)))
    if not predicted:
        return None
    fit = analysis.fit(metric)
    measured = tuple(
        dot(analysis, metric, point, float(size), format_bytes(size))
        for point in points
        if (size := point.number(pool)) and fit and point.index in fit.points
    )
    named = ((f"predicted by the model {of.model}", predicted), ("measured", measured))
    series = tuple(Series(name, dots, joined=False) for name, dots in named if dots)
    return PointsPlot(
        x_label="Buffer pool",
        y_label=f"Writes per {WORK[unit]}",
        series=series,
        x_is_log=True,
        y_is_log=False,
        x_in_bytes=True,
        curves=(Curve("", tuple(one.x for one in predicted), tuple(one.mean for one in predicted), 0),),
        title=label,
    )


def _dot(pool: OtherPool, work: int) -> Dot | None:
    writes = pool.writes
    if writes is None or writes.pages is None or writes.least_pages is None or writes.most_pages is None:
        return None
    low, high = writes.least_pages / work, writes.most_pages / work
    ends = (None, None) if low == high else (low, high)
    return Dot(float(pool.pool_bytes), format_bytes(pool.pool_bytes), (), writes.pages / work, *ends)


def written_figure(plots: Sequence[PointsPlot]) -> Figure | None:
    """Return the figure with a panel for each group of points; None without plots."""
    if not plots:
        return None
    shown, rows = side_by_side(list(plots), _ID, _TITLE)
    alt = f"{plots[0].y_label} over the buffer pool: the predicted line, with ranges, beside the measured points."
    return Figure(_ID, _TITLE, alt, _CAPTION, shown, rows)
