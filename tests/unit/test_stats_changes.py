"""Changes of level in many series: false alarms are rare, planted steps are found, and a slow twin computes the same
scores."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bufferlab.stats import changes as tested
from bufferlab.stats.changes import FEWEST, Array, changes
from bufferlab.stats.levels import change_of

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def history_alarms() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        return import_module("history_alarms")


def drawn(seed: int, rows: int = 40, columns: int = 8) -> Array:
    """Return series without a change, which share half of their variance."""
    random = np.random.default_rng(seed)
    return np.asarray((random.normal(size=(rows, columns)) + random.normal(size=(rows, 1))) / 2**0.5)


def test_histories_without_a_change_tell_one_as_seldom_as_is_said() -> None:
    """Of 60 histories, each with a chance of 2 %, more than 4 alarms occur once in 100 tries; tools/history-alarms
    simulates 500 of each kind."""
    assert sum(any(changes(drawn(seed)).changes) for seed in range(60)) <= 4


def test_a_step_of_twice_the_scatter_is_found_within_three_places() -> None:
    """It is found in at least 90 % of histories of one figure; the tool simulates more figures, places and sizes."""
    near = 0
    for seed in range(20):
        table = drawn(2000 + seed, columns=1)
        table[20:, 0] += 2.0
        near += any(abs(one.place - 20) <= 3 for one in changes(table).changes[0])
    assert near >= 18


def test_measured_sweeps_tell_no_change_and_a_smaller_pool_one_alone(history_alarms: ModuleType) -> None:
    """The 40 measured sweeps of SQLite, unchanged, and with a pool that is 7.5 % smaller in the last ones."""
    measured = history_alarms.real()
    planted = measured.planted
    assert len(measured.same) == len(planted) == 40
    assert not any(changes(measured.same).changes)
    place = len(planted) - len(measured.smaller)
    found = dict(zip(measured.metrics, changes(planted).changes, strict=True))
    (one,) = found["reads_per_new_order"]
    assert one.earliest <= place <= one.latest
    # All other changes are at the same place, since nothing else was planted.
    assert all(abs(other.place - place) <= 3 for of in found.values() for other in of)


def test_a_level_without_scatter_is_found_from_two_places_on_and_not_from_one() -> None:
    table = np.ones((40, 3))
    table[38:, 1] = 1.02
    assert [[one.place for one in of] for of in changes(table).changes] == [[], [38], []]
    table[38, 1] = 1.0
    assert not any(changes(table).changes)


def test_a_change_that_was_taken_back_is_two_changes() -> None:
    table = drawn(5)
    table[14:28, 0] += 4.0
    assert [one.place for one in changes(table).changes[0]] == [14, 28]


def test_nine_places_are_the_fewest_that_tell_a_change() -> None:
    table = np.repeat([[0.0], [1.0]], [4, FEWEST - 4], axis=0)
    assert [one.place for one in changes(table).changes[0]] == [4]
    assert changes(table[1:]).changes == ((),)
    assert changes(np.empty((20, 0))).changes == ()


def test_a_change_begins_at_a_place_that_has_a_value() -> None:
    table = drawn(9)
    table[20:, 2] += 5.0
    table[18:23, 2] = np.nan
    (one,) = changes(table).changes[2]
    assert one.place == 23
    assert one.earliest <= 23


@settings(max_examples=10)
@given(st.integers(0, 1000), st.floats(0.1, 1e6), st.floats(-1e3, 1e3))
def test_neither_unit_nor_zero_nor_the_order_of_series_changes_what_is_found(
    seed: int, factor: float, shift: float
) -> None:
    table = drawn(seed, 20, 3)
    table[10:, 1] += 3.0
    found, other = changes(table), changes((table * factor + shift)[:, ::-1])
    places = [[one.place for one in of] for of in found.changes]
    assert [[one.place for one in of] for of in reversed(other.changes)] == places


@given(st.integers(0, 10_000), st.integers(4, 12))
def test_scores_are_those_of_a_slow_twin(seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    column = random.normal(size=rows)
    column[random.random(rows) < 0.2] = np.nan
    scores = tested._scores(tested._standardised(column)[None])[0]
    whole = column[~np.isnan(column)]
    splits = range(tested.MIN_STRETCH, len(whole) - tested.MIN_STRETCH + 1)
    assert len(scores) == len(splits)
    for score, split in zip(scores, splits, strict=True):
        left, right = whole[:split], whole[split:]
        error = whole.std(ddof=1) * (1 / len(left) + 1 / len(right)) ** 0.5
        assert score == pytest.approx(abs(left.mean() - right.mean()) / error, abs=1e-9)


def test_a_change_of_two_stretches_has_students_interval() -> None:
    random = np.random.default_rng(3)
    before, after = random.normal(10, 1, 12), random.normal(11, 1, 7)
    found = change_of([before, after], 1, "linear", 0.95)
    theirs = stats.ttest_ind(after, before).confidence_interval(0.95)
    assert (found.ci_low, found.ci_high) == pytest.approx((theirs.low, theirs.high))
    ratio = change_of([np.exp(before), np.exp(after)], 1, "log", 0.95)
    assert (np.log(ratio.ci_low), np.log(ratio.ci_high)) == pytest.approx((theirs.low, theirs.high))


def test_levels_without_scatter_have_a_change_without_width() -> None:
    found = change_of([[2.0, 2.0], [3.0, 3.0]], 1, "log", 0.95)
    assert found.ci_low == found.value == found.ci_high == pytest.approx(1.5)
    assert "same number" in (found.note or "")


def test_a_list_is_no_table() -> None:
    with pytest.raises(ValueError, match="rows and columns"):
        changes(np.ones(12))
