"""The Universal Scalability Law: it finds known curves, its intervals cover, and no peak is claimed where none is."""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from bufferlab.stats.fit import fit
from bufferlab.stats.scalability import Law, law, why_no_peak
from support.core import ROOT

sys.path.insert(0, str(ROOT / "tools"))
tool: Any = importlib.import_module("simulate_law")
sys.path.remove(str(ROOT / "tools"))
DOUBLINGS, ONE, Scenario, cells, shares = tool.DOUBLINGS, tool.ONE, tool.Scenario, tool.cells, tool.shares

EXACT = dict.fromkeys(("noise", "misfit"), 0.0)
CLEAN = [(count, block, 10.0 * count**0.5) for count in (1, 2, 4, 8, 16) for block in range(3)]
SIX_BLOCKS = [(count, block, 10.0 * count**0.5) for count in (1, 2, 4, 8, 16) for block in range(6)]


def of(scenario: Any, seed: int = 1) -> tuple[Law, str | None]:
    """The law of one simulated sweep, and why its peak may not be claimed."""
    rows = cells(scenario.counts, scenario.draw(np.random.default_rng(seed)))
    found = law(rows)
    return found, why_no_peak(found, fit(rows, comparisons=()))


@settings(max_examples=25, deadline=None)
@given(
    contention=some.floats(0.0, 0.6),
    peak_at=some.floats(3.0, 40.0),
    counts=some.sampled_from([DOUBLINGS, (1, 4, 8, 16, 64), (2, 3, 5, 9, 17, 33, 65)]),
)
def test_a_law_without_noise_is_found_again(contention: float, peak_at: float, counts: tuple[int, ...]) -> None:
    scenario = Scenario(counts=counts, contention=contention, peak_at=peak_at, **EXACT)
    found, _ = of(scenario)
    assert found.contention.value == pytest.approx(contention, abs=1e-4)
    assert found.coherency.value == pytest.approx(scenario.coherency, rel=1e-3)
    assert found.peak_at.value == pytest.approx(peak_at, rel=1e-3)
    assert abs(found.misfit) < 1e-3


def test_the_estimate_has_less_left_than_any_place_of_a_fine_grid() -> None:
    rows = cells(DOUBLINGS, Scenario(noise=0.08).draw(np.random.default_rng(3)))
    n = np.array(DOUBLINGS, dtype=float)
    y = np.log([fit(rows, comparisons=()).mean(count).value for count in DOUBLINGS])

    def left(contention: float, coherency: float) -> float:
        apart = y - np.log(n / (1 + contention * (n - 1) + coherency * n * (n - 1)))
        return float(((apart - apart.mean()) ** 2).sum())

    found = law(rows)
    least = left(found.contention.value, found.coherency.value)
    grid = [left(s, k) for s in np.linspace(0, 0.3, 61) for k in np.linspace(0, 0.02, 81)]
    assert least <= min(grid) + 1e-9


def test_an_interval_ends_where_the_likelihood_says_so() -> None:
    """The peak's interval against a search along the peak alone, which shares no code with the region."""
    rows = cells(DOUBLINGS, Scenario().draw(np.random.default_rng(5)))
    n = np.array(DOUBLINGS, dtype=float)
    y = np.log([fit(rows, comparisons=()).mean(count).value for count in DOUBLINGS])

    def left_at(peak: float) -> float:
        contention = np.linspace(0, 0.4, 801)[:, None]
        apart = y - np.log(n / (1 + contention * (n - 1) + (1 - contention) / peak**2 * n * (n - 1)))
        return float(((apart - apart.mean(axis=1, keepdims=True)) ** 2).sum(axis=1).min())

    found = law(rows)
    peaks = np.linspace(10, 24, 351)
    left = np.array([left_at(peak) for peak in peaks])
    limit = left.min() * (1 + 2.7764451**2 / 4)
    inside = peaks[left <= limit]
    assert found.peak_at.ci_low == pytest.approx(inside.min(), rel=0.01)
    assert found.peak_at.ci_high == pytest.approx(inside.max(), rel=0.01)


def test_the_largest_misfit_is_the_largest_share_also_above_the_law() -> None:
    """By logarithms a mean 26 % below the law would be farther from it than one 32 % above."""
    differ = 0
    for seed in range(30):
        rows = cells(DOUBLINGS, Scenario(misfit=0.3).draw(np.random.default_rng(seed)))
        found, means = law(rows), fit(rows, comparisons=())
        curve, _, _ = found.curve(DOUBLINGS)
        ratios = {count: means.mean(count).value / of for count, of in zip(DOUBLINGS, curve, strict=True)}
        largest = max(ratios, key=lambda count: abs(ratios[count] - 1))
        assert (found.misfit_at, found.misfit) == (largest, pytest.approx(ratios[largest] - 1)), f"seed {seed}"
        differ += max(ratios, key=lambda count: abs(math.log(ratios[count]))) != largest
    assert differ, "logarithms would have told the same"


def test_the_curve_goes_through_the_estimates_and_its_band_holds_it() -> None:
    found, _ = of(Scenario())
    mean, low, high = found.curve([1.0, found.peak_at.value, 64.0])
    assert mean[0] == pytest.approx(found.one.value)
    assert mean[1] == pytest.approx(found.peak.value)
    assert found.one.ci_low == pytest.approx(low[0])
    assert found.one.ci_high == pytest.approx(high[0])
    assert np.all(low < mean)
    assert np.all(mean < high)


@pytest.mark.parametrize(
    "scenario",
    [Scenario(), Scenario(blocks=5), Scenario(noise=0.01, last_times=5.0), Scenario(noise=0.01, misfit=0.05)],
)
def test_intervals_cover_about_95_per_cent(scenario: Any) -> None:
    found = shares(scenario, seed=11, count=100)
    # Three standard errors of 100 sweeps below 95 %, and more scatter at the last points.
    assert min(found.covered) >= 0.87, found
    assert found.wrong <= 0.12


@pytest.mark.parametrize("peak_at", [math.inf, 100.0])
def test_no_peak_is_claimed_where_none_is(peak_at: float) -> None:
    found = shares(Scenario(contention=0.05, peak_at=peak_at), seed=12, count=60)
    assert found.claimed <= 0.03, found


def test_a_clear_peak_is_claimed() -> None:
    assert shares(Scenario(), seed=13, count=30).claimed >= 0.95


@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        (Scenario(peak_at=math.inf), "highest at the most connections measured, 64"),
        (Scenario(peak_at=1.0, contention=0.5), "highest at the fewest connections measured, 1"),
        (Scenario(peak_at=16.0, contention=0.05, noise=0.6), "may be chance"),
        (Scenario(misfit=0.4), "do not follow the law"),
    ],
)
def test_the_reason_is_in_words(scenario: Any, why: str) -> None:
    _, said = of(scenario, seed=2)
    assert why in str(said)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([(8, block, 80.0) for block in range(3)], "1 number of connections has a throughput"),
        ([row for row in CLEAN if row[0] < 16], "4 numbers of connections have a throughput, and the law's three"),
        ([(count, block, 0.0 if count == 16 else of) for count, block, of in CLEAN], "nothing was done at 16 connect"),
        ([(count, block, math.nan) for count, block, _ in CLEAN], "nothing was done at 1 connection,"),
        ([row for row in CLEAN if row[1] < 2], "2 blocks, and a peak needs 3: --repetitions 3"),
        ([row for row in CLEAN if row[1] == 0], "1 block, and a peak needs 3"),
        ([row for row in CLEAN if row[0] != 4 or row[1] == 2], "only one run at 4 connections succeeded"),
        ([row for row in SIX_BLOCKS if (row[0] < 8) == (row[1] < 3)], "share no block with the others"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_words(rows: list[tuple[int, int, float]], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        law(rows)


@settings(max_examples=60, deadline=None)
@given(data=some.data())
def test_any_throughputs_give_a_law_or_a_reason_and_no_warning(data: some.DataObject) -> None:
    """Ties, runs that are missing, and throughputs that no server has: pytest makes each warning an error."""
    counts = data.draw(some.sampled_from([DOUBLINGS, (1, 2, 3, 4, 5), (2, 300, 301, 5000, 9999)]))
    places = [(count, block) for count in counts for block in range(3)]
    value = some.one_of(some.sampled_from([1.0, 500.0]), some.floats(1e-9, 1e12))
    values = data.draw(some.lists(value, min_size=len(places), max_size=len(places)))
    missing = data.draw(some.sets(some.sampled_from(places), max_size=4))
    rows = [(*place, of) for place, of in zip(places, values, strict=True) if place not in missing]
    try:
        found = law(rows)
    except ValueError:
        return
    why_no_peak(found, fit(rows, comparisons=()))
    for estimate in (found.one, found.contention, found.coherency, found.peak):
        assert math.isfinite(estimate.value)
        if estimate.ci_low is not None and estimate.ci_high is not None:
            assert estimate.ci_low <= estimate.value * (1 + 1e-9)
            assert estimate.value <= estimate.ci_high * (1 + 1e-9)
    assert not math.isnan(found.peak_at.value)


def test_ties_at_all_connections_have_no_peak() -> None:
    rows = [(count, block, 100.0) for count in DOUBLINGS for block in range(3)]
    found = law(rows)
    assert found.contention.value == pytest.approx(1.0, abs=1e-6)
    assert why_no_peak(found, fit(rows, comparisons=())) is not None


def test_blocks_that_lack_runs_do_not_move_the_law() -> None:
    """Blocks differ by half: a mean over the blocks that are there would be far off."""
    rows = cells(DOUBLINGS, Scenario(**EXACT).draw(np.random.default_rng(6)))
    rows = [(count, block, of * (1.5 if block == 2 else 1)) for count, block, of in rows]
    whole, without = law(rows), law([row for row in rows if row[:2] not in {(2, 2), (64, 2), (16, 0)}])
    assert without.contention.value == pytest.approx(whole.contention.value, abs=1e-3)
    assert without.peak_at.value == pytest.approx(whole.peak_at.value, rel=1e-3)
    assert without.one.value == pytest.approx(whole.one.value, rel=1e-3)


def test_a_missing_run_leaves_the_law_near() -> None:
    rows = cells(DOUBLINGS, Scenario(noise=0.01).draw(np.random.default_rng(4)))
    whole, without = law(rows), law(rows[:-1])
    assert without.peak_at.value == pytest.approx(whole.peak_at.value, rel=0.03)
    assert without.one.value == pytest.approx(ONE, rel=0.05)


def test_a_fall_that_may_be_chance_is_told_with_its_interval() -> None:
    """What a real server gave: the rise is beyond doubt, and of three blocks one hardly falls."""
    blocks = (
        (235, 455, 689, 661, 697, 680, 629),
        (239, 430, 665, 749, 738, 637, 583),
        (278, 515, 870, 863, 803, 874, 797),
    )
    rows = [(2**place, block, float(told)) for block, one in enumerate(blocks) for place, told in enumerate(one)]
    said = why_no_peak(law(rows), fit(rows, comparisons=()))
    assert said == "throughput is highest at 8 connections, but its fall to 64 (−40 to +29 %) may be chance"


def test_a_curve_that_turns_twice_is_told_as_that() -> None:
    means = {1: 500.0, 2: 700.0, 4: 650.0, 8: 200.0, 16: 300.0, 32: 550.0, 64: 450.0}
    noise = np.random.default_rng(3)
    rows = [
        (count, block, mean * math.exp(0.01 * noise.standard_normal()))
        for count, mean in means.items()
        for block in range(3)
    ]
    said = why_no_peak(law(rows), fit(rows, comparisons=()))
    assert said == (
        "throughput is highest at 2 connections and lower at 8 than at either end: it turns twice, and the law once"
    )
