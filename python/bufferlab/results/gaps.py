"""Finds the gaps of a window: stretches in which the worker, the server or the host did not go on as usual.

Two signs, and the larger one counts. Samples: two neighbours further apart than 1.5 sampling intervals are a gap, and
what exceeds the interval is its length. The worker's pulse: its lateness between two samples is a gap of that length.
Samples show a server that does not answer; the pulse shows stops of the worker or the host that lie between two
samples. Pure: times in, seconds out. A stretch that is long enough fails its run: see `standstill`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Two samples further apart than this many sampling intervals are a gap.
GAP_INTERVALS = 1.5
#: Gaps up to the larger of these many seconds and this share of the window leave its times unchanged.
LIMIT_SECONDS = 2.0
LIMIT_SHARE = 0.05


@dataclass(frozen=True)
class Gaps:
    """The gaps of one window, in seconds beyond the sampling interval."""

    longest_s: float = 0.0
    sum_s: float = 0.0

    def exceed(self, window_s: float) -> bool:
        """Return whether the gaps are so long that times of a window of this length are not to be believed."""
        return max(self.longest_s, self.sum_s) > max(LIMIT_SECONDS, LIMIT_SHARE * window_s)


def usual_interval(times_s: Sequence[float]) -> float | None:
    """Return the median distance of samples at these times, in order, without edges; None where they are too few."""
    from statistics import median  # Late: declarations need none of it.

    return median(b - a for a, b in pairwise(times_s)) if len(times_s) > 2 else None


def gaps_of(
    times_s: Sequence[float], interval_s: float | None, late_us: Sequence[tuple[float, float]] = ()
) -> Gaps | None:
    """Return the gaps of a window, its edges included; None if neither sign is known.

    `times_s` are its samples' times, and `late_us` the cumulative lateness of the pulse at (time in s, microseconds),
    both in order.
    """
    signs = []
    if interval_s is not None:
        signs.append([b - a - interval_s for a, b in pairwise(times_s) if b - a > GAP_INTERVALS * interval_s])
    if len(late_us) > 1:
        signs.append([(b - a) / 1e6 for (_, a), (_, b) in pairwise(late_us)])
    if not signs:
        return None
    return Gaps(max(max(sign, default=0.0) for sign in signs), max(sum(sign, 0.0) for sign in signs))
