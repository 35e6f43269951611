"""Finds the gaps of a window, when worker, server or host was stopped or late, and long standstills of the database.

There are two signs of gaps, and the larger gap counts. First, two neighbouring samples further apart than 1.5 sampling
intervals: the gap is their distance minus the interval. Second, the worker's pulse, a thread that wakes every 100 ms:
the gap is its lateness between two samples. Samples show a server that does not answer. The pulse shows stops of the
worker or the host between two samples.

A standstill makes a run fail: a stopped process, a frozen container, a paused host. Two signs of it must agree. First,
samples or the server's answers to them are missing, although the sampler asks at a fixed interval. Second, the
processes use less than half as much processor time per second as in the rest of the window: a stopped process uses
none, while a statement that keeps the sampler waiting uses some. A long statement is not a standstill: SQLite's sampler
continues meanwhile, and a server answers on another connection. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

#: Two neighbouring samples further apart than this many sampling intervals are a gap.
GAP_INTERVALS = 1.5
#: The window's times stay credible if its gaps are at most 2 seconds or 5 % of the window, whichever is larger.
LIMIT_SECONDS = 2.0
LIMIT_SHARE = 0.05


@dataclass(frozen=True)
class Gaps:
    """The gaps of one window, in seconds beyond the sampling interval."""

    longest_s: float = 0.0
    sum_s: float = 0.0

    def exceed(self, window_s: float) -> bool:
        """Return whether the gaps are so long that times measured in a window of `window_s` are not credible."""
        return max(self.longest_s, self.sum_s) > max(LIMIT_SECONDS, LIMIT_SHARE * window_s)


def usual_interval(times_s: Sequence[float]) -> float | None:
    """Return the median time between neighbouring samples, edge samples left out; None for fewer than three samples.

    `times_s` must be in order.
    """
    from statistics import median  # Imported late because it is slow, and declarations need no median.

    return median(b - a for a, b in pairwise(times_s)) if len(times_s) > 2 else None


def gaps_of(
    times_s: Sequence[float], interval_s: float | None, late_us: Sequence[tuple[float, float]] = ()
) -> Gaps | None:
    """Return the gaps of a window; None if it has neither a sampling interval nor a pulse.

    `times_s` are the times of all its samples, edges included. `late_us` are pairs of (time in s, cumulative lateness
    of the pulse in us). Both must be in order of time.
    """
    signs = []
    if interval_s is not None:
        signs.append([b - a - interval_s for a, b in pairwise(times_s) if b - a > GAP_INTERVALS * interval_s])
    if len(late_us) > 1:
        signs.append([(b - a) / 1e6 for (_, a), (_, b) in pairwise(late_us)])
    if not signs:
        return None
    return Gaps(max(max(sign, default=0.0) for sign in signs), max(sum(sign, 0.0) for sign in signs))


#: A standstill lasts longer than 5 seconds and longer than 10 sampling intervals.
STANDSTILL_SECONDS = 5.0
STANDSTILL_INTERVALS = 10
_CPU = frozenset({"process_user_us", "process_system_us", "server_user_us", "server_system_us"})
_USUAL_SHARE = 0.5


@dataclass(frozen=True)
class Stretch:
    """A part of a window in which the database showed no sign of life, in seconds of the run's clock."""

    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """Return the length of the stretch in seconds."""
        return self.end_s - self.start_s


def standstill_seconds(interval_s: float) -> float:
    """Return how many seconds may pass between two signs of life, at this sampling interval, without a standstill."""
    return max(STANDSTILL_SECONDS, STANDSTILL_INTERVALS * interval_s)


def standstill(rows: Iterable[Mapping[str, Any]], phase: str, interval_s: float, *, is_server: bool) -> Stretch | None:
    """Return the longest standstill in the samples of a phase; None if none was found, or samples are missing."""
    cpu_us: dict[float, int] = {}
    alive: set[float] = set()
    for row in rows:
        if row["phase"] != phase:
            continue
        t_s = row["t_s"]
        cpu_us.setdefault(t_s, 0)
        if row["metric"] in _CPU:
            cpu_us[t_s] += row["count"] or 0
        if not is_server or (row["probe"] == "engine" and row["reason"] is None):
            alive.add(t_s)
    silent = [Stretch(a, b) for a, b in pairwise(sorted(alive)) if b - a > standstill_seconds(interval_s)]
    still = [stretch for stretch in silent if not _worked(stretch, cpu_us)]
    return max(still, key=lambda stretch: stretch.seconds, default=None)


def _worked(stretch: Stretch, cpu_us: Mapping[float, int]) -> bool:
    """Return whether the processes used at least half as much processor time per second as in the rest of the window.

    The result is False if the rest has no length or no processor time.
    """
    whole = Stretch(min(cpu_us), max(cpu_us))
    inside = cpu_us[stretch.end_s] - cpu_us[stretch.start_s]
    outside = cpu_us[whole.end_s] - cpu_us[whole.start_s] - inside
    rest_s = whole.seconds - stretch.seconds
    return rest_s > 0 < outside and inside / stretch.seconds >= _USUAL_SHARE * outside / rest_s
