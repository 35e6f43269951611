"""Finds the part of a window in which the database did not run: a stopped process, a frozen container, a paused host.

Two signs must agree. First, samples or the server's answers to them are missing, although the sampler asks at a fixed
interval. Second, the processes use less than half as much processor time per second as in the rest of the window: a
stopped process uses none, while a statement that keeps the sampler waiting uses some. A long statement is not a
standstill: SQLite's sampler continues meanwhile, and a server answers on another connection. All functions are pure:
they take rows of samples and return a stretch of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

#: A standstill lasts longer than 5 seconds and longer than 10 sampling intervals.
MIN_SECONDS = 5.0
MIN_INTERVALS = 10
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


def limit_seconds(interval_s: float) -> float:
    """Return how many seconds may pass between two signs of life, at this sampling interval, without a standstill."""
    return max(MIN_SECONDS, MIN_INTERVALS * interval_s)


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
    silent = [Stretch(a, b) for a, b in pairwise(sorted(alive)) if b - a > limit_seconds(interval_s)]
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
