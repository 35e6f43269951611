"""Separates scatter from rounding: equal numbers that differ only by rounding errors have no noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ROUNDING = 1e-12


def is_rounding(deviation: float, numbers: Sequence[float] | NDArray[np.float64]) -> bool:
    """Return whether a deviation is within the rounding error of these numbers.

    That error is relative to the largest number, or to one if all numbers are smaller, as logarithms may be.
    """
    return bool(deviation <= _ROUNDING * max(1.0, float(np.max(np.abs(numbers)))))


def sample_deviation(numbers: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the standard deviation of two or more numbers; 0 if it is only rounding error."""
    deviation = float(np.std(numbers, ddof=1))
    return 0.0 if is_rounding(deviation, numbers) else deviation


def sample_variance(numbers: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the variance of two or more numbers; 0 if it is only rounding error."""
    return sample_deviation(numbers) ** 2
