"""Parses tpcc-mysql's output: interval lines in the new and the older form, and the closing block.

Follows Percona-Lab/tpcc-mysql, src/main.c, where `alarm_handler` prints the interval lines and the end of `main` prints
the closing block. Response times are milliseconds, although the README of tpcc-mysql calls them seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median_low

from bufferlab.audit.parsers.captions import Place

TYPES = ("New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level")
#: The most intervals that are kept: more than a week of one-second lines.
MAX_INTERVALS = 1_000_000
#: The least number of interval lines for joining pieces of a log.
_ENOUGH_TO_JOIN = 4

_NUMBER = r"(\d{1,12}(?:\.\d{1,9})?)"
_NEW = re.compile(
    rf"(?:^|\s)(\d{{1,9}}),\s*trx:\s*(\d{{1,12}}),\s*95%:\s*{_NUMBER},\s*99%:\s*{_NUMBER},\s*max[_ ]rt:\s*{_NUMBER}"
    rf"((?:,\s*\d{{1,12}}\|{_NUMBER}){{4}})"
)
_PAIR = re.compile(rf"(\d{{1,12}})\|{_NUMBER}")
_OLD = re.compile(rf"(?:^|\s)(\d{{1,9}})((?:,\s*\d{{1,12}}\(\d{{1,12}}\):{_NUMBER}\|{_NUMBER}){{5}})")
_OLD_PART = re.compile(rf"(\d{{1,12}})\((\d{{1,12}})\):{_NUMBER}\|{_NUMBER}")
_COUNTS = re.compile(
    r"\[([0-4])\]\s*sc:\s*(\d{1,12})\s+lt:\s*(\d{1,12})\s+rt:\s*(\d{1,12})\s+fl:\s*(\d{1,12})"
    r"(?:\s+avg_rt:\s*(-?[\w.]+)\s*\((\d{1,9})\))?"
)
_SECONDS = re.compile(r"^\s*in (\d{1,9}) sec\.\s*$")
_CHECK = re.compile(
    rf"^\s*(New-Order|Payment|Order-Status|Delivery|Stock-Level):\s*{_NUMBER}%\s*(\(>=\s*[\d.]+%\))?\s*\[(OK|NG)\]"
)
_TPMC = re.compile(r"^\s*(\d{1,12}(?:\.\d{1,9})?) TpmC\s*$")
_PARAMETER = re.compile(r"^\s*\[(warehouse|connection|rampup|measure)\]:\s*(\d{1,9})(?: \(sec\.\))?\s*$")
_HEADS = {
    "<Raw Results>": "raw",
    "<Raw Results2(sum ver.)>": "summed",
    "<Constraint Check>": "check",
    "<TpmC>": "tpmc",
    "[transaction percentage]": "mix",
    "[response time (at least 90% passed)]": "response",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval line. Tuples are in the order of TYPES, times in ms. A number that the line's form lacks is None."""

    place: Place
    elapsed_s: int
    counts: tuple[int, ...]
    max_ms: tuple[float, ...]
    p95_ms: float | None = None
    p99_ms: float | None = None
    late: tuple[int, ...] | None = None
    p90_ms: tuple[float, ...] | None = None
    """The 90th percentile of each transaction type; only the older form has it, the newer form None."""


@dataclass(frozen=True, slots=True)
class TransactionCounts:
    """The line of raw results of one type: how many transactions were in time, late, retried and failed."""

    success: int
    late: int
    retries: int
    failures: int
    mean_ms: float | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ResponseCheck:
    """One line of the constraint check: the printed share in per cent, and whether the line says OK."""

    place: Place
    percent: float
    ok: bool


@dataclass(frozen=True)
class CountedTransactions:
    """A number of New-Orders and the seconds in which they ended."""

    new_orders: int
    seconds: int

    @property
    def tpmc(self) -> float:
        """Return the New-Orders per minute."""
        return 60 * self.new_orders / self.seconds

    def seconds_behind(self, tpmc: float) -> float:
        """Return the duration, in seconds, for which this number of New-Orders gives this TpmC."""
        return 60 * self.new_orders / tpmc


@dataclass
class TpccLog:
    """The output of one run, or the part of it that the file holds."""

    label: str
    place: Place
    intervals: list[Interval] = field(default_factory=list)
    raw: dict[int, TransactionCounts] = field(default_factory=dict)
    summed: dict[int, TransactionCounts] = field(default_factory=dict)
    measured_s: int | None = None
    mix: dict[str, ResponseCheck] = field(default_factory=dict)
    response: dict[str, ResponseCheck] = field(default_factory=dict)
    tpmc: float | None = None
    tpmc_text: str = ""
    tpmc_place: Place | None = None
    parameters: dict[str, int] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Return whether the last line of the closing block has been read."""
        return self.tpmc is not None

    @property
    def name(self) -> str:
        """Return the name of the log for a sentence."""
        return f"the log of {self.label}" if self.label else "the log"

    @property
    def spacing_s(self) -> int | None:
        """Return the seconds from one interval line to the next (the smallest step); None with fewer than two lines."""
        times = sorted({interval.elapsed_s for interval in self.intervals})
        return min((b - a for a, b in pairwise(times)), default=None)

    @property
    def covered_s(self) -> int | None:
        """Return the seconds that the interval lines cover without a gap from the start.

        The result is None if a line is missing, or with fewer than two lines.
        """
        step = self.spacing_s
        if not step:
            return None
        times = sorted(interval.elapsed_s for interval in self.intervals)
        whole = range(step, times[-1] + 1, step)
        # Compare lengths first: with a misread time, `list(whole)` would not fit into memory.
        return times[-1] if len(times) == len(whole) and times == list(whole) else None

    @property
    def complete_s(self) -> int | None:
        """Return the seconds that the interval lines cover, or None if they do not cover the whole window."""
        asked, step, covered = self.parameters.get("measure"), self.spacing_s, self.covered_s
        window = self.measured_s or (asked // step * step if asked and step else None)
        return covered if covered == window else None

    def slack(self, total: int) -> float:
        """Return the largest difference that two sound counts of the same `total` transactions may have.

        tpcc-mysql adds to its totals without a lock, and goes on counting for a moment after the last line.
        """
        return max(0.005 * total, 2 * self.parameters.get("connection", 8))

    @property
    def is_measured(self) -> bool:
        """Return whether the log has numbers of a run, not only parameters."""
        return bool(self.intervals or self.raw or self.summed or self.mix or self.response) or self.tpmc is not None

    @property
    def counted(self) -> CountedTransactions | None:
        """Return the New-Orders and their seconds, from the raw results, the sums, or complete interval lines.

        The result is None if the log has none of the three, or no seconds.
        """
        covered, lines = self.covered_s, sum(interval.counts[0] for interval in self.intervals)
        totals = [counts.success + counts.late for counts in (self.raw.get(0), self.summed.get(0)) if counts]
        if self.complete_s:
            totals.append(lines)
        if not totals:
            return None
        # Take the middle one of three values: it is right even if one of them is wrong.
        total = median_low(totals) if len(totals) > 2 else totals[0]
        if covered and abs(lines - total) <= self.slack(total):
            return CountedTransactions(total, covered)
        return CountedTransactions(total, self.measured_s) if self.measured_s else None


class TpccParser:
    """A parser that takes lines one after another; `logs` has the runs found so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._logs: list[TpccLog] = []
        self._last: dict[str, TpccLog] = {}
        self._section = ""
        self._kept = 0

    @property
    def logs(self) -> list[TpccLog]:
        """Return the runs found so far. Parts of one run that the file has in a wrong order are joined."""
        found: list[TpccLog] = []
        pieces: list[TpccLog] = []
        for log in self._logs:
            if pieces and (pieces[-1].ended or pieces[-1].label != log.label or log.parameters):
                found += _joined(pieces)
                pieces = []
            pieces.append(log)
        return found + _joined(pieces)

    def take(self, number: int, text: str, label: str) -> bool:
        """Parse a line under the caption `label`; return whether it is tpcc-mysql's."""
        place, bare = Place(self.file, number, label), text.strip()
        head = (
            next((name for start, name in _HEADS.items() if bare.startswith(start)), None) if bare[:1] in "<[" else None
        )
        if head is not None:
            self._section = head
            return True
        interval = _interval(text, place)
        if interval is not None:
            self._add(interval)
            return True
        return self._closing(text, place)

    def _add(self, interval: Interval) -> None:
        log = self._log(interval.place)
        if log.ended or (log.intervals and log.intervals[-1].elapsed_s >= interval.elapsed_s):
            log = self._begin(interval.place)
        if self._kept < MAX_INTERVALS:
            log.intervals.append(interval)
            self._kept += 1

    def _closing(self, text: str, place: Place) -> bool:
        if match := _PARAMETER.match(text):
            log = self._log(place)
            if log.intervals or log.ended:
                log = self._begin(place)
            log.parameters[match[1]] = int(match[2])
            return True
        if match := _COUNTS.search(text):
            success, late, retries, failures = (int(match[group]) for group in range(2, 6))
            counts = TransactionCounts(
                success, late, retries, failures, _mean(match[6]), int(match[7]) if match[7] else None
            )
            log = self._log(place)
            (log.summed if self._section == "summed" else log.raw)[int(match[1])] = counts
            return True
        if match := _SECONDS.match(text):
            self._log(place).measured_s = int(match[1])
            return True
        if match := _CHECK.match(text):
            log = self._log(place)
            # Only percentages of the transaction mix are followed by their limit in parentheses.
            (log.mix if match[3] else log.response)[match[1]] = ResponseCheck(place, float(match[2]), match[4] == "OK")
            return True
        if match := _TPMC.match(text):
            log = self._log(place)
            log.tpmc, log.tpmc_text, log.tpmc_place = float(match[1]), match[1], place
            return True
        return False

    def _log(self, place: Place) -> TpccLog:
        """Return the run that a line belongs to: the last run under the line's label, or a new run."""
        return self._last.get(place.label) or self._begin(place)

    def _begin(self, place: Place) -> TpccLog:
        log = self._last[place.label] = TpccLog(place.label, place)
        self._logs.append(log)
        return log


def _joined(pieces: list[TpccLog]) -> list[TpccLog]:
    """Return one joined log if the pieces together have each interval line exactly once; else return the pieces."""
    lines = [interval for log in pieces for interval in log.intervals]
    times = sorted(interval.elapsed_s for interval in lines)
    if len(pieces) < 2 or len(times) < _ENOUGH_TO_JOIN or len({b - a for a, b in pairwise(times)}) > 1:
        return pieces
    if times[0] == times[-1]:
        return pieces
    # Combine both: the last piece has the closing block, the first one the parameters.
    return [replace(pieces[-1], place=pieces[0].place, intervals=lines, parameters=pieces[0].parameters)]


def _interval(text: str, place: Place) -> Interval | None:
    if "|" not in text:
        return None
    if match := _NEW.search(text):
        pairs = _PAIR.findall(match[6])
        counts = (int(match[2]), *(int(count) for count, _ in pairs))
        return Interval(
            place,
            int(match[1]),
            counts,
            (float(match[5]), *(float(slowest) for _, slowest in pairs)),
            float(match[3]),
            float(match[4]),
        )
    if match := _OLD.search(text):
        parts = _OLD_PART.findall(match[2])
        return Interval(
            place,
            int(match[1]),
            tuple(int(part[0]) for part in parts),
            tuple(float(part[3]) for part in parts),
            late=tuple(int(part[1]) for part in parts),
            p90_ms=tuple(float(part[2]) for part in parts),
        )
    return None


def _mean(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and value == value and abs(value) < 1e12 else None
