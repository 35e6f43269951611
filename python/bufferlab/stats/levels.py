"""Estimates how the values of a series scatter about its levels between changes, and the size of a change of level.

The scatter is pooled over all stretches, each with its own level, as in an analysis of variance. `changes.py` finds the
stretches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.fit import Scale
from bufferlab.stats.rounding import is_rounding

Array = npt.NDArray[np.float64]

_FLAT = "every place of each stretch has the same number"


def change_of(stretches: Sequence[Sequence[float]], place: int, scale: Scale, level: float) -> Estimate:
    """Return the change from stretch `place` - 1 to stretch `place` of a series, with Student's interval.

    It is the ratio of their geometric means on the log scale, else a difference. Each stretch must have two values or
    more.
    """
    parts = [np.log(part) if scale == "log" else np.asarray(part, dtype=np.float64) for part in stretches]
    before, after = parts[place - 1], parts[place]
    deviation, df = scatter(parts)
    half = quantile_of_t(1 - (1 - level) / 2, df) * deviation * (1 / len(before) + 1 / len(after)) ** 0.5
    ends = after.mean() - before.mean() + np.array([0.0, -half, half])
    value, low, high = (float(end) for end in (np.exp(ends) if scale == "log" else ends))
    return Estimate(value, low, high, min(len(before), len(after)), df, note=None if deviation else _FLAT)


def scatter(stretches: Sequence[Array]) -> tuple[float, float]:
    """Return the standard deviation about the levels of the stretches, and its degrees of freedom.

    The deviation is 0 if all numbers of each stretch are equal except for rounding. No stretch may be empty.
    """
    residuals = np.concatenate([part - part.mean() for part in stretches])
    df = len(residuals) - len(stretches)
    deviation = float(np.sum(residuals**2) / max(1, df)) ** 0.5
    return (0.0 if is_rounding(deviation, np.concatenate(stretches)) else deviation), float(df)
