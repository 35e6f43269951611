"""Finds the part of a window in which the database did not run: a stopped process, a frozen container, a paused host.

Pure: rows of samples in, a stretch of time out. Two signs must agree. The samples stop, or a server answers none of
them, although the sampler asks in a fixed interval. And the processes use less than half of the processor time that
they use in the rest of the window: a statement that keeps the sampler waiting works on, a stopped process does not.
A long statement is not a standstill: SQLite's sampler continues meanwhile, and a server answers on another connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

#: A stretch shorter than both is not a standstill.
MIN_SECONDS = 5.0
MIN_INTERVALS = 10
_CPU = frozenset({"process_user_us", "process_system_us", "server_user_us", "server_system_us"})
_USUAL_SHARE = 0.5


@dataclass(frozen=True)
class Stretch:
    """A part of a window without a sign of life, in seconds of the run's clock."""

    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """Return the length of the stretch in seconds."""
        return self.end_s - self.start_s


def limit_seconds(interval_s: float) -> float:
    """Return the longest time that may lie between two signs of life at this sampling interval."""
    return max(MIN_SECONDS, MIN_INTERVALS * interval_s)


def standstill(rows: Iterable[Mapping[str, Any]], phase: str, interval_s: float, *, is_server: bool) -> Stretch | None:
    """Return the longest standstill of the phase's window; None when it ran through, or has no samples."""
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
    silent = [Stretch(a, b) for a, b in pairwise(sorted(alive)) if b - a > limit_seconds(interval_s)]
    still = [stretch for stretch in silent if not _worked(stretch, cpu_us)]
    return max(still, key=lambda stretch: stretch.seconds, default=None)


def _worked(stretch: Stretch, cpu_us: Mapping[float, int]) -> bool:
    """Return whether the processes used processor time in the stretch as they did in the rest of the window."""
    whole = Stretch(min(cpu_us), max(cpu_us))
    inside = cpu_us[stretch.end_s] - cpu_us[stretch.start_s]
    outside = cpu_us[whole.end_s] - cpu_us[whole.start_s] - inside
    rest_s = whole.seconds - stretch.seconds
    return rest_s > 0 < outside and inside / stretch.seconds >= _USUAL_SHARE * outside / rest_s
