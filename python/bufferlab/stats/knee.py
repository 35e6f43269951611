"""Finds where a curve bends, and the benefit of each further MiB, with intervals from the blocks' differences.

`hinge_zero` finds where a line that starts at zero begins to rise. `marginal` and `knee_of_curve` take a curve whose
steps `fit` has compared. They claim a benefit only for a step whose whole interval shows a falling value.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.fit import Fit
from bufferlab.stats.rounding import sample_deviation
from bufferlab.units import MIB

Array = npt.NDArray[np.float64]

_FLAT = "no value rises above zero: no hinge to find"
_ONE_BLOCK = "one repetition: nothing says how much another would differ"
_NO_NOISE = "every block gave the same hinge: no noise to compute an interval from"


@dataclass(frozen=True)
class Marginal:
    """The benefit of one step of a curve: by how much the value falls per MiB of memory; negative if it rises."""

    a: Hashable
    b: Hashable
    from_bytes: int
    to_bytes: int
    benefit: Estimate
    """The fall of the value per MiB. The intervals of all steps hold together, as the fit's comparisons do."""

    @property
    def resolved(self) -> bool:
        """Whether the benefit's whole interval is above zero."""
        return self.benefit.ci_low is not None and self.benefit.ci_low > 0


@dataclass(frozen=True)
class Knee:
    """The knee of a curve: the size up to which more memory still brings a benefit that the sweep resolves."""

    size_bytes: int | None
    """The size at the end of the last step with a resolved benefit; None if no step has one."""
    beyond: Marginal | None
    """The step after that size.

    Its upper bound is the largest possible benefit of a further MiB. None at the curve's end.
    """
    steps: tuple[Marginal, ...]


def hinge_zero(rows: Sequence[tuple[Hashable, float, float]], level: float = 0.95) -> Estimate:
    """Return x0 of y = max(0, a (x - x0)), a > 0, for (block, x, y) rows: the mean of one fit per block.

    The interval is Student's over the blocks. If there is none, `note` says why. Raise ValueError for an x or y that is
    not finite.
    """
    blocks = tuple(dict.fromkeys(block for block, _, _ in rows))
    found = []
    for block in blocks:
        pairs = np.array(sorted((x, y) for at, x, y in rows if at == block), dtype=np.float64)
        if not np.isfinite(pairs).all():
            raise ValueError("a value is not a finite number: leave that run out instead")
        hinge = _hinge(pairs[:, 0], pairs[:, 1])
        if hinge is not None:
            found.append(hinge)
    if len(found) < len(blocks) or not found:
        return Estimate(math.nan, None, None, len(found), note=_FLAT)
    zeros = np.array(found)
    centre, n = float(zeros.mean()), len(zeros)
    if n < 2:
        return Estimate(centre, None, None, n, note=_ONE_BLOCK)
    deviation = sample_deviation(zeros)
    if not deviation:
        return Estimate(centre, None, None, n, note=_NO_NOISE)
    half = quantile_of_t(1 - (1 - level) / 2, n - 1) * deviation / n**0.5
    return Estimate(centre, centre - half, centre + half, n, n - 1)


def marginal(fit: Fit, sizes_bytes: Mapping[Hashable, int]) -> list[Marginal]:
    """Return the benefit per MiB of each step, from the smallest size up.

    Raise ValueError for a step between sizes next to each other that is not a declared comparison of the fit.
    """
    order = sorted((point for point in fit.points if point in sizes_bytes), key=lambda point: sizes_bytes[point])
    steps = [(a, b) for a, b in pairwise(order) if sizes_bytes[a] < sizes_bytes[b]]
    return [
        Marginal(a, b, sizes_bytes[a], sizes_bytes[b], _per_mib(fit, a, b, (sizes_bytes[b] - sizes_bytes[a]) / MIB))
        for a, b in steps
    ]


def knee_of_curve(fit: Fit, sizes_bytes: Mapping[Hashable, int]) -> Knee:
    """Return the knee of a fitted curve, and how much the curve falls per MiB from each size to the next.

    `sizes_bytes` has the pool's size at each point.
    """
    steps = tuple(marginal(fit, sizes_bytes))
    last = max((place for place, step in enumerate(steps) if step.resolved), default=None)
    if last is None:
        return Knee(None, steps[0] if steps else None, steps)
    return Knee(steps[last].to_bytes, steps[last + 1] if last + 1 < len(steps) else None, steps)


def _per_mib(fit: Fit, a: Hashable, b: Hashable, mib: float) -> Estimate:
    step = fit.step(a, b)
    if fit.contrast == "difference":
        low, high = (None, None) if step.ci_low is None or step.ci_high is None else (-step.ci_high, -step.ci_low)
        scaled = [None if bound is None else bound / mib for bound in (low, high)]
        return Estimate(-step.value / mib, scaled[0], scaled[1], step.n, step.df, step.note, step.identical)
    start = fit.mean(a, fit.comparison_level)
    value = start.value * (1 - step.value) / mib
    if step.ci_low is None or step.ci_high is None or start.ci_low is None or start.ci_high is None:
        return Estimate(value, None, None, step.n, note=step.note or start.note, identical=step.identical)
    # The benefit is the value at the step's start times the share by which it falls. Its interval covers all four
    # products of the two intervals' ends, so it is wider than necessary.
    corners = [
        level * (1 - ratio) / mib for level in (start.ci_low, start.ci_high) for ratio in (step.ci_low, step.ci_high)
    ]
    return Estimate(value, min(corners), max(corners), step.n, step.df)


def _hinge(x: Array, y: Array) -> float | None:
    """Return the exact least-squares x0: for each number of points on the rising side, compute the best x0, and take
    the best of all.

    If only the last point is above zero, any slope fits, and x0 is the x of the point before it. None if no value is
    above zero, or if fewer than two points are given.
    """
    if len(x) < 2 or not (y > 0).any():
        return None
    candidates = []
    for first in range(len(x)):
        below = x[first - 1] if first else -math.inf
        on_x, on_y = x[first:], y[first:]
        if np.ptp(on_x) > 0:
            slope, cut = np.polyfit(on_x, on_y, 1)
            candidates += [float(np.clip(-cut / slope, below, x[first]))] if slope > 0 else []
        if first:
            candidates.append(float(below))
    return min(candidates, key=lambda zero: _loss(x, y, zero)) if candidates else None


def _loss(x: Array, y: Array, zero: float) -> float:
    arm = np.maximum(0.0, x - zero)
    slope = max(0.0, float(arm @ y) / float(arm @ arm)) if arm.any() else 0.0
    return float(np.sum((y - slope * arm) ** 2))
