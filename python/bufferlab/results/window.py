"""A window of one run, the measured one or a phase's: what every counter did between its two edge samples.

Counters go by difference, end minus start; one that went backwards gives a reason, not a number. Gauges are
read at the end edge. Nothing here knows what a figure means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bufferlab.results import metrics
from bufferlab.results.quantity import Figure, Quantity, Unit

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Reading:
    """One metric of one subject at an edge: a number or the reason why there is none."""

    number: float | None
    reason: str | None


Edge = dict[str, dict[str, Reading]]
#: The phase of the samples that bound the main window.
MEASURE = "measure"


@dataclass(frozen=True)
class Window:
    """Both edges of a window: metric -> subject -> reading."""

    start: Edge
    end: Edge
    seconds: float | None

    @classmethod
    def of(cls, samples: pl.DataFrame, phase: str = MEASURE) -> Window:
        """The window of a phase in the samples of a run; without its edges every figure is null with that reason."""
        start, start_s = _edge(samples, phase, "start")
        end, end_s = _edge(samples, phase, "end")
        seconds = end_s - start_s if start_s is not None and end_s is not None else None
        return cls(start, end, seconds)

    def subjects(self, metric: str) -> list[str]:
        """The devices, cores or transaction types that a metric was sampled for."""
        return sorted(self.end.get(metric, {}))

    def change(self, metric: str, subject: str | None = None) -> Figure:
        """What a counter did over the window, summed over its subjects when none is named."""
        names = self.subjects(metric) if subject is None else [subject]
        if self.seconds is None:
            return Figure(None, "the run has no edge samples: it ended before its measured window did")
        if not names:
            return Figure(None, f"{metric} was not sampled")
        total = 0.0
        for name in names:
            figure = self._change_of_one(metric, name)
            if figure.value is None:
                return figure
            total += figure.value
        return Figure(total)

    def level(self, metric: str, subject: str = "") -> Figure:
        """What a gauge showed at the end edge."""
        reading = self.end.get(metric, {}).get(subject)
        if reading is None:
            return Figure(None, f"{metric} was not sampled")
        return Figure(reading.number, reading.reason)

    def _change_of_one(self, metric: str, subject: str) -> Figure:
        before = self.start.get(metric, {}).get(subject)
        after = self.end.get(metric, {}).get(subject)
        if before is None or after is None:
            return Figure(None, f"{metric} was not sampled at both edges")
        if before.number is None or after.number is None:
            return Figure(None, before.reason or after.reason)
        if after.number < before.number:
            return Figure(None, f"{metric} went backwards, from {before.number:.0f} to {after.number:.0f}")
        return Figure(after.number - before.number)


def _edge(samples: pl.DataFrame, phase: str, edge: str) -> tuple[Edge, float | None]:
    import polars as pl

    rows = samples.filter((pl.col("edge") == edge) & (pl.col("phase") == phase))
    readings: Edge = {}
    for row in rows.iter_rows(named=True):
        subject = _subject_in(phase, row["metric"], row["subject"])
        if subject is None:
            continue
        number = row["count"] if row["count"] is not None else row["value"]
        readings.setdefault(row["metric"], {})[subject] = Reading(number, row["reason"])
    return readings, (float(rows["t_s"][0]) if rows.height else None)


def _subject_in(phase: str, metric: str, subject: str) -> str | None:
    """A transaction type as its own phase calls it; None for the types of other phases, whose work is not this one's.

    >>> _subject_in("scan", "rows_returned", "scan.read"), _subject_in("measure", "rows_returned", "scan.read")
    ('read', None)
    """
    declared = metrics.RAW.get(metric)
    if declared is None or declared.probe != "workload" or not subject:
        return subject
    owner, _, name = subject.rpartition(".")
    return name if owner == ("" if phase == MEASURE else phase) else None


def counted(metric: str, subject: str | None = None) -> Quantity:
    """The change of a counter over the window, in the unit the registry declares."""
    declared = metrics.RAW[metric]
    if declared.kind != "counter":
        raise AssertionError(f"{metric} is a {declared.kind}: only counters go by difference")
    return Quantity(Unit.parse(declared.unit), lambda window: window.change(metric, subject), metric)


def elapsed() -> Quantity:
    """The seconds between the two edge samples."""

    def seconds(window: Window) -> Figure:
        if window.seconds is None:
            return Figure(None, "the run has no edge samples: it ended before its measured window did")
        return Figure(window.seconds)

    return Quantity(Unit.parse("s"), seconds, "the window's length")
