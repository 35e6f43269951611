"""Makes sentences on windows that began early: before reads had filled the pool, or before updates had moved most rows.

The gate ends a warm-up when misses no longer change (crates/bufferlab-drive/src/gate.rs). If the pool is larger than
the touched pages, that is right. But if reads fill the pool only slowly, misses may fall more slowly than the gate can
detect. For a script's updates the gate waits at most until its cap (python/bufferlab/plan/warm_up.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.results.check_parts import MeasuredRun

_STILL_FILLS = 1 / 16
"""If the misses of a window are at least this share of the pool's frames, they still change its contents (gate.rs)."""


def warnings(analysis: Analysis, points: Sequence[PointRuns] | None = None) -> list[str]:
    """Return a sentence for each reason why windows began early, with the warm-up that would be long enough; [] without
    any.

    `points` are the points to check; None for all.
    """
    points = analysis.points if points is None else points
    return [*_of_pools(analysis, points), *_of_updates(analysis, points)]


def _of_updates(analysis: Analysis, points: Sequence[PointRuns]) -> Iterator[str]:
    found: dict[str, tuple[int, int]] = {}
    for point in points:
        early = [one for run in point.ok for one in _moving(run)]
        if early:
            found[analysis.short_label(point)] = min(early)
    if found:
        where = ", ".join(f"{label} ({done:,} of {settle:,} transactions)" for label, (done, settle) in found.items())
        settle = max(settle for _, settle in found.values())
        yield (
            f"Before some windows updates had not yet moved most of the rows that they favour: {where}. Reads may "
            f"still change. Let the warm-up last longer, with a larger --warm-up-time; {settle:,} transactions move "
            "most of these rows."
        )


def settle_transactions(run: MeasuredRun) -> int:
    """Return the transactions of a warm-up after which updates have moved most rows; 0 if the gate does not wait."""
    warm_up = run.run.warm_up
    settle = warm_up.detail.get("settle_transactions") if warm_up and isinstance(warm_up.detail, dict) else None
    return settle if isinstance(settle, int) else 0


def _moving(run: MeasuredRun) -> Iterator[tuple[int, int]]:
    """Yield the transactions of the warm-up, and those after which most updated rows have moved, if the latter are
    more."""
    warm_up, settle = run.run.warm_up, settle_transactions(run)
    if warm_up and warm_up.transactions < settle:
        yield warm_up.transactions, settle


def _of_pools(analysis: Analysis, points: Sequence[PointRuns]) -> Iterator[str]:
    found: dict[str, tuple[float, int]] = {}
    for point in points:
        told = [one for run in point.ok for one in _unfilled(run)]
        if told:
            found[analysis.short_label(point)] = min(filled for filled, _ in told), max(needed for _, needed in told)
    if found:
        where = ", ".join(f"{label} ({filled:.2g} times)" for label, (filled, _) in found.items())
        needed = max(needed for _, needed in found.values())
        yield (
            f"Before some windows reads had not filled the pool once: {where}. The warm-up ended because misses no "
            "longer changed, or at its cap, and first reads of pages may still be among the window's reads. "
            f"--warm-up-min {needed} should fill each pool and turn it over; a lower --warm-up-max or --warm-up-time "
            "must then be larger, too."
        )


def _unfilled(run: MeasuredRun) -> Iterator[tuple[float, int]]:
    """Yield how often reads filled the pool before the window, and the transactions of a warm-up that would fill it
    twice.

    Yield nothing for a pool that was filled once, or whose contents the window hardly changes.
    """
    warm_up = run.run.warm_up
    if not warm_up or warm_up.gate != "flat_misses" or not isinstance(warm_up.detail, dict):
        return
    frames, misses = run.window.level("pool_frames").value, run.window.change("demand_misses").value
    done = run.values["transactions"].value
    read = warm_up.detail.get("misses")
    if not frames or not misses or not done or read is None or read >= frames or misses < _STILL_FILLS * frames:
        return
    yield read / frames, _two_digits_up(warm_up.transactions + (2 * frames - read) * done / misses)


def _two_digits_up(number: float) -> int:
    """Return a number rounded up to two digits.

    >>> _two_digits_up(98_123.0), _two_digits_up(101.0)
    (99000, 110)
    """
    step: int = 10 ** max(0, math.floor(math.log10(max(1.0, number))) - 1)
    return math.ceil(number / step) * step
