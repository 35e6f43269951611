"""Finds the points that may be the best: not a single point, but a set that contains the best one at a confidence
level.

The method is Hsu's multiple comparisons with the best (Annals of Statistics 12, 1984; bounds after Edwards and Hsu,
JASA 78, 1983). A point is excluded if another point is better in a one-sided comparison, at Sidak's level for the
number of the other points. The caller decides which point of the set to take.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bufferlab.stats.estimate import Estimate
from bufferlab.stats.fit import Fit

Better = Literal["less", "more"]


@dataclass(frozen=True)
class BestSet:
    """The points that may be the best. If a comparison has no interval, `note` says why, and all points are members."""

    observed: Hashable
    """The point with the best mean; always one of the members."""
    members: tuple[Hashable, ...]
    """The points that may be the best, in their order. With a probability of at least `level` the true best is one."""
    others: tuple[Hashable, ...]
    """The points that are not members. Each of them is worse than another point, unless runs are missing."""
    behind: Mapping[Hashable, float]
    """Point -> how much worse than the best it may be at most: a factor (1.03: 3 %) on the log scale, else a
    difference."""
    beat_all_others: bool
    """Whether every member beats every point in `others`, corrected for comparisons of all pairs of points."""
    level: float
    note: str | None = None


def equivalence_set(
    fit: Fit, better: Better, points: Sequence[Hashable] | None = None, level: float | None = None
) -> BestSet:
    """Return the points, among `points` (all by default), that the fit cannot distinguish from the best.

    `level` is the probability with which the set holds the best point (the fit's level by default). Raise ValueError
    without a point.
    """
    among = tuple(fit.points if points is None else points)
    if not among:
        raise ValueError("a best point needs points")
    level = fit.level if level is None else level
    sign = 1.0 if better == "less" else -1.0
    observed = min(among, key=lambda point: sign * fit.mean(point).value)
    each = level ** (1 / max(1, len(among) - 1))
    versus = {(i, j): fit.compare(j, i, 2 * each - 1) for i in among for j in among if i != j}
    note = next((e.note for e in versus.values() if not e.has_interval and not e.identical), None)
    if note is not None:
        return BestSet(observed, among, (), {}, False, level, note)
    members = tuple(i for i in among if not any(_worse(versus[i, j], fit, better) for j in among if j != i))
    # Usually the set has at least the point with the best mean. But if runs are missing, each point may be worse than
    # some other one.
    members = members or (observed,)
    others = tuple(point for point in among if point not in members)
    still = 1.0 if fit.contrast == "ratio" else 0.0
    behind = {i: max([still, *(_worst(versus[i, j], fit, better) for j in members if j != i)]) for i in among}
    return BestSet(observed, members, others, behind, _all_beaten(fit, members, others, better, level), level)


def _worse(found: Estimate, fit: Fit, better: Better) -> bool:
    """Return whether the second point of a comparison is worse than the first over the whole interval."""
    still = 1.0 if fit.contrast == "ratio" else 0.0
    if found.ci_low is None or found.ci_high is None:
        return False
    return found.ci_low > still if better == "less" else found.ci_high < still


def _worst(found: Estimate, fit: Fit, better: Better) -> float:
    """Return how much worse the second point of a comparison may be than the first, at most."""
    if found.ci_low is None or found.ci_high is None:
        return 1.0 if fit.contrast == "ratio" else 0.0
    if better == "less":
        return found.ci_high
    return 1 / found.ci_low if fit.contrast == "ratio" else -found.ci_low


def _all_beaten(
    fit: Fit, members: Sequence[Hashable], others: Sequence[Hashable], better: Better, level: float
) -> bool:
    pairs = len(fit.points) * (len(fit.points) - 1) // 2
    each = level ** (1 / max(1, pairs))
    return all(_worse(fit.compare(m, o, each), fit, better) for m in members for o in others)
