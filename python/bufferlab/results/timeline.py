"""Computes values of a run over time: second by second, and of any part of the measured window.

Each stretch between two samples is treated as a small window, to which the formulas of the metrics are applied.
Counters between samples are interpolated. All functions are pure: they take samples and return values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from bufferlab.results.metrics import Metric
from bufferlab.results.window import MEASURE, Edge, Reading, Value, Window

if TYPE_CHECKING:
    import polars as pl


#: The phase name of the time between two windows, in which the next phase is set up.
BETWEEN = "between"
#: The order of samples of the same time: a window's end edge, then samples without an edge, then the next start edge.
_ORDER = {"end": -1, None: 0, "start": 1}


@dataclass(frozen=True)
class Instant:
    """All samples taken at one time."""

    t_s: float
    phase: str
    edge: str | None
    readings: Edge


@dataclass(frozen=True)
class TimelineSecond:
    """The values of a stretch of a run between two samples; the second sample is at `t_s`."""

    t_s: float
    phase: str
    values: dict[str, Value]


def samples_of(samples: pl.DataFrame, derived: Iterable[Metric]) -> pl.DataFrame:
    """Return only those samples, a small part of all, that these derived values need."""
    import polars as pl

    needed = set().union(*(metric.quantity().reads for metric in derived))
    return samples.filter(pl.col("metric").is_in(needed))


def instants(samples: pl.DataFrame) -> list[Instant]:
    """Return the samples of a run as one object per time, in the order of time."""
    at: dict[tuple[float, int], Instant] = {}
    # Read the columns as lists, because reading rows as dictionaries took most of a report's time.
    columns = ("t_s", "edge", "phase", "metric", "subject", "count", "value", "reason")
    rows = zip(*(samples[name].to_list() for name in columns), strict=True)
    for t_s, edge, phase, metric, subject, count, value, reason in rows:
        key = (t_s, _ORDER[edge])
        if key not in at:
            at[key] = Instant(t_s, phase, edge, {})
        at[key].readings.setdefault(metric, {})[subject] = Reading(value if count is None else count, reason)
    return [at[key] for key in sorted(at)]


def per_second(samples: pl.DataFrame, derived: Sequence[Metric]) -> list[TimelineSecond]:
    """Return these derived values for each stretch between neighbouring samples.

    A stretch of at most half the median length is joined with the next one. A stretch that ends at a start edge does
    not belong to that window: it is warm-up, or lies between two windows.
    """
    points = instants(samples)
    gaps = sorted(b.t_s - a.t_s for a, b in pairwise(points))
    shortest = gaps[len(gaps) // 2] / 2 if gaps else 0.0
    rows: list[TimelineSecond] = []
    before: Instant | None = None
    for instant in points:
        long_enough = before is not None and instant.t_s - before.t_s > shortest
        if before is not None and long_enough:
            window = Window(before.readings, instant.readings, instant.t_s - before.t_s)
            phase = BETWEEN if before.edge == "end" else before.phase if instant.edge == "start" else instant.phase
            rows.append(TimelineSecond(instant.t_s, phase, {of.name: of.quantity().evaluate(window) for of in derived}))
        if before is None or long_enough or instant.edge:
            before = instant
    return rows


def measured_instants(samples: pl.DataFrame) -> list[Instant]:
    """Return the samples of the measured window, from its start edge to its end edge; empty if an edge is missing."""
    import polars as pl

    of_window = samples.lazy().filter((pl.col("phase") == MEASURE) & pl.col("edge").is_not_null())
    times = dict(of_window.select("edge", "t_s").collect().iter_rows())
    if "start" not in times or "end" not in times:
        return []
    points = instants(samples.filter(pl.col("t_s").is_between(times["start"], times["end"])))
    edges = {instant.edge: place for place, instant in enumerate(points) if instant.edge and instant.phase == MEASURE}
    # In a damaged file the rows of one time may belong to two phases. Then an edge is missing here.
    return points[edges["start"] : edges["end"] + 1] if edges.keys() == {"start", "end"} else []


def finest_share(points: Sequence[Instant]) -> float | None:
    """Return the smallest share of the window for which values can be computed: a tenth or a third.

    No two neighbouring samples may be further apart than that share. The result is None if some are further apart than
    a third, or if there are fewer than two samples.
    """
    if len(points) < 2:
        return None
    whole = points[-1].t_s - points[0].t_s
    widest = max(b.t_s - a.t_s for a, b in pairwise(points))
    return next((share for share in (0.1, 1 / 3) if widest <= share * whole), None)


def part(points: Sequence[Instant], start_share: float, end_share: float) -> Window:
    """Return the part of the measured window between two shares of its time, with interpolated counters."""
    first, whole = points[0].t_s, points[-1].t_s - points[0].t_s
    start_s, end_s = first + start_share * whole, first + end_share * whole
    return Window(_at(points, start_s), _at(points, end_s), end_s - start_s)


def _at(points: Sequence[Instant], t_s: float) -> Edge:
    after = next((place for place, point in enumerate(points) if point.t_s >= t_s), len(points) - 1)
    later, earlier = points[after], points[max(0, after - 1)]
    width = later.t_s - earlier.t_s
    share = min(1.0, (t_s - earlier.t_s) / width) if width > 0 else 1.0
    return {
        metric: {
            subject: _between(earlier.readings.get(metric, {}).get(subject), reading, share)
            for subject, reading in subjects.items()
        }
        for metric, subjects in later.readings.items()
    }


def _between(before: Reading | None, after: Reading, share: float) -> Reading:
    if before is None or before.number is None or after.number is None:
        return after
    return Reading(before.number + share * (after.number - before.number), after.reason)
