"""Finds where the levels of several series over the same places change, at one rate of false alarms for all of them.

Binary segmentation (Vostrikova, Soviet Mathematics Doklady 24, 1981) by the largest standardised sum. Its threshold
comes from orders of the places drawn at random, in which all series move together: the largest score of any series at
any place is what a score must exceed (Westfall and Young, Resampling-Based Multiple Testing, 1993). So series that
scatter together cost no more than one, and no law of their scatter is assumed but that any order was as likely.
`series.py` cuts the seconds of one run instead, which are correlated. PyPI's ruptures has no test of significance: its
penalty holds no rate. Knows neither sweeps nor metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.fit import Scale

Array = npt.NDArray[np.float64]

#: The share of histories without a change in which a change is found anywhere.
FALSE_ALARMS = 0.02
#: The least number of places of a stretch: a single odd place is an outlier, and may be the last one.
MIN_STRETCH = 2
#: The fewest places of which any order is rarer than FALSE_ALARMS: 4 low and 5 high have 126, two of them in order.
FEWEST = 9
_ORDERS = 4999
#: So many orders tell the threshold even where it is soon clear that nothing changes.
_LEAST_ORDERS = 500
#: Orders are looked at in slices of about so many numbers.
_SLICE_NUMBERS = 1 << 20
_SEED = 20260103
#: Deviations below this share of the values are rounding, not scatter.
_ROUNDING = 1e-12
_POWER_QUANTILE = 0.8416
#: The 95 % quantile of the likelihood ratio of a place: (1 - exp(-x / 2))^2 (Hansen, Econometrica 68, 2000).
_PLACE_QUANTILE = 7.352
_FLAT = "every place of each stretch has the same number"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a series' level: its first place at the new level, and the places that may be it (95 %)."""

    place: int
    earliest: int
    latest: int
    p: float
    """The share of orders in which some series has a change as clear in the stretch around this one."""


@dataclass(frozen=True, slots=True)
class Found:
    """The changes of each series, in the order of the table's columns, and the score that one must exceed."""

    changes: tuple[tuple[Change, ...], ...]
    threshold: float

    def detectable(self, n: int, deviation: float) -> float | None:
        """Return the step in the middle of n places that four of five such histories would find.

        `deviation` is the series' scatter about its levels. None where no step would be, however large.
        """
        if self.threshold**2 >= n:
            return None
        # A score counts a step's own square as scatter: this is Student's t of a score at the threshold.
        t = self.threshold * ((n - 2) / (n - self.threshold**2)) ** 0.5
        return float(2 * deviation * (t + _POWER_QUANTILE) / n**0.5)


def changes(table: Array, alpha: float = FALSE_ALARMS) -> Found:
    """Return the changes of level of every column of a table; its rows are places in order, NaN is a missing value.

    In a share `alpha` of tables whose rows are exchangeable, any change is found at all. Fewer than FEWEST rows have
    none. Raise ValueError for a table that is not two-dimensional.
    """
    if table.ndim != 2:
        raise ValueError("a table has rows and columns")
    rows, columns = table.shape

    @cache
    def tested(start: int, end: int) -> tuple[Array, Array, float]:
        return _tested(table[start:end], alpha)

    def cut(column: int, start: int, end: int) -> list[int]:
        # Stretches share the rate by their lengths, so that all of them together do not exceed it.
        if end - start < 2 * MIN_STRETCH or tested(start, end)[1][column] > alpha * (end - start) / rows:
            return []
        place = _first_of(table[:, column], start, tested(start, end)[0][:, column])
        return [*cut(column, start, place), place, *cut(column, place, end)]

    def kept(column: int) -> tuple[Change, ...]:
        """Move each cut to where it is clearest between its neighbours, and drop those that are not clear there."""
        cuts = cut(column, 0, rows)
        for _ in cuts:
            before, edges, cuts = cuts, [0, *cuts, rows], []
            for end in edges[2:]:
                start = cuts[-1] if cuts else 0
                if tested(start, end)[1][column] <= alpha:
                    cuts.append(_first_of(table[:, column], start, tested(start, end)[0][:, column]))
            if cuts == before:
                break
        edges = [0, *cuts, rows]
        found = []
        for start, place, end in zip(edges, cuts, edges[2:], strict=False):
            low, high = _span(table[start:end, column], tested(start, end)[0][:, column])
            p = float(tested(start, end)[1][column])
            found.append(Change(place, min(place, start + low), max(place, start + high), p))
        return tuple(found)

    if rows < FEWEST or not columns:
        return Found(tuple(() for _ in range(columns)), float("inf"))
    return Found(tuple(kept(column) for column in range(columns)), tested(0, rows)[2])


def change_of(stretches: Sequence[Sequence[float]], place: int, scale: Scale, level: float) -> Estimate:
    """Return the change from stretch `place` - 1 to stretch `place` of a series, with Student's interval.

    A ratio of the geometric means on the log scale, else a difference. All stretches of the series tell its scatter.
    """
    parts = [np.log(part) if scale == "log" else np.asarray(part, dtype=np.float64) for part in stretches]
    before, after = parts[place - 1], parts[place]
    change, n = float(after.mean() - before.mean()), min(len(before), len(after))
    deviation, df = scatter(parts)
    back = np.exp if scale == "log" else float
    if deviation == 0:
        return Estimate(float(back(change)), float(back(change)), float(back(change)), n, note=_FLAT)
    half = quantile_of_t(1 - (1 - level) / 2, df) * deviation * (1 / len(before) + 1 / len(after)) ** 0.5
    return Estimate(float(back(change)), float(back(change - half)), float(back(change + half)), n, df)


def scatter(stretches: Sequence[Array]) -> tuple[float, float]:
    """Return the standard deviation about the levels of the stretches, and its degrees of freedom."""
    df = float(sum(len(part) for part in stretches) - len(stretches))
    squares = sum(float(np.sum((part - part.mean()) ** 2)) for part in stretches)
    deviation = (squares / df) ** 0.5 if df > 0 else 0.0
    largest = max(float(np.abs(part).max()) for part in stretches)
    return (0.0 if deviation <= _ROUNDING * max(1.0, largest) else deviation), df


def _tested(part: Array, alpha: float) -> tuple[Array, Array, float]:
    """Return the scores of every split of every column, the p-value of each column's best, and the threshold."""
    there = ~np.isnan(part)
    centred = np.where(there, part, 0.0) - np.where(there, part.sum(0, where=there) / np.maximum(1, there.sum(0)), 0.0)
    deviation = (np.sum(centred**2, axis=0) / np.maximum(1, there.sum(0))) ** 0.5
    largest = np.abs(np.where(there, part, 0.0)).max(axis=0)
    flat = deviation <= _ROUNDING * np.maximum(1.0, largest)
    scaled = np.where(flat, 0.0, centred / np.where(flat, 1.0, deviation))
    whole = there if not there.all() else None
    scores = _scores(scaled[None], None if whole is None else whole[None])[0]
    best = scores.max(axis=0) * (1 - 1e-9)
    random, size = np.random.default_rng(_SEED), max(50, _SLICE_NUMBERS // part.size)
    as_high, drawn = np.ones(part.shape[1]), np.empty(0)
    while len(drawn) < _ORDERS:
        orders = random.permuted(np.tile(np.arange(len(part)), (min(size, _ORDERS - len(drawn)), 1)), axis=1)
        highest = _scores(scaled[orders], None if whole is None else whole[orders]).max(axis=(1, 2))
        drawn = np.concatenate([drawn, highest])
        as_high += np.sum(highest[:, None] >= best, axis=0)
        if as_high.min() / (1 + _ORDERS) > alpha and len(drawn) >= _LEAST_ORDERS:
            break  # No column has a change.
    return scores, as_high / (1 + _ORDERS), float(np.quantile(drawn, 1 - alpha))


def _scores(numbers: Array, there: npt.NDArray[np.bool_] | None) -> Array:
    """Return |mean of the first k - mean of the rest| in standard errors, for each order, each k and each column.

    `numbers` are orders x places x columns, centred and scaled; `there` says which are values, None that all are.
    """
    n = numbers.shape[1]
    sums = np.cumsum(numbers, axis=1)[:, :-1]
    left, whole = np.arange(1.0, n)[None, :, None], np.full((1, 1, 1), float(n))
    if there is not None:
        counts = np.cumsum(there, axis=1, dtype=np.float64)
        left, whole = counts[:, :-1], counts[:, -1:]
    allowed = (left >= MIN_STRETCH) & (whole - left >= MIN_STRETCH)
    weights = np.sqrt(np.where(allowed, whole / np.maximum(1.0, left * (whole - left)), 0.0))
    return np.asarray(np.abs(sums) * weights, dtype=np.float64)


def _first_of(column: Array, start: int, scores: Array) -> int:
    """Return the first place of the right-hand part of the best split: one that has a value."""
    place = start + 1 + int(scores.argmax())
    return place + int(np.argmax(~np.isnan(column[place:])))


def _span(column: Array, scores: Array) -> tuple[int, int]:
    """Return the first and the last place that may be where the level changes, counted from the stretch's beginning."""
    n = float(np.sum(~np.isnan(column)))
    rest = np.maximum(n - scores**2, n * _ROUNDING)
    likely = np.flatnonzero((scores > 0) & (n * np.log(rest / rest.min()) <= _PLACE_QUANTILE))
    return int(likely[0]) + 1, int(likely[-1]) + 1
