"""Student's t quantile, cached. It is from scipy.special, because scipy.stats takes half a second to import."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def quantile_of_t(probability: float, df: float) -> float:
    """Return the value that Student's t with `df` degrees of freedom stays below with this probability."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))
