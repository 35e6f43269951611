"""The fit compared with calculations that share none of its code, and properties that hold for all numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from bufferlab.stats.fit import (
    OWN_WEIGHT,
    Cell,
    _half_widths,
    _median_of_variance,
    _mixed,
    _rss,
    _shift_found,
    fit,
)
from bufferlab.stats.rounding import is_rounding, sample_deviation, sample_variance
from bufferlab.stats.verdict import judge, judge_sweep

Matrix = npt.NDArray[np.float64]


def cells(table: Matrix) -> list[Cell]:
    """Return the cells of a table with one row per point and one column per block; nan for a missing run."""
    return [(i, j, float(table[i, j])) for i, j in np.ndindex(table.shape) if not math.isnan(table[i, j])]


def noisy(seed: int, points: int = 5, blocks: int = 3, noise: float = 0.03) -> Matrix:
    rng = np.random.default_rng(seed)
    means = np.linspace(3.0, 0.0, points)[:, None]
    return np.exp(means + rng.normal(0, 0.02, blocks)[None, :] + rng.normal(0, noise, (points, blocks)))


def test_a_complete_table_gives_the_textbook_two_way_analysis() -> None:
    """Sums of squares by row and column means, as in textbooks on randomised blocks."""
    table = np.log(noisy(1))
    rows, columns = table.shape
    point_means, block_means, grand = table.mean(1), table.mean(0), table.mean()
    residuals = table - point_means[:, None] - block_means[None, :] + grand
    error = (residuals**2).sum() / ((rows - 1) * (columns - 1))
    between = rows * ((block_means - grand) ** 2).sum() / (columns - 1)

    found = fit(cells(np.exp(table)), pooling="always")
    assert found.df_error == (rows - 1) * (columns - 1)
    assert found.variance_error == pytest.approx(error)
    assert found.variance_blocks == pytest.approx((between - error) / rows)
    assert [found.mean(i).value for i in range(rows)] == pytest.approx(np.exp(point_means))

    comparisons = rows  # Four pairs of neighbours, and first to last
    critical = stats.t.ppf(1 - (1 - 0.95 ** (1 / comparisons)) / 2, found.df_error)
    half = critical * math.sqrt(2 * error / columns)
    step = found.step(1, 2)
    difference = point_means[2] - point_means[1]
    assert (step.ci_low, step.ci_high) == pytest.approx((math.exp(difference - half), math.exp(difference + half)))
    assert step.n == columns

    variance = (between + (rows - 1) * error) / (rows * columns)
    df = variance**2 / (
        (between / (rows * columns)) ** 2 / (columns - 1)
        + ((rows - 1) * error / (rows * columns)) ** 2 / found.df_error
    )
    half = stats.t.ppf(0.975, df) * math.sqrt(variance)
    mean = found.mean(0)
    assert (mean.ci_low, mean.ci_high) == pytest.approx(
        (math.exp(point_means[0] - half), math.exp(point_means[0] + half))
    )
    assert mean.df == pytest.approx(df)


def test_missing_runs_give_the_least_squares_answer() -> None:
    """The same numbers come from a hand-written design matrix with another coding of its parameters."""
    table = noisy(2, points=4, blocks=3)
    table[1, 2] = table[3, 0] = np.nan
    values = cells(table)
    y = np.log([value for _, _, value in values])
    # Intercept, points 1..3 against point 0, blocks 1..2 against block 0.
    design = np.array(
        [[1.0, *(i == k for k in (1, 2, 3)), *(j == k for k in (1, 2))] for i, j, _ in values], dtype=float
    )
    parameters, rss, *_ = np.linalg.lstsq(design, y, rcond=None)
    df = len(y) - 6
    found = fit(values, pooling="always")
    assert found.df_error == df
    assert found.variance_error == pytest.approx(float(rss[0]) / df)
    contrast = np.array([0.0, -1.0, 1.0, 0.0, 0.0, 0.0])
    error = math.sqrt(rss[0] / df * contrast @ np.linalg.inv(design.T @ design) @ contrast)
    half = stats.t.ppf(1 - (1 - 0.95**0.25) / 2, df) * error
    step = found.step(1, 2)
    assert step.value == pytest.approx(math.exp(contrast @ parameters))
    assert (math.log(step.ci_low or 0), math.log(step.ci_high or 0)) == pytest.approx(
        (contrast @ parameters - half, contrast @ parameters + half)
    )
    adjusted = parameters[0] + parameters[1] + (0 + parameters[4] + parameters[5]) / 3
    assert found.mean(1).value == pytest.approx(math.exp(adjusted))
    assert (found.mean(1).n, found.mean(0).n, step.n) == (2, 3, 2)


def test_one_step_over_two_blocks_or_more_is_the_paired_t_test() -> None:
    table = noisy(3, points=2, blocks=6)
    found = fit(cells(table)).step(0, 1)
    theirs = stats.ttest_rel(np.log(table[1]), np.log(table[0])).confidence_interval(0.95)
    assert (math.log(found.ci_low or 0), math.log(found.ci_high or 0)) == pytest.approx((theirs.low, theirs.high))


def test_one_point_repeated_is_the_one_sample_t_interval() -> None:
    values = noisy(4, points=1, blocks=5)
    found = fit(cells(values)).mean(0)
    logs = np.log(values[0])
    theirs = stats.t.interval(0.95, 4, logs.mean(), stats.sem(logs))
    assert (math.log(found.ci_low or 0), math.log(found.ci_high or 0)) == pytest.approx(theirs)
    assert found.n == 5


def test_one_repetition_gives_values_but_no_interval_and_says_why() -> None:
    found = fit(cells(noisy(5, blocks=1)))
    for estimate in (found.mean(0), found.step(0, 1)):
        assert estimate.value > 0
        assert not estimate.has_interval
        assert "one repetition" in (estimate.note or "")
    assert judge(found, 0, 1).direction == "no_interval"
    assert judge_sweep(found, range(5)).shape == "no_interval"


def test_identical_numbers_are_said_to_be_identical_without_an_interval() -> None:
    table = noisy(6)
    table[3] = table[2]
    found = fit(cells(table))
    step = found.step(2, 3)
    assert step.identical
    assert (step.value, step.ci_low, step.ci_high, step.n) == (1.0, None, None, 3)
    assert judge(found, 2, 3).direction == "identical"
    assert not found.step(1, 2).identical


def test_one_number_in_every_run_is_identical_where_a_point_lost_runs() -> None:
    whole = [(1, block, 0.0) for block in range(5)]
    found = fit([*whole, (2, 0, 0.0), (2, 3, 0.0), (3, 1, 0.0)])
    assert judge(found, 1, 2).direction == "identical"
    assert judge(found, 2, 3).direction == "no_interval"


def test_without_pooling_a_step_is_the_paired_t_test_and_a_mean_the_one_sample_one() -> None:
    table = noisy(13, blocks=5)
    found = fit(cells(table), pooling="never")
    logs = np.log(table)
    level = 0.95 ** (1 / len(found.comparisons))
    theirs = stats.ttest_rel(logs[3], logs[2]).confidence_interval(level)
    step, mean = found.step(2, 3), found.mean(2)
    assert (math.log(step.ci_low or 0), math.log(step.ci_high or 0)) == pytest.approx((theirs.low, theirs.high))
    alone = stats.t.interval(0.95, 4, logs[2].mean(), stats.sem(logs[2]))
    assert (math.log(mean.ci_low or 0), math.log(mean.ci_high or 0)) == pytest.approx(alone)


def test_equal_means_of_different_runs_are_not_identical() -> None:
    found = fit(cells(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])))
    assert not found.step(0, 1).identical


def test_a_change_without_any_noise_has_no_interval_and_is_not_claimed() -> None:
    found = fit(cells(np.outer([4.0, 2.0, 1.0], [1.0, 1.1, 1.3])))
    assert found.variance_error == 0
    assert found.step(0, 1).value == pytest.approx(0.5)
    assert judge(found, 0, 1).direction == "no_interval"


def test_a_value_of_zero_makes_the_scale_linear_and_steps_differences() -> None:
    table = np.array([[3.0, 3.1, 2.9], [0.0, 0.1, 0.0]])
    found = fit(cells(table))
    assert (found.scale, found.contrast) == ("linear", "difference")
    assert found.step(0, 1).value == pytest.approx(table[1].mean() - table[0].mean())
    assert judge(found, 0, 1).direction == "falls"


def test_points_that_share_no_block_are_not_compared() -> None:
    found = fit([("a", 0, 1.0), ("a", 1, 1.1), ("b", 2, 2.0), ("b", 3, 2.1)])
    step = found.step("a", "b")
    assert not step.has_interval
    assert "share no blocks" in (step.note or "")


def test_a_comparison_that_was_not_declared_is_refused() -> None:
    with pytest.raises(ValueError, match="not a declared comparison"):
        fit(cells(noisy(7))).step(0, 2)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_number_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        fit([(0, 0, 1.0), (0, 1, bad)])


positive = st.floats(1e-3, 1e6)


@st.composite
def tables(draw: st.DrawFn, points: int = 4, blocks: int = 3) -> Matrix:
    flat = draw(st.lists(positive, min_size=points * blocks, max_size=points * blocks))
    return np.array(flat).reshape(points, blocks)


@given(tables(), st.floats(1e-3, 1e3))
def test_a_change_of_unit_changes_means_and_no_ratio(table: Matrix, factor: float) -> None:
    one, other = fit(cells(table)), fit(cells(table * factor))
    assume(one.variance_error > 1e-12)
    for a, b in one.comparisons:
        assert other.step(a, b).value == pytest.approx(one.step(a, b).value, rel=1e-6)
    assert other.mean(0).value == pytest.approx(factor * one.mean(0).value, rel=1e-6)


@given(tables(), st.randoms())
def test_the_order_of_the_rows_does_not_matter(table: Matrix, random: object) -> None:
    rows = cells(table)
    shuffled = sorted(rows, key=lambda _: random.random())  # type: ignore[attr-defined]
    pairs: list[tuple[Hashable, Hashable]] = list(pairwise(range(4)))
    one, other = fit(rows, comparisons=pairs), fit(shuffled, comparisons=pairs)
    for a, b in pairs:
        assert other.step(a, b).value == pytest.approx(one.step(a, b).value, rel=1e-6)


@given(tables())
def test_turning_a_step_round_turns_its_interval_round(table: Matrix) -> None:
    found = fit(cells(table), comparisons=[(0, 1), (1, 0)])
    there, back = found.step(0, 1), found.step(1, 0)
    assume(there.has_interval and back.has_interval)
    assert there.value == pytest.approx(1 / back.value, rel=1e-6)
    if (back.ci_high or 0) < 1e300:
        assert there.ci_low == pytest.approx(1 / (back.ci_high or 1), rel=1e-6)


@given(tables())
def test_an_interval_holds_its_value_and_a_verdict_never_exceeds_it(table: Matrix) -> None:
    found = fit(cells(table))
    for a, b in found.comparisons:
        step = found.step(a, b)
        if step.ci_low is None or step.ci_high is None:
            assert judge(found, a, b).direction in ("identical", "no_interval")
            continue
        assert step.ci_low <= step.value <= step.ci_high
        direction = judge(found, a, b).direction
        assert (direction == "falls") == (step.ci_high < 1)
        assert (direction == "rises") == (step.ci_low > 1)


def test_more_comparisons_make_wider_intervals() -> None:
    table = cells(noisy(8))
    alone = fit(table, comparisons=[(0, 1)]).step(0, 1)
    together = fit(table).step(0, 1)
    assert (together.ci_low or 0) < (alone.ci_low or 0) < (alone.ci_high or 0) < (together.ci_high or 0)


def test_a_sweep_that_falls_rises_or_turns_is_called_so() -> None:
    down, up = noisy(9, noise=0.01), noisy(9, noise=0.01)[::-1]
    turned = np.vstack([down[:3], down[:2][::-1]])
    assert judge_sweep(fit(cells(down)), range(5)).shape == "falls_at_every_step"
    assert judge_sweep(fit(cells(up)), range(5)).shape == "rises_at_every_step"
    assert judge_sweep(fit(cells(turned)), range(5)).shape == "turns"


def test_a_fall_over_the_whole_sweep_may_be_claimed_when_single_steps_cannot() -> None:
    rng = np.random.default_rng(10)
    table = np.exp(np.linspace(0.12, 0, 5)[:, None] + rng.normal(0, 0.02, (5, 3)))
    found = judge_sweep(fit(cells(table)), range(5))
    assert found.shape == "falls_overall"
    assert not all(step.resolved for step in found.steps)


def test_one_point_that_scatters_far_more_than_the_rest_is_found() -> None:
    rng = np.random.default_rng(11)
    table = np.exp(rng.normal(0, 0.01, (5, 4)))
    table[4] *= np.exp([-0.4, 0.0, 0.4, 0.1])
    found = fit(cells(table))
    assert found.spread is not None
    assert found.spread.place == 4
    assert found.spread.p_value < 0.01


def test_two_points_are_never_called_uneven() -> None:
    """In a block the residuals of two points are equal but for their sign, and rounding alone makes one the larger."""
    rng = np.random.default_rng(13)
    for blocks in (3, 6):
        found = [fit(cells(np.exp(rng.normal(0, 0.02, (2, blocks))))) for _ in range(50)]
        assert not any(one.uneven or one.spread for one in found)


def test_points_that_scatter_alike_are_seldom_called_uneven() -> None:
    rng = np.random.default_rng(12)
    found = [fit(cells(np.exp(rng.normal(0, 0.02, (5, 3))))).spread for _ in range(200)]
    called = sum(one is not None and one.p_value < 0.05 for one in found)
    assert called <= 20, f"{called} of 200 even sweeps were called uneven at the 5 % level"


def test_half_widths_of_drawn_sweeps_follow_the_mixture_of_both_variances() -> None:
    # With very many degrees of freedom nothing scatters: the own error is one, that of the other points is two.
    mixed = OWN_WEIGHT * 1 + (1 - OWN_WEIGHT) * 4
    assert _half_widths(1e9, 1e9, 2.0, 0.95) == pytest.approx(1.959964 * mixed**0.5, rel=1e-3)
    assert _half_widths(1e9, 0, 2.0, 0.95) == pytest.approx(1.959964, rel=1e-3)
    # With few degrees of freedom the estimated variance scatters around the true one.
    few = _half_widths(4, 12, 2.0, 0.95)
    assert float(np.mean(few**2)) > 1.959964**2 * mixed


def test_the_shift_that_is_found_is_the_half_width_and_the_quantile_of_the_power() -> None:
    assert _shift_found(np.full(5, 4.0), 0.8) == pytest.approx(4 + 0.841621, rel=1e-5)
    assert _shift_found(np.array([1e6, 3e6]), 0.75) == pytest.approx(3e6, rel=1e-4)


def test_the_median_of_a_variance_is_below_its_mean() -> None:
    assert _median_of_variance(1) == pytest.approx(0.454936, rel=1e-5)
    assert _median_of_variance(10) == pytest.approx(0.934182, rel=1e-5)


def test_what_a_pair_could_have_found_follows_from_the_noncentral_t_distribution() -> None:
    found = fit(cells(noisy(seed=3, points=2, blocks=6)), pooling="never")
    changes = np.diff(np.log(noisy(seed=3, points=2, blocks=6)), axis=0)[0]
    df = len(changes) - 1
    # The error is more often too small than too large: by the median of its square, which is below the mean.
    error = changes.std(ddof=1) / len(changes) ** 0.5 / (stats.chi2.median(df) / df) ** 0.5
    power = stats.nct.sf(stats.t.ppf(0.975, df), df, math.log(found.detectable(0, 1) or 0) / error)
    assert power == pytest.approx(0.8, abs=0.02)


def test_the_interval_of_a_step_mixes_the_noise_of_its_pair_with_that_of_the_others() -> None:
    table = np.log(noisy(seed=5, points=4, blocks=5))
    points, blocks = table.shape
    residuals = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    df_all, df_own = (points - 1) * (blocks - 1), blocks - 1
    own = (table[1] - table[0]).var(ddof=1) / 2
    rest = (float((residuals**2).sum()) - df_own * own) / (df_all - df_own)
    parts = [(OWN_WEIGHT * own, df_own, OWN_WEIGHT), ((1 - OWN_WEIGHT) * rest, df_all - df_own, 1 - OWN_WEIGHT)]
    variance = sum(part for part, _, _ in parts)
    df = variance**2 / sum(part**2 / df for part, df, _ in parts)
    df = min(df, 1 / sum(weight**2 / df for _, df, weight in parts))
    found = fit(cells(np.exp(table)))
    half = stats.t.ppf(1 - (1 - found.comparison_level) / 2, df) * (2 * variance / blocks) ** 0.5
    step = found.step(0, 1)
    centre = float((table[1] - table[0]).mean())
    assert (math.log(step.ci_low or 0), math.log(step.ci_high or 0)) == pytest.approx((centre - half, centre + half))


def test_the_degrees_of_freedom_of_a_mixed_variance_are_welchs() -> None:
    own, rest, df_own, df_rest = 9.0, 1.5, 3.0, 12.0
    parts = OWN_WEIGHT * own, (1 - OWN_WEIGHT) * rest
    variance, df = _mixed(own, rest, df_own, df_rest)
    assert variance == pytest.approx(sum(parts))
    assert df == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 / df_own + parts[1] ** 2 / df_rest))


def test_residuals_are_zero_only_where_they_are_rounding() -> None:
    ones = np.ones((2, 1))
    solved = np.linalg.pinv(ones)
    assert _rss(np.array([1.0, 1.0 + 2e-7]), ones, solved) == pytest.approx(2e-14, rel=1e-3, abs=0)
    assert _rss(np.array([1.0, 1.0 + 2e-13]), ones, solved) == 0.0


def test_noise_of_a_pair_that_is_rounding_beside_large_values_claims_nothing() -> None:
    """The values are millions and change by one in the seventh decimal: their residuals are only rounding."""
    table = 1e6 + np.array([[0.0, 0.0, 0.0], [1.0, 1 + 1e-7, 1 - 1e-7], [2.0, 2.0, 2.0]])
    found = fit(cells(table), scale="linear")
    assert found.variance_error == 0
    assert found.step(0, 1).value == pytest.approx(1.0)
    assert judge(found, 0, 1).direction == "no_interval"
    assert found.detectable(0, 1) is None


@pytest.mark.parametrize(
    ("numbers", "deviation", "rounds"),
    [
        ([1e6, 1e6 + 1e-7], 7e-8, True),
        ([1e6, 1e6 + 1e-5], 7e-6, False),
        # Logarithms near zero are compared with one; otherwise their own rounding would count as noise.
        ([1e-9, 1.0000001e-9], 7e-17, True),
        ([-5.0, -5.0 - 1e-11], 7e-12, False),
    ],
)
def test_a_deviation_is_rounding_up_to_a_share_of_the_largest_number(
    numbers: list[float], deviation: float, rounds: bool
) -> None:
    assert is_rounding(deviation, numbers) is rounds
    assert (sample_deviation(numbers) == 0) is rounds
    assert sample_variance(numbers) == sample_deviation(numbers) ** 2
