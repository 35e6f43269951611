"""Tests whether a value rises or falls along an ordered axis: by an interval of its slope, and by a test of its order.

The slope is fitted inside each block (least squares, with weights that depend only on the axis), so block effects
cancel. The blocks' slopes have Student's interval. It needs neither a straight line nor points that scatter alike: if
the true line bends, the slope is its mean over these points (summary measures: Matthews and others, British Medical
Journal 300, 1990). A single outlying point can cause a slope. So a trend is claimed only if Page's L (JASA 58, 1963),
which uses only the order inside each block, is significant too. For up to eight points its distribution is exact, ties
included, from all permutations of each block's ranks. For more points it is approximated by a normal distribution. This
module knows neither files nor metrics. The caller corrects the level of a single trend for the number of trends that it
claims together.

A value may also turn inside the axis: it goes one way up to some point, and the other way from there on. A mean slope
over such an axis is true but misleading. The turning point is chosen by looking at the data. So its comparisons with
the first and the last point have Sidak's level for all points that might have been chosen.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Literal

import numpy as np
import numpy.typing as npt

from bufferlab.stats.comparison import single_level
from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.fit import Fit
from bufferlab.stats.rounding import is_rounding
from bufferlab.stats.verdict import Direction, Verdict, direction_of

Array = npt.NDArray[np.float64]
#: A value of a run: (place on the axis, block, value).
Placed = tuple[float, Hashable, float]

MIN_POINTS = 3
#: With at most this many points, the exact distribution is computed from every order of the points.
_MOST_EXACT = 8
_FEW_POINTS = "fewer than three points have no trend beside their differences"
_ONE_BLOCK = "one whole repetition: nothing says how much another would differ"
_NO_NOISE = "every block gave the same slope: no noise to compute an interval from"


@dataclass(frozen=True)
class Trend:
    """The trend of one metric along the axis."""

    slope: Estimate
    """The change per unit of the axis: for the contrast "ratio" a factor (1.05: 5 % more), else a difference."""
    contrast: Literal["ratio", "difference"]
    direction: Direction
    order_p: float | None
    """The two-sided p-value of Page's L: the probability of such an order by chance. None without complete blocks."""
    detectable: float | None
    """The smallest slope that four of five such sweeps would have resolved; None without an interval."""

    @property
    def resolved(self) -> bool:
        """Whether a direction may be claimed."""
        return self.direction in ("falls", "rises")


def trend(values: Sequence[Placed], *, level: float = 0.95, scale: Literal["log", "linear"] = "log") -> Trend:
    """Return the trend of (place, block, value) rows; `level` is that of this one trend.

    As in `fit`, values are compared as ratios if all are above zero, else (or with `scale` linear) as differences.
    Raise ValueError without a value, or for a place or value that is not finite.
    """
    if not values:
        raise ValueError("a trend needs values")
    if not all(np.isfinite([value for _, _, value in values])) or not all(np.isfinite([x for x, _, _ in values])):
        raise ValueError("a place or value is not a finite number: leave that run out instead")
    log = scale == "log" and all(value > 0 for _, _, value in values)
    contrast: Literal["ratio", "difference"] = "ratio" if log else "difference"
    xs = np.array(sorted({float(x) for x, _, _ in values}))
    table = _table(values, xs, log=log)
    if len(xs) < MIN_POINTS or len(table) == 0:
        note = _FEW_POINTS if len(xs) < MIN_POINTS else "no block has a run at every point"
        return Trend(_without(float("nan"), len(table), note), contrast, "no_interval", None, None)
    slopes = table @ _weights(xs)
    n, centre = len(slopes), float(slopes.mean())
    if np.all(table == table[:, :1]):
        still = Estimate(_back(0.0, log), None, None, n, note="identical", identical=True)
        return Trend(still, contrast, "identical", 1.0, None)
    order_p = page_p(table)
    deviation = float(slopes.std(ddof=1)) if n > 1 else 0.0
    if n < 2 or is_rounding(deviation, table):
        note = _ONE_BLOCK if n < 2 else _NO_NOISE
        return Trend(_without(_back(centre, log), n, note), contrast, "no_interval", order_p, None)
    error, quantile = deviation / n**0.5, quantile_of_t(1 - (1 - level) / 2, n - 1)
    low, high = centre - quantile * error, centre + quantile * error
    slope = Estimate(_back(centre, log), _back(low, log), _back(high, log), n, float(n - 1))
    # With very few points and blocks, even the most extreme order is not significant. Then a clear slope allows no
    # claim.
    ordered = order_p <= 1 - level
    way = _order(table) - _order(table[:, ::-1])
    direction: Direction = "not_resolved"
    if ordered and (low > 0 or high < 0) and (low > 0) == (way > 0):
        direction = "rises" if low > 0 else "falls"
    return Trend(slope, contrast, direction, order_p, _back(_found(error, quantile, n - 1), log))


def _found(error: float, quantile: float, df: int, power: float = 0.8) -> float:
    """Return the slope that a share `power` of sweeps would resolve, from the noncentral t distribution.

    The test of the order is ignored, because it raises this slope only a little.
    """
    from scipy.special import chdtri, nctdtrinc

    # The estimate of a variance from few blocks is more often too small than too large, so correct its median.
    median = float(chdtri(df, 0.5)) / df
    return float(nctdtrinc(df, 1 - power, quantile) * error / median**0.5)


def page_p(table: Array) -> float:
    """Return the two-sided p-value of Page's L for values [block, point], with the points in the order of the axis."""
    points = table.shape[1]
    ranks = _double_ranks(table)
    seen = _order(table)
    if points > _MOST_EXACT:
        return _normal_p(ranks, seen)
    low, chances = 0, np.ones(1)
    for row in np.sort(ranks, axis=1).tolist():
        least, of_row = _orders(tuple(row))
        low, chances = low + least, np.convolve(chances, of_row)
    place = seen - low
    above, below = float(chances[place:].sum()), float(chances[: place + 1].sum())
    return min(1.0, 2 * min(above, below))


def _order(table: Array) -> int:
    """Return Page's L: the sum, over all values, of the value's place times its rank in its block.

    Ranks are doubled, so that the mean ranks of equal values are whole numbers too.
    """
    return int((_double_ranks(table) @ np.arange(table.shape[1])).sum())


def _normal_p(ranks: npt.NDArray[np.int64], seen: int) -> float:
    from scipy.special import ndtr

    points = ranks.shape[1]
    centre = int(ranks.sum()) * (points - 1) / 2
    spread_of_scores = points * (points**2 - 1) / 12
    variance = sum(spread_of_scores * float(np.var(row)) * points / (points - 1) for row in ranks)
    return float(2 * ndtr(-abs(seen - centre) / variance**0.5)) if variance else 1.0


@lru_cache(maxsize=256)
def _orders(ranks: tuple[int, ...]) -> tuple[int, Array]:
    """Return the distribution of one block's sum of place x rank over all orders of the ranks.

    The result is the least sum, and the probabilities of this sum and of each larger whole number.
    """
    every = np.array(list(permutations(ranks)), dtype=np.int64) @ np.arange(len(ranks))
    least = int(every.min())
    counts = np.bincount(every - least)
    return least, np.asarray(counts / counts.sum(), dtype=np.float64)


def _double_ranks(table: Array) -> npt.NDArray[np.int64]:
    """Return twice the midrank of each value [block, point] in its block."""
    of, others = table[:, :, None], table[:, None, :]
    # Twice the midrank is the number of smaller values, plus the number of values that are not larger (itself
    # included), plus 1.
    return np.asarray((others < of).sum(axis=2) + (others <= of).sum(axis=2) + 1, dtype=np.int64)


def _table(values: Sequence[Placed], xs: Array, *, log: bool) -> Array:
    """Return values [block, point] of the blocks with a run at every place; several runs in a cell are averaged."""
    cells: dict[Hashable, dict[float, list[float]]] = {}
    for x, block, value in values:
        cells.setdefault(block, {}).setdefault(float(x), []).append(float(np.log(value)) if log else float(value))
    whole = [found for found in cells.values() if len(found) == len(xs)]
    rows = [[sum(found[x]) / len(found[x]) for x in xs.tolist()] for found in whole]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(xs))


def _weights(xs: Array) -> Array:
    centred = xs - xs.mean()
    return np.asarray(centred / (centred @ centred), dtype=np.float64)


def _without(value: float, n: int, note: str) -> Estimate:
    return Estimate(value, None, None, n, note=note)


def _back(number: float, log: bool) -> float:
    return float(np.exp(number)) if log else number


@dataclass(frozen=True)
class Turn:
    """The lowest or highest point of a value inside the axis, with the changes before and after it.

    Both changes are resolved, and their directions are opposite.
    """

    point: Hashable
    before: Verdict
    """The comparison of this point with the first one."""
    after: Verdict
    """The comparison of the last point with this one."""


def turn(fit: Fit, points: Sequence[Hashable], level: float) -> Turn | None:
    """Return the turn of the fitted values over these points, given in order; None if no turn is resolved.

    All comparisons that the search for a turn might make hold together at `level`.
    """
    inner = points[1:-1]
    if not inner:
        return None
    ends = (min(inner, key=lambda point: fit.mean(point).value), max(inner, key=lambda point: fit.mean(point).value))
    found = [Turn(point, *around(fit, points, point, level)) for point in ends]
    turns = [one for one in found if {one.before.direction, one.after.direction} == {"falls", "rises"}]
    return max(turns, key=_lesser_side, default=None)


def around(fit: Fit, points: Sequence[Hashable], point: Hashable, level: float) -> tuple[Verdict, Verdict]:
    """Return the changes from the first point to an inner one, and from there to the last, at the level `turn` uses."""
    single = single_level(level, 2 * (len(points) - 2))
    return _side(fit, points[0], point, single), _side(fit, point, points[-1], single)


def _side(fit: Fit, a: Hashable, b: Hashable, level: float) -> Verdict:
    found = fit.compare(a, b, level)
    return Verdict(a, b, direction_of(found, fit.contrast), found, fit.contrast, None)


def _lesser_side(found: Turn) -> float:
    """Return the size of the smaller of a turn's two changes.

    `turn` returns the turn for which this size is largest.
    """
    sides = (found.before, found.after)
    return min(abs(math.log(s.estimate.value) if s.contrast == "ratio" else s.estimate.value) for s in sides)
