"""Bounds of 95 % by resampling slices of time (block bootstrap), with what the method itself may be off.

Künsch: "The jackknife and the bootstrap for general stationary observations", Annals of Statistics 17(3), 1989: blocks
keep what depends on each other within them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from math import hypot, sqrt

import numpy as np
from numpy.typing import NDArray

from bufferlab.advise import rules
from bufferlab.stats.estimate import quantile_of_t

Floats = NDArray[np.float64]


def weights(slices: int) -> Floats:
    """Return how often each resample has each slice: a row a resample."""
    drawn = np.random.default_rng(rules.SEED).multinomial(slices, np.full(slices, 1 / slices), rules.RESAMPLES)
    return drawn.astype(np.float64)


def scatter(slices: int, of: Callable[[Floats], Floats]) -> float:
    """Return half the width of the 95 % bounds of a statistic; `of` returns it for each row of weights."""
    if slices < 2:
        return float("inf")
    found = of(weights(slices))
    found = found[np.isfinite(found)]
    if len(found) < rules.RESAMPLES // 2:
        return float("inf")
    # The resamples of n slices scatter as if there were n - 1 of n of the scatter (Efron and Tibshirani, section 5.3).
    return quantile_of_t(0.975, slices - 1) * float(np.std(found)) * sqrt(slices / (slices - 1))


def around(value: float, scattered: float, method: float) -> tuple[float, float]:
    """Return the bounds of a value from its scatter and from what the method may be off."""
    half = hypot(scattered, method)
    return max(0.0, value - half), value + half


def halves_differ(first: Floats, second: Floats, least: float) -> bool:
    """Return whether two halves of slices differ by more than `least` and than their scatter lets expect."""
    if min(len(first), len(second)) < 2:
        return False
    error = sqrt(float(np.var(first, ddof=1)) / len(first) + float(np.var(second, ddof=1)) / len(second))
    return abs(float(first.mean() - second.mean())) > max(least, rules.MIX_SIGMA * error)
