"""Texts made of numbers: rounded outward, with units, and never claiming more than the interval does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.chapter import words
from bufferlab.results.schema import StoredSetting
from bufferlab.stats.estimate import Estimate
from bufferlab.stats.verdict import Direction, Verdict


def verdict(direction: Direction, value: float, low: float | None, high: float | None, **more: object) -> Verdict:
    estimate = Estimate(value, low, high, 3, 8.0, note=more.get("note"))  # type: ignore[arg-type]
    contrast = more.get("contrast", "ratio")
    return Verdict(0, 1, direction, estimate, contrast, more.get("detectable"))  # type: ignore[arg-type]


def test_a_fall_is_told_by_both_bounds_of_its_interval() -> None:
    assert words.verdict(verdict("falls", 0.6, 0.571, 0.6188), "") == "falls by 38–43 %"


def test_a_rise_beyond_twofold_is_more_than_100_per_cent() -> None:
    assert words.verdict(verdict("rises", 2.4, 2.3, 2.5), "") == "rises by 130–150 %"


def test_a_small_but_certain_fall_is_not_rounded_to_nothing() -> None:
    assert words.verdict(verdict("falls", 0.95, 0.90, 0.9996), "") == "falls by up to 10 %"


def test_what_is_not_resolved_says_its_range_and_what_would_have_been_found() -> None:
    said = words.verdict(verdict("not_resolved", 1.01, 0.97, 1.052, detectable=1.07), "")
    assert said == "not resolved (−3 to +6 %; 7 % would have been found)"


def test_a_value_whose_interval_is_wider_than_a_factor_of_100_stands_beside_this_doubt() -> None:
    said = words.verdict(verdict("not_resolved", 0.093, 0.005, 1.7, detectable=3e5), "")
    assert said == "not resolved: −91 % (interval too wide, n = 3)"
    assert words.verdict(verdict("not_resolved", 0.9, 0.06, 5.1, detectable=3e5), "") == "not resolved (−94 to +410 %)"
    assert words.verdict(verdict("rises", 40.0, 1.5, 900.0), "") == "rises by 50–89900 %", "a direction is known"
    assert words.interval(Estimate(2444.0, 0.0, 48_395_856.0, 2), "pages") == "2,444 (interval too wide, n = 2)"
    assert words.count(Estimate(2444.0, 20.0, 2001.0, 2)) == "2,444 (interval too wide, n = 2)"
    assert words.interval(Estimate(0.1, -20.0, 20.2, 2)) == "0 (-20–21)", "no factor lies between signs"
    assert words.share_interval(Estimate(0.02, 0.0001, 0.9, 2)) == "2 (0–90) %", "a share is at most one"


def test_one_repetition_is_named_as_the_reason() -> None:
    found = Verdict(0, 1, "no_interval", Estimate(0.5, None, None, 1, note="one repetition: ..."), "ratio", None)
    assert words.verdict(found, "") == "not resolved: −50 % (one repetition, n = 1)"
    found = Verdict(0, 1, "no_interval", Estimate(0.3, None, None, 2, note="too few runs"), "difference", None)
    assert words.verdict(found, "pages") == "not resolved: +0.300 pages (too few runs, n = 2)"


def test_identical_counts_are_called_identical() -> None:
    assert words.verdict(verdict("identical", 1.0, None, None), "") == "identical (n = 3)"


def test_a_difference_of_hit_ratios_is_in_percentage_points() -> None:
    found = verdict("rises", 0.017, 0.0167, 0.0175, contrast="difference")
    assert words.verdict(found, words.POINTS) == "rises by 1.67–1.75 percentage points"


@pytest.mark.parametrize(
    ("low", "high", "unit", "said"),
    [
        (0.0004, 0.9, "pages", "rises by 0.0004–0.9000 pages"),
        (0.0000021, 0.013, words.POINTS, "rises by 0.0002–1.3000 percentage points"),
        (0.3, 0.9, "pages", "rises by 0.3–0.9 pages"),
    ],
)
def test_a_small_but_certain_difference_is_not_rounded_to_nothing(
    low: float, high: float, unit: str, said: str
) -> None:
    assert words.verdict(verdict("rises", high / 2, low, high, contrast="difference"), unit) == said
    mirrored = verdict("falls", -high / 2, -high, -low, contrast="difference")
    assert words.verdict(mirrored, unit) == said.replace("rises", "falls")


def test_a_claim_without_an_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="without an interval"):
        words.change(verdict("falls", 0.5, None, None), "")


@given(st.floats(1e-5, 0.99), st.floats(1e-6, 0.5))
def test_the_range_told_is_never_narrower_than_the_interval(low: float, width: float) -> None:
    high = min(0.999999, low + width)
    said = words.percent_range(low, high)
    told = [float(bound) / 100 for bound in re.findall(r"[\d.]+", said)]
    if said.startswith("up to"):
        assert low < high / 50
        assert high - 1e-9 <= told[0] < 1
        return
    assert told[0] <= low + 1e-9
    assert told[1] >= high - 1e-9
    assert told[0] > 0


@given(st.floats(1e-3, 1e6), st.floats(0.001, 0.5))
def test_a_mean_is_told_with_an_interval_that_holds_it(value: float, half: float) -> None:
    said = words.interval(Estimate(value, value * (1 - half), value * (1 + half), 3))
    mean, low, high = (float(found.replace(",", "")) for found in re.findall(r"[\d,]+(?:\.\d+)?", said))
    assert low <= mean <= high
    assert low <= value * (1 - half) * (1 + 1e-9)
    assert high >= value * (1 + half) * (1 - 1e-9)


def test_bytes_are_told_in_their_unit_once() -> None:
    assert words.interval(Estimate(129_000.0, 127_000.0, 131_000.0, 3), "bytes/New-Order") == "126 KiB (124–128 KiB)"


def test_a_missing_number_is_a_dash() -> None:
    assert words.number(None) == words.NOTHING
    assert words.share(None) == words.NOTHING


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        (StoredSetting(planned=8388608, actual=8388608, unit="bytes"), "8 MiB"),
        (StoredSetting(planned=8388608, unit="bytes"), "8 MiB"),
        (StoredSetting(actual=1024), "1,024"),
        (StoredSetting(actual=0.2, unit="s"), "0.2 s"),
        (StoredSetting(actual="direct"), "direct"),
        (StoredSetting(actual="off", unit="bytes"), "off"),
        (StoredSetting(asked="auto"), words.NOTHING),
    ],
)
def test_a_setting_is_shown_by_its_unit_whatever_its_name_is(setting: StoredSetting, shown: str) -> None:
    assert words.setting_value(setting) == shown
