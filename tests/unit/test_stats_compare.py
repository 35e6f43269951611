"""Two sides compared: with scipy's own tests, in simulations of what the intervals claim, and in borderline cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bufferlab.stats.comparison import Comparison, Match, Method, compare, method_for, single_level

TRIALS = 1500


def match(a: list[float], b: list[float], *, shared: bool = True, name: str = "only") -> Match:
    """Return sides whose runs share their keys, or have no common keys."""
    return Match(name, tuple(enumerate(a)), tuple((place if shared else 1000 + place, v) for place, v in enumerate(b)))


def one(found: Comparison) -> tuple[str, float, float, float]:
    (item,) = found.compared
    estimate = item.verdict.estimate
    assert estimate.ci_low is not None
    assert estimate.ci_high is not None
    return item.verdict.direction, estimate.value, estimate.ci_low, estimate.ci_high


def drawn(seed: int, n: int, change: float = 0.0, noise: float = 0.03, block_noise: float = 0.0) -> Match:
    """Return two sides with a planted relative change; with block noise they share their blocks."""
    rng = np.random.default_rng(seed)
    blocks = rng.normal(0, block_noise, n)
    a, b = (10 * np.exp(blocks + rng.normal(0, noise, n)) for _ in range(2))
    return match(list(a), list(b * (1 + change)), shared=block_noise > 0)


def test_paired_sides_give_students_paired_interval_of_the_logarithms() -> None:
    pair = drawn(1, 5, change=0.1, block_noise=0.2)
    a, b = (np.log([value for _, value in side]) for side in (pair.a, pair.b))
    theirs = stats.ttest_rel(b, a).confidence_interval(0.95)
    direction, value, low, high = one(compare([pair], method="paired", level=0.95))
    assert value == pytest.approx(math.exp(float((b - a).mean())))
    assert (low, high) == pytest.approx((math.exp(theirs.low), math.exp(theirs.high)))
    assert direction == "rises"


def test_sides_without_common_keys_give_welchs_interval_of_the_logarithms() -> None:
    rng = np.random.default_rng(2)
    a, b = np.exp(rng.normal(2, 0.02, 4)), np.exp(rng.normal(2.1, 0.2, 7))
    theirs = stats.ttest_ind(np.log(b), np.log(a), equal_var=False).confidence_interval(0.9)
    found = compare([match(list(a), list(b), shared=False)], method="welch", level=0.9)
    assert one(found)[2:] == pytest.approx((math.exp(theirs.low), math.exp(theirs.high)))


def test_a_value_of_zero_makes_it_a_difference() -> None:
    a, b = [0.0, 1.0, 2.0], [3.0, 4.0, 4.5]
    theirs = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    found = compare([match(a, b, shared=False)], method="welch", level=0.95)
    assert found.compared[0].verdict.contrast == "difference"
    assert one(found)[2:] == pytest.approx((theirs.low, theirs.high))


@given(st.integers(0, 10_000), st.sampled_from(["paired", "welch"]))
def test_swapped_sides_give_reciprocal_ratios(seed: int, method: Method) -> None:
    pair = drawn(seed, 4, change=0.07, block_noise=0.05)
    forth = one(compare([pair], method=method, level=0.95))
    back = one(compare([Match(pair.name, pair.b, pair.a)], method=method, level=0.95))
    assert (1 / back[1], 1 / back[3], 1 / back[2]) == pytest.approx(forth[1:])
    opposite = {"falls": "rises", "rises": "falls", "not_resolved": "not_resolved"}
    assert back[0] == opposite[forth[0]]


def test_the_same_numbers_in_every_block_are_identical_and_have_no_interval() -> None:
    found = compare([match([3.0, 4.0], [3.0, 4.0])], method="paired", level=0.95).compared[0].verdict
    assert (found.direction, found.estimate.ci_low, found.estimate.value) == ("identical", None, 1.0)


def test_the_same_numbers_in_other_blocks_are_not_identical() -> None:
    found = compare([match([3.0, 4.0, 5.0], [4.0, 3.0, 5.0])], method="paired", level=0.95).compared[0].verdict
    assert found.direction == "not_resolved"


def test_one_number_in_every_run_of_both_sides_is_identical_without_pairs_too() -> None:
    found = compare([match([1.0] * 3, [1.0] * 4, shared=False)], method="welch", level=0.95).compared[0].verdict
    assert found.direction == "identical"


def test_one_number_in_every_run_is_identical_where_a_side_lost_runs() -> None:
    found = compare([match([0.0] * 2, [0.0] * 5)], method="paired", level=0.95).compared[0].verdict
    assert found.direction == "identical"


def test_one_number_in_the_only_run_of_a_side_is_not_identical_to_many() -> None:
    found = compare([match([0.0], [0.0] * 5)], method="paired", level=0.95).compared[0].verdict
    assert found.direction == "no_interval"


def test_identical_points_do_not_lend_their_silence_to_the_others() -> None:
    """A pooled variance that included identical points would be half as large."""
    noisy = match([10.0, 11.0, 10.4], [10.2, 10.7, 10.9], name="noisy")
    quiet = match([5.0, 6.0, 7.0], [5.0, 6.0, 7.0], name="quiet")
    alone = compare([noisy], method="paired", level=0.95).compared[0].verdict.estimate
    beside = compare([noisy, quiet], method="paired", level=0.95).compared[0].verdict.estimate
    assert (beside.ci_low, beside.ci_high) == (alone.ci_low, alone.ci_high)


def test_zeros_that_are_identical_leave_the_other_points_their_ratios() -> None:
    zeros, pair = match([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], name="zeros"), drawn(7, 3, change=0.5, block_noise=0.05)
    none, some = compare([zeros, pair], method="paired", level=0.95).compared
    assert (none.verdict.direction, none.value_a) == ("identical", 0.0)
    assert some.verdict.contrast == "ratio"


@pytest.mark.parametrize("method", ["paired", "welch"])
def test_a_change_without_any_noise_is_not_claimed(method: Method) -> None:
    found = compare([match([2.0, 2.0], [4.0, 4.0])], method=method, level=0.95).compared[0].verdict
    assert found.direction == "no_interval"
    assert found.estimate.value == pytest.approx(2.0)
    assert "no noise" in (found.estimate.note or "")


@pytest.mark.parametrize("method", ["paired", "welch"])
def test_one_run_a_side_says_nothing(method: Method) -> None:
    found = compare([match([2.0], [4.0])], method=method, level=0.95).compared[0].verdict
    assert found.direction == "no_interval"
    assert found.estimate.n == 1


def test_an_end_beyond_all_floats_is_infinite_and_warns_of_nothing() -> None:
    """With two runs a side the quantile is in the thousands; pytest turns each warning into an error."""
    pair = match([1.0, 90.0], [300.0, 2.0], shared=False)
    found = compare([pair], method="welch", level=0.9999999).compared[0].verdict
    assert (found.estimate.ci_low, found.estimate.ci_high, found.detectable) == (0.0, math.inf, math.inf)
    assert found.direction == "not_resolved"


#: The scatter of `drawn`, as if it were known before.
KNOWN = {("a", "only"): 0.3, ("b", "only"): 0.3}


@pytest.mark.parametrize(
    ("n", "block_noise", "noise", "most"),
    [
        (1, 0.0, 0.03, 1),
        (1, 0.01, 0.03, 1),
        (2, 0.0, 0.03, 90),
        (2, 0.01, 0.03, 90),
        (2, 0.0, 0.3, 90),
        (2, 0.1, 0.3, 90),
    ],
)
def test_few_runs_of_one_setting_are_called_different_no_more_often_than_an_interval_may(
    n: int, block_noise: float, noise: float, most: int
) -> None:
    """Also if two runs scatter ten times the known scatter. Of 1500 trials 5 % are 75, with a standard error of 8."""
    method: Method = "paired" if block_noise else "welch"
    different = sum(
        compare([drawn(seed, n, noise=noise, block_noise=block_noise)], method=method, level=0.95, known_scatter=KNOWN)
        .compared[0]
        .verdict.resolved
        for seed in range(TRIALS)
    )
    assert different <= most, f"{different} of {TRIALS}"


@pytest.mark.parametrize("method", ["paired", "welch"])
def test_one_run_a_side_with_a_known_scatter_has_five_times_what_two_runs_differ_by(method: Method) -> None:
    verdict = compare([match([10.0], [20.0])], method=method, level=0.95, known_scatter=KNOWN).compared[0].verdict
    error = math.hypot(0.3 / 10, 0.3 / 20)
    assert verdict.estimate.ci_low == pytest.approx(2 * math.exp(-5 * error))
    assert verdict.estimate.times == pytest.approx(math.log(2) / error)
    assert verdict.direction == "rises"


def test_many_runs_that_scatter_more_than_is_known_silence_the_one_on_the_other_side() -> None:
    wild = match([10.0], [5.0, 20.0, 40.0], shared=False)
    found = compare([wild], method="welch", level=0.95, known_scatter=KNOWN).compared[0].verdict
    assert found.direction == "no_interval"


@pytest.mark.parametrize(
    ("a", "b", "method"),
    [
        ([1, 2, 3], [1, 2, 3], "paired"),
        ([1, 2, 3, 4, 5], [1, 2, 3], "paired"),
        ([1, 2, 3, 4], [3, 4, 5, 6], "paired"),
        ([1, 2, 3, 4, 5], [5, 6, 7, 8, 9], "welch"),
        ([1], [1], "paired"),
        ([1], [2], "welch"),
        ([1, 2], [2, 3], "welch"),
        ([1, 2, 3], [4, 5, 6], "welch"),
    ],
)
def test_sides_are_paired_when_they_share_enough_keys(a: list[int], b: list[int], method: Method) -> None:
    sides = [tuple((key, 1.0) for key in keys) for keys in (a, b)]
    assert method_for([Match("only", sides[0], sides[1])]) == method


def test_all_intervals_hold_together_when_each_has_its_single_level() -> None:
    assert single_level(0.95, 5) ** 5 == pytest.approx(0.95)
    matches = [
        match([10.0, 11.0, 10.4], [10.2, 10.7, 10.9], name="one"),
        match([8.0, 8.9, 8.1], [8.3, 8.2, 8.5], name="two"),
    ]
    narrow = compare(matches, method="paired", level=0.95).compared[0].verdict.estimate
    wide = compare(matches, method="paired", level=single_level(0.95, 10)).compared[0].verdict.estimate
    assert narrow.df == wide.df
    assert (wide.ci_low or 0) < (narrow.ci_low or 0) < (narrow.ci_high or 0) < (wide.ci_high or 0)


def test_the_rest_of_a_sweep_tells_of_the_noise_of_two_of_its_points() -> None:
    rng = np.random.default_rng(4)
    logs = rng.normal(0, 0.03, (5, 3))
    pair = match(list(np.exp(logs[0])), list(np.exp(logs[1])))
    rest = [(place, block, float(np.exp(logs[place, block]))) for place in (2, 3, 4) for block in range(3)]
    alone = compare([pair], method="paired", level=0.95).compared[0].verdict
    among = compare([pair], method="paired", level=0.95, context=rest).compared[0].verdict
    assert alone.estimate.df == 2
    assert (among.estimate.df or 0) > 4
    assert among.estimate.value == pytest.approx(alone.estimate.value)


@pytest.mark.parametrize(("n", "block_noise"), [(3, 0.0), (4, 0.0), (4, 0.1), (8, 0.1)])
def test_two_sides_of_one_setting_are_called_different_in_1_to_7_per_cent(n: int, block_noise: float) -> None:
    """The A/A test on synthetic noise; tests/real/test_a_a.py runs it on the real engine."""
    method: Method = "paired" if block_noise else "welch"
    different = sum(
        compare([drawn(seed, n, block_noise=block_noise)], method=method, level=0.95).compared[0].verdict.resolved
        for seed in range(TRIALS)
    )
    assert 0.01 <= different / TRIALS <= 0.07, f"{different} of {TRIALS}"


@pytest.mark.parametrize("method", ["paired", "welch"])
def test_the_intervals_cover_the_planted_change_in_93_to_98_per_cent(method: Method) -> None:
    inside = 0
    for seed in range(TRIALS):
        pair = drawn(seed, 5, change=0.2, block_noise=0.08 if method == "paired" else 0.0)
        _, _, low, high = one(compare([pair], method=method, level=0.95))
        inside += low <= 1.2 <= high
    assert 0.93 <= inside / TRIALS <= 0.98, f"{inside} of {TRIALS}"


@pytest.mark.parametrize("method", ["paired", "welch"])
def test_a_change_as_large_as_said_to_be_detectable_is_found_four_times_in_five(method: Method) -> None:
    block_noise = 0.1 if method == "paired" else 0.0
    sizes = [
        compare([drawn(seed, 5, block_noise=block_noise)], method=method, level=0.95).compared[0].verdict.detectable
        for seed in range(400)
    ]
    # Each sweep computes it from its own scatter; their root mean square is the value for the true scatter.
    size = math.exp(math.sqrt(np.mean([math.log(size) ** 2 for size in sizes if size is not None]))) - 1
    found = sum(
        compare([drawn(seed, 5, change=size, block_noise=block_noise)], method=method, level=0.95)
        .compared[0]
        .verdict.resolved
        for seed in range(TRIALS)
    )
    assert 0.72 <= found / TRIALS <= 0.88, f"{found} of {TRIALS} found a change of {size:.1%}"
