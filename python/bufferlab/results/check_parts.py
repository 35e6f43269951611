"""The building blocks of integrity checks: a run with its samples read, a check's outcome, the worst of many runs.

All functions are pure: they take runs and return checks. `checks_of_every_engine` and each engine's `EngineResults`
list the checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bufferlab.results.drift import LATE_FITS, MIN_MISSES, WORK
from bufferlab.results.window import Value, Window
from bufferlab.units import format_bytes, format_percent

if TYPE_CHECKING:
    from bufferlab.results.metrics import Metric
    from bufferlab.results.schema import Run, StoredSetting

#: The allowed drift of a count per transaction: 10 % between the first and the last third of a window. With more drift,
#: the window's mean depends on how long the warm-up was.
DRIFT_LIMIT = 0.10
#: By chance, the misses in the first and the last third of a window differ by a share of about 2.5 / sqrt(misses of a
#: third). A difference of up to three times that is not a drift. The 2.5 comes from 66 windows of TPC-C with 1,000 to
#: 10,000 misses a third, on four servers and SQLite.
DRIFT_SIGMAS = 7.5
#: If transactions are of several types, one third may hold more of the costly ones. So the first and the last third
#: differ by a share of about 1.3 / sqrt(transactions of a third). A difference of up to three times that is not a
#: drift. The 1.3 comes from TPC-C on MySQL 9.7.4 at three LRU scan depths: 55 windows of 1,500 transactions (5.9 % at
#: 8,000 to 14,000 misses a third) and 22 windows of 3,000 (3.6 %). The transactions cause the difference, not the pool:
#: the three depths of one block share a seed, and their misses fell together, by 11.9, 13.2 and 14.2 %.
MIX_SIGMAS = 4.0

Status = Literal["passed", "failed", "not_applicable"]
#: The kinds of numbers that a failed check may put in doubt. "reads" includes misses and the hit ratio: all depend on
#: the pool's contents. "gets" depend only on the work. "inside" are the engine's own counters.
Numbers = Literal["reads", "gets", "writes", "times", "device", "inside"]
ALL: tuple[Numbers, ...] = ("reads", "gets", "writes", "times", "device", "inside")


FOREIGN_SERVER = "foreign_server"
"""The name of a row in the list of checks. The row has the caveats on a server that bufferlab did not start."""


@dataclass(frozen=True)
class Check:
    """One integrity check and its outcome."""

    name: str
    title: str
    status: Status
    detail: str
    touches: tuple[Numbers, ...] = ALL
    """The kinds of numbers that are in doubt if the check fails; other numbers are not."""
    caveat: str = ""
    """The work of other programs that the numbers in `touches` include, although the sweep itself is sound; "" if there
    is none."""
    failed_at: tuple[str, ...] = ()
    """The labels of the points, or of the runs, at which the check failed; empty if the check does not know them."""

    PRINTED: ClassVar = ("name", "title", "status", "detail", "touches", "caveat")


@dataclass(frozen=True)
class MeasuredRun:
    """A run whose samples have been read (`RunRecord.measured`): the input of every check and table."""

    run: Run
    engine: EngineResults
    """The declarations of the run's engine: its metrics, checks and words."""
    raw: Mapping[str, Metric]
    """The metrics that probes and engines emit, by name."""
    window: Window
    values: dict[str, Value]
    latency_us: dict[str, float]
    """The time that all transactions together spent, in microseconds, by kind ("service", "queue")."""
    latency_n: int
    """The number of transactions in the service histograms."""
    phases: dict[str, dict[str, Value]] = field(default_factory=dict)
    """The values of each phase after the measured window, by the phase's name."""
    drift: float | None = None
    """Misses per transaction in the window's last third, divided by those in its first third; None if there are too few
    (`drift.drift`)."""
    device_drift: float | None = None
    """The same ratio as `drift`, for pages that a server read from the device (`drift.device_drift`)."""

    @property
    def settings(self) -> dict[str, StoredSetting]:
        """Return every setting of the run by its name."""
        return self.run.settings

    @property
    def label(self) -> str:
        """Return the name of this run in the text of a check: its point and its block, counted from 1."""
        return f"{self.run.point.label}, block {self.run.block + 1}"

    def knob(self, name: str) -> Any:
        """Return the value that the engine reported for a setting in this run; None if it was not read back."""
        setting = self.settings.get(name)
        return setting.actual if setting else None

    @property
    def open_loop(self) -> bool:
        """Return whether transactions arrived at a set rate. In a closed loop each one starts when another ends."""
        return self.run.load.mode == "open"

    @property
    def engine_and_version(self) -> str:
        """Return the name and version of the program that ran: "mysql 5.7.22", "Linux 6.18.44"."""
        return f"{self.engine.version_of or self.run.engine} {self.run.engine_version or ''}".strip()

    @property
    def direct(self) -> bool:
        """Return whether the engine bypassed the page cache when it read the database file."""
        return self.engine.reads_directly(self)

    @property
    def divides_memory(self) -> bool:
        """Return whether the pool and the page cache share one limit of memory.

        Then a miss of the pool may be served by the page cache, without a read from the device.
        """
        return self.knob("memory_limit") not in (None, "off")

    @property
    def connections(self) -> int:
        """Return how many connections ran transactions at the same time."""
        return int(self.run.workload.get("connections") or 1)

    @property
    def version(self) -> tuple[int, ...]:
        """Return the engine's version as numbers: (5, 7, 22); () if the version is unknown."""
        found = re.match(r"\d+(?:\.\d+)*", self.run.engine_version or "")
        return tuple(map(int, found[0].split("."))) if found else ()


@dataclass(frozen=True)
class SettingWords:
    """The words for one setting in reports, for settings whose name and values are not clear by themselves."""

    said: str
    """The setting's name in a sentence: "the LRU scan depth"."""
    axis: str
    """The title of a figure's axis for the setting, with the unit of its numbers."""
    name: str = ""
    """The words before a value in a legend; "" for the setting's name."""
    unit: str = ""
    """The unit of a bare number: "KiB" makes "128" into "128 KiB"; "" for none."""
    values: Mapping[str, str] = field(default_factory=dict)
    """The words for single values, by value; each is understood without the setting's name."""
    count: str = ""
    """The count per unit of work that a sweep of the setting is about: "writes"; "" for the workload's metric."""


@dataclass(frozen=True)
class EngineResults:
    """The declarations of an engine, or of a family of engines, on its results: data, and pure functions over runs."""

    raw: tuple[Metric, ...] = ()
    """The metrics that the engine counts in addition to those of the table `Engine`."""
    derived: tuple[Metric, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    """This engine's meaning of the metrics of the table `Engine`, by metric."""
    source: str = ""
    """The source of this engine's numbers for the metrics of the table `Engine`."""
    checks: tuple[Made, ...] = ()
    reads_directly: Callable[[MeasuredRun], bool] = lambda run: run.knob("io_mode") == "direct"
    """A function that returns whether a run bypassed the page cache when it read its database."""
    writes_by_calls: bool = False
    """Whether all writes of the engine's process are write calls, whose bytes the kernel counts (wchar of
    /proc/PID/io). Asynchronous writes are not in that count (fs/aio.c, aio_write)."""
    is_server: bool = False
    """True if the engine runs as a separate process, to which each client opens a connection."""
    same_work: frozenset[str] = frozenset()
    """Settings that do not change which pages the transactions get."""
    page_gets_limit: float = 0.03
    """The relative difference that is allowed in page gets per transaction between points that do the same work.

    The database grows during the warm-up, and a larger pool may need a longer one. With one warehouse this made a
    difference of 2.5 %, far less than any step of a sweep that is worth reading.
    """
    page_gets_vary: Callable[[MeasuredRun], str | None] = lambda run: None
    """A function that returns why the number of page gets depends on the pool's size in a run; None if it does not."""
    asked_for: Callable[[MeasuredRun], Value] = lambda run: run.values["page_gets_per_transaction"]
    """A function that returns a run's page gets per transaction, without the gets that reads themselves cause."""
    reads_beside: Callable[[MeasuredRun], float] = lambda run: 0.0
    """A function that returns the most bytes that the engine may have read in a window from files other than the
    database's."""
    reads_beside_are: str = ""
    """The words for the reads that `reads_beside` allows, in the text of the check; "" if it allows none."""
    pool: str = ""
    """The setting with the size of the engine's pool in bytes; "" if the engine has no pool."""
    version_of: str = ""
    """The program whose version a run records ("Linux" for a bare file); "" if it records the engine's version."""
    needs_long_windows: bool = True
    """True if the engine's writes and rates depend on checkpoints, whose effect averages out only in a long window."""
    log: str = ""
    """The metric of log bytes per unit of work; "" for the metric of the embedded engine's log."""
    device_reads: str = ""
    """The count of pages read from the device, used if pool and page cache share one memory limit; "" for none."""
    courses: frozenset[str] = frozenset()
    """The counters of which `Window.counts` keeps every sample, because some values need rates between samples."""
    knob_words: Mapping[str, SettingWords] = field(default_factory=dict)
    """The words of a report for settings of the engine or of its workloads, by setting."""
    over_time: Mapping[str, str] = field(default_factory=dict)
    """The rates that reports draw over time, each with its axis label; empty for the usual rates of a database."""
    own_work: tuple[str, ...] = ()
    """The engine's own counters of transactions. They are read at the same moment as its misses."""
    counts_late_s: float = 0.0
    """The maximum delay, in seconds, with which the engine publishes its counts.

    At a window's edges they are up to date.
    """
    waits: tuple[str, ...] = ()
    """The engine's counters of its connections' waits, which reports show per unit of work."""


Made = Callable[[Sequence[MeasuredRun]], Check]


def touching(*touches: Numbers) -> Callable[[Made], Made]:
    """Return a decorator for a check: if the check fails, only these kinds of numbers are in doubt."""

    def of(made: Made) -> Made:
        def check(runs: Sequence[MeasuredRun]) -> Check:
            return replace(made(runs), touches=touches)

        return check

    return of


def numbers_of(metric: Metric) -> frozenset[Numbers]:
    """Return the kinds of numbers that a metric belongs to: "reads" for misses, "times" and "reads" for reads/s."""
    name = metric.count or metric.name
    found: set[Numbers] = set()
    if metric.is_timed or metric.top_unit in ("ns", "us", "ms", "s") or metric.per == "s":
        found.add("times")
    if name.startswith(("device_", "disk_")) or "request" in name:
        found.add("device")
    elif "write" in name or "wal_" in name:
        found.add("writes")
    elif any(word in name for word in ("read", "miss", "hit_ratio")):
        found.add("reads")
    elif "gets" in name:
        found.add("gets")
    return frozenset(found or {"inside"})


def outcome(name: str, title: str, passed: bool, detail: str) -> Check:
    """Return the outcome of a check that was made: passed or failed."""
    return Check(name, title, "passed" if passed else "failed", detail)


def not_applicable(name: str, title: str, why: str) -> Check:
    """Return the outcome of a check that could not be made, with the reason."""
    return Check(name, title, "not_applicable", why)


@dataclass(frozen=True)
class Off:
    """The relative deviation of one run, with its direction, or the reason why there is none."""

    run: MeasuredRun
    share: float | None
    why: str | None = None
    least: float = 0.0
    """The run's own limit, which allows for the scatter of small counts in a short window.

    The wider of it and the check's limit holds.
    """


def worst_of(name: str, title: str, limit: float, offs: Iterable[Off]) -> Check:
    """Return a check that passes if no run deviates by more than `limit`, or than its own wider limit (`Off.least`).

    The check does not apply if all runs lack a deviation. Its text counts the runs that lack one.
    """
    rows = list(offs)
    told = [off for off in rows if off.share is not None]
    if not told:
        return not_applicable(name, title, rows[0].why or "no run has the numbers")
    worst = max(told, key=lambda off: (off.share or 0.0) / (max(limit, off.least) or 1.0))
    share, own = worst.share or 0.0, max(limit, worst.least)
    left = f"; {len(rows) - len(told)} runs not checked" if len(told) < len(rows) else ""
    how = f"{format_percent(share)} {worst.why or 'off'}" if share else "exact"
    detail = f"worst of {len(told)} runs: {how} ({worst.run.label}); limit {limit_words(own, limit)}{left}"
    failed = [off.run.label for off in told if (off.share or 0.0) > max(limit, off.least)]
    return replace(outcome(name, title, share <= own, detail), failed_at=tuple(failed))


def limit_words(own: float, limit: float) -> str:
    """Return the limit `own` in words. If it is wider than the check's `limit`, the words say why.

    >>> limit_words(0.05, 0.05), limit_words(0.0949, 0.05), limit_words(2.126, 0.05)[:6]
    ('5 %', '9.49 %, for so short a window (else 5 %)', '213 %,')
    """
    if own <= limit:
        return f"{100 * limit:g} %"
    return f"{format_percent(own)}, for so short a window (else {100 * limit:g} %)"


def ratio_off(run: MeasuredRun, value: Value, reference: Value) -> Off:
    """Return the relative deviation of a run's value from the reference that it should equal.

    If only the reference is 0, the deviation is 100 %. It is missing if both are 0, or if one is missing.
    """
    if value.value is None or reference.value is None:
        return Off(run, None, value.reason or reference.reason)
    if reference.value == 0:
        return Off(run, None if value.value == 0 else 1.0, "nothing was counted in the measured window")
    off = value.value / reference.value - 1
    return Off(run, abs(off), "more" if off > 0 else "less")


def drift_limit(events: float, mixed: float) -> float:
    """Return the relative difference that is allowed between the last and the first third of a window.

    `events` is the number of events in a third. `mixed` is its number of transactions if they are of several types,
    else 0.

    >>> drift_limit(9_000, 0), drift_limit(1_406.25, 0), drift_limit(9_000, 400), drift_limit(9_000, 1_600)
    (0.1, 0.2, 0.2, 0.1)
    """
    of_mix = MIX_SIGMAS / sqrt(mixed) if mixed else 0.0
    return max(DRIFT_LIMIT, DRIFT_SIGMAS / sqrt(max(MIN_MISSES, events)), of_mix)


def mixed_in_a_third(run: MeasuredRun) -> float:
    """Return the number of transactions in a third of the window if they are of several types; 0 if all are of one."""
    done = [
        sum(run.window.change(metric, kind).value or 0.0 for metric in WORK) for kind in run.window.subjects(WORK[0])
    ]
    return sum(done) / 3 if sum(count > 0 for count in done) > 1 else 0.0


def _not_judged(what: str, seen: Sequence[tuple[MeasuredRun, float]], late_s: float) -> str:
    """Return why no window's thirds can be compared; `seen` has the runs, and the events in a third of each.

    `late_s` is the delay in seconds with which the engine publishes its counts.
    """
    longest_s = max((run.window.seconds or 0.0 for run, _ in seen), default=0.0)
    if late_s and longest_s < 3 * LATE_FITS * late_s:
        return (
            f"the server publishes its counts up to {late_s:g} s late, so a window needs {3 * LATE_FITS * late_s:g} s; "
            f"the longest has {longest_s:.2g} s"
        )
    if (most := max((counted for _, counted in seen), default=0.0)) and most < MIN_MISSES:
        return f"a third of a window needs {MIN_MISSES:,} {what}; the most are {most:,.0f}"
    return f"no third of a window has {MIN_MISSES:,} {what} and samples at its ends"


def _growth(runs: Sequence[MeasuredRun]) -> str:
    """Return in words how far the database grew in the window in which it grew most; "" if it hardly grew."""
    sizes = [(base.bytes_start, base.bytes_end) for run in runs if (base := run.run.database) and base.bytes_start]
    start, end = max(sizes, key=lambda of: (of[1] or 0) / (of[0] or 1), default=(0, 0))
    if not start or not end or end < (1 + _GROWS) * start:
        return ""
    return (
        f"the database grew from {format_bytes(start)} to {format_bytes(end)} in a window: while it grows, more pages "
        "are missed, and a longer window does not settle"
    )


_GROWS = 0.02
"""The growth of the database in a window, as a share, from which on it may explain that misses rise."""


def stood_still(
    name: str,
    title: str,
    what: str,
    found: Iterable[tuple[MeasuredRun, float | None, float]],
    mixed: Callable[[MeasuredRun], float] = mixed_in_a_third,
    *,
    by_kernel: bool = False,
) -> Check:
    """Return a check that the rate of the events `what` did not change between a window's first and last third.

    The check judges the mean of each point's runs, so that it does not take one run's scatter for drift. `found` has,
    for each run, the ratio of its last third to its first, and the number of events in a third. `mixed` is a function
    like `mixed_in_a_third`. The limit follows from both (`drift_limit`). `by_kernel` says that the kernel counts the
    events, without delay.
    """
    points: dict[int, list[tuple[MeasuredRun, float, float]]] = {}
    silent = 0
    seen: list[tuple[MeasuredRun, float]] = []
    for run, ratio, counted in found:
        seen.append((run, counted))
        if ratio is None:
            silent += 1
        else:
            points.setdefault(run.run.point.index, []).append((run, ratio, counted))
    if not points:
        late_s = 0.0 if by_kernel else max((run.engine.counts_late_s for run, _ in seen), default=0.0)
        return not_applicable(name, title, _not_judged(what, seen, late_s))
    judged = [
        (
            exp(sum(log(ratio) for _, ratio, _ in of) / len(of)),
            drift_limit(sum(counted for _, _, counted in of), sum(mixed(run) for run, _, _ in of)),
            of[0][0].run.point.label,
            [run for run, _, _ in of],
        )
        for of in points.values()
    ]
    mean, limit, label, runs = max(judged, key=lambda point: abs(log(point[0])) / point[1])
    way = "less" if mean < 1 else "more"
    left = f"; runs not judged, for too few {what} or too short a window: {silent}" if silent else ""
    detail = (
        f"worst of {len(points)} points: {100 * abs(mean - 1):.1f} % {way} at the end "
        f"({label}, {len(runs)} runs); limit {limit_words(limit, DRIFT_LIMIT)}{left}"
    )
    if abs(mean - 1) <= limit:
        return outcome(name, title, True, detail)
    advice = (_growth(runs) if mean > 1 else "") or "a window twice as long (--transactions) may let it settle"
    made = outcome(name, title, False, f"{detail}; {advice}")
    failed = tuple(where for of_point, at_most, where, _ in judged if abs(of_point - 1) > at_most)
    return replace(made, failed_at=failed)
