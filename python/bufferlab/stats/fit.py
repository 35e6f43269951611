"""One fit for a whole sweep: value = point effect + block effect + noise, fitted by least squares.

If all values are above zero, their logarithms are fitted, because the error of I/O counts is relative, not a number of
pages. A comparison is then a ratio. If any value is zero or less, the values themselves are fitted (the linear scale),
and a comparison is a difference.

Comparisons cancel the block effects, because all points of a block share the block's seed. The noise of a comparison is
estimated from two independent sources: the changes of its pair of points from block to block, and the residuals of the
rest of the sweep. The two variances are mixed, 0.6 to 0.4. The mixture has Satterthwaite's degrees of freedom
(Biometrics Bulletin 2, 1946), but at most those of points that all scatter alike. Sharing noise between points this way
is the idea of moderated t statistics (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004). The
weight 0.6 is fixed, because five points are too few to estimate it. Using only the residuals of all points fails if one
point scatters more than the rest (up to 13 % false claims if it scatters five times as much). Using only the pair makes
intervals a third wider. docs/statistics.md has the simulations behind this choice.

Means do not cancel the block effects. The interval of a mean says where the mean of many blocks like these would lie.
It is Student's interval from this point's runs only.

One or two runs per point show little or nothing of the noise. If the caller knows how much a run scatters
(`known_scatter`), a comparison's interval extends CLAIM_TIMES the known standard error to either side. The known
scatter is not used if two runs of a point clearly scatter more. The interval of a mean of two runs is Student's with
the known scatter, or with the scatter of the two runs if that is larger.

The intervals of all declared comparisons hold together, at Sidak's level (JASA 62, 1967). By default, these are
adjacent points, and the first with the last. The studentized range would cover all pairs of points. A sweep compares
fewer pairs, so that range would make its intervals needlessly wide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.known_scatter import CLAIM_TIMES, DOUBT_TIMES, MEAN_DF
from bufferlab.stats.rounding import is_rounding, sample_variance
from bufferlab.stats.spread import Spread, spread

Array = npt.NDArray[np.float64]
Scale = Literal["log", "linear"]
Pooling = Literal["partial", "always", "never"]
Cell = tuple[Hashable, Hashable, float]

#: A p-value below this means that one point scatters more than the others. The limit is high, because missing such a
#: point is worse than suspecting one wrongly.
UNEVEN_P_VALUE = 0.10
#: The weight of its own two points in a comparison's variance; docs/statistics.md says how it was chosen.
OWN_WEIGHT = 0.6
_DRAWS = 1000
_SEED = 20260103
_ONE_BLOCK = "one repetition: nothing says how much another would differ"
_TOO_FEW = "too few runs to know their noise"
_NO_NOISE = "every block gave the same change: no noise to compute an interval from"


@dataclass(frozen=True)
class _Spot:
    """The centre of a mean or comparison on the fitted scale, with its standard error, or the reason why it has
    none."""

    centre: float
    error: float = 0.0
    df: float = 0.0
    note: str | None = None


@dataclass(frozen=True)
class Fit:
    """A fitted sweep. Its methods return means and comparisons, with intervals where these exist."""

    points: tuple[Hashable, ...]
    blocks: tuple[Hashable, ...]
    comparisons: tuple[tuple[Hashable, Hashable], ...]
    scale: Scale
    level: float
    looks: int
    """The number of times that the sweep is judged before it stops; all judgements hold together at `level`."""
    n: int
    df_error: int
    variance_error: float
    """The variance of the noise, pooled over all points, on the fitted scale."""
    variance_blocks: float
    """The variance between blocks, on the fitted scale. The estimate is unbiased, so it may be below zero."""
    spread: Spread | None
    """The point that scatters most. None with one point, no noise, or fewer than two degrees of freedom."""
    uneven: bool
    """Whether the point in `spread` scatters more than chance explains."""
    pooling: Pooling
    """How much of a comparison's noise is taken from other points: a part.

    Simulations of the method also set all or none.
    """
    _cells: tuple[Cell, ...]
    _y: Array
    _effects: Array
    _inverse: Array
    _design: Array
    _df_blocks: int
    _ms_blocks: float
    _block_weight: float
    _known_errors: Mapping[Hashable, float]

    @property
    def contrast(self) -> Literal["ratio", "difference"]:
        """The kind of number that `step` gives on this scale."""
        return "ratio" if self.scale == "log" else "difference"

    @property
    def comparison_level(self) -> float:
        """The confidence level of one comparison's interval, at which all declared comparisons hold together at
        `level`, over all looks.

        A look is one judgement of the sweep. Looks share runs, so their probabilities of an error are added
        (Bonferroni).
        """
        each_look = 1 - (1 - self.level) / self.looks
        return float(each_look ** (1.0 / max(1, len(self.comparisons))))

    def mean(self, point: Hashable, level: float | None = None) -> Estimate:
        """Return the mean of a point, with an interval, at `level` or the fit's level, for the mean of many blocks."""
        alone = self.pooling != "always" and self._runs_at(point) > 1
        spot = self._own_mean(point) if alone else self._pooled_mean(point)
        spot = self._known_mean(point, spot) or spot
        if spot.note is None and spot.error == 0:
            spot = _Spot(spot.centre, note="every run gave the same value")
        return self._estimate(spot, self.level if level is None else level, self._runs_at(point))

    def step(self, a: Hashable, b: Hashable) -> Estimate:
        """Return b compared with a: the ratio b/a, or the difference b-a on the linear scale.

        Raise ValueError for a pair that was not declared.
        """
        if (a, b) not in self.comparisons:
            raise ValueError(f"({a!r}, {b!r}) is not a declared comparison")
        return self.compare(a, b, self.comparison_level)

    def compare(self, a: Hashable, b: Hashable, level: float) -> Estimate:
        """Return b compared with a as `step` does, for any two points.

        The caller must have corrected `level` for the number of comparisons it makes.
        """
        n = min(self._runs_at(a), self._runs_at(b))
        of_a, of_b = ([(block, value) for at, block, value in self._cells if at == point] for point in (a, b))
        if same_numbers(of_a, of_b):
            return Estimate(self._back(0.0), None, None, n, note="identical", identical=True)
        spot = self._step(a, b)
        known = self._known_error(a, b, spot, level)
        if known is None:
            return self._estimate(spot, level, n)
        low, high = (self._back(spot.centre + side * CLAIM_TIMES * known) for side in (-1, 1))
        return Estimate(self._back(spot.centre), low, high, n, times=abs(spot.centre) / known)

    def detectable(self, a: Hashable, b: Hashable, power: float = 0.8) -> float | None:
        """Return the smallest change from a to b that a share `power` of sweeps like this one would resolve.

        It is a ratio above one on the log scale (1.05: five per cent either way), a difference on the linear scale.
        None if the comparison has no interval. Another sweep would estimate the noise anew, so the widths of its
        intervals are drawn at random, from a fixed seed.
        """
        spot = self._step(a, b)
        known = self._known_error(a, b, spot, self.comparison_level)
        if known is not None:
            return self._back((CLAIM_TIMES + NormalDist().inv_cdf(power)) * known)
        if spot.note is not None:
            return None
        changes, pooled = self._changes(a, b), self._pooled_step(a, b)
        df_own = len(changes) - 1 if self.pooling != "always" else self.df_error
        df_rest = self.df_error - df_own if self.pooling == "partial" else 0
        error = rest = spot.error
        if df_rest > 0 and df_own > 0:
            factor, own = pooled.error**2 / self.variance_error, sample_variance(changes) / 2
            left = max(0.0, self.df_error * self.variance_error - df_own * own) / df_rest
            # Take the larger error: a pair that scatters more than the other pairs must not get an interval as narrow
            # as those of the others.
            error, rest = max(error, (factor * own) ** 0.5), (factor * left) ** 0.5
        # The estimate of a variance from few runs is more often too small than too large, so correct its median.
        error /= _median_of_variance(spot.df) ** 0.5
        rest = round(20 * rest / error) / 20
        return self._back(error * _resolved_shift(max(1, df_own), df_rest, rest, self.comparison_level, power))

    def _estimate(self, spot: _Spot, level: float, n: int) -> Estimate:
        value = self._back(spot.centre)
        if spot.note is not None:
            return Estimate(value, None, None, n, note=spot.note)
        half = _half(spot, level)
        return Estimate(value, self._back(spot.centre - half), self._back(spot.centre + half), n, spot.df)

    def _step(self, a: Hashable, b: Hashable) -> _Spot:
        if self.pooling == "always":
            spot = self._pooled_step(a, b)
        else:
            spot = self._own_step(a, b) if self.pooling == "never" else self._shared_step(a, b)
        return _Spot(spot.centre, note=_NO_NOISE) if spot.note is None and spot.error == 0 else spot

    def _known_mean(self, point: Hashable, spot: _Spot) -> _Spot | None:
        """Return the mean of two runs with the error from the known scatter, or None: the caller then uses `spot`.

        Return None if the scatter is not known, if the point does not have two runs, or if the runs contradict the
        known scatter.
        """
        known = self._known_errors.get(point)
        if known is None or self._runs_at(point) != 2 or self.pooling != "partial":
            return None
        own, known = spot.error, known / 2**0.5
        if spot.note is not None or own > DOUBT_TIMES * known or self._scatter_times > DOUBT_TIMES:
            return None
        return _Spot(spot.centre, max(own, known), MEAN_DF)

    def _known_error(self, a: Hashable, b: Hashable, spot: _Spot, level: float) -> float | None:
        """Return the error of a comparison from the known scatter of its runs; None if that must not be used.

        It must not be used if it is unknown, if the interval of `spot` is narrower, or if the pair has three or more
        runs per point that differ. With two runs per point, it must not be used if they, or all runs of the sweep,
        scatter more than DOUBT_TIMES the known scatter. One run per point contradicts nothing.
        """
        if not {a, b} <= self._known_errors.keys() or self.pooling != "partial":
            return None
        runs, changes = min(self._runs_at(a), self._runs_at(b)), self._changes(a, b)
        known = float(np.hypot(self._known_errors[a], self._known_errors[b]) / runs**0.5)
        if len(changes) < 2:  # While the second block is incomplete, a pair may have runs only in the first block.
            return known if self._scatter_times <= DOUBT_TIMES else None
        own = float((sample_variance(changes) / len(changes)) ** 0.5)
        is_doubted = own > DOUBT_TIMES * known if runs == 2 else own > 0
        if (
            is_doubted
            or self._scatter_times > DOUBT_TIMES
            or (spot.note is None and _half(spot, level) < CLAIM_TIMES * known)
        ):
            return None
        return max(own, known)

    @cached_property
    def _scatter_times(self) -> float:
        """The scatter of all runs inside their blocks, as a multiple of the known scatter; 0 if it is unknown."""
        residuals = self._y - self._design @ self._effects
        squares = [
            (residual / self._known_errors[point]) ** 2
            for (point, _, _), residual in zip(self._cells, residuals.tolist(), strict=True)
            if self._known_errors.get(point)
        ]
        return float(sum(squares) / self.df_error) ** 0.5 if self.df_error else 0.0

    def _shared_step(self, a: Hashable, b: Hashable) -> _Spot:
        """Return b compared with a by least squares; its noise is partly this pair's, partly that of other points."""
        pooled = self._pooled_step(a, b)
        changes = self._changes(a, b)
        df_own = len(changes) - 1
        df_rest = self.df_error - max(0, df_own)
        if pooled.note is not None or df_own < 1 or df_rest < 1:
            # One shared block does not show this pair's scatter. So take the error of the other pairs, and limit its
            # degrees of freedom by the number of blocks.
            return pooled if df_own >= 1 else replace(pooled, df=min(pooled.df, max(1.0, len(self.blocks) - 1.0)))
        own = sample_variance(changes) / 2
        rest = max(0.0, self.df_error * self.variance_error - df_own * own) / df_rest
        if own == 0 or pooled.error == 0:
            # All blocks gave exactly the same change, as counts may. Then only other points show noise, which allows no
            # claim.
            return _Spot(pooled.centre)
        variance, df = _mixed(own, rest, df_own, df_rest)
        factor = pooled.error**2 / self.variance_error
        return _Spot(pooled.centre, (float(variance) * factor) ** 0.5, float(df))

    def _pooled_mean(self, point: Hashable) -> _Spot:
        weights = np.zeros(len(self._effects))
        weights[self.points.index(point)] = 1.0
        centre = float(weights @ self._effects)
        note = self._why_no_interval(weights)
        if note is not None:
            return _Spot(centre, note=note)
        # The variance of a mean over blocks is a weighted sum of two mean squares: of the error, and of the blocks.
        of_blocks = self._block_weight / len(self.blocks)
        of_error = float(weights @ self._inverse @ weights) - of_blocks
        parts = [(of_blocks * self._ms_blocks, self._df_blocks), (of_error * self.variance_error, self.df_error)]
        variance = sum(part for part, _ in parts)
        scatter = sum(part**2 / df for part, df in parts if df > 0)
        return _Spot(centre, max(0.0, variance) ** 0.5, variance**2 / scatter if scatter > 0 else 1.0)

    def _pooled_step(self, a: Hashable, b: Hashable) -> _Spot:
        weights = np.zeros(len(self._effects))
        weights[self.points.index(b)] += 1.0
        weights[self.points.index(a)] -= 1.0
        error = float(np.sqrt(self.variance_error * (weights @ self._inverse @ weights)))
        return _Spot(float(weights @ self._effects), error, self.df_error, self._why_no_interval(weights))

    def _own_mean(self, point: Hashable) -> _Spot:
        return _one_sample(np.array([y for ys in self._ys[point].values() for y in ys]))

    def _own_step(self, a: Hashable, b: Hashable) -> _Spot:
        """Return b compared with a in pairs, over the blocks that have both points."""
        changes = self._changes(a, b)
        return _one_sample(changes) if len(changes) else self._pooled_step(a, b)

    def _changes(self, a: Hashable, b: Hashable) -> Array:
        of_a, of_b = self._by_block(a), self._by_block(b)
        return np.array([of_b[block] - of_a[block] for block in self.blocks if block in of_a and block in of_b])

    def _by_block(self, point: Hashable) -> dict[Hashable, float]:
        return {block: sum(values) / len(values) for block, values in self._ys.get(point, {}).items()}

    @cached_property
    def _ys(self) -> dict[Hashable, dict[Hashable, list[float]]]:
        """The values on the fitted scale, by point and block."""
        found: dict[Hashable, dict[Hashable, list[float]]] = {}
        for (at, block, _), y in zip(self._cells, self._y.tolist(), strict=True):
            found.setdefault(at, {}).setdefault(block, []).append(y)
        return found

    def _why_no_interval(self, weights: Array) -> str | None:
        if len(self.blocks) < 2:
            return _ONE_BLOCK
        if np.abs(weights @ self._projection - weights).max() > 1e-8:
            return "too many runs are missing: these points share no blocks"
        if self.df_error < 1 and (len(self.points) > 1 or self._df_blocks < 1):
            return _TOO_FEW
        return None

    @cached_property
    def _projection(self) -> Array:
        """The projection that leaves a vector of weights unchanged if the runs determine this weighted sum of
        effects."""
        return np.asarray(self._inverse @ (self._design.T @ self._design), dtype=np.float64)

    def _runs_at(self, point: Hashable) -> int:
        return sum(map(len, self._ys.get(point, {}).values()))

    def _back(self, number: float) -> float:
        with np.errstate(over="ignore"):  # An end that is too large for a float becomes infinite.
            return float(np.exp(number)) if self.scale == "log" else float(number)


def _half(spot: _Spot, level: float) -> float:
    """Return half the width of Student's interval, on the fitted scale."""
    return quantile_of_t(1 - (1 - level) / 2, spot.df) * spot.error


def same_numbers(a: Sequence[tuple[Hashable, float]], b: Sequence[tuple[Hashable, float]]) -> bool:
    """Return whether two sides of (block, value) rows are identical.

    They are identical if each block has the same values on both sides, or if all runs have the same value and each side
    has two runs or more.
    """
    return Counter(a) == Counter(b) or (len(a) > 1 < len(b) and len({value for _, value in (*a, *b)}) == 1)


def fit(
    values: Sequence[Cell],
    *,
    comparisons: Sequence[tuple[Hashable, Hashable]] | None = None,
    scale: Scale = "log",
    pooling: Pooling = "partial",
    level: float = 0.95,
    looks: int = 1,
    known_scatter: Mapping[Hashable, float] | None = None,
) -> Fit:
    """Fit (point, block, value) rows. Points keep the order in which they first appear.

    Without `comparisons`, each point is compared with the one before it, and the last with the first. `looks` is the
    number of times that the sweep is judged before it stops. `known_scatter` has point -> standard deviation of one
    run's value, if that is known before the sweep. Raise ValueError without a value, or for a value that is not finite.
    """
    if not values:
        raise ValueError("a fit needs at least one value")
    if not all(np.isfinite(value) for _, _, value in values):
        raise ValueError("a value is not a finite number: leave that run out instead")
    points = tuple(dict.fromkeys(point for point, _, _ in values))
    blocks = tuple(dict.fromkeys(block for _, block, _ in values))
    chosen: Scale = "log" if scale == "log" and all(value > 0 for _, _, value in values) else "linear"
    y = _transform([value for _, _, value in values], chosen)
    found = _designed(
        tuple(points.index(point) for point, _, _ in values), tuple(blocks.index(block) for _, block, _ in values)
    )
    design, at_point, inverse = found.whole, found.at_point, found.inverse
    effects = found.effects @ y
    df_error, df_blocks = len(y) - found.rank, found.df_blocks
    rss_full, rss_points = _rss(y, design, found.solved), _rss(y, at_point, found.points_solved)
    variance_error = rss_full / df_error if df_error else 0.0
    ms_blocks = max(0.0, rss_points - rss_full) / df_blocks if df_blocks else 0.0
    seen = None
    if df_error >= 2 and len(points) > 2 and variance_error > 0:
        seen = spread(design, at_point, y - design @ effects)
    uneven = seen is not None and seen.p_value < UNEVEN_P_VALUE
    return Fit(
        points=points,
        blocks=blocks,
        comparisons=_adjacent(points) if comparisons is None else tuple(comparisons),
        scale=chosen,
        level=level,
        looks=looks,
        n=len(y),
        df_error=df_error,
        variance_error=variance_error,
        variance_blocks=found.block_weight * (ms_blocks - variance_error),
        spread=seen,
        uneven=uneven,
        pooling=pooling,
        _cells=tuple(values),
        _y=y,
        _effects=effects,
        _inverse=inverse,
        _design=design,
        _df_blocks=df_blocks,
        _ms_blocks=ms_blocks,
        _block_weight=found.block_weight,
        _known_errors=_on_scale(known_scatter or {}, values, chosen),
    )


@dataclass(frozen=True)
class _Design:
    """The part of a fit that depends only on which runs exist, so that all metrics of a sweep share it."""

    at_point: Array
    """A row for each value, a column for each point: 1 in the column of the value's point, else 0."""
    whole: Array
    """The columns of `at_point`, then one for each block but the last."""
    inverse: Array
    """The pseudo-inverse of the normal equations."""
    effects: Array
    """The matrix that turns values into effects."""
    solved: Array
    """The pseudo-inverse of `whole`."""
    points_solved: Array
    """The pseudo-inverse of `at_point`."""
    rank: int
    df_blocks: int
    block_weight: float
    """The weight in this expectation: mean square of blocks = error variance + block variance / weight (Henderson
    III)."""


@lru_cache(maxsize=64)
def _designed(points: tuple[int, ...], blocks: tuple[int, ...]) -> _Design:
    """Return the design of values at these points in these blocks; points and blocks are numbered from 0."""
    at_point, at_block = _indicator(points, max(points) + 1), _indicator(blocks, max(blocks) + 1)
    # Block effects add up to zero, so that a point's effect is its mean over the blocks.
    whole = np.hstack([at_point, at_block[:, :-1] - at_block[:, -1:]])
    inverse: Array = np.asarray(np.linalg.pinv(whole.T @ whole), dtype=np.float64)
    points_solved: Array = np.asarray(np.linalg.pinv(at_point), dtype=np.float64)
    rank = int(np.linalg.matrix_rank(whole))
    df_blocks, weight = rank - at_point.shape[1], 0.0
    if df_blocks >= 1:
        within = at_block - at_point @ (points_solved @ at_block)
        weight = df_blocks / float(np.sum(within**2))
    return _Design(
        at_point=at_point,
        whole=whole,
        inverse=inverse,
        effects=inverse @ whole.T,
        solved=np.asarray(np.linalg.pinv(whole), dtype=np.float64),
        points_solved=points_solved,
        rank=rank,
        df_blocks=df_blocks,
        block_weight=weight,
    )


def _adjacent(points: tuple[Hashable, ...]) -> tuple[tuple[Hashable, Hashable], ...]:
    steps = tuple(pairwise(points))
    return (*steps, (points[0], points[-1])) if len(steps) > 1 else steps


def _transform(values: Sequence[float], scale: Scale) -> Array:
    array = np.asarray(values, dtype=np.float64)
    return np.log(array) if scale == "log" else array


def _on_scale(deviations: Mapping[Hashable, float], values: Sequence[Cell], scale: Scale) -> dict[Hashable, float]:
    """Return the points' standard deviations on the fitted scale; on the log scale, they are divided by the mean."""
    if scale == "linear":
        return dict(deviations)
    means = {point: float(np.mean([value for at, _, value in values if at == point])) for point in deviations}
    return {point: deviation / means[point] for point, deviation in deviations.items()}


def _indicator(places: Sequence[int], width: int) -> Array:
    return np.asarray(np.eye(width)[np.asarray(places)], dtype=np.float64)


def _mixed(
    own: Array | float, rest: Array | float, df_own: float, df_rest: float
) -> tuple[Array | float, Array | float]:
    """Return the mixture of two variances, and its degrees of freedom: at most those that equal variances would
    give."""
    part_own, part_rest = OWN_WEIGHT * own, (1 - OWN_WEIGHT) * rest
    variance = part_own + part_rest
    df = variance**2 / (part_own**2 / df_own + part_rest**2 / df_rest)
    return variance, np.minimum(df, 1 / (OWN_WEIGHT**2 / df_own + (1 - OWN_WEIGHT) ** 2 / df_rest))


@lru_cache(maxsize=1024)
def _resolved_shift(df_own: float, df_rest: float, rest: float, level: float, power: float) -> float:
    """Return the shift, in standard errors of the pair, that a share `power` of randomly drawn sweeps would resolve."""
    return _shift_found(_half_widths(df_own, df_rest, rest, level), power)


def _half_widths(df_own: float, df_rest: float, rest: float, level: float) -> Array:
    """Return half the widths of the intervals of randomly drawn sweeps.

    The pair's true error is 1, the other points' is `rest`.
    """
    from scipy.special import stdtrit

    rng = np.random.default_rng(_SEED)
    own = rng.chisquare(df_own, _DRAWS) / df_own
    df: Array | float = float(df_own)
    variance: Array | float = own
    if df_rest > 0:
        variance, df = _mixed(own, rest**2 * rng.chisquare(df_rest, _DRAWS) / df_rest, df_own, df_rest)
    return np.asarray(stdtrit(df, 1 - (1 - level) / 2) * np.sqrt(variance), dtype=np.float64)


def _shift_found(halves: Array, power: float) -> float:
    """Return the shift, in standard errors, that a share `power` of sweeps with these half widths would resolve."""
    from scipy.special import ndtr

    low, high = 0.0, float(halves.max()) + 10
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if float(np.mean(ndtr(middle - halves))) > power else (middle, high)
    return high


@lru_cache(maxsize=1024)
def _median_of_variance(df: float) -> float:
    """Return the median of estimates, with `df` degrees of freedom, of a variance whose true value is one."""
    from scipy.special import chdtri

    return float(chdtri(df, 0.5)) / df


def _one_sample(numbers: Array) -> _Spot:
    """Return the mean of numbers with its standard error, for Student's one-sample interval."""
    centre = float(numbers.mean())
    if len(numbers) < 2:
        return _Spot(centre, note=_TOO_FEW)
    return _Spot(centre, (sample_variance(numbers) / len(numbers)) ** 0.5, len(numbers) - 1)


def _rss(y: Array, design: Array, solved: Array) -> float:
    """Return the residual sum of squares; residuals that are only rounding errors count as zero.

    `solved` is the design's pseudo-inverse.
    """
    residuals = y - design @ (solved @ y)
    rss = float(residuals @ residuals)
    return 0.0 if is_rounding((rss / len(y)) ** 0.5, y) else rss
