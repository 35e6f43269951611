"""Tests whether a figure turns inside an ordered axis: one way up to some point, and the other way from there on.

A mean slope over such an axis is true and misleading. The turning point is chosen after looking at the data. So both of
its comparisons (with the first point and with the last) are made at Sidak's level for all points that might have been
chosen. Knows neither files nor metrics. The caller decides how many figures hold together, by the level of one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from bufferlab.stats.comparison import single_level
from bufferlab.stats.fit import Fit
from bufferlab.stats.verdict import Verdict, direction_of


@dataclass(frozen=True)
class Turn:
    """The lowest or highest point of a figure inside the axis, and its two sides, both resolved and opposite."""

    point: Hashable
    before: Verdict
    """The comparison of this point with the first one."""
    after: Verdict
    """The comparison of the last point with this one."""


def turn(fit: Fit, points: Sequence[Hashable], level: float) -> Turn | None:
    """Return the turn of the figure over these points in order; None when no turn is resolved."""
    inner = points[1:-1]
    if not inner:
        return None
    single = single_level(level, 2 * len(inner))
    ends = (min(inner, key=lambda point: fit.mean(point).value), max(inner, key=lambda point: fit.mean(point).value))
    found = [_at(fit, points[0], point, points[-1], single) for point in ends]
    turns = [one for one in found if {one.before.direction, one.after.direction} == {"falls", "rises"}]
    return max(turns, key=_lesser_side, default=None)


def _at(fit: Fit, first: Hashable, point: Hashable, last: Hashable, level: float) -> Turn:
    return Turn(point, _side(fit, first, point, level), _side(fit, point, last, level))


def _side(fit: Fit, a: Hashable, b: Hashable, level: float) -> Verdict:
    found = fit.compare(a, b, level)
    return Verdict(a, b, direction_of(found, fit.contrast), found, fit.contrast, None)


def _lesser_side(found: Turn) -> float:
    """Return the smaller of a turn's two changes; of two turns, `turn` takes the one where it is larger."""
    sides = (found.before, found.after)
    return min(abs(math.log(s.estimate.value) if s.contrast == "ratio" else s.estimate.value) for s in sides)
