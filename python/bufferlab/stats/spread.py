"""Tests whether all points scatter alike, as a pooled variance assumes.

The statistic is Cochran's (Annals of Eugenics 11, 1941): the largest share that any point has of the residual sum of
squares. The residuals of a fit are correlated, so the statistic's distribution is simulated for the fit's design, from
a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_DRAWS = 4000
_SEED = 20260101


@dataclass(frozen=True)
class Spread:
    """The point that scatters most, and its share of the residual sum of squares.

    `p_value` is the probability of a share at least this large if all points scatter alike.
    """

    place: int
    share: float
    p_value: float


def spread(design: Array, at_point: Array, residuals: Array) -> Spread:
    """Return the point of a fit that scatters most. `at_point` has a row for each value, a column for each point."""
    shares = (residuals**2 @ at_point) / (residuals @ residuals)
    worst = int(np.argmax(shares))
    by_chance = _by_chance(design.tobytes(), at_point.tobytes(), *design.shape, at_point.shape[1])
    p_value = (1 + int(np.sum(by_chance >= shares[worst]))) / (1 + _DRAWS)
    return Spread(worst, float(shares[worst]), p_value)


@lru_cache(maxsize=64)
def _by_chance(design_bytes: bytes, at_point_bytes: bytes, rows: int, columns: int, points: int) -> Array:
    """Return random draws of the largest share of any point if all points scatter alike, made once for each design."""
    design = np.frombuffer(design_bytes).reshape(rows, columns)
    at_point = np.frombuffer(at_point_bytes).reshape(rows, points)
    noise = np.random.default_rng(_SEED).normal(size=(_DRAWS, rows))
    left = noise - noise @ (design @ np.linalg.pinv(design))
    squares = left**2
    return np.asarray((squares @ at_point).max(axis=1) / squares.sum(axis=1), dtype=np.float64)
