"""The form in which load generators are read: one object for each run or direction of a job.

It has numbers as they are printed. rules/load_run.py checks the relations between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.documents import Document
from bufferlab.chapter.words import plural
from bufferlab.errors import Problem

MAX_RUNS = 10_000
MAX_INTERVALS = 1_000_000
#: A factor of a number that is printed short: fio's "21.4k" is 21,400.
THOUSANDS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class LoadInterval:
    """A line of progress: the second at its end, and the rate since the line above."""

    place: Place
    end_s: float
    per_s: float


@dataclass
class Direction:
    """The requests and bytes a second of one direction. None: not printed."""

    per_s: float | None = None
    bytes_per_s: float | None = None


@dataclass
class LoadRun:
    """A run of a load generator, or one direction (read, write) of a job of fio. What a log lacks is None."""

    tool: str
    place: Place
    name: str = ""
    """The name of a job."""
    clients: int | None = None
    """Threads, clients, virtual users; of fio, jobs times their depth."""
    seconds: float | None = None
    is_asked: bool = False
    """Whether the seconds are those asked for, and were not measured."""
    connecting_s: float = 0.0
    """The part of the run's seconds in which clients connected, if the rate leaves it out."""
    transactions: int | None = None
    """Transactions, events or requests that were counted."""
    per_s: float | None = None
    """The rate as printed."""
    mean_ms: float | None = None
    latency_ms: dict[str, float] = field(default_factory=dict)
    """Percentiles by name ("95 %"), and the least ("min") and the greatest ("max"); no percentiles of parts."""
    spans_ms: list[tuple[float, float, float]] = field(default_factory=list)
    """The least, the mean and the greatest of one kind of latency each, where a report has several kinds."""
    mean_slack_ms: float = 0.0051
    """By how much the mean may differ from sum / count: its last digit, or a bin."""
    latency_sum_ms: float | None = None
    paced: bool = False
    """Whether transactions begin at a given rate: one may wait before a client takes it."""
    intervals: list[LoadInterval] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    """The clients that ended before the run did."""
    nopm: float | None = None
    """New-Orders per minute: HammerDB's NOPM, go-tpc's tpmC."""
    tpm: int | None = None
    """HammerDB's transactions per minute, as the database counts them."""
    queries: dict[str, int] = field(default_factory=dict)
    """sysbench's queries by kind, with their total."""
    block_bytes: int | None = None
    """The one size of all requests of a job of fio."""
    bytes: float | None = None
    bytes_per_s: float | None = None
    directions: dict[str, Direction] = field(default_factory=dict)
    """sysbench's reads and writes of files, "read" and "written"."""
    cut: str = ""
    """The missing part of a report that breaks off, in words; its counts may end before the run did."""

    @property
    def counted_s(self) -> float | None:
        """The seconds that the rate covers; None where none are left."""
        counted = (self.seconds or 0.0) - self.connecting_s
        return counted if counted > 0 else None

    @property
    def fine_mean_ms(self) -> float | None:
        """The mean latency with all known digits: a short one is computed from the sum, if the sum is printed."""
        if self.latency_sum_ms is not None and self.transactions:
            return self.latency_sum_ms / self.transactions
        return self.mean_ms

    @property
    def has_result(self) -> bool:
        """Whether the run has a result, and not only a beginning."""
        return bool(self.intervals) or {self.per_s, self.transactions, self.nopm} != {None}

    @property
    def lacks_report(self) -> bool:
        """Whether there are lines of progress, and no report behind them."""
        return bool(self.intervals) and {self.transactions, self.per_s, self.nopm} == {None}

    @property
    def lines_per_s(self) -> float | None:
        """The rate over the lines of progress, each by the seconds since the line above it."""
        if not self.intervals:
            return None
        ends = [0.0, *(line.end_s for line in self.intervals)]
        steps = [b - a for a, b in pairwise(ends)]
        if min(steps) <= 0:
            return None
        # In a log cut at its head the first line covers as long a time as the second.
        steps[0] = steps[1] if len(steps) > 1 and steps[0] > 1.5 * steps[1] else steps[0]
        return sum(step * line.per_s for step, line in zip(steps, self.intervals, strict=True)) / sum(steps)

    @property
    def title(self) -> str:
        """The run in a sentence: "pgbench", "fio's randread, read"."""
        return f"{self.tool}'s {self.name}" if self.name else self.tool


class LoadParser:
    """A parser that takes lines one after another; `runs` are those found so far. Derived for each program."""

    tool = ""

    def __init__(self, file: str) -> None:
        self.file = file
        self._runs: list[LoadRun] = []
        self._open: LoadRun | None = None
        self._kept = 0

    @property
    def runs(self) -> list[LoadRun]:
        """The runs that have a result, not only a beginning."""
        return [run for run in self._runs if run.has_result]

    def named(self) -> Iterator[Problem]:
        """Yield problems: parts that runs lack, and parts that are not read."""
        heads = [run for run in self._runs if run.clients is not None and not run.has_result]
        if heads:
            more = f", and {len(heads) - 1} more like it" if heads[1:] else ""
            what = f"only the head of {self.tool}'s output is there: no line of progress, and no report{more}"
            yield Problem(what, f"{heads[0].place}", "give the whole output of a run that ended by itself")
        for run in self.runs:
            if run.cut:
                yield Problem(
                    f"the report of {run.title} is cut: {run.cut}",
                    f"{run.place}",
                    "give the whole output of a run that ended by itself",
                )
            if run.lacks_report:
                first, last = run.intervals[0].end_s, run.intervals[-1].end_s
                yield Problem(
                    f"the report of {run.title} is missing: it was killed, or the text is cut; read"
                    f" {'is' if len(run.intervals) == 1 else 'are'} its {plural(len(run.intervals), 'line')} of"
                    f" progress, of {first:g} to {last:g} s",
                    f"{run.place}",
                    "give the whole output of a run that ended by itself",
                )

    def take(self, number: int, text: str, label: str) -> bool:
        """Parse a line under a caption's label; return whether it is this program's. Some write no lines."""
        return False

    def may_take(self, number: int, text: str, label: str) -> bool:
        """Return whether the next line would be this program's, without taking it."""
        fresh = type(self)(self.file)
        fresh._open = LoadRun(self.tool, Place(self.file, number)) if self._open is not None else None
        return fresh.take(number, text, label)

    def take_document(self, document: Document, label: str) -> None:
        """Parse a JSON document under a caption's label, if it is this program's."""

    def _begin(self, number: int, label: str) -> LoadRun:
        self._open = LoadRun(self.tool, Place(self.file, number, label))
        if len(self._runs) < MAX_RUNS:
            self._runs.append(self._open)
        return self._open

    def _line(self, run: LoadRun, place: Place, end_s: str, per_s: str) -> None:
        if self._kept < MAX_INTERVALS:
            run.intervals.append(LoadInterval(place, float(end_s), float(per_s)))
            self._kept += 1
