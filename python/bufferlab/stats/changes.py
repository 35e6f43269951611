"""Finds where the levels of several series over the same places change, with one rate of false alarms for all series.

The method is binary segmentation (Vostrikova, Soviet Mathematics Doklady 24, 1981) by the largest standardised sum. Its
threshold comes from random orders of the places, the same order for all series: a score must exceed the largest score
of any series at any place (Westfall and Young, Resampling-Based Multiple Testing, 1993). So series that scatter
together need no higher threshold than one series. The only assumption on the scatter is that every order of the values
is equally likely. The seconds of one run are correlated; `series.py` segments them. PyPI's ruptures has no test of
significance: its penalty guarantees no rate of false alarms. This module knows neither sweeps nor metrics; `levels.py`
estimates a change's size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from bufferlab.stats.levels import scatter

Array = npt.NDArray[np.float64]

#: The share of tables without any change in which at least one change is found.
FALSE_ALARMS = 0.02
#: The least number of values in a stretch: a single odd value is an outlier, even at the end of a series.
MIN_STRETCH = 2
#: The least number of places at which a perfect split by chance is rarer than FALSE_ALARMS: 4 low and 5 high values
#: have 126 orders, and in 2 of them all low values are on one side.
FEWEST = 9
_ORDERS = 4999
_SEED = 20260103
#: Scores count as equal if their relative difference is at most this: it is rounding.
_ROUNDING = 1e-9
_POWER_QUANTILE = 0.8416
#: The 95 % quantile of the likelihood ratio of a change's place, whose distribution is (1 - exp(-x / 2))^2 (Hansen,
#: Econometrica 68, 2000).
_PLACE_QUANTILE = 7.352


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a series' level: the first place at the new level, and the range of places that may be the first
    (95 %)."""

    place: int
    earliest: int
    latest: int
    p: float
    """The share of random orders of the stretch's values in which any series has a change at least as clear."""


@dataclass(frozen=True, slots=True)
class FoundChange:
    """The changes of each series, in the order of the table's columns, and the score that a change must exceed."""

    changes: tuple[tuple[Change, ...], ...]
    threshold: float

    def detectable(self, n: int, deviation: float) -> float | None:
        """Return the smallest step, in the middle of n places, that would be found in four of five such series.

        `deviation` is the standard deviation of the series about its levels; the step is in the same unit. None if even
        the largest step would not be found.
        """
        if self.threshold**2 >= n - 1:
            return None
        # The standard deviation in a score includes the step itself. This line converts a score at the threshold into
        # Student's t.
        t = self.threshold * ((n - 2) / (n - 1 - self.threshold**2)) ** 0.5
        return float(2 * deviation * (t + _POWER_QUANTILE) / n**0.5)


def changes(table: Array) -> FoundChange:
    """Return the changes of level in every column of a table. Its rows are places in order; NaN is a missing value.

    If rows are exchangeable, the probability of finding any change is FALSE_ALARMS. With fewer than FEWEST rows no
    change is found. Raise ValueError for a table that is not two-dimensional.
    """
    if table.ndim != 2:
        raise ValueError("a table has rows and columns")
    rows, columns = table.shape
    if rows < FEWEST or not columns:
        return FoundChange(((),) * columns, float("inf"))

    @cache
    def clearest(start: int, end: int) -> tuple[list[Change | None], float]:
        """Return the clearest change of each column between two places, and the score that a change must exceed."""
        orders = np.random.default_rng(_SEED).permuted(np.tile(np.arange(end - start), (_ORDERS, 1)), axis=1)
        series = [_standardised(column) for column in table[start:end].T]
        highest = np.max([_scores(numbers[orders]).max(axis=1, initial=0.0) for numbers in series], axis=0)
        return [_clearest(numbers, start, highest) for numbers in series], float(np.quantile(highest, 1 - FALSE_ALARMS))

    def cut(column: int, start: int, end: int) -> list[int]:
        """Return the places that split a stretch and, recursively, its parts.

        A longer stretch gets a larger share of FALSE_ALARMS.
        """
        one = clearest(start, end)[0][column]
        if one is None or one.p > FALSE_ALARMS * (end - start) / rows:
            return []
        return [*cut(column, start, one.place), one.place, *cut(column, one.place, end)]

    def kept(column: int) -> tuple[Change, ...]:
        """Return the changes of a column that are still clear in the stretch between their neighbouring changes.

        That stretch has no other change that could blur the one tested.
        """
        found: list[Change] = []
        for end in [*cut(column, 0, rows), rows][1:]:
            one = clearest(found[-1].place if found else 0, end)[0][column]
            if one is not None and one.p <= FALSE_ALARMS:
                found.append(one)
        return tuple(found)

    return FoundChange(tuple(kept(column) for column in range(columns)), clearest(0, rows)[1])


def _standardised(column: Array) -> Array:
    """Return a column's values minus their mean, divided by their standard deviation; missing values stay missing."""
    values = column[~np.isnan(column)]
    return (column - values.mean()) / (scatter([values])[0] or np.inf) if len(values) else column


def _scores(orders: Array) -> Array:
    """Return |mean of the first k - mean of the rest| in standard errors, for each order and k from MIN_STRETCH on."""
    values = orders[~np.isnan(orders)].reshape(len(orders), -1)
    n = values.shape[1]
    left = np.arange(MIN_STRETCH, n - MIN_STRETCH + 1)
    return np.asarray(np.abs(np.cumsum(values, axis=1)[:, left - 1]) * (n / (left * (n - left))) ** 0.5)


def _clearest(numbers: Array, first: int, highest: Array) -> Change | None:
    """Return the clearest change of a series, or None; `highest` are the largest scores of the orders drawn."""
    scores, places = _scores(numbers[None])[0], np.flatnonzero(~np.isnan(numbers))
    if not scores.any():
        return None
    p = (1 + np.sum(highest >= scores.max() * (1 - _ROUNDING))) / (1 + _ORDERS)
    rest = np.maximum(1 - scores**2 / (len(places) - 1), _ROUNDING)
    likely = MIN_STRETCH + np.flatnonzero(len(places) * np.log(rest / rest.min()) <= _PLACE_QUANTILE)
    # Missing values before a place may already have had the new level.
    earliest, latest = places[likely[0] - 1] + 1, places[likely[-1]]
    place = places[MIN_STRETCH + scores.argmax()]
    return Change(int(first + place), int(first + earliest), int(first + latest), float(p))
