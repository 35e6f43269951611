"""Measures what recording costs: processor time of the server's threads a page get, attached and not, and ours.

The kernel counts a thread's time in nanoseconds (/proc/PID/task/TID/schedstat). A stop at a site runs in the thread
that hits it, so the added work is in the server's own time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines.live_trace import Tier, stop_us
from bufferlab.engines.servers.builds import Flavour
from bufferlab.observe.host_side import children
from bufferlab.stats.estimate import quantile_of_t

_FEWEST_SECONDS = 3
_LEVEL = 0.975
TOLD_WITHIN = 1 / 3
"""What was measured is told as a value where half of its interval is at most this share of what the stops take."""


@dataclass(frozen=True)
class Second:
    """One interval between two samples of the counters."""

    tier: Tier | None
    """The tier that was attached all the time; None where nothing was."""
    seconds: float
    gets: float
    processor_s: float
    """Of all threads of the server."""
    ours_s: float
    """Of our own process, the reader of the events included."""


@dataclass(frozen=True)
class Cost:
    """What one tier cost while it was attached, in processors: 0.01 is a hundredth of one."""

    tier: Tier
    seconds: float
    events: int
    foretold_cores: float
    """By the rates that were seen before anything was attached."""
    by_events_cores: float
    """The stops that came, each at the time that is told for one."""
    server_cores: float | None
    """What the server's threads used more a get than in the seconds without; None with too few seconds of either."""
    low: float | None
    high: float | None
    """The interval of 95 % of `server_cores`, by the scatter of the seconds."""
    ours_cores: float

    @property
    def is_told(self) -> bool:
        """Whether the interval is narrow enough to set the measured cost beside the foretold one.

        A tier may take a thousandth of a processor, and the seconds of a busy server differ by hundredths.
        """
        if self.low is None or self.high is None:
            return False
        return (self.high - self.low) / 2 <= TOLD_WITHIN * self.by_events_cores


def foretold_cores(events_per_s: float, flavour: Flavour, tier: Tier) -> float:
    """Return the processors that recording so many events a second takes.

    >>> foretold_cores(100_000, "postgres", "full")
    0.3
    """
    return round(events_per_s * stop_us(flavour, tier) / 1e6, 12)


class Processors:
    """Reads how much processor time a server's threads and our process have used since the last reading."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid, self._proc = pid, proc
        self._last, self._ours_s = self._read(), time.process_time()

    def grown(self) -> tuple[float, float]:
        """Return the seconds of the server and ours. A thread that ended in between is not seen."""
        last, ours_s = self._last, self._ours_s
        self._last, self._ours_s = self._read(), time.process_time()
        server_s = sum(max(0, now - last.get(thread, 0)) for thread, now in self._last.items()) / 1e9
        return server_s, self._ours_s - ours_s

    def _read(self) -> dict[str, int]:
        found = {}
        for pid in (self._pid, *children(self._proc, self._pid)):
            with suppress(OSError):
                for task in (self._proc / f"{pid}/task").iterdir():
                    with suppress(OSError, ValueError, IndexError):
                        found[task.name] = int((task / "schedstat").read_text().split()[0])
        return found


def costs(
    seconds: Sequence[Second], events: Iterable[tuple[Tier, float, int, float]], flavour: Flavour
) -> tuple[Cost, ...]:
    """Return what each tier cost. `events` has tier, attached seconds, events and foretold processors of each."""
    return tuple(_cost(seconds, flavour, *one) for one in events)


def _cost(
    seconds: Sequence[Second], flavour: Flavour, tier: Tier, attached_s: float, events: int, foretold: float
) -> Cost:
    during = [one for one in seconds if one.tier == tier and one.gets]
    beside = [one for one in seconds if one.tier is None and one.gets]
    whole_s = sum(one.seconds for one in during)
    ours = sum(one.ours_s for one in during) / whole_s if whole_s else 0.0
    by_events = foretold_cores(events / attached_s, flavour, tier) if attached_s else 0.0
    if min(len(during), len(beside)) < _FEWEST_SECONDS:
        return Cost(tier, attached_s, events, foretold, by_events, None, None, None, ours)
    gets_per_s = sum(one.gets for one in during) / whole_s
    (with_it, with_error, with_freedom), (without, error, freedom) = map(_per_get, (during, beside))
    spread = with_error**4 / with_freedom + error**4 / freedom
    both = math.hypot(with_error, error)
    half = quantile_of_t(_LEVEL, both**4 / spread) * both if spread else 0.0
    found = with_it - without
    added, low, high = (gets_per_s * value for value in (found, found - half, found + half))
    return Cost(tier, attached_s, events, foretold, by_events, added, low, high, ours)


def _per_get(seconds: Sequence[Second]) -> tuple[float, float, int]:
    """Return the processor time of a get, its standard error, and the degrees of freedom of that error (Welch's).

    A ratio of sums: PostgreSQL's sessions tell their gets about once a second, so that a second with few gets has the
    time of others. The error is Cochran's ("Sampling Techniques", 1977, 6.4).
    """
    gets, count = sum(one.gets for one in seconds), len(seconds)
    found = sum(one.processor_s for one in seconds) / gets
    left = sum((one.processor_s - found * one.gets) ** 2 for one in seconds)
    return found, math.sqrt(left * count / (count - 1)) / gets, count - 1
