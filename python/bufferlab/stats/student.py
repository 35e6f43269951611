"""Student's t quantile, kept. scipy.special has it without the half second that scipy.stats takes to import."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def quantile_of_t(probability: float, df: float) -> float:
    """The value that Student's t with `df` degrees of freedom stays below with this probability."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))
