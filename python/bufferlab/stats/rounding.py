"""Separates scatter from rounding: differences of rounding between equal numbers are not noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ROUNDING = 1e-12


def is_rounding(deviation: float, numbers: Sequence[float] | NDArray[np.float64]) -> bool:
    """Return whether a deviation is within the rounding error of these numbers.

    That error is taken as a share of the largest number, or of one if all are smaller, as logarithms may be.
    """
    return bool(deviation <= _ROUNDING * max(1.0, float(np.max(np.abs(numbers)))))


def sample_deviation(numbers: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the standard deviation of two numbers or more; 0 if it is only rounding."""
    deviation = float(np.std(numbers, ddof=1))
    return 0.0 if is_rounding(deviation, numbers) else deviation


def sample_variance(numbers: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the variance of two numbers or more; 0 if it is only rounding."""
    return sample_deviation(numbers) ** 2
