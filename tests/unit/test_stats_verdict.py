"""The direction that an interval allows to claim, and the shape of a sweep from the directions of its steps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bufferlab.stats.estimate import Estimate
from bufferlab.stats.fit import Fit
from bufferlab.stats.verdict import direction_of, judge, judge_sweep

#: Ratios, each with the direction that it allows to claim.
FALLS, RISES = Estimate(0.8, 0.7, 0.9, 3, 4), Estimate(1.2, 1.1, 1.3, 3, 4)
OPEN, SAME = Estimate(1.0, 0.9, 1.1, 3, 4), Estimate(1.0, 1.0, 1.0, 3, 4, identical=True)
UNKNOWN = Estimate(1.0, None, None, 1)
WORDS = {"falls": FALLS, "rises": RISES, "not_resolved": OPEN, "identical": SAME, "no_interval": UNKNOWN}


class Compared(Fit):
    """A fit with given comparisons: the steps in order, and the first point with the last."""

    contrast = "ratio"

    def __init__(self, steps: Sequence[Estimate], span: Estimate) -> None:
        self.chosen = {(at, at + 1): step for at, step in enumerate(steps)} | {(0, len(steps)): span}

    def step(self, a: object, b: object) -> Estimate:
        return self.chosen[a, b]  # type: ignore[index]

    def detectable(self, a: object, b: object) -> float:
        return 0.125


def shape(steps: str, span: str) -> str:
    chosen = [WORDS[word] for word in steps.split()]
    return judge_sweep(Compared(chosen, WORDS[span]), range(len(chosen) + 1)).shape


@pytest.mark.parametrize(
    ("steps", "span", "expected"),
    [
        ("falls falls", "falls", "falls_at_every_step"),
        ("rises rises", "rises", "rises_at_every_step"),
        ("falls not_resolved", "falls", "falls_overall"),
        ("not_resolved rises", "rises", "rises_overall"),
        ("falls identical", "falls", "falls_overall"),
        ("identical rises", "rises", "rises_overall"),
        ("not_resolved not_resolved", "falls", "falls_overall"),
        ("not_resolved not_resolved", "rises", "rises_overall"),
        # No step may go the other way, even if the ends differ and no step is claimed in their direction.
        ("not_resolved rises", "falls", "not_resolved"),
        ("falls not_resolved", "rises", "not_resolved"),
        ("falls rises", "falls", "turns"),
        ("rises falls not_resolved", "rises", "turns"),
        ("identical identical", "identical", "identical"),
        # An identical step shows nothing about the other steps.
        ("identical not_resolved", "not_resolved", "not_resolved"),
        ("identical falls", "not_resolved", "not_resolved"),
        ("falls not_resolved", "not_resolved", "not_resolved"),
        ("falls no_interval", "falls", "no_interval"),
        ("identical no_interval", "identical", "no_interval"),
    ],
)
def test_the_shape_of_a_sweep_follows_from_all_its_steps_and_its_ends(steps: str, span: str, expected: str) -> None:
    assert shape(steps, span) == expected


def test_one_step_is_the_comparison_of_the_ends_and_a_single_point_is_refused() -> None:
    found = judge_sweep(Compared([FALLS], FALLS), [0, 1])
    assert found.span is found.steps[0]
    assert found.shape == "falls_at_every_step"
    with pytest.raises(ValueError, match="two points"):
        judge_sweep(Compared([], OPEN), [0])


@pytest.mark.parametrize(
    ("low", "high", "contrast", "expected"),
    [
        (0.5, 0.999, "ratio", "falls"),
        (0.5, 1.0, "ratio", "not_resolved"),
        (1.0, 1.5, "ratio", "not_resolved"),
        (1.001, 1.5, "ratio", "rises"),
        (-0.5, -0.001, "difference", "falls"),
        (-0.5, 0.0, "difference", "not_resolved"),
        (0.0, 0.5, "difference", "not_resolved"),
        (0.001, 0.5, "difference", "rises"),
        (0.5, 0.9, "difference", "rises"),
        (None, 0.9, "ratio", "no_interval"),
        (0.5, None, "ratio", "no_interval"),
    ],
)
def test_a_direction_is_claimed_where_the_whole_interval_lies_on_one_side(
    low: float | None, high: float | None, contrast: str, expected: str
) -> None:
    assert direction_of(Estimate(0.7, low, high, 3, 4), contrast) == expected


@pytest.mark.parametrize(("word", "estimate"), WORDS.items())
def test_a_verdict_is_resolved_where_it_claims_a_direction(word: str, estimate: Estimate) -> None:
    found = judge(Compared([estimate], estimate), 0, 1)
    assert (found.a, found.b, found.direction, found.contrast) == (0, 1, word, "ratio")
    assert found.resolved == (word in ("falls", "rises"))
    assert found.detectable == 0.125
