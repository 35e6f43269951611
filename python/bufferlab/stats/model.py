"""One model for a whole sweep: value = point effect + block effect + noise, fitted by least squares.

The noise variance is pooled over all cells, so three repetitions of five points give eight degrees of
freedom, not two. Values above zero are fitted as logarithms, because I/O counts err in per cent, not in
pages; a comparison is then a ratio. If any value is zero or less the fit is linear and a comparison is a
difference.

Comparisons cancel the block effects (all points of a block share its seed). Means do not: their interval
covers what another block would give, so it holds the block variance too, with Satterthwaite's degrees of
freedom (Searle, Casella and McCulloch, Variance Components, 1992, ch. 5; Henderson's method III for cells
that are missing).

The intervals of the comparisons hold together: their level is Sidak's for the comparisons declared
(adjacent points and first to last). Sidak's inequality holds for t statistics that share one variance
estimate, whatever their correlation (Sidak, JASA 62, 1967). The studentized range covers all pairs, more
than a sweep claims, and would be wider for nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from bufferlab.stats.estimate import Estimate

Array = npt.NDArray[np.float64]
Scale = Literal["log", "linear"]
Cell = tuple[Hashable, Hashable, float]

#: Residuals below this share of the values are rounding, not noise.
_ROUNDING = 1e-12
_ONE_BLOCK = "one repetition: nothing says how much another would differ"


@dataclass(frozen=True)
class Fit:
    """A fitted sweep. Ask it for means and comparisons; it answers with intervals where there can be some."""

    points: tuple[Hashable, ...]
    blocks: tuple[Hashable, ...]
    comparisons: tuple[tuple[Hashable, Hashable], ...]
    scale: Scale
    level: float
    n: int
    df_error: int
    variance_error: float
    """Pooled variance of the noise, on the fitted scale."""
    variance_blocks: float
    """Variance between blocks, on the fitted scale; an unbiased estimate, so it may be below zero."""
    _cells: tuple[Cell, ...]
    _effects: Array
    _inverse: Array
    _design: Array
    _df_blocks: int
    _ms_blocks: float
    _block_weight: float

    @property
    def contrast(self) -> Literal["ratio", "difference"]:
        """What `step` gives on this scale."""
        return "ratio" if self.scale == "log" else "difference"

    @property
    def comparison_level(self) -> float:
        """The level of one comparison's interval, such that all declared ones hold together at `level`."""
        return float(self.level ** (1.0 / max(1, len(self.comparisons))))

    def mean(self, point: Hashable) -> Estimate:
        """The value of a point, adjusted for blocks it misses; its interval is for another block like these."""
        place = self.points.index(point)
        weights = np.zeros(len(self._effects))
        weights[place] = 1.0
        value = self._back(float(self._effects[place]))
        n = self._runs_at(point)
        note = self._why_no_interval(weights)
        if note is not None:
            return Estimate(value, None, None, n, note=note)
        variance, df = self._variance_of_mean(weights)
        if variance <= 0:
            return Estimate(value, None, None, n, note="every run gave the same value")
        half = _t(1 - (1 - self.level) / 2, df) * np.sqrt(variance)
        centre = float(self._effects[place])
        return Estimate(value, self._back(centre - half), self._back(centre + half), n, df)

    def step(self, a: Hashable, b: Hashable) -> Estimate:
        """b compared with a: the ratio b/a, or the difference b-a on the linear scale. Declared pairs only."""
        if (a, b) not in self.comparisons:
            raise ValueError(f"({a!r}, {b!r}) is not a declared comparison")
        weights = self._difference(a, b)
        centre = float(weights @ self._effects)
        value = self._back(centre)
        n = min(self._runs_at(a), self._runs_at(b))
        if self._same_numbers(a, b):
            return Estimate(1.0 if self.scale == "log" else 0.0, None, None, n, note="identical", identical=True)
        note = self._why_no_interval(weights)
        if note is None and self.variance_error == 0:
            note = "every block gave the same change: no noise to reckon an interval from"
        if note is not None:
            return Estimate(value, None, None, n, note=note)
        half = self._critical() * self._error_of(weights)
        return Estimate(value, self._back(centre - half), self._back(centre + half), n, float(self.df_error))

    def detectable(self, a: Hashable, b: Hashable, power: float = 0.8) -> float | None:
        """The smallest change of this comparison that would be resolved in `power` of sweeps like this one.

        A ratio above one on the log scale (1.05: five per cent either way), a difference on the linear scale.
        """
        weights = self._difference(a, b)
        if self._why_no_interval(weights) is not None or self.variance_error == 0:
            return None
        shift = (self._critical() + _t(power, self.df_error)) * self._error_of(weights)
        return self._back(shift) if self.scale == "log" else float(shift)

    def residuals(self) -> Array:
        """What the model leaves over, in the order of the values, on the fitted scale."""
        y = _transform([value for _, _, value in self._cells], self.scale)
        return np.asarray(y - self._design @ self._effects, dtype=np.float64)

    def leave_residuals(self, noise: Array) -> Array:
        """What the model would leave over of pure noise (one row per draw)."""
        hat = self._design @ self._inverse @ self._design.T
        return np.asarray(noise - noise @ hat, dtype=np.float64)

    def point_indicator(self) -> Array:
        """Which value belongs to which point: one row per value, one column per point."""
        return _indicator([self.points.index(point) for point, _, _ in self._cells], len(self.points))

    def _difference(self, a: Hashable, b: Hashable) -> Array:
        weights = np.zeros(len(self._effects))
        weights[self.points.index(b)] += 1.0
        weights[self.points.index(a)] -= 1.0
        return weights

    def _critical(self) -> float:
        return _t(1 - (1 - self.comparison_level) / 2, self.df_error)

    def _error_of(self, weights: Array) -> float:
        return float(np.sqrt(self.variance_error * (weights @ self._inverse @ weights)))

    def _variance_of_mean(self, weights: Array) -> tuple[float, float]:
        """The variance of a mean over blocks as a sum of the two mean squares, and its degrees of freedom."""
        of_blocks = self._block_weight / len(self.blocks)
        of_error = float(weights @ self._inverse @ weights) - of_blocks
        parts = [
            (of_blocks * self._ms_blocks, self._df_blocks),
            (of_error * self.variance_error, self.df_error),
        ]
        variance = sum(part for part, _ in parts)
        spread = sum(part**2 / df for part, df in parts if df > 0)
        return variance, variance**2 / spread if spread > 0 else 0.0

    def _why_no_interval(self, weights: Array) -> str | None:
        if len(self.blocks) < 2:
            return _ONE_BLOCK
        projected = weights @ self._inverse @ (self._design.T @ self._design)
        if not np.allclose(projected, weights, atol=1e-8):
            return "too many runs are missing: these points share no blocks"
        if self.df_error < 1 and (len(self.points) > 1 or self._df_blocks < 1):
            return "too few runs succeeded to know their noise"
        return None

    def _same_numbers(self, a: Hashable, b: Hashable) -> bool:
        of_a = sorted((self.blocks.index(block), value) for point, block, value in self._cells if point == a)
        of_b = sorted((self.blocks.index(block), value) for point, block, value in self._cells if point == b)
        return of_a == of_b

    def _runs_at(self, point: Hashable) -> int:
        return sum(1 for at, _, _ in self._cells if at == point)

    def _back(self, number: float) -> float:
        return float(np.exp(number)) if self.scale == "log" else float(number)


def fit(
    values: Sequence[Cell],
    *,
    comparisons: Sequence[tuple[Hashable, Hashable]] | None = None,
    scale: Literal["auto", "linear"] = "auto",
    level: float = 0.95,
) -> Fit:
    """Fit (point, block, value) rows. Points keep the order in which they first appear.

    Without `comparisons`, each point is compared with the one before it, and the last with the first.
    """
    if not values:
        raise ValueError("a fit needs at least one value")
    if not all(np.isfinite(value) for _, _, value in values):
        raise ValueError("a value is not a finite number: leave that run out instead")
    points = tuple(dict.fromkeys(point for point, _, _ in values))
    blocks = tuple(dict.fromkeys(block for _, block, _ in values))
    pairs = _adjacent(points) if comparisons is None else tuple(comparisons)
    chosen: Scale = "log" if scale == "auto" and all(value > 0 for _, _, value in values) else "linear"
    y = _transform([value for _, _, value in values], chosen)
    at_point = _indicator([points.index(point) for point, _, _ in values], len(points))
    at_block = _indicator([blocks.index(block) for _, block, _ in values], len(blocks))
    design = np.hstack([at_point, _sum_to_zero(at_block)])
    inverse: Array = np.asarray(np.linalg.pinv(design.T @ design), dtype=np.float64)
    effects = inverse @ design.T @ y
    rank = int(np.linalg.matrix_rank(design))
    df_error, df_blocks = len(y) - rank, rank - len(points)
    floor = (_ROUNDING * max(1.0, float(np.abs(y).max()))) ** 2
    rss_full, rss_points = _rss(y, design, floor), _rss(y, at_point, floor)
    variance_error = rss_full / df_error if df_error else 0.0
    ms_blocks = max(0.0, rss_points - rss_full) / df_blocks if df_blocks else 0.0
    block_weight = _block_weight(at_point, at_block, df_blocks)
    return Fit(
        points=points,
        blocks=blocks,
        comparisons=pairs,
        scale=chosen,
        level=level,
        n=len(y),
        df_error=df_error,
        variance_error=variance_error,
        variance_blocks=block_weight * (ms_blocks - variance_error),
        _cells=tuple(values),
        _effects=effects,
        _inverse=inverse,
        _design=design,
        _df_blocks=df_blocks,
        _ms_blocks=ms_blocks,
        _block_weight=block_weight,
    )


def _adjacent(points: tuple[Hashable, ...]) -> tuple[tuple[Hashable, Hashable], ...]:
    steps = tuple(pairwise(points))
    return (*steps, (points[0], points[-1])) if len(steps) > 1 else steps


def _transform(values: Sequence[float], scale: Scale) -> Array:
    array = np.asarray(values, dtype=np.float64)
    return np.log(array) if scale == "log" else array


def _indicator(places: Sequence[int], width: int) -> Array:
    return np.asarray(np.eye(width)[np.asarray(places)], dtype=np.float64)


def _sum_to_zero(at_block: Array) -> Array:
    """Block columns whose effects add to zero, so that a point's effect is its mean over the blocks."""
    return at_block[:, :-1] - at_block[:, -1:]


def _rss(y: Array, design: Array, floor: float) -> float:
    """Residual sum of squares; what is only rounding counts as zero."""
    residuals = y - design @ (np.linalg.pinv(design) @ y)
    rss = float(residuals @ residuals)
    return 0.0 if rss <= floor * len(y) else rss


def _block_weight(at_point: Array, at_block: Array, df_blocks: int) -> float:
    """The weight in E[mean square of blocks] = error variance + block variance / weight (Henderson III)."""
    if df_blocks < 1:
        return 0.0
    within = at_block - at_point @ (np.linalg.pinv(at_point) @ at_block)
    return df_blocks / float(np.sum(within**2))


@lru_cache(maxsize=4096)
def _t(probability: float, df: float) -> float:
    """Student's t quantile. scipy.special has it without the half second that scipy.stats takes to import."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))
