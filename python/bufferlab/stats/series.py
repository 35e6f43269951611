"""Estimates the mean, dispersion and changes of level of a run's per-second series, whose seconds are correlated.

A mean is computed from batches of seconds. Batches grow until they pass von Neumann's test (Fishman and Yarberry,
INFORMS J. Computing 9, 1997), and the remaining correlation widens the interval (Tafazzoli and others, Skart, INFORMS
J. Computing 23, 2011). The dispersion is the coefficient of variation. Its interval is computed by the jackknife over
batches (Kunsch, Annals of Statistics 17, 1989). Changes of level are found by circular binary segmentation (Olshen and
others, Biostatistics 5, 2004), after the series' lag-one correlation is removed. That correlation is estimated from
differences, so that a change of level is not mistaken for correlation (Chakar and others, Bernoulli 23, 2017). The
threshold of the segmentation comes from permutations, drawn with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.rounding import sample_deviation

Array = npt.NDArray[np.float64]

#: The least number of batches: an interval from fewer would be too uncertain.
MIN_BATCHES = 8
#: The least number of values from which correlation and dispersion can be estimated.
MIN_VALUES = 10
#: The least number of seconds in a regime: a single odd second is an outlier.
MIN_REGIME = 3
#: Longer series are averaged down to this many bins before changes are searched, because the search is quadratic.
_MAX_BINS = 150
_PERMUTATIONS = 999
#: The number of shuffled series that one pass of numpy handles.
_SLICE = 50
#: The level at which each cut (a place that splits a series into two levels) is tested, as a share of the rate of false
#: cuts asked for. The correlation is only an estimate, so tests at the full rate would cut too often. With this share
#: the rate is not exceeded while the lag-one correlation is at most 0.3.
_FOR_UNKNOWN_CORRELATION = 0.6
_SEED = 20260102
_TOO_SHORT = f"fewer than {MIN_VALUES} seconds: their correlation cannot be known"
_CONSTANT = "every second gave the same value"


@dataclass(frozen=True, slots=True)
class Regime:
    """A stretch of a series at one level, from place `start` to `end` (excluded), with its mean."""

    start: int
    end: int
    mean: float


def batch_means(values: Sequence[float], level: float = 0.95) -> Estimate:
    """Return the mean of a stationary series, with an interval for its long-run mean; `n` is the number of batches.

    Raise ValueError for a series without a value, or with one that is not finite.
    """
    series = _finite(values)
    mean = float(series.mean())
    if len(series) < MIN_VALUES:
        return Estimate(mean, None, None, len(series), note=_TOO_SHORT)
    means = _batches(series, _batch_size(series))
    if np.ptp(means) == 0:
        return Estimate(mean, None, None, len(means), note=_CONSTANT)
    # A negative correlation between batches counts as zero: it is chance, and would make the interval too narrow.
    left = min(0.8, max(0.0, _lag_one(means)))
    error = float(np.sqrt(means.var(ddof=1) * (1 + left) / (1 - left) / len(means)))
    df = float(len(means) - 1)
    half = quantile_of_t(1 - (1 - level) / 2, df) * error
    return Estimate(mean, mean - half, mean + half, len(means), df)


def dispersion(values: Sequence[float], level: float = 0.95) -> Estimate:
    """Return the coefficient of variation (standard deviation / mean) of a series of rates, with its interval.

    Raise ValueError for a series without a value, with one that is not finite, or with a mean that is not above zero.
    """
    series = _finite(values)
    mean = float(series.mean())
    if mean <= 0:
        raise ValueError("a coefficient of variation needs a mean above zero")
    value = sample_deviation(series) / mean if len(series) > 1 else 0.0
    if len(series) < MIN_VALUES:
        return Estimate(value, None, None, len(series), note=_TOO_SHORT)
    if value == 0:
        return Estimate(0.0, None, None, len(series), note=_CONSTANT)
    size = _batch_size(series)
    count = len(series) // size
    kept = [np.delete(series, np.arange(k * size, (k + 1) * size)) for k in range(count)]
    # The interval is computed on the log scale, so that it stays above zero and is skewed as the estimate is.
    logs = np.array([np.log(part.std(ddof=1) / part.mean()) if np.ptp(part) > 0 else np.nan for part in kept])
    if np.isnan(logs).any():
        return Estimate(value, None, None, count, note="one stretch alone makes the dispersion")
    error = float(np.sqrt((count - 1) / count * np.sum((logs - logs.mean()) ** 2)))
    half = quantile_of_t(1 - (1 - level) / 2, count - 1) * error
    return Estimate(value, value * float(np.exp(-half)), value * float(np.exp(half)), count, float(count - 1))


def regimes(values: Sequence[float], level: float = 0.95) -> tuple[Regime, ...]:
    """Return the stretches of a series between its changes of level; the whole series if no change is resolved.

    At a lag-one correlation of 0.3 a series without a change is cut with a probability of about 1 - `level`, at a lower
    correlation less often. If ten of sixty seconds are two standard deviations off, this is found in more than 80 % of
    uncorrelated series, and in half of the series with a correlation of 0.3. Raises the errors of `batch_means`.
    """
    series = _finite(values)
    width = -(-len(series) // _MAX_BINS)
    bins = _batches(series, width)
    phi = _correlation_without_levels(bins)
    edges = sorted({0, *_cuts(bins, 0, len(bins), phi, 1 - level), len(bins)})
    places = [min(len(series), edge * width) if edge < len(bins) else len(series) for edge in edges]
    return tuple(Regime(start, end, float(series[start:end].mean())) for start, end in pairwise(places))


def _finite(values: Sequence[float]) -> Array:
    series = np.asarray(values, dtype=np.float64)
    if series.ndim != 1 or not len(series):
        raise ValueError("a series needs at least one value")
    if not np.isfinite(series).all():
        raise ValueError("a value is not a finite number: cut the series there instead")
    return series


def _batches(series: Array, size: int) -> Array:
    """Return the means of consecutive batches of `size` values; values at the end that fill no batch are left out."""
    count = len(series) // size
    return np.asarray(series[: count * size].reshape(count, size).mean(axis=1), dtype=np.float64)


def _batch_size(series: Array) -> int:
    """Return the smallest batch size whose means do not look correlated, as long as MIN_BATCHES batches are left."""
    size, largest = 1, max(1, len(series) // MIN_BATCHES)
    while size < largest and _looks_correlated(_batches(series, size)):
        size = min(largest, size + 1 if size < 4 else size * 3 // 2)
    return size


def _looks_correlated(means: Array) -> bool:
    """Return whether means look correlated, by von Neumann's ratio.

    The one-sided level is 20 %, because missing a correlation is the worse error.
    """
    n = len(means)
    squares = float(np.sum((means - means.mean()) ** 2))
    if squares == 0:
        return False
    c = 1 - float(np.sum(np.diff(means) ** 2)) / (2 * squares)
    return bool(c * ((n**2 - 1) / (n - 2)) ** 0.5 > 0.84)


def _lag_one(means: Array) -> float:
    centred = means - means.mean()
    return float(centred[1:] @ centred[:-1] / (centred @ centred))


def _correlation_without_levels(series: Array) -> float:
    """Return the lag-one correlation of an AR(1) about a jumping level, from E(x2-x0)^2 / E(x1-x0)^2 = 1 + phi."""
    one, two = np.diff(series), series[2:] - series[:-2]
    if len(two) < MIN_VALUES or not one.any():
        return 0.0
    return float(np.clip(np.mean(two**2) / np.mean(one**2) - 1, 0.0, 0.8))


def _cuts(series: Array, start: int, end: int, phi: float, alpha: float) -> list[int]:
    """Return the places between start and end where the level changes, found by repeated splitting."""
    part = series[start:end]
    if len(part) < max(MIN_VALUES, 2 * MIN_REGIME):
        return []
    # Once the correlation is removed, seconds are exchangeable and may be shuffled.
    white = np.concatenate([part[:1] * (1 - phi), part[1:] - phi * part[:-1]])
    white = white - white.mean()
    if np.ptp(white) == 0:
        return []
    scores = _arc_scores(white[None, :])[0]
    place = int(scores.argmax())
    if _by_chance(white, float(scores[place]), _FOR_UNKNOWN_CORRELATION * alpha):
        return []
    low, high = (int(edge) for edge in _arcs(len(part))[place])
    inner = [start + edge for edge in (low, high) if 0 < edge < len(part)]
    bounds = [start, *inner, end]
    found = list(inner)
    for a, b in pairwise(bounds):
        found += _cuts(series, a, b, phi, alpha)
    return found


@lru_cache(maxsize=64)
def _arcs(n: int) -> npt.NDArray[np.int64]:
    """Return (start, end) of every stretch of a series of n places that may be an arc (a stretch at another level).

    The arc has at least MIN_REGIME places, and so has the rest of the series. Each side of the arc has no places, or at
    least MIN_REGIME.
    """
    pairs = [
        (low, high)
        for low in range(n)
        for high in range(low + MIN_REGIME, n + 1)
        if n - (high - low) >= MIN_REGIME and (low == 0 or low >= MIN_REGIME) and (high == n or n - high >= MIN_REGIME)
    ]
    return np.array(pairs, dtype=np.int64)


def _by_chance(white: Array, score: float, alpha: float) -> bool:
    """Return whether more than a share `alpha` of the random orders of a series, its own included, have an arc of at
    least this score.

    Most series have no change of level. Then one or two batches of shuffled orders suffice to decide.
    """
    shuffled = np.random.default_rng(_SEED).permuted(np.tile(white, (_PERMUTATIONS, 1)), axis=1)
    as_high = 1
    # All shuffled orders of a long series at once would take gigabytes of memory.
    for first in range(0, _PERMUTATIONS, _SLICE):
        as_high += int(np.sum(_arc_scores(shuffled[first : first + _SLICE]).max(axis=1) >= score))
        if as_high / (1 + _PERMUTATIONS) > alpha:
            return True
    return False


def _arc_scores(rows: Array) -> Array:
    """Return, for each centred row and each arc, |mean inside the arc - mean outside| in standard errors."""
    n = rows.shape[1]
    arcs = _arcs(n)
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
    inside = (arcs[:, 1] - arcs[:, 0]).astype(np.float64)
    scale = 1 / np.sqrt(inside * (n - inside) / n)
    return np.asarray(np.abs(sums[:, arcs[:, 1]] - sums[:, arcs[:, 0]]) * scale, dtype=np.float64)
