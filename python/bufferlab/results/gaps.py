"""Finds the gaps of a window: stretches in which the worker, the server or the host was stopped or late.

There are two signs of gaps, and the larger gap counts. First, two neighbouring samples further apart than 1.5 sampling
intervals: the gap is their distance minus the interval. Second, the worker's pulse, a thread that wakes every 100 ms:
the gap is its lateness between two samples. Samples show a server that does not answer. The pulse shows stops of the
worker or the host between two samples. All functions are pure: they take times and return seconds. The module
`standstill` finds the long stretches that make a run fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
