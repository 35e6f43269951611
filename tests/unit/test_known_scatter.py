"""Sweeps of one or two runs a point use at least the scatter that repeated runs of other sweeps showed."""

from __future__ import annotations

import runpy
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.registry import open_sweep
from bufferlab.report.answer import answer
from bufferlab.report.build import build as build_report
from bufferlab.stats.fit import Fit, fit
from bufferlab.stats.known_scatter import CLAIM_TIMES, KnownScatter, known_scatters
from bufferlab.stats.verdict import judge_sweep
from support.synthetic import BUFFER_SIZE, Sweep, Truth, build

ROOT = Path(__file__).parents[2]
READS = "reads_per_new_order"


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools/known_scatter.py"))


def test_the_shipped_file_is_derived_from_the_table_of_repeated_runs(tool: dict[str, Any]) -> None:
    assert tool["SHIPPED"].read_text() == tool["shipped"](tool["table"]())


def test_the_table_holds_the_committed_sweeps_as_they_are(tool: dict[str, Any]) -> None:
    rows = tool["table"]()
    for folder in ("prediction/measured", "sweeps/before"):
        assert all(row in rows for row in tool["repeated"](ROOT / "tests/fixtures" / folder))


def test_the_derived_scatter_bounds_what_was_planted(tool: dict[str, Any]) -> None:
    """The variances are drawn from floor^2 + events / count: the derived bound is above the truth, and not far above
    it."""
    rng = np.random.default_rng(11)
    planted = KnownScatter(0.01, 20.0, 0)
    rows = [
        tool["Repeated"](f"sweep {sweep}", "x", "tpcc", str(counted), "pages_read", 3, counted, deviation)
        for sweep in range(30)
        for counted in (300.0, 3e3, 3e4, 3e5, 3e6)
        for deviation in [planted.deviation(counted) / counted * (rng.chisquare(2) / 2) ** 0.5]
    ]
    found = tool["fitted"](rows, runs=450)
    for counted in (300.0, 3e4, 3e6):
        assert 1.0 <= found.deviation(counted) / planted.deviation(counted) <= 1.4
    assert found.runs == 450


@pytest.mark.parametrize("folder", ["prediction/measured", "sweeps/before", "sweeps/after"])
def test_no_two_runs_of_one_point_are_called_different(folder: str) -> None:
    sweep = Analysis.of(open_sweep(ROOT / "tests/fixtures" / folder))
    for point in sweep.points:
        for one, other in combinations(point.ok, 2):
            counts = [run.window.change("pages_read").value or 0.0 for run in (one, other)]
            values = [run.values[READS].value or 0.0 for run in (one, other)]
            known = known_scatters()["pages_read"]
            scatter = {n: known.deviation(counts[n]) * values[n] / counts[n] for n in (0, 1)}
            found = fit([(n, 0, values[n]) for n in (0, 1)], known_scatter=scatter).step(0, 1)
            assert found.times is not None
            assert found.times < CLAIM_TIMES


def drawn(rng: np.random.Generator, means: list[float], blocks: int, noise: float, known: float) -> Fit:
    cells = [
        (n, block, mean * float(np.exp(rng.normal(0, noise))))
        for n, mean in enumerate(means)
        for block in range(blocks)
    ]
    return fit(cells, known_scatter={n: known * mean for n, mean in enumerate(means)})


@pytest.mark.parametrize(("blocks", "noise", "most"), [(1, 0.02, 0), (2, 0.02, 10), (2, 0.06, 30), (2, 0.2, 30)])
def test_points_that_are_alike_are_told_apart_no_more_often_than_an_interval_may(
    blocks: int, noise: float, most: int
) -> None:
    """Also if two runs scatter three or ten times the known scatter. Of 400 sweeps 5 % are 20, with a standard error of
    4."""
    rng = np.random.default_rng(5)
    sweeps = [drawn(rng, [9.0] * 3, blocks, noise, 0.02) for _ in range(400)]
    claimed = sum(judge_sweep(found, range(3)).span.resolved for found in sweeps)
    assert claimed <= most


@pytest.mark.parametrize(("blocks", "least"), [(1, 200), (2, 185)])
def test_a_plain_step_is_claimed_and_its_interval_holds_the_truth(blocks: int, least: int) -> None:
    """Two runs a point may have their own interval, at 95 %: of 200 sweeps 190 are expected, with a standard error of
    3."""
    rng = np.random.default_rng(6)
    holds = 0
    for _ in range(200):
        found = judge_sweep(drawn(rng, [49.4, 11.6, 0.536], blocks, 0.02, 0.02), range(3))
        assert found.shape == "falls_at_every_step"
        low, high = found.span.estimate.ci_low, found.span.estimate.ci_high
        assert low is not None
        assert high is not None
        holds += low < 0.536 / 49.4 < high
    assert holds >= least


def test_counts_that_are_zero_are_compared_by_difference() -> None:
    known = KnownScatter(0.01, 20.0, 0)
    found = fit([("a", 0, 5000.0), ("b", 0, 0.0)], known_scatter={"a": known.deviation(5000), "b": known.deviation(0)})
    assert found.contrast == "difference"
    assert judge_sweep(found, ["a", "b"]).span.direction == "falls"


def test_the_same_counts_in_every_block_are_judged_by_what_is_known() -> None:
    cells = [(name, block, value) for name, value in (("index", 75903.0), ("table", 7090.0)) for block in range(2)]
    assert judge_sweep(fit(cells), ["index", "table"]).span.direction == "no_interval"
    known = fit(cells, known_scatter={"index": 2000.0, "table": 400.0})
    assert judge_sweep(known, ["index", "table"]).span.direction == "falls"


def test_one_run_a_point_claims_the_steps_of_counts_and_says_what_they_rest_on(tmp_path: Path) -> None:
    found = build_report(build(tmp_path, Sweep(blocks=1)))
    assert "Reads per New-Order fall at every step" in found.answer
    assert "(1 run a point; the smallest step is " in found.answer
    assert (
        f"times the usual difference of two runs, known from {known_scatters()['pages_read'].runs} earlier runs)"
        in found.answer
    )
    assert found.steps is not None
    assert found.steps.rows[0].cells[1].startswith("falls by ")
    directions = {one.metric: one.direction for one in found.data.steps}
    assert directions[READS] == "falls"
    assert directions["transactions_per_s"] == "no_interval"


def test_the_hit_ratio_of_two_runs_is_no_less_uncertain_than_its_misses(tmp_path: Path) -> None:
    sweep = Analysis.of(build(tmp_path, Sweep(blocks=2)))
    for point in sweep.points:
        hits, shares = (sweep.mean(name, point) for name in ("hit_ratio", "miss_ratio"))
        misses = sweep.mean("misses_per_new_order", point)
        assert hits
        assert shares
        assert misses
        # The misses' own relative error; the gets' adds little to it.
        reach = [(one.ci_high or 0.0) / one.value - 1 for one in (shares, misses)]
        assert reach[0] == pytest.approx(reach[1], rel=0.25)
        assert (hits.ci_high or 0.0) - hits.value > 0.75 * reach[0] * shares.value


def test_two_runs_that_hardly_differ_claim_the_step_of_a_count(tmp_path: Path) -> None:
    found = answer(Analysis.of(build(tmp_path, Sweep(blocks=2, noise=0.03, truths=BUFFER_SIZE[1:3]))))
    assert found.startswith("Reads per New-Order fall as the buffer pool grows")
    assert "(2 runs a point; the step is " in found


def test_one_run_a_point_does_not_claim_a_small_step(tmp_path: Path) -> None:
    found = answer(Analysis.of(build(tmp_path, Sweep(blocks=1, truths=(Truth("10%", 10.0), Truth("20%", 9.8))))))
    assert "no step is resolved" in found


@pytest.mark.parametrize("sweep", [Sweep(blocks=1, source="predicted"), Sweep(blocks=1, truths=BUFFER_SIZE[:1])])
def test_nothing_is_claimed_of_numbers_that_nobody_measured_nor_of_one_point(tmp_path: Path, sweep: Sweep) -> None:
    analysis = Analysis.of(build(tmp_path, sweep))
    fitted = analysis.fit(READS)
    assert fitted is not None
    assert not [pair for pair in fitted.comparisons if fitted.step(*pair).has_interval]
