"""Adds up samples of a server's counters: their growth from sample to sample, and the events that interrupt it.

The functions are pure: samples come in, rows and totals come out. An interval in which a counter was reset is left out
for all counters, so that totals cover the same seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from bufferlab.engines.servers.look import Sample

_START_TOLERANCE_SECONDS = 2.0
"""The start of a server, computed from its uptime, may vary by this many seconds: servers report whole seconds."""


MOST_ROWS = 14_400
"""The maximum number of rows, an even number: four hours with a row per second.

Beyond it, neighbouring rows are joined in pairs.
"""
EventKind = Literal["lost", "refused", "back", "restart", "failover", "reset", "wrap", "right"]


@dataclass(frozen=True)
class SampledRow:
    """One interval between two samples."""

    t_s: float
    """The interval's end, in seconds since the observation began."""
    seconds: float
    counts: Mapping[str, float]
    levels: Mapping[str, float]
    samples: int = 1
    """The number of sample intervals in the row: more than one in a long observation."""

    PRINTED: ClassVar = ("t_s", "seconds", "counts", "levels")

    def per_s(self, name: str) -> float | None:
        """Return a count per second; None if the server does not report it."""
        return self.counts[name] / self.seconds if name in self.counts else None


def joined(first: SampledRow, second: SampledRow) -> SampledRow:
    """Return two rows as one, with the counts that both have."""
    counts = {name: count + second.counts[name] for name, count in first.counts.items() if name in second.counts}
    seconds, samples = first.seconds + second.seconds, first.samples + second.samples
    return SampledRow(second.t_s, seconds, counts, second.levels, samples)


@dataclass(frozen=True)
class ServerEvent:
    """An event of the server or of bufferlab's session during the observation."""

    t_s: float
    kind: EventKind
    what: str


def grown(before: int, after: int) -> int | None:
    """Return the growth of a counter, even if it wrapped at 32 or 64 bits; None if it was reset.

    >>> grown(10, 15), grown(2**32 - 10, 5), grown(2**64 - 1, 0), grown(1000, 5)
    (5, 15, 1, None)
    """
    if after >= before:
        return after - before
    for limit in (1 << 32, 1 << 64):
        if limit - limit // 4 <= before < limit and after < limit // 4:
            return after + limit - before
    return None


@dataclass
class LookWindow:
    """The sum of the samples so far. `derive` computes named counts from the growth of a server's counters."""

    derive: Callable[[Mapping[str, int]], Mapping[str, float]]
    begun_s: float
    rows: list[SampledRow] = field(default_factory=list)
    events: list[ServerEvent] = field(default_factory=list)
    totals: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    """The seconds of all rows."""
    seconds_of: dict[str, float] = field(default_factory=dict)
    """The seconds for which each count was reported.

    They differ, because a privilege may be revoked, and counts are read at different times.
    """
    _last: Sample | None = None
    _started_s: float = 0.0
    """The latest server start that was reported since bufferlab connected."""
    _identity: str = ""
    _is_new: bool = True
    """Whether no sample has come since the last connection was made."""

    @property
    def samples(self) -> int:
        """Return the number of sample intervals in all rows."""
        return sum(row.samples for row in self.rows)

    def say(self, t_s: float, kind: EventKind, what: str) -> None:
        """Add an event at `t_s`, on the clock of samples."""
        self.events.append(ServerEvent(t_s - self.begun_s, kind, what))

    def connected(self, t_s: float, identity: str) -> None:
        """Record that a connection was made to the server with this identity; another identity is a failover."""
        if self._identity and identity != self._identity:
            self.say(t_s, "failover", "another server answers at this address: its identity is another")
            self._last = None
        self._identity, self._is_new = identity, True

    def add(self, sample: Sample) -> SampledRow | None:
        """Add a sample; return the row of the interval that it ends.

        Return None for the first sample, after a restart or a reset of counters, and for a sample that is not later
        than the one before.
        """
        last, self._last = self._last, sample
        is_new, self._is_new = self._is_new, False
        started_s, self._started_s = self._started_s, sample.started_s
        if last is None:
            return None
        self._started_s = max(started_s, sample.started_s)
        later_s = sample.started_s - started_s
        # If a server ran for only a second or two before a restart, its start hardly moved, but its counters fell.
        began_anew = (later_s > 0 and _fell(last, sample)) or _crashed(last, sample)
        if is_new and (later_s > _START_TOLERANCE_SECONDS or began_anew):
            self.say(sample.t_s, "restart", "the server was restarted: its counters began anew")
            return None
        if (reset := self._reset(last, sample)) or sample.t_s <= last.t_s:
            if reset:
                self.say(sample.t_s, "reset", reset)
            return None
        return self._row(last, sample)

    def subtract(self, name: str, each: float) -> None:
        """Subtract `each` from a count for every sample that has it, also from its total, but not below 0."""
        had = sum(row.samples for row in self.rows if name in row.counts)
        self.totals[name] = max(0.0, self.totals[name] - each * had)
        self.rows = [
            replace(row, counts={**row.counts, name: max(0.0, row.counts[name] - each * row.samples)})
            if name in row.counts
            else row
            for row in self.rows
        ]

    def _reset(self, last: Sample, sample: Sample) -> str:
        """Return a sentence if counters were reset between two samples, else ""."""
        fell = _fell(last, sample)
        if not fell and not _is_reset(last, sample):
            return ""
        which = f" ({', '.join(sorted(fell)[:3])})" if fell else ""
        return f"counters were reset, or a database was dropped{which}; this second is left out"

    def _row(self, last: Sample, sample: Sample) -> SampledRow:
        growth = {}
        if gone := sorted(last.counters.keys() - sample.counters.keys()):
            self.say(sample.t_s, "right", f"the server no longer tells {', '.join(gone)}: was a right revoked?")
        for name in _both(last, sample):
            before, after = last.counters[name], sample.counters[name]
            growth[name] = grown(before, after) or 0
            if after < before:
                self.say(sample.t_s, "wrap", f"the counter {name} wrapped around; the sum goes on")
        counts = dict(self.derive(growth))
        for name, own in sample.own.items():
            if name in counts:
                counts[name] = max(0, counts[name] - (own - last.own.get(name, 0)))
        seconds = sample.t_s - last.t_s
        self.seconds += seconds
        for name, count in counts.items():
            self.totals[name] = self.totals.get(name, 0) + count
            own_s = sample.read_s.get(name, sample.t_s) - last.read_s.get(name, last.t_s)
            self.seconds_of[name] = self.seconds_of.get(name, 0.0) + own_s
        row = SampledRow(sample.t_s - self.begun_s, seconds, counts, sample.levels)
        if len(self.rows) >= MOST_ROWS:
            # Neighbouring rows have the same number of samples, except the last ones.
            self.rows = [joined(a, b) for a, b in zip(self.rows[::2], self.rows[1::2], strict=True)]
        self.rows.append(row)
        return row


def _is_reset(last: Sample, sample: Sample) -> bool:
    """Return whether the server reports that its counters were reset between two samples."""
    return sample.reset_s is not None and sample.reset_s != last.reset_s


def _crashed(last: Sample, sample: Sample) -> bool:
    """Return whether the server lost its statistics: gets fell, and it reports no reset.

    PostgreSQL from 15 on loses them if a session crashes, but its start does not change (pgstat.c,
    pgstat_reset_after_failure).
    """
    return "page_gets" in _fell(last, sample) and not _is_reset(last, sample)


def _fell(last: Sample, sample: Sample) -> list[str]:
    return [name for name in _both(last, sample) if grown(last.counters[name], sample.counters[name]) is None]


def _both(last: Sample, sample: Sample) -> list[str]:
    return [name for name in sample.counters if name in last.counters]
