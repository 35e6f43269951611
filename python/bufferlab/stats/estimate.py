"""What a statistic comes as: a value, its interval, the runs behind it, or why there is no interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval; without one, `note` says why and nothing may be claimed from the value."""

    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    """Runs behind a mean; the smaller of the two sides' runs behind a comparison."""
    df: float | None = None
    """Degrees of freedom of the interval (Satterthwaite's for a mean, so not always whole)."""
    note: str | None = None
    identical: bool = False
    """A comparison whose two sides gave the very same numbers in every block."""

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return self.ci_low is not None and self.ci_high is not None
