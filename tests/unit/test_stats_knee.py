"""Hinge, marginal benefit and knee: their intervals contain the truth, and a flat curve has no knee."""

from __future__ import annotations

import math
from collections.abc import Hashable
from statistics import stdev

import numpy as np
import pytest

from bufferlab.stats.fit import Fit, fit
from bufferlab.stats.knee import hinge_zero, knee_of_curve, marginal
from bufferlab.stats.verdict import judge

MIB = 1024**2
SIZES: dict[Hashable, int] = {0: 10 * MIB, 1: 20 * MIB, 2: 40 * MIB, 3: 80 * MIB}
CURVE = [40.0, 20.0, 10.0, 9.99]


def hinge(rng: np.random.Generator, zero: float, noise: float, blocks: int = 5) -> list[tuple[Hashable, float, float]]:
    x = np.array([2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 12.0])
    return [
        (block, float(at), float(max(0.0, 0.1 * (at - zero * (1 + shift)) + rng.normal(0, noise) * (at > zero))))
        for block, shift in enumerate(rng.normal(0, 0.02, blocks))
        for at in x
    ]


def curve(rng: np.random.Generator, truth: list[float], noise: float = 0.01) -> Fit:
    logs = np.log(truth)[:, None] + rng.normal(0, 0.01, 5) + rng.normal(0, noise, (len(truth), 5))
    return fit([(i, j, float(np.exp(logs[i, j]))) for i, j in np.ndindex(logs.shape)])


def test_a_line_without_noise_gives_its_zero_exactly() -> None:
    rows = [(block, x, max(0.0, 3 * (x - zero))) for block, zero in ((0, 5.2), (1, 5.4)) for x in range(1, 10)]
    found = hinge_zero(rows)
    assert found.value == pytest.approx(5.3)
    assert found.n == 2
    assert (found.ci_low or 0) < 5.2 < 5.4 < (found.ci_high or 0)


def test_rounding_is_no_noise_of_a_hinge() -> None:
    """The standard deviation of seven equal numbers may be above zero by rounding."""
    found = hinge_zero([(block, x, max(0.0, 1.7 * (x - 0.3))) for block in range(7) for x in (0.1, 0.4, 0.7, 0.9)])
    assert (found.ci_low, found.note) == (None, "every block gave the same hinge: no noise to compute an interval from")


def test_the_interval_of_a_hinge_is_students_over_the_hinges_of_the_blocks() -> None:
    zeros = (5.0, 5.1, 5.3, 5.7, 6.3)
    found = hinge_zero([(block, x, max(0.0, 3 * (x - zero))) for block, zero in enumerate(zeros) for x in range(1, 12)])
    # statistics.stdev divides by n - 1; 2.7764 is the 97.5 % quantile of Student's t with 4 degrees of freedom.
    half = 2.7764451 * stdev(zeros) / math.sqrt(5)
    assert (found.ci_low, found.ci_high) == pytest.approx((5.48 - half, 5.48 + half))
    assert (found.n, found.df) == (5, 4)


def test_the_hinge_is_covered_in_93_to_97_per_cent() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(1000):
        found = hinge_zero(hinge(rng, 5.5, 0.005))
        inside += (found.ci_low or 0) <= 5.5 <= (found.ci_high or 0)
    assert 0.92 <= inside / 1000 <= 0.975, f"{inside} of 1000 covered"


def test_no_hinge_where_nothing_rises_and_no_interval_from_one_block() -> None:
    flat = hinge_zero([(0, float(x), 0.0) for x in range(5)])
    assert math.isnan(flat.value)
    assert "no hinge" in (flat.note or "")
    one = hinge_zero([(0, float(x), max(0.0, x - 2.5)) for x in range(6)])
    assert one.value == pytest.approx(2.5)
    assert not one.has_interval


def test_benefits_per_mib_are_covered_all_together_in_95_per_cent_or_more() -> None:
    rng = np.random.default_rng(2)
    truth = [(40 - 20) / 10, (20 - 10) / 20, 0.01 / 40]
    together = 0
    for _ in range(500):
        steps = marginal(curve(rng, CURVE), SIZES)
        together += all(
            (step.benefit.ci_low or -9) <= is_ <= (step.benefit.ci_high or 9)
            for step, is_ in zip(steps, truth, strict=True)
        )
    assert together / 500 >= 0.92, f"{together} of 500 covered whole"


def test_a_benefit_is_claimed_exactly_where_the_step_falls() -> None:
    rng = np.random.default_rng(3)
    for noise in (0.001, 0.03, 0.3):
        found = curve(rng, CURVE, noise)
        for step in marginal(found, SIZES):
            assert step.resolved == (judge(found, step.a, step.b).direction == "falls")


def test_the_knee_is_the_last_size_that_still_brought_something() -> None:
    knee = knee_of_curve(curve(np.random.default_rng(4), CURVE), SIZES)
    assert knee.size_bytes == 40 * MIB
    assert knee.beyond is not None
    assert (knee.beyond.from_bytes, knee.beyond.to_bytes) == (40 * MIB, 80 * MIB)
    assert (knee.beyond.benefit.ci_low or 0) < 0 < (knee.beyond.benefit.ci_high or 0)


def test_a_curve_that_falls_to_its_end_has_nothing_beyond_and_a_flat_one_no_knee() -> None:
    rng = np.random.default_rng(5)
    falling = knee_of_curve(curve(rng, [40.0, 20.0, 10.0, 5.0]), SIZES)
    assert (falling.size_bytes, falling.beyond) == (80 * MIB, None)
    flat = knee_of_curve(curve(np.random.default_rng(8), [10.0] * 4), SIZES)
    assert flat.size_bytes is None
    assert flat.beyond is not None


def test_a_figure_that_reaches_zero_is_told_by_differences() -> None:
    rng = np.random.default_rng(7)
    values = np.maximum(0, np.array([5.0, 1.0, 0.0, 0.0])[:, None] + rng.normal(0, 0.01, (4, 5)))
    found = fit([(i, j, float(values[i, j])) for i, j in np.ndindex(values.shape)])
    first = marginal(found, SIZES)[0]
    assert found.contrast == "difference"
    assert first.benefit.value == pytest.approx(0.4, abs=0.01)
    assert first.resolved
