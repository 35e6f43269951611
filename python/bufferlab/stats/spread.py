"""Whether all points scatter alike, as a pooled variance supposes.

Cochran's idea (Annals of Eugenics 11, 1941): the largest share any point has of the residual sum of squares. The
residuals of a fit are correlated, so its distribution is simulated from the fit's own design, from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from bufferlab.stats.model import Fit

_DRAWS = 4000
_SEED = 20260101


@dataclass(frozen=True)
class Spread:
    """The point that scatters most, its share of all residual scatter, and how often chance does that."""

    point: Hashable
    share: float
    p_value: float


def spread(fit: Fit) -> Spread | None:
    """The most scattered point of a fit; none where the fit has no noise to look at."""
    if fit.df_error < 2 or len(fit.points) < 2 or fit.variance_error == 0:
        return None
    at = fit.point_indicator()
    residuals = fit.residuals()
    shares = (residuals**2 @ at) / (residuals @ residuals)
    worst = int(np.argmax(shares))
    noise = np.random.default_rng(_SEED).normal(size=(_DRAWS, len(residuals)))
    squares = fit.leave_residuals(noise) ** 2
    by_chance = (squares @ at).max(axis=1) / squares.sum(axis=1)
    p_value = (1 + int(np.sum(by_chance >= shares[worst]))) / (1 + _DRAWS)
    return Spread(fit.points[worst], float(shares[worst]), p_value)
