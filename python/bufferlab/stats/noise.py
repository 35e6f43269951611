"""Estimates a host's noise from an A/A sweep (whose two arms have equal settings), and the smallest detectable change.

There are two kinds of noise. Within a block both arms do the same transactions, so only the host causes differences;
paired comparisons have only this kind. Across blocks the transactions differ too; comparisons of sweeps with different
seeds have noise from both sources. Each kind is given as a relative standard deviation with a chi-square interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bufferlab.stats.estimate import quantile_of_t
from bufferlab.stats.fit import Cell, fit
from bufferlab.stats.rounding import sample_variance

#: A scatter clearly exceeds a floor if it is more than this many times as large, with a p-value below CLEARLY_P.
CLEARLY_TIMES = 1.5
CLEARLY_P = 0.01


@dataclass(frozen=True)
class Scatter:
    """A relative standard deviation with its interval. It is zero if all runs of a block gave the same number."""

    value: float
    ci_low: float | None
    ci_high: float | None
    df: float
    n: int
    """The number of runs from which the scatter was computed."""


@dataclass(frozen=True)
class Noise:
    """The noise of one metric within and across blocks; each is None if there are too few runs."""

    within: Scatter | None
    across: Scatter | None


def noise(cells: Sequence[Cell], level: float = 0.95) -> Noise:
    """Return both kinds of noise in (arm, block, value) rows of one setting.

    Raise ValueError without a row, or for a value that is not finite.
    """
    fitted = fit(cells, comparisons=())
    relative = 1.0 if fitted.scale == "log" else abs(sum(value for _, _, value in cells) / len(cells))
    if not relative:
        return Noise(None, None)
    within = scatter(fitted.variance_error**0.5 / relative, fitted.df_error, len(cells), level)
    of_arm: dict[object, list[float]] = {}
    for arm, _, value in cells:
        of_arm.setdefault(arm, []).append(float(np.log(value)) if fitted.scale == "log" else value)
    variances = [sample_variance(values) for values in of_arm.values() if len(values) > 1]
    if not variances:
        return Noise(within, None)
    # In a block both arms run the same transactions. So the degrees of freedom are those of one arm.
    df = min(len(values) for values in of_arm.values() if len(values) > 1) - 1
    return Noise(within, scatter(float(np.mean(variances)) ** 0.5 / relative, df, len(cells), level))


def scatter(value: float, df: float, n: int, level: float = 0.95) -> Scatter | None:
    """Return a standard deviation of n runs with its chi-square interval; None with less than one degree of freedom."""
    if df < 1:
        return None
    if value == 0:
        return Scatter(0.0, None, None, df, n)
    tail = (1 - level) / 2
    low, high = (value * (df / _chi_square(probability, df)) ** 0.5 for probability in (1 - tail, tail))
    return Scatter(value, low, high, df, n)


def detectable(deviation: float, repetitions: int, *, paired: bool, level: float = 0.95, power: float = 0.8) -> float:
    """Return the smallest ratio (above one) between two settings that a share `power` of comparisons resolves.

    `deviation` is the relative standard deviation of one run, `repetitions` the number of runs of each setting.
    """
    df = repetitions - 1 if paired else 2 * (repetitions - 1)
    error = deviation * (2 / repetitions) ** 0.5
    return float(np.exp((quantile_of_t(1 - (1 - level) / 2, df) + quantile_of_t(power, df)) * error))


def clearly_more(one: Scatter, floor: Scatter) -> bool:
    """Return whether a scatter exceeds CLEARLY_TIMES the floor by more than chance (Fisher's F)."""
    from scipy.special import fdtrc

    if floor.value == 0 or one.value <= CLEARLY_TIMES * floor.value:
        return False
    return float(fdtrc(one.df, floor.df, (one.value / floor.value) ** 2)) < CLEARLY_P


def _chi_square(probability: float, df: float) -> float:
    """Return the value below which a chi-square with `df` degrees of freedom stays with this probability."""
    from scipy.special import chdtri

    return float(chdtri(df, 1 - probability))
