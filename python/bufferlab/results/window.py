"""A window of one run, the measured one or a phase's: the change of every counter between its two edge samples.

A counter's value is its end minus its start. If that is negative, the value is missing, with a reason. Gauges are read
at an edge (the window's start or end), or over all samples of the window. This module does not know what metrics mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from bufferlab.results.gaps import Gaps, gaps_of, usual_interval

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Value:
    """A number, or the reason why it is missing."""

    value: float | None
    reason: str | None = None


class Reading(NamedTuple):
    """One metric of one subject (a device, core or transaction type) at an edge: a number, or why it is missing."""

    number: float | None
    reason: str | None


Edge = dict[str, dict[str, Reading]]
#: Metric -> (time in s, number) of every sample of a window, in the order of time.
Course = Mapping[str, tuple[tuple[float, float], ...]]
#: The reason why a counter has no value if an edge sample lacks it. The counter's name is put before this text.
NOT_SAMPLED = "was not sampled at both edges"
#: The counter of how late the worker's pulse came. The pulse is a thread that should wake every 100 ms.
PULSE = "pulse_late_us"
#: The name of the main phase: its edge samples bound the measured window.
MEASURE = "measure"


@dataclass(frozen=True)
class Window:
    """A window of one run: the readings at its two edges, and the course of some metrics between them.

    An edge has the readings by metric and subject (a device, core or transaction type).
    """

    start: Edge
    end: Edge
    seconds: float | None
    course: Course = field(default_factory=dict)
    """Every sample of the gauges without a subject. Empty for a window whose edges lie between samples."""
    counts: Course = field(default_factory=dict)
    """Every sample of the pulse and of the counters that `of` was asked to keep, summed over their subjects."""
    gaps: Gaps | None = None
    """The window's gaps; None with too few samples, and for a window whose edges lie between samples."""

    @classmethod
    def of(cls, samples: pl.DataFrame, phase: str = MEASURE, courses: frozenset[str] = frozenset()) -> Window:
        """Return the window of a phase in the samples of a run. It keeps every sample of the counters in `courses`.

        If the phase lacks an edge sample, every change in the window is missing with that reason.
        """
        edges, times = _edges(samples, phase)
        start, end, start_s, end_s = edges["start"], edges["end"], times.get("start"), times.get("end")
        seconds = end_s - start_s if start_s is not None and end_s is not None else None
        counts = _counts(samples, phase, courses | {PULSE})
        gaps = _gaps(samples, phase, counts) if seconds else None
        return cls(start, end, seconds, _course(samples, phase, start_s, end_s), counts, gaps)

    def subjects(self, metric: str) -> list[str]:
        """Return the devices, cores or transaction types for which a metric was sampled."""
        return sorted(self.end.get(metric, {}))

    def change(self, metric: str, subject: str | None = None) -> Value:
        """Return the change of a counter over the window, of one subject or summed over all."""
        names = self.subjects(metric) if subject is None else [subject]
        if self.seconds is None:
            return Value(None, "the run has no edge samples: it ended before its measured window did")
        if not names:
            return Value(None, f"{metric} was not sampled")
        total = 0.0
        for name in names:
            value = self._change_of_one(metric, name)
            if value.value is None:
                return value
            total += value.value
        return Value(total)

    def level(self, metric: str, subject: str = "") -> Value:
        """Return the level of a gauge at the end edge."""
        return _shown(self.end, metric, subject)

    def first_level(self, metric: str, subject: str = "") -> Value:
        """Return the level of a gauge at the start edge."""
        return _shown(self.start, metric, subject)

    def time_mean(self, metric: str) -> Value:
        """Return the mean of a gauge over the window's time.

        Between two samples the gauge is assumed to change evenly. Without samples inside the window, the mean of its
        edges is returned.
        """
        points = self.course.get(metric, ())
        whole = points[-1][0] - points[0][0] if points else 0.0
        if whole > 0:
            area = sum((b - a) * (of_a + of_b) / 2 for (a, of_a), (b, of_b) in pairwise(points))
            return Value(area / whole)
        first, last = self.first_level(metric), self.level(metric)
        if first.value is None or last.value is None:
            return Value(None, first.reason or last.reason)
        return Value((first.value + last.value) / 2)

    def lowest(self, metric: str) -> Value:
        """Return the smallest sample of a gauge in the window."""
        return self._extreme(metric, min)

    def highest(self, metric: str) -> Value:
        """Return the largest sample of a gauge in the window."""
        return self._extreme(metric, max)

    def _extreme(self, metric: str, of: Callable[[Iterable[float]], float]) -> Value:
        points = self.course.get(metric, ())
        if points:
            return Value(of(number for _, number in points))
        first, last = self.first_level(metric), self.level(metric)
        if first.value is None or last.value is None:
            return Value(None, first.reason or last.reason)
        return Value(of((first.value, last.value)))

    def _change_of_one(self, metric: str, subject: str) -> Value:
        before = self.start.get(metric, {}).get(subject)
        after = self.end.get(metric, {}).get(subject)
        if before is None or after is None:
            return Value(None, f"{metric} {NOT_SAMPLED}")
        if before.number is None or after.number is None:
            return Value(None, before.reason or after.reason)
        if after.number < before.number:
            return Value(None, f"{metric} went backwards, from {before.number:.0f} to {after.number:.0f}")
        return Value(after.number - before.number)


def _gaps(samples: pl.DataFrame, phase: str, counts: Course) -> Gaps | None:
    import polars as pl

    # One query for both columns, because a query has a fixed cost (see `_course`). Methods of the columns do the rest.
    inside = samples.select("t_s", of_phase=pl.col("phase") == phase, between=pl.col("edge").is_null())
    times, between = (inside["t_s"].filter(inside[rows]).unique().sort().to_list() for rows in ("of_phase", "between"))
    return gaps_of(times, usual_interval(between), counts.get(PULSE, ()))


def _shown(edge: Edge, metric: str, subject: str) -> Value:
    reading = edge.get(metric, {}).get(subject)
    if reading is None:
        return Value(None, f"{metric} was not sampled")
    return Value(reading.number, reading.reason)


def _course(samples: pl.DataFrame, phase: str, start_s: float | None, end_s: float | None) -> Course:
    """Return the samples of a phase's gauges between its edges. The sampler runs for a moment beyond the end edge."""
    import polars as pl

    if start_s is not None and end_s is not None:
        samples = samples.filter(pl.col("t_s").is_between(start_s, end_s))
    of_gauges = (pl.col("phase") == phase) & (pl.col("subject") == "") & pl.col("value").is_not_null()
    # One query for all gauges, because a query's fixed cost exceeds the work on a run's few thousand rows.
    rows = samples.lazy().filter(of_gauges).select("metric", "t_s", "value").sort("t_s", maintain_order=True).collect()
    found: dict[str, list[tuple[float, float]]] = {}
    for metric, t_s, value in rows.iter_rows():
        found.setdefault(metric, []).append((t_s, value))
    return {metric: tuple(points) for metric, points in found.items()}


def _counts(samples: pl.DataFrame, phase: str, courses: frozenset[str]) -> Course:
    import polars as pl

    wanted = (pl.col("phase") == phase) & pl.col("metric").is_in(sorted(courses)) & pl.col("count").is_not_null()
    found: dict[str, dict[float, int]] = {}
    # Only a few of many rows are needed. Grouping them in a query would take longer than this loop.
    for metric, t_s, count in samples.filter(wanted).select("metric", "t_s", "count").iter_rows():
        summed = found.setdefault(metric, {})
        summed[t_s] = summed.get(t_s, 0) + count
    return {metric: tuple((t_s, float(of[t_s])) for t_s in sorted(of)) for metric, of in found.items()}


def _edges(samples: pl.DataFrame, phase: str) -> tuple[dict[str, Edge], dict[str, float]]:
    """Return the readings and the times of a phase's edges; a missing edge has an empty table and no time."""
    import polars as pl

    columns = ("edge", "t_s", "metric", "subject", "probe", "count", "value", "reason")
    of_phase = samples.lazy().filter((pl.col("phase") == phase) & pl.col("edge").is_in(["start", "end"]))
    edges: dict[str, Edge] = {"start": {}, "end": {}}
    times: dict[str, float] = {}
    for edge, t_s, metric, subject, probe, count, value, reason in of_phase.select(columns).collect().iter_rows():
        times.setdefault(edge, float(t_s))
        name = _subject_in(phase, probe, subject)
        if name is not None:
            edges[edge].setdefault(metric, {})[name] = Reading(value if count is None else count, reason)
    return edges, times


def _subject_in(phase: str, probe: str, subject: str) -> str | None:
    """Return a subject's name within a phase. In phases other than `measure`, transaction types begin with the phase.

    The result is None for transaction types of other phases.

    >>> _subject_in("scan", "workload", "scan.read"), _subject_in("measure", "workload", "scan.read")
    ('read', None)
    """
    if probe != "workload" or not subject:
        return subject
    owner, _, name = subject.rpartition(".")
    return name if owner == ("" if phase == MEASURE else phase) else None
