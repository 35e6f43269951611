"""Trends: their intervals cover the truth, chance is rarely called a trend, true trends are found, one far point is not
one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from bufferlab.stats.comparison import single_level
from bufferlab.stats.trend import Trend, page_p, trend

SWEEPS = 1000
#: Three binomial standard errors of a share of 0.05 over SWEEPS sweeps.
SLACK = 3 * (0.05 * 0.95 / SWEEPS) ** 0.5
FLAT = np.zeros(5)


def sweeps(
    truth: npt.NDArray[np.float64],
    *,
    seed: int,
    blocks: int = 5,
    noise: float | list[float] = 0.01,
    kind: str = "normal",
    level: float = 0.95,
) -> Iterator[Trend]:
    rng = np.random.default_rng(seed)
    shape = (SWEEPS, len(truth), blocks)
    drawn = {"normal": rng.normal, "t": lambda size: rng.standard_t(4, size=size) / 2**0.5}[kind](size=shape)
    logs = truth[None, :, None] + drawn * np.reshape(noise, (1, -1, 1)) + rng.normal(0, 0.03, (SWEEPS, 1, blocks))
    for table in np.exp(logs):
        cells = [(float(i), j, float(table[i, j])) for i in range(len(truth)) for j in range(blocks)]
        yield trend(cells, level=level)


@pytest.mark.parametrize(
    ("points", "blocks", "noise", "kind"),
    [
        (5, 5, 0.01, "normal"),
        (7, 5, 0.01, "normal"),
        (3, 5, 0.01, "normal"),
        (5, 3, 0.01, "normal"),
        (5, 5, [0.01, 0.01, 0.01, 0.01, 0.05], "normal"),
        (5, 5, 0.01, "t"),
    ],
)
def test_chance_is_called_a_trend_in_at_most_5_per_cent_of_sweeps(
    points: int, blocks: int, noise: float | list[float], kind: str
) -> None:
    found = [one.resolved for one in sweeps(np.zeros(points), seed=1, blocks=blocks, noise=noise, kind=kind)]
    assert sum(found) / SWEEPS <= 0.05 + SLACK, f"{sum(found)} of {SWEEPS}"


def test_of_four_figures_asked_together_none_is_falsely_called_a_trend_in_95_per_cent_of_sweeps() -> None:
    level = single_level(0.95, 4)
    figures = [list(sweeps(FLAT, seed=seed, level=level)) for seed in (11, 12, 13, 14)]
    claimed = sum(any(one.resolved for one in together) for together in zip(*figures, strict=True))
    assert claimed / SWEEPS <= 0.05 + SLACK, f"{claimed} of {SWEEPS}"


@pytest.mark.parametrize(
    ("truth", "noise"),
    [
        (np.linspace(0, 0.2, 5), 0.01),
        # The curve bends: the interval is that of the mean slope over these points.
        (np.array([0.0, 0.0, 0.02, 0.1, 0.4]), 0.01),
        (np.linspace(0, 0.2, 5), [0.01, 0.01, 0.01, 0.03, 0.05]),
    ],
)
def test_95_per_cent_intervals_of_the_slope_cover_93_to_97(
    truth: npt.NDArray[np.float64], noise: float | list[float]
) -> None:
    slope = np.exp(np.polyfit(np.arange(5), truth, 1)[0])
    inside = sum(
        (one.slope.ci_low or 0) <= slope <= (one.slope.ci_high or 0) for one in sweeps(truth, seed=2, noise=noise)
    )
    assert 0.93 <= inside / SWEEPS <= 0.97, f"{inside} of {SWEEPS}"


@pytest.mark.parametrize(("blocks", "noise"), [(5, 0.007), (5, 0.015), (3, 0.007)])
def test_five_per_cent_from_end_to_end_is_found_in_80_per_cent_of_sweeps(blocks: int, noise: float) -> None:
    found = [one.direction for one in sweeps(np.log(np.linspace(1, 1.05, 5)), seed=3, blocks=blocks, noise=noise)]
    assert found.count("rises") / SWEEPS >= 0.8, f"{found.count('rises')} of {SWEEPS}"
    assert found.count("falls") == 0


def test_what_is_said_to_be_found_is_found_in_about_80_per_cent() -> None:
    said = np.median([one.detectable or 0.0 for one in sweeps(FLAT, seed=4)])
    found = [one.resolved for one in sweeps(np.arange(5) * np.log(said), seed=5)]
    assert 0.7 <= sum(found) / SWEEPS <= 0.93, f"{sum(found)} of {SWEEPS}"


def test_pages_test_is_exact_for_two_blocks_of_three() -> None:
    """All 36 pairs of orders, counted by hand: the best order in both blocks has a chance of 1 in 36 on either side."""
    assert page_p(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])) == pytest.approx(2 / 36)
    sums = [
        sum(i * (r + 1) for i, r in enumerate(a)) + sum(i * (r + 1) for i, r in enumerate(b))
        for a in permutations(range(3))
        for b in permutations(range(3))
    ]
    seen = 0 * 1 + 1 * 3 + 2 * 2 + 0 * 1 + 1 * 2 + 2 * 3
    above = sum(one >= seen for one in sums) / 36
    assert page_p(np.array([[1.0, 3.0, 2.0], [1.0, 2.0, 3.0]])) == pytest.approx(2 * above)


def test_pages_test_allows_for_ties_and_does_not_care_for_the_direction() -> None:
    tied = np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0], [1.0, 1.0, 2.0]])
    assert page_p(tied) == pytest.approx(2 * (1 / 3) ** 3)
    assert page_p(tied[:, ::-1]) == pytest.approx(page_p(tied))
    assert page_p(np.ones((3, 4))) == 1.0


def test_beyond_eight_points_the_normal_distribution_is_near_the_exact_one() -> None:
    rng = np.random.default_rng(6)
    nine = [page_p(rng.normal(size=(5, 9))) for _ in range(400)]
    assert np.mean(np.array(nine) <= 0.05) == pytest.approx(0.05, abs=0.035)
    rising = np.arange(9) + rng.normal(0, 0.5, (5, 9))
    assert page_p(rising) < 1e-6


def test_one_far_point_is_no_trend() -> None:
    """The slope's interval is above zero, but the order of the other points shows nothing."""
    rows = [(0.3, 0.1, 0.2, 0.0, 5.0), (0.0, 0.3, 0.1, 0.2, 5.1), (0.2, 0.0, 0.3, 0.1, 4.9)]
    cells = [(float(i), j, row[i]) for j, row in enumerate(rows) for i in range(5)]
    found = trend(cells, scale="linear", level=single_level(0.95, 4))
    assert found.slope.ci_low is not None
    assert found.slope.ci_low > 0
    assert found.direction == "not_resolved"
    assert found.order_p is not None
    assert found.order_p > 0.0127


def test_a_slope_against_the_order_of_the_values_is_no_trend() -> None:
    """One far point follows one very low value: the slope rises, but in every block the order of the values nearly
    falls."""
    cells = [
        (x, block, value)
        for block, deep in enumerate((-1000.0, -1001.0, -1002.0))
        for x, value in zip((0.0, 1.0, 2.0, 3.0, 1000.0), (10.0, 9.0, 8.0, deep, 7.0), strict=True)
    ]
    found = trend(cells, scale="linear")
    assert found.slope.ci_low is not None
    assert found.slope.ci_low > 0
    assert found.order_p is not None
    assert found.order_p < 0.05
    assert found.direction == "not_resolved"
    turned = trend([(x, block, -value) for x, block, value in cells], scale="linear")
    assert (turned.direction, turned.order_p) == ("not_resolved", pytest.approx(found.order_p))


def test_zeros_are_told_by_difference_and_ratios_by_factors() -> None:
    rng = np.random.default_rng(7)
    rows = [(float(i), j, 3.0 - i + rng.normal(0, 0.01)) for i in range(4) for j in range(5)]
    found = trend(rows)
    assert found.contrast == "difference"
    assert found.direction == "falls"
    assert found.slope.value == pytest.approx(-1.0, abs=0.02)
    doubling = trend([(float(i), j, 2.0**i * (1 + 0.01 * j * i)) for i in range(4) for j in range(3)])
    assert doubling.contrast == "ratio"
    assert doubling.slope.value == pytest.approx(2.0, rel=0.02)


def test_blocks_with_a_missing_run_are_left_out() -> None:
    rng = np.random.default_rng(8)
    cells = [(float(i), j, 1.0 + i + rng.normal(0, 0.01)) for i in range(4) for j in range(4)]
    found = trend(cells[:-1])
    assert found.slope.n == 3


@pytest.mark.parametrize(
    ("cells", "direction", "note"),
    [
        ([(0.0, 0, 1.0), (1.0, 0, 2.0), (0.0, 1, 1.0), (1.0, 1, 2.1)], "no_interval", "fewer than three points"),
        ([(0.0, 0, 1.0), (1.0, 0, 2.0), (2.0, 0, 3.0)], "no_interval", "one whole repetition"),
        ([(float(i), j, float(2**i)) for i in range(3) for j in range(3)], "no_interval", "the same slope"),
        ([(float(i), j, 5.0 + j) for i in range(3) for j in range(3)], "identical", "identical"),
        ([(0.0, 0, 1.0), (1.0, 1, 1.0), (2.0, 2, 1.0)], "no_interval", "no block has a run at every point"),
    ],
)
def test_without_noise_or_points_nothing_is_claimed_and_it_is_said_why(
    cells: list[tuple[float, int, float]], direction: str, note: str
) -> None:
    found = trend(cells)
    assert found.direction == direction
    assert not found.resolved
    assert note in (found.slope.note or "")


def test_values_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="leave that run out"):
        trend([(0.0, 0, float("nan")), (1.0, 0, 1.0), (2.0, 0, 1.0)])
    with pytest.raises(ValueError, match="needs values"):
        trend([])


def test_the_interval_of_a_slope_is_students_of_the_blocks_own_slopes() -> None:
    rows = [[1.0, 2.1, 2.9], [1.2, 2.0, 3.4], [0.9, 2.2, 3.1], [1.1, 1.9, 3.3]]
    cells = [(float(x), block, value) for block, row in enumerate(rows) for x, value in enumerate(row)]
    found = trend(cells, scale="linear").slope
    slopes = np.array([np.polyfit(range(3), row, 1)[0] for row in rows])
    slopes *= found.value / slopes.mean()
    half = stats.t.ppf(0.975, len(rows) - 1) * slopes.std(ddof=1) / len(rows) ** 0.5
    assert (found.ci_low, found.ci_high) == (pytest.approx(found.value - half), pytest.approx(found.value + half))
