"""Turns intervals into verdicts: falls, rises, not resolved, identical.

A step is claimed only if its whole interval, corrected for the number of steps compared, lies on one side of "no
change". The report chooses the words and the per cent.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal

from bufferlab.stats.estimate import Estimate

if TYPE_CHECKING:
    from bufferlab.stats.fit import Fit

Direction = Literal["falls", "rises", "not_resolved", "identical", "no_interval"]
Shape = Literal[
    "falls_at_every_step",
    "rises_at_every_step",
    "falls_overall",
    "rises_overall",
    "turns",
    "identical",
    "not_resolved",
    "no_interval",
]


@dataclass(frozen=True)
class Verdict:
    """One comparison, and the direction that may be claimed from it."""

    PRINTED: ClassVar = ("direction", "contrast", "estimate", "detectable")

    a: Hashable
    b: Hashable
    direction: Direction
    estimate: Estimate
    contrast: Literal["ratio", "difference"]
    detectable: float | None
    """The smallest change that 80 % of such sweeps would have resolved; None if it was not computed."""

    @property
    def resolved(self) -> bool:
        """Whether a direction may be claimed."""
        return self.direction in ("falls", "rises")


@dataclass(frozen=True)
class SweepVerdict:
    """The verdict on a whole sweep: its shape, its steps, and the comparison of its last point with its first."""

    shape: Shape
    steps: tuple[Verdict, ...]
    span: Verdict


def judge(fit: Fit, a: Hashable, b: Hashable) -> Verdict:
    """Return the verdict on b compared with a. Raise ValueError for a pair that the fit did not declare."""
    estimate = fit.step(a, b)
    return Verdict(a, b, direction_of(estimate, fit.contrast), estimate, fit.contrast, fit.detectable(a, b))


def judge_sweep(fit: Fit, points: Sequence[Hashable]) -> SweepVerdict:
    """Return the verdict on two or more points in order. All its comparisons hold together at the fit's level.

    Raise ValueError for fewer than two points, and for a comparison that the fit did not declare.
    """
    steps = tuple(judge(fit, a, b) for a, b in pairwise(points))
    if not steps:
        raise ValueError("a sweep needs at least two points")
    span = judge(fit, points[0], points[-1]) if len(steps) > 1 else steps[0]
    return SweepVerdict(_shape([step.direction for step in steps], span.direction), steps, span)


def direction_of(estimate: Estimate, contrast: str) -> Direction:
    """Return the direction that an interval allows to claim; `contrast` is "ratio" or "difference"."""
    if estimate.identical:
        return "identical"
    if estimate.ci_low is None or estimate.ci_high is None:
        return "no_interval"
    still = 1.0 if contrast == "ratio" else 0.0
    if estimate.ci_high < still:
        return "falls"
    return "rises" if estimate.ci_low > still else "not_resolved"


def _shape(steps: Sequence[Direction], span: Direction) -> Shape:
    seen = set(steps)
    if "no_interval" in seen:
        return "no_interval"
    if seen == {"identical"}:
        return "identical"
    if seen == {"falls"}:
        return "falls_at_every_step"
    if seen == {"rises"}:
        return "rises_at_every_step"
    if {"falls", "rises"} <= seen:
        return "turns"
    if span == "falls" and "rises" not in seen:
        return "falls_overall"
    if span == "rises" and "falls" not in seen:
        return "rises_overall"
    return "not_resolved"
