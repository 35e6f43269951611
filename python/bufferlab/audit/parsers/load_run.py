"""The types for reports of load generators: one object for each run, or for each direction of a job of fio.

An object has the numbers as the program printed them. rules/load_run.py checks whether they fit together.
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
#: The factor for the letter after a shortened number: fio's "21.4k" is 21,400.
THOUSANDS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class LoadInterval:
    """A line of progress: the seconds from the run's start to the line, and the rate since the line above."""

    place: Place
    end_s: float
    per_s: float


@dataclass
class Direction:
    """The requests and bytes per second of one direction; None for a number that was not printed."""

    per_s: float | None = None
    bytes_per_s: float | None = None


@dataclass
class LoadRun:
    """A run of a load generator, or one direction (read, write) of a job of fio. Numbers that a log lacks are None."""

    tool: str
    place: Place
    name: str = ""
    """The name of the job or transaction type; "" for a whole run."""
    clients: int | None = None
    """The number of threads, clients or virtual users; for fio, jobs times their depth. None if the log lacks it."""
    seconds: float | None = None
    is_asked: bool = False
    """Whether `seconds` is the requested time, not a measured time."""
    connecting_s: float = 0.0
    """The seconds of the run in which clients connected, if the printed rate leaves them out."""
    transactions: int | None = None
    """The number of transactions, events or requests; None if the log lacks it."""
    per_s: float | None = None
    """The transactions, events or requests per second, as printed; None if no rate was printed."""
    mean_ms: float | None = None
    latency_ms: dict[str, float] = field(default_factory=dict)
    """The latencies of the whole run: percentiles by name ("95 %"), the least ("min") and the greatest ("max")."""
    spans_ms: list[tuple[float, float, float]] = field(default_factory=list)
    """(least, mean, greatest) of each kind of latency, if a report has several kinds."""
    mean_slack_ms: float = 0.0051
    """The maximum error of the printed mean against sum / count: half a last digit, or the width of a bin."""
    latency_sum_ms: float | None = None
    paced: bool = False
    """Whether transactions arrive at a set rate. Then they may wait for a client."""
    intervals: list[LoadInterval] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    """The clients that ended before the run."""
    nopm: float | None = None
    """New-Orders per minute: HammerDB's NOPM, go-tpc's tpmC; None for other programs, or without a result."""
    tpm: int | None = None
    """HammerDB's transactions per minute, as the database counts them; None for other programs, or without a result."""
    queries: dict[str, int] = field(default_factory=dict)
    """sysbench's queries by kind, with their total."""
    block_bytes: int | None = None
    """The size of each request of a job of fio, or of sysbench's test of files; None if sizes differ."""
    bytes: float | None = None
    bytes_per_s: float | None = None
    directions: dict[str, Direction] = field(default_factory=dict)
    """The directions in sysbench's test of files: "read" and "written"."""
    cut: str = ""
    """The words for the missing part of an incomplete report; "" for a complete one.

    The counts of an incomplete report may not cover the whole run.
    """

    @property
    def counted_s(self) -> float | None:
        """Return the seconds that the rate covers: the run's, less the time to connect; None if there are none."""
        counted = (self.seconds or 0.0) - self.connecting_s
        return counted if counted > 0 else None

    @property
    def fine_mean_ms(self) -> float | None:
        """Return the mean latency with the most digits: sum / count if the sum is printed, else the printed mean."""
        if self.latency_sum_ms is not None and self.transactions:
            return self.latency_sum_ms / self.transactions
        return self.mean_ms

    @property
    def has_result(self) -> bool:
        """Return whether the run has a result, and not only a beginning."""
        return bool(self.intervals) or {self.per_s, self.transactions, self.nopm} != {None}

    @property
    def lacks_report(self) -> bool:
        """Return whether the run has lines of progress, but no report after them."""
        return bool(self.intervals) and {self.transactions, self.per_s, self.nopm} == {None}

    @property
    def lines_per_s(self) -> float | None:
        """Return the mean rate of the lines of progress, each weighted by the seconds since the line above.

        The result is None without lines, or if their times do not rise.
        """
        if not self.intervals:
            return None
        ends = [0.0, *(line.end_s for line in self.intervals)]
        steps = [b - a for a, b in pairwise(ends)]
        if min(steps) <= 0:
            return None
        # If the log's beginning is cut off, the first line covers less than the time since the start. Take the second
        # line's interval for it.
        steps[0] = steps[1] if len(steps) > 1 and steps[0] > 1.5 * steps[1] else steps[0]
        return sum(step * line.per_s for step, line in zip(steps, self.intervals, strict=True)) / sum(steps)

    @property
    def title(self) -> str:
        """Return the words for the run in a sentence: "pgbench", "fio's randread, read"."""
        return f"{self.tool}'s {self.name}" if self.name else self.tool


class LoadParser:
    """The base class of load generators' parsers. They take lines one after another; `runs` has the runs found."""

    tool = ""

    def __init__(self, file: str) -> None:
        self.file = file
        self._runs: list[LoadRun] = []
        self._open: LoadRun | None = None
        self._kept = 0

    @property
    def runs(self) -> list[LoadRun]:
        """Return the runs that have a result, not only a beginning."""
        return [run for run in self._runs if run.has_result]

    def named(self) -> Iterator[Problem]:
        """Yield a problem for each run that lacks a part, and for parts that are not read."""
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
        """Parse a line under a caption's label; return whether this program printed it."""
        return False

    def may_take(self, number: int, text: str, label: str) -> bool:
        """Return whether this program printed the next line, without parsing it."""
        fresh = type(self)(self.file)
        fresh._open = LoadRun(self.tool, Place(self.file, number)) if self._open is not None else None
        return fresh.take(number, text, label)

    def take_document(self, document: Document, label: str) -> None:
        """Parse a JSON document under a caption's label, if this program printed it."""

    def _begin(self, number: int, label: str) -> LoadRun:
        self._open = LoadRun(self.tool, Place(self.file, number, label))
        if len(self._runs) < MAX_RUNS:
            self._runs.append(self._open)
        return self._open

    def _line(self, run: LoadRun, place: Place, end_s: str, per_s: str) -> None:
        if self._kept < MAX_INTERVALS:
            run.intervals.append(LoadInterval(place, float(end_s), float(per_s)))
            self._kept += 1
