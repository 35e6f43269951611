"""Compares two sides setting by setting: identical, different, or not distinguishable. It names the test it used.

If the runs of both sides share enough keys (the seeds of their blocks), runs with equal keys are paired, and the fit of
`fit.py` removes the blocks' effects. Otherwise Welch's test compares them (Biometrika 34, 1947), with Satterthwaite's
degrees of freedom. One or two runs per side show little or nothing of the noise. If the caller knows how much a run
scatters (`known_scatter`), claims rest on that scatter, as in `fit.py`, unless the runs of a side clearly scatter more.
This module knows neither files nor metrics. The caller corrects the level of a single comparison for the number of
comparisons.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.fit import Cell, Fit, Scale, fit, same_numbers
from bufferlab.stats.known_scatter import CLAIM_TIMES, DOUBT_TIMES
from bufferlab.stats.rounding import sample_deviation, sample_variance
from bufferlab.stats.verdict import Verdict, direction_of, judge

Array = npt.NDArray[np.float64]
Method = Literal["paired", "welch"]
Keyed = tuple[Hashable, float]

POWER = 0.8
#: Up to this many runs per side hardly show how much runs scatter.
_FEW = 2
#: A paired comparison with fewer shared keys than this cannot estimate its noise.
MIN_SHARED = 2
_UNKNOWN = "nothing says how much another would differ"
_NO_NOISE = "every run of a side gave the same number: no noise to compute an interval from"
_IDENTICAL = "identical"


@dataclass(frozen=True)
class Match:
    """A setting that both sides have, with each side's runs as (key, value). Two runs with the same key are a pair."""

    name: Hashable
    a: tuple[Keyed, ...]
    b: tuple[Keyed, ...]


@dataclass(frozen=True)
class Compared:
    """The verdict on one match (side b compared with side a), and the mean and number of runs of each side."""

    PRINTED: ClassVar = ("value_a", "value_b", "n_a", "n_b", "verdict")

    name: Hashable
    verdict: Verdict
    value_a: float
    value_b: float
    n_a: int
    n_b: int


@dataclass(frozen=True)
class Comparison:
    """The matches of one metric, all compared by the same method."""

    method: Method
    level: float
    """The confidence level of each single interval."""
    compared: tuple[Compared, ...]


def method_for(matches: Sequence[Match]) -> Method:
    """Return "paired" if the sides share enough keys at every match, else "welch".

    Enough means at least half of the keys of the side with fewer keys, and at least MIN_SHARED or all of them.
    """
    return "paired" if matches and all(_shares(match) for match in matches) else "welch"


def single_level(level: float, comparisons: int) -> float:
    """Return the level for a single comparison so that all `comparisons` hold together at `level`.

    Source: Sidak, JASA 62, 1967.
    """
    return float(level ** (1.0 / max(1, comparisons)))


def compare(
    matches: Sequence[Match],
    *,
    method: Method,
    level: float,
    scale: Scale = "log",
    context: Sequence[Cell] = (),
    known_scatter: Mapping[Hashable, float] | None = None,
) -> Comparison:
    """Compare the two sides at every match; `level` is the confidence level of one comparison (see `single_level`).

    `context` holds further (point, key, value) rows of the same sweep, which help to estimate the noise.
    `known_scatter` has ("a" or "b", name of the match) -> standard deviation of one run's value, if it is known before
    the runs. The results are ratios if every value is above zero (values of identical matches may be zero). They are
    differences otherwise, and if `scale` is linear. Raise ValueError for a match with an empty side, and for a value
    that is not finite if runs are paired.
    """
    if not all(match.a and match.b for match in matches):
        raise ValueError("a match needs a run on each side")
    same = {match.name for match in matches if same_numbers(match.a, match.b)}
    rest = [match for match in matches if match.name not in same]
    values = [value for match in rest for _, value in (*match.a, *match.b)]
    chosen: Scale = "log" if scale == "log" and all(value > 0 for value in values) else "linear"
    known = known_scatter or {}
    fitted = _fit(rest, level, chosen, context, known) if method == "paired" and rest else None
    found = []
    for match in matches:
        if match.name in same:
            verdict = _same(match, chosen)
        elif fitted is not None:
            verdict = _of_fit(match, fitted)
        else:
            verdict = _welch(match, level, chosen, known)
        centre: Scale = "linear" if match.name in same else chosen
        means = [_mean([value for _, value in side], centre) for side in (match.a, match.b)]
        found.append(Compared(match.name, verdict, means[0], means[1], len(match.a), len(match.b)))
    return Comparison(method, level, tuple(found))


def _shares(match: Match) -> bool:
    of_a, of_b = {key for key, _ in match.a}, {key for key, _ in match.b}
    fewest = min(len(of_a), len(of_b))
    return len(of_a & of_b) >= max(min(MIN_SHARED, fewest), fewest / 2)


def _fit(
    matches: Sequence[Match], level: float, scale: Scale, context: Sequence[Cell], known: Mapping[Hashable, float]
) -> Fit:
    cells: list[Cell] = [
        ((side, match.name), key, value)
        for match in matches
        for side, runs in (("a", match.a), ("b", match.b))
        for key, value in runs
    ]
    pairs = [(("a", match.name), ("b", match.name)) for match in matches]
    # The fit divides its level among its comparisons. Here each comparison must have `level`, so pass the joint level.
    together = level ** len(pairs)
    blocks = {key for _, key, _ in cells}
    around = [cell for cell in context if cell[1] in blocks and (scale == "linear" or cell[2] > 0)]
    quiet = {match.name for match in matches if _known_error(match, scale, known) is not None}
    scatter: dict[Hashable, float] = {(side, name): known[side, name] for side in "ab" for name in quiet}
    return fit([*cells, *around], comparisons=pairs, scale=scale, level=together, known_scatter=scatter)


def _same(match: Match, scale: Scale) -> Verdict:
    still = 1.0 if scale == "log" else 0.0
    n = min(len(match.a), len(match.b))
    estimate = Estimate(still, None, None, n, note=_IDENTICAL, identical=True)
    return _verdict(match, estimate, scale, None)


def _of_fit(match: Match, fitted: Fit) -> Verdict:
    """Return the fit's verdict. If it has no interval and a side has only one run, name that as the reason."""
    verdict = judge(fitted, ("a", match.name), ("b", match.name))
    if verdict.direction == "no_interval" and min(len(match.a), len(match.b)) < 2:
        return replace(verdict, estimate=replace(verdict.estimate, note=_one_run(match)))
    return verdict


def _one_run(match: Match) -> str:
    return f"one run {'a' if len(match.a) == len(match.b) else 'on a'} side: {_UNKNOWN}"


def _welch(match: Match, level: float, scale: Scale, scatter: Mapping[Hashable, float]) -> Verdict:
    a, b = sides = [_scaled([value for _, value in side], scale) for side in (match.a, match.b)]
    n, change = min(len(a), len(b)), float(b.mean() - a.mean())
    known = _known_error(match, scale, scatter)
    if n < 2:
        return _by_known(match, change, n, scale, known, _one_run(match))
    parts = [(sample_variance(side) / len(side), len(side) - 1) for side in sides]
    error = sum(part for part, _ in parts) ** 0.5
    if error == 0:
        return _by_known(match, change, n, scale, known, _NO_NOISE)
    df = error**4 / sum(part**2 / free for part, free in parts)
    quantile = quantile_of_t(1 - (1 - level) / 2, df)
    if known is not None and n == _FEW and quantile * error >= CLAIM_TIMES * known:
        return _by_known(match, change, n, scale, max(known, error), _NO_NOISE)
    low, high = change - quantile * error, change + quantile * error
    estimate = Estimate(_back(change, scale), _back(low, scale), _back(high, scale), n, df)
    return _verdict(match, estimate, scale, _back((quantile + quantile_of_t(POWER, df)) * error, scale))


def _known_error(match: Match, scale: Scale, scatter: Mapping[Hashable, float]) -> float | None:
    """Return the standard error of a change, computed from the known scatter, on the scale of the comparison.

    None if a side's scatter is not known, or if a side's runs scatter more than DOUBT_TIMES the known scatter.
    """
    parts = []
    for name, side in (("a", match.a), ("b", match.b)):
        deviation, values = scatter.get((name, match.name)), [value for _, value in side]
        if deviation is None:
            return None
        if scale == "log":
            deviation /= float(np.mean(values))
        if len(values) > 1 and sample_deviation(_scaled(values, scale)) > DOUBT_TIMES * deviation:
            return None
        parts.append(deviation**2 / len(values))
    return float(sum(parts) ** 0.5)


def _by_known(match: Match, change: float, n: int, scale: Scale, known: float | None, why_not: str) -> Verdict:
    """Return the verdict with the standard error `known`.

    If that is None, return a verdict without an interval, with a note.
    """
    if known is None:
        return _verdict(match, Estimate(_back(change, scale), None, None, n, note=why_not), scale, None)
    low, high = (_back(change + side * CLAIM_TIMES * known, scale) for side in (-1, 1))
    estimate = Estimate(_back(change, scale), low, high, n, times=abs(change) / known)
    return _verdict(match, estimate, scale, _back((CLAIM_TIMES + NormalDist().inv_cdf(POWER)) * known, scale))


def _verdict(match: Match, estimate: Estimate, scale: Scale, detectable: float | None) -> Verdict:
    contrast: Literal["ratio", "difference"] = "ratio" if scale == "log" else "difference"
    direction = direction_of(estimate, contrast)
    return Verdict(("a", match.name), ("b", match.name), direction, estimate, contrast, detectable)


def _scaled(values: Sequence[float], scale: Scale) -> Array:
    array = np.asarray(values, dtype=np.float64)
    return np.log(array) if scale == "log" else array


def _mean(values: Sequence[float], scale: Scale) -> float:
    """Return the mean of a side; on the log scale the geometric mean, so that the displayed ratio is the ratio of the
    means."""
    return _back(float(_scaled(values, scale).mean()), scale)


def _back(number: float, scale: Scale) -> float:
    with np.errstate(over="ignore"):  # An end that is too large for a float becomes infinite.
        return float(np.exp(number)) if scale == "log" else number
