"""Decides how many blocks a sweep needs, in two stages like Stein's (Annals of Mathematical Statistics 16, 1945).

Two blocks show how far runs scatter. If they resolve each step, or show that it is too small to matter, the sweep
stops. Otherwise the number of blocks that should be enough is computed from the intervals of the two blocks. After
these blocks the sweep is judged a second and last time. Both judgements (looks) together hold at the sweep's level
(`Fit.looks`). docs/statistics.md has the simulations.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.verdict import direction_of

if TYPE_CHECKING:
    from bufferlab.stats.fit import Fit

Step = tuple[Hashable, Hashable]
LOOKS = 2
"""The number of times that a sweep is judged: after its first FIRST_LOOK_BLOCKS blocks, and at its end."""
FIRST_LOOK_BLOCKS = 2
"""The number of blocks before the first look. One block would show no scatter."""


@dataclass(frozen=True)
class Aim:
    """The aim that a sweep should reach before it stops."""

    smallest_effect: float
    """The smallest change that matters, relative to the mean.

    On the linear scale it is relative to the largest mean of all points.
    """
    precision: float | None = None
    """The largest half width of each mean's interval, relative to the mean; None if means need not be precise."""


def is_enough(fit: Fit, steps: Sequence[Step], aim: Aim) -> bool:
    """Return whether each step is resolved or shown to be too small to matter, and each mean is precise enough."""
    return all(is_shown(fit, step, aim) for step in steps) and all(is_precise(fit, point, aim) for point in fit.points)


def blocks_needed(fit: Fit, steps: Sequence[Step], aim: Aim, at_most: int) -> int:
    """Return the number of blocks with which a sweep should reach the aim, from its fit after the first look.

    The number includes the blocks of the first look. It is `at_most` if no smaller number is enough, or if none can be
    computed.
    """
    needed = [_needed_for_step(fit, step, aim, at_most) for step in steps]
    needed += [_needed_for_mean(fit, point, aim, at_most) for point in fit.points]
    return max(needed, default=at_most)


def is_shown(fit: Fit, step: Step, aim: Aim) -> bool:
    """Return whether a step is resolved, or its interval contains only changes too small to matter."""
    found = fit.step(*step)
    if direction_of(found, fit.contrast) in ("falls", "rises", "identical"):
        return True
    if found.ci_low is None or found.ci_high is None:
        return False
    _, low, high = _on_fitted_scale(fit, found)
    return max(-low, high) < _too_small(fit, aim)


def is_precise(fit: Fit, point: Hashable, aim: Aim) -> bool:
    """Return whether the interval of a point's mean is as narrow as requested; True if no precision was requested.

    Two runs that happen to agree have a narrow interval. It counts only if its width comes from a scatter that was
    known before the sweep.
    """
    mean = fit.mean(point)
    if aim.precision is None or mean.value == 0:
        return True
    if mean.df is not None and mean.df < FIRST_LOOK_BLOCKS:
        return False
    return mean.ci_low is not None and mean.ci_high is not None and _relative_half(mean) <= aim.precision


def _needed_for_step(fit: Fit, step: Step, aim: Aim, at_most: int) -> int:
    if is_shown(fit, step, aim):
        return FIRST_LOOK_BLOCKS
    found = fit.step(*step)
    if found.ci_low is None or found.ci_high is None:
        return at_most
    centre, low, high = _on_fitted_scale(fit, found)
    size, small = abs(centre), _too_small(fit, aim)
    # The half width at which the interval either excludes zero, or contains only changes too small to matter.
    wanted = max(size, small - size)
    return _blocks_for((high - low) / 2, wanted, found.df, fit.comparison_level, at_most)


def _needed_for_mean(fit: Fit, point: Hashable, aim: Aim, at_most: int) -> int:
    if is_precise(fit, point, aim):
        return FIRST_LOOK_BLOCKS
    mean = fit.mean(point)
    if mean.ci_low is None or mean.ci_high is None or aim.precision is None:
        return at_most
    # With more than two runs, a mean's interval is Student's from these runs alone. A known scatter is used only for
    # two runs.
    return _blocks_for(_relative_half(mean), aim.precision, mean.df, fit.level, at_most, df_a_block=1.0)


def _blocks_for(
    half: float, wanted: float, df: float | None, level: float, at_most: int, *, df_a_block: float | None = None
) -> int:
    """Return the number of blocks with which an interval's half width should shrink from `half` to `wanted`.

    `half` and the degrees of freedom `df` (None if unknown) are those after the first look. Each block after the first
    adds `df_a_block` degrees of freedom, or `df` if that is not given.
    """
    for blocks in range(FIRST_LOOK_BLOCKS + 1, at_most):
        narrower = (FIRST_LOOK_BLOCKS / blocks) ** 0.5
        if df is not None:
            grown = (df_a_block or df) * (blocks - 1)
            narrower *= quantile_of_t((1 + level) / 2, grown) / quantile_of_t((1 + level) / 2, df)
        if half * narrower <= wanted:
            return blocks
    return at_most


def _on_fitted_scale(fit: Fit, step: Estimate) -> tuple[float, float, float]:
    """Return centre, lower and upper end of a step as differences on the fitted scale."""
    assert step.ci_low is not None
    assert step.ci_high is not None
    told = (step.value, step.ci_low, step.ci_high)
    if fit.scale == "linear":
        return told
    centre, low, high = (math.log(max(value, 1e-300)) for value in told)
    return centre, low, high


def _too_small(fit: Fit, aim: Aim) -> float:
    """Return the smallest change that matters, as a difference on the fitted scale."""
    if fit.scale == "log":
        return math.log1p(aim.smallest_effect)
    return aim.smallest_effect * max(abs(fit.mean(point).value) for point in fit.points)


def _relative_half(mean: Estimate) -> float:
    assert mean.ci_low is not None
    assert mean.ci_high is not None
    return (mean.ci_high - mean.ci_low) / 2 / abs(mean.value)
