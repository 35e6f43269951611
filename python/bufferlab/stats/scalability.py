"""Fits the Universal Scalability Law to throughput against connections, with intervals that hold where it is not exact.

X(N) = one * N / (1 + contention * (N - 1) + coherency * N * (N - 1)); its peak is at sqrt((1 - contention) / coherency)
(Gunther, Guerrilla Capacity Planning, Springer 2007; A General Theory of Computational Scalability, arXiv:0808.1431).

It is fitted to logarithms of the points' means by least squares, because throughput errs in per cent. Block effects are
factors, so `fit` takes them out of the means, also where a block lacks runs. The noise is what the means leave of the
law, with three degrees of freedom less than points. It holds both the scatter of the runs and how far this system is
from the law; the scatter of runs alone would promise too much where the law is not exact. docs/statistics.md has the
simulations that decided, also against a bootstrap of the blocks.

One noise for all points is wrong where some scatter more than others: the last points alone tell the coherency. So no
interval of the law's parameters or of its peak is shorter than the one by the blocks: how each block, were it repeated,
would move the estimate (Liang and Zeger, Biometrika 73, 1986), with Student's quantile for the number of blocks.

Blocks move all points together: the law's parameters and its peak's connections do not feel that, throughputs do. So
the intervals of throughputs are wider by the blocks' own variance, with Student's quantile for their number.

Intervals are projections of the region that the likelihood ratio leaves (Bates and Watts, Nonlinear Regression Analysis
and Its Applications, Wiley 1988, chapter 6), so they are not symmetric, and the peak's may have no upper end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.fit import Fit, fit
from bufferlab.stats.trend import around, turn

Array = npt.NDArray[np.float64]
#: (connections, block, throughput)
Placed = tuple[int, Hashable, float]

#: The law has three parameters, and its noise needs two degrees of freedom.
MIN_POINTS = 5
MIN_BLOCKS = 3
#: A mean farther from the law than this says that the system does not follow it.
MOST_MISFIT = 0.20
_DIRECTIONS = 144
#: The shares of the way from the best parameters to the region's edge at which the curve is looked at.
_INSIDE = np.array([0.0, 0.3, 0.55, 0.75, 0.9, 1.0])
#: A region is open where it reaches farther than so many times the linear one.
_FARTHEST = 64.0
_HALVINGS = 22
#: Half of an interval of a logarithm from which on it has no end worth telling.
_NO_END = 100.0
_ROUNDING = 1e-12
#: A coherency below this is none: the peak is at more connections than can be.
_NO_COHERENCY = 1e-30
_MOST_STEPS = 2000
_UNDETERMINED = "these throughputs do not determine the law's three parameters"


@dataclass(frozen=True)
class Law:
    """A fitted law. Each estimate's `n` is the number of runs."""

    one: Estimate
    """The throughput of one connection, in the unit of the values."""
    contention: Estimate
    """The share of the work that waits for its turn; 0: none."""
    coherency: Estimate
    """The cost of each pair of connections, as a share of a transaction's work; 0: none."""
    peak_at: Estimate
    """The number of connections with the highest throughput; infinite where the law has no peak."""
    peak: Estimate
    """The throughput there, in the unit of the values; that of the most connections measured where it has no peak."""
    misfit: float
    """The largest deviation of a point's mean from the law, as a share of the law's value."""
    misfit_at: int
    """The connections of that point."""
    measured: tuple[int, ...]
    """The connections that were measured."""
    _at: Array
    _free: Array
    _of_blocks: float

    def curve(self, connections: Sequence[float]) -> tuple[Array, Array, Array]:
        """Return the law's throughput at these numbers of connections, and the ends of its 95 % intervals there."""
        ns = np.asarray(connections, dtype=np.float64)
        shapes = _shape(ns, self._at[:, 1], self._at[:, 2]) + self._at[:, :1]
        low, high = (shapes - self._free[:, None]).min(axis=0), (shapes + self._free[:, None]).max(axis=0)
        low, high = _wider(low, shapes[0], high, self._of_blocks)
        return np.exp(shapes[0]), np.exp(low), np.exp(high)


def law(cells: Sequence[Placed], level: float = 0.95) -> Law:
    """Return the law fitted to (connections, block, throughput) rows, with intervals at `level`.

    Raise ValueError, whose text says why in words for the user, where no law can be fitted: for fewer than MIN_POINTS
    numbers of connections or MIN_BLOCKS blocks, a throughput that is not above zero, numbers of connections with one
    run, or that share no block, and throughputs that do not determine the law.
    """
    ns = tuple(sorted({count for count, _, _ in cells}))
    if why := _why_no_law(cells, ns):
        raise ValueError(why)
    # "always": the mean of a point without the effects of the blocks that it has, as it would be with all of them.
    found = fit(cells, comparisons=(), pooling="always")
    blocks = len(found.blocks)
    if len(cells) - found.df_error < len(ns) + blocks - 1:
        raise ValueError("too many runs are missing: some numbers of connections share no block with the others")
    x = np.array(ns, dtype=np.float64)
    y = np.log([found.mean(count).value for count in ns])
    df = len(ns) - 3
    error_of_blocks = math.sqrt(max(0.0, found.variance_blocks) / blocks)
    of_blocks = quantile_of_t(1 - (1 - level) / 2, blocks - 1) * error_of_blocks
    try:
        with np.errstate(all="ignore"):
            best = _best(x, y)
            variance = max(_left(x, y, *best)) / df
            halves = _halves_by_blocks(x, best, _deviations(cells, ns), level)
            fitted = _law(x, y, best, variance, df, len(cells), level, of_blocks, halves)
    except np.linalg.LinAlgError:
        raise ValueError(_UNDETERMINED) from None
    if not _is_determined(fitted):
        raise ValueError(_UNDETERMINED)
    return fitted


def _is_determined(of: Law) -> bool:
    """Return whether the parameters are finite, and every end of an interval is a number; a peak's may be infinite."""
    finite = (of.one.value, of.contention.value, of.coherency.value, of.misfit)
    estimates = (of.one, of.contention, of.coherency, of.peak_at, of.peak)
    ends = [end for one in estimates for end in (one.value, one.ci_low, one.ci_high) if end is not None]
    return all(map(math.isfinite, finite)) and not any(map(math.isnan, ends))


def _why_no_law(cells: Sequence[Placed], ns: Sequence[int]) -> str:
    """Return what these runs lack for a law, in words; "" where one may be tried."""
    if len(ns) < MIN_POINTS:
        has = "1 number of connections has" if len(ns) == 1 else f"{len(ns)} numbers of connections have"
        return f"{has} a throughput, and the law's three parameters need {MIN_POINTS}"
    if still := sorted({count for count, _, value in cells if not (math.isfinite(value) and value > 0)}):
        return f"nothing was done at {_connections(still[0])}, and the law needs throughputs above zero"
    blocks = len({block for _, block, _ in cells})
    if blocks < MIN_BLOCKS:
        return f"{blocks} block{'' if blocks == 1 else 's'}, and a peak needs {MIN_BLOCKS}: --repetitions {MIN_BLOCKS}"
    runs = Counter(count for count, _, _ in cells)
    if lone := sorted(count for count, of in runs.items() if of < 2):
        return f"only one run at {_connections(lone[0])} succeeded, so nothing says how much another would differ"
    return ""


def _connections(count: int) -> str:
    return f"{count} connection{'' if count == 1 else 's'}"


def _law(
    x: Array,
    y: Array,
    best: tuple[float, float],
    variance: float,
    df: int,
    n: int,
    level: float,
    of_blocks: float,
    halves: tuple[float, float, float],
) -> Law:
    """Return the law about its best parameters.

    `variance` is that of a point's mean, `of_blocks` half the interval of all blocks' effect, both of logarithms.
    `halves` are half the intervals by the blocks: of contention, of coherency, and of the logarithm of the peak.
    """
    limit = float(_left(x, y, *best)[0]) + variance * quantile_of_t(1 - (1 - level) / 2, df) ** 2
    at, is_open = _region(x, y, best, limit)
    free = np.sqrt(np.maximum(0.0, limit - _left(x, y, at[:, 0], at[:, 1])) / len(x))
    ones = _one(x, y, at[:, 0], at[:, 1])
    points = np.column_stack([ones, at])
    peaks = _peak_at(at[:, 0], at[:, 1])
    whole = np.clip(peaks, x[0], x[-1])
    heights = ones + np.log(whole) - np.log1p(at[:, 0] * (whole - 1) + at[:, 1] * whole * (whole - 1))

    def estimate(low: float, value: float, high: float) -> Estimate:
        if is_open:
            return Estimate(value, None, None, n, df, "the runs do not bound it")
        return Estimate(value, low, high, n, float(df))

    def shape(values: Array, half: float) -> Estimate:
        value = float(values[0])
        return estimate(min(float(values.min()), max(0.0, value - half)), value, max(float(values.max()), value + half))

    def throughput(logs: Array) -> Estimate:
        low, value, high = (logs - free).min(), float(logs[0]), (logs + free).max()
        low, high = _wider(low, value, high, of_blocks)
        return estimate(float(np.exp(low)), float(np.exp(value)), float(np.exp(high)))

    left = y - ones[0] - _shape(x, *best)
    worst = int(np.argmax(np.abs(np.expm1(left))))
    return Law(
        one=throughput(ones),
        contention=shape(at[:, 0], halves[0]),
        coherency=shape(at[:, 1], halves[1]),
        peak_at=estimate(
            min(float(peaks.min()), float(peaks[0] * np.exp(-halves[2]))),
            float(peaks[0]),
            max(float(peaks.max()), float(peaks[0] * np.exp(min(halves[2], _NO_END)))),
        ),
        peak=throughput(heights),
        misfit=float(np.expm1(left[worst])),
        misfit_at=int(x[worst]),
        measured=tuple(int(count) for count in x),
        _at=points,
        _free=free,
        _of_blocks=of_blocks,
    )


def _wider(low: Array | float, value: Array | float, high: Array | float, by: float) -> tuple[Array, Array]:
    """Return the ends of intervals about values, with a second, independent error added to each half."""
    return np.asarray(value - np.hypot(value - low, by)), np.asarray(value + np.hypot(high - value, by))


def _shape(ns: Array, contention: Array | float, coherency: Array | float) -> Array:
    """Return the logarithm of the law's throughput over that of one connection: [parameters, connections]."""
    s, k = (np.asarray(one, dtype=np.float64)[..., None] for one in (contention, coherency))
    return np.asarray(np.log(ns) - np.log1p(s * (ns - 1) + k * ns * (ns - 1)))


def _one(x: Array, y: Array, contention: Array | float, coherency: Array | float) -> Array:
    """Return the logarithm of the throughput of one connection that fits best with these other parameters."""
    return np.asarray((y - _shape(x, contention, coherency)).mean(axis=-1))


def _left(x: Array, y: Array, contention: Array | float, coherency: Array | float) -> Array:
    """Return the sum of squares that is left with these parameters and the best throughput of one connection."""
    apart = y - _shape(x, contention, coherency)
    return np.atleast_1d(((apart - apart.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1))


def _peak_at(contention: Array, coherency: Array) -> Array:
    """Return the connections of the law's peak: infinite without coherency, 0 where each further one does harm."""
    with np.errstate(divide="ignore", invalid="ignore"):
        peaks = np.sqrt(np.maximum(0.0, 1 - contention) / coherency)
    return np.asarray(np.where(contention < 1, peaks, 0.0))


def _best(x: Array, y: Array) -> tuple[float, float]:
    """Return contention and coherency of least squares, neither below zero."""
    from scipy.optimize import least_squares, nnls

    # N / X is linear in the parameters: a first guess, whose errors are weighed as those of the logarithms.
    inverse = x / np.exp(y - y.max())
    design = np.column_stack([np.ones_like(x), x - 1, x * (x - 1)]) / inverse[:, None]
    start = np.array([0.1, 0.001])
    with suppress(RuntimeError, ValueError):  # It did not converge, or has infinities: the guess will do.
        (a, b, c), _ = nnls(design, np.ones_like(x))
        if a > 0 and math.isfinite(b / a) and math.isfinite(c / a):
            start = np.array([b / a, c / a])

    def apart(at: Array) -> Array:
        left = y - _shape(x, at[0], at[1])
        return np.asarray(left - left.mean())

    def slopes(at: Array) -> Array:
        return _slopes(x, at)

    scale, end = (0.1, 0.001), 1e-12
    try:
        found = least_squares(
            apart, start, slopes, bounds=(0, np.inf), x_scale=scale, xtol=end, ftol=end, max_nfev=_MOST_STEPS
        )
    except ValueError:  # A residual is no finite number.
        raise ValueError(_UNDETERMINED) from None
    if found.status < 1:
        raise ValueError("the fit of the law did not converge")
    contention, coherency = float(found.x[0]), float(found.x[1])
    return contention, coherency if coherency >= _NO_COHERENCY else 0.0


def _slopes(x: Array, at: Array) -> Array:
    """Return how what is left changes with contention and coherency."""
    below = 1 + at[0] * (x - 1) + at[1] * x * (x - 1)
    slopes = np.column_stack([(x - 1) / below, x * (x - 1) / below])
    return np.asarray(slopes - slopes.mean(axis=0))


def _deviations(cells: Sequence[Placed], ns: Sequence[int]) -> Array:
    """Return what each run's logarithm lies above its point's and its block's mean; 0 for a missing run.

    [connections, block], of runs of one place and block the last.
    """
    blocks = list(dict.fromkeys(block for _, block, _ in cells))
    table = np.full((len(ns), len(blocks)), np.nan)
    for count, block, value in cells:
        table[ns.index(count), blocks.index(block)] = math.log(value)
    table -= np.nanmean(table, axis=1, keepdims=True)
    return np.asarray(np.nan_to_num(table - np.nanmean(table, axis=0)))


def _halves_by_blocks(
    x: Array, best: tuple[float, float], deviations: Array, level: float
) -> tuple[float, float, float]:
    """Return half the intervals that the blocks tell: of contention, of coherency, of the logarithm of the peak."""
    contention, coherency = best
    slopes = _slopes(x, np.array(best))
    # A block's deviations move the estimate by one step of Gauss and Newton; slopes are those of what is left.
    moved = -np.linalg.solve(slopes.T @ slopes, slopes.T @ deviations)
    blocks = moved.shape[1]
    quantile = quantile_of_t(1 - (1 - level) / 2, blocks - 1) / math.sqrt(blocks)
    peak = np.zeros(blocks)
    if coherency > 0 and contention < 1:
        peak = -moved[0] / (2 * (1 - contention)) - moved[1] / (2 * coherency)
    of_contention, of_coherency, of_peak = (float(quantile * np.std(one, ddof=1)) for one in (moved[0], moved[1], peak))
    return of_contention, of_coherency, of_peak


def _region(x: Array, y: Array, best: tuple[float, float], limit: float) -> tuple[Array, bool]:
    """Return (contention, coherency) pairs over the region in which at most `limit` is left, the best first.

    Also whether the region has no end in some direction other than at zero.
    """
    centre = np.array(best)
    least = float(_left(x, y, *best)[0])
    slopes = _slopes(x, centre)
    # Columns that turn the unit circle into the region's edge if the law were linear.
    turned = np.linalg.inv(np.linalg.cholesky(slopes.T @ slopes).T) * math.sqrt(max(limit - least, _ROUNDING))
    angles = np.linspace(0, 2 * np.pi, _DIRECTIONS, endpoint=False)
    ways = np.column_stack([np.cos(angles), np.sin(angles)]) @ turned.T
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(ways < 0, -centre / ways, np.inf).min(axis=1)
    far = np.minimum(ends, _FARTHEST)
    # The first doubling that leaves the region, then the place where it does.
    near, out = np.zeros(_DIRECTIONS), np.minimum(0.5, far)
    for _ in range(int(math.log2(_FARTHEST)) + 2):
        inside = _left(x, y, *(centre + out[:, None] * ways).T.clip(0)) <= limit
        near = np.where(inside, out, near)
        out = np.where(inside, np.minimum(2 * out, far), out)
    is_open = bool(np.any(inside & (far >= _FARTHEST)))
    for _ in range(_HALVINGS):
        middle = (near + out) / 2
        inside = _left(x, y, *(centre + middle[:, None] * ways).T.clip(0)) <= limit
        near, out = np.where(inside, middle, near), np.where(inside, out, middle)
    at = centre + (_INSIDE[1:, None, None] * near[None, :, None]) * ways[None]
    return np.vstack([centre, at.reshape(-1, 2).clip(0)]), is_open


def _interval(change: Estimate) -> str:
    """Return the interval of a ratio as changes in parentheses; "" where it has none."""
    if change.ci_low is None or change.ci_high is None:
        return ""
    low, high = (f"{100 * (end - 1):+.0f}".replace("-", "−") for end in (change.ci_low, change.ci_high))
    return f" ({low} to {high} %)"


def why_no_peak(of: Law, throughput: Fit, level: float = 0.95) -> str | None:
    """Return why no peak inside the measured connections may be claimed; None where one may.

    `throughput` is the fit of the same runs by their connections. Without the law the runs must show a maximum: a
    point that is resolved above the first and above the last. With the law, the peak's interval must lie inside.
    """
    first, last = of.measured[0], of.measured[-1]
    found = turn(throughput, of.measured, level)
    if found is None or found.before.direction != "rises":
        highest = max(of.measured, key=lambda count: throughput.mean(count).value)
        if highest == last:
            return f"throughput is highest at the most connections measured, {last}: the peak may lie beyond"
        if highest == first:
            return f"throughput is highest at the fewest connections measured, {first}: further ones only cost"
        before, after = around(throughput, of.measured, highest, level)
        sides = ((before, "rises", "its rise to there"), (after, "falls", f"its fall to {last}"))
        open_ones = [what + _interval(side.estimate) for side, wanted, what in sides if side.direction != wanted]
        if not open_ones and found is not None:
            lowest = f"lower at {found.point} than at either end"
            return f"throughput is highest at {highest} connections and {lowest}: it turns twice, and the law once"
        return f"throughput is highest at {highest} connections, but {' and '.join(open_ones)} may be chance"
    if abs(of.misfit) > MOST_MISFIT:
        side = "above" if of.misfit > 0 else "below"
        far = f"{100 * abs(of.misfit):.0f} % {side} it"
        return f"the runs do not follow the law: at {of.misfit_at} connections their mean lies {far}"
    low, high = of.peak_at.ci_low, of.peak_at.ci_high
    if low is None or high is None or high > last or low < first:
        ends = "without an end" if low is None or high is None or math.isinf(high) else f"{low:.1f} to {high:.1f}"
        return f"the interval of the law's peak, {ends}, reaches past the connections measured, {first} to {last}"
    return None
