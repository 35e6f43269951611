"""The form of every statistic: a value, its interval and the runs behind it, or the reason why it has no interval.

Student's t quantile, from which intervals are made, comes from scipy.special, because importing scipy.stats takes half
a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval. Without an interval, `note` says why, and no claim may be based on the value."""

    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    """The number of runs from which a mean was computed; for a comparison, the smaller of the two sides' numbers."""
    df: float | None = None
    """The degrees of freedom of the interval (Satterthwaite's for a mean, so not always whole); None if not known."""
    note: str | None = None
    identical: bool = False
    """True for a comparison whose two sides had exactly the same numbers in every block."""
    times: float | None = None
    """The size of a comparison's step, divided by its standard error from a known scatter; None if its interval is not
    from that."""

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return self.ci_low is not None and self.ci_high is not None


@lru_cache(maxsize=4096)
def quantile_of_t(probability: float, df: float) -> float:
    """Return the value below which Student's t with `df` degrees of freedom stays with this probability."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def tail_of_t(value: float, df: float) -> float:
    """Return the probability that Student's t with `df` degrees of freedom is above this value."""
    from scipy.special import stdtr

    return float(stdtr(df, -value))
