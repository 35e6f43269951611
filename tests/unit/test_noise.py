"""The noise floor: computed correctly, stored and attached to sweeps, and never a reason for a sweep to fail."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Section, Table
from bufferlab.errors import Problem
from bufferlab.execute.host import stored_noise as floors
from bufferlab.report.build import build as build_report
from bufferlab.report.chapters.noise_floor import noise_floor
from bufferlab.results.store import SweepFolder
from bufferlab.stats.noise import Scatter, clearly_more, detectable, noise, scatter
from support.fake import Bench, Heard
from support.synthetic import Sweep, Truth, shared

TRIALS = 600


def cells(seed: int, blocks: int = 10, within: float = 0.02, across: float = 0.05) -> list[tuple[str, int, float]]:
    rng = np.random.default_rng(seed)
    effects = rng.normal(0, across, blocks)
    return [
        (arm, block, 10 * math.exp(effects[block] + rng.normal(0, within))) for arm in "ab" for block in range(blocks)
    ]


def test_the_noise_within_a_block_is_that_of_the_paired_differences() -> None:
    rows = cells(1)
    a, b = (np.log([value for of, _, value in rows if of == arm]) for arm in "ab")
    found = noise(rows).within
    assert found is not None
    assert found.value == pytest.approx(np.std(b - a, ddof=1) / math.sqrt(2))
    assert (found.df, found.n) == (9, 20)


@pytest.mark.parametrize("kind", ["within", "across"])
def test_the_interval_of_the_noise_covers_the_truth_in_92_to_98_per_cent(kind: str) -> None:
    truth = 0.02 if kind == "within" else math.hypot(0.02, 0.05)
    inside = 0
    for seed in range(TRIALS):
        found: Scatter | None = getattr(noise(cells(seed)), kind)
        assert found is not None
        assert found.ci_low is not None
        assert found.ci_high is not None
        inside += found.ci_low <= truth <= found.ci_high
    assert 0.92 <= inside / TRIALS <= 0.985, f"{inside} of {TRIALS}"


def test_runs_that_are_identical_in_every_block_have_no_noise_within_and_some_across() -> None:
    rows = [(arm, block, 10.0 + block) for arm in "ab" for block in range(4)]
    found = noise(rows)
    assert found.within is not None
    assert (found.within.value, found.within.ci_low) == (0.0, None)
    assert found.across is not None
    assert found.across.value > 0


def test_rounding_is_no_noise_across_blocks() -> None:
    found = noise([(arm, block, value) for arm in "ab" for block, value in enumerate((10.0, 10 * (1 + 1e-15), 10.0))])
    assert found.across is not None
    assert (found.across.value, found.across.ci_low, found.across.n) == (0.0, None, 6)


def test_figures_that_may_be_zero_are_relative_to_their_mean() -> None:
    rows = [("a", 0, 0.0), ("a", 1, 2.0), ("b", 0, 1.0), ("b", 1, 5.0)]
    found = noise(rows).within
    assert found is not None
    assert found.value == pytest.approx(np.std([1.0, 3.0], ddof=1) / math.sqrt(2) / 2.0)


def test_what_is_said_to_be_detectable_is_found_four_times_in_five() -> None:
    rng, deviation, runs = np.random.default_rng(3), 0.03, 5
    change = math.log(detectable(deviation, runs, paired=True))
    differences = rng.normal(change, deviation * math.sqrt(2), (4000, runs))
    found = float(np.mean(stats.ttest_1samp(differences, 0, axis=1).pvalue < 0.05))
    assert 0.76 <= found <= 0.85


def test_more_repetitions_find_less_and_pairs_need_fewer_only_by_their_smaller_noise() -> None:
    sizes = [detectable(0.02, count, paired=True) for count in (3, 5, 10)]
    assert sizes == sorted(sizes, reverse=True)
    assert detectable(0.02, 5, paired=False) < detectable(0.02, 5, paired=True)


def test_only_what_is_much_more_and_not_by_chance_is_clearly_more() -> None:
    floor = scatter(0.02, 11, 24)
    assert floor is not None
    of = {value: scatter(value, 16, 25) for value in (0.02, 0.028, 0.06)}
    assert [clearly_more(found, floor) for found in of.values() if found] == [False, False, True]
    few = scatter(0.06, 1, 4)
    assert few is not None
    assert not clearly_more(few, floor)


#: Short windows: what is planted does not depend on them, and there are fewer samples to read.
SHORT: dict[str, Any] = {"warm_up_seconds": 2, "transactions": 4000}
A_A = Sweep(truths=(Truth("20%", 9.7), Truth("20%", 9.7)), blocks=10, experiment="noise", **SHORT)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "bufferlab" / "noise"


def a_a(sweep: Sweep = A_A) -> SweepFolder:
    """Build a synthetic sweep of one setting with two points called a and b: no test changes its folder."""
    folder = shared(sweep)
    for point, arm in zip(folder.plan["points"], "ab", strict=True):
        point["swept"] = {"arm": arm}
    return folder


def test_a_floor_is_kept_after_an_a_a_sweep_and_attached_to_later_hosts(state: Path) -> None:
    folder, heard = a_a(), Heard()
    path = floors.keep(folder, heard)
    assert path == state / "0123456789ab-sqlite-tpcc.json"
    assert not heard.warned
    host = floors.attach(folder.host)
    floor = host["noise"]["sqlite-tpcc"]
    assert (floor["blocks"], floor["transactions"]) == (10, A_A.transactions)
    figures = {figure["metric"]: figure for figure in floor["figures"]}
    assert figures["reads_per_new_order"]["within"]["value"] == pytest.approx(A_A.noise, rel=0.6)
    assert figures["reads_per_new_order"]["within"]["n"] == 20
    json.dumps(host, allow_nan=False)


def test_another_host_has_no_floor(state: Path) -> None:
    folder = a_a()
    floors.keep(folder)
    other = {**folder.host, "host_id": "another"}
    assert floors.attach(other) == other


def test_an_ordinary_sweep_leaves_nothing(state: Path) -> None:
    assert floors.keep(shared(replace(A_A, experiment="buffer-size"))) is None
    assert not state.exists()


def test_too_few_blocks_are_not_kept_and_that_is_said(state: Path) -> None:
    heard = Heard()
    assert floors.keep(a_a(replace(A_A, blocks=4)), heard) is None
    assert "takes 10 blocks" in heard.said[0]


@pytest.mark.parametrize(
    ("second", "stays"),
    [
        ({"transactions": 2000}, True),
        ({"transactions": 6000}, False),
        ({"transactions": 2000, "versions": {"core": "9.9"}}, False),
    ],
)
def test_a_floor_of_shorter_windows_does_not_replace_one_of_this_version(
    state: Path, monkeypatch: pytest.MonkeyPatch, second: dict[str, Any], stays: bool
) -> None:
    # The synthetic sweeps are of January 2026, and a floor's age counts from today.
    monkeypatch.setattr(floors, "OLD", floors.OLD * 10_000)
    path = floors.keep(a_a())
    assert path is not None
    before = path.read_text()
    assert (floors.keep(a_a(replace(A_A, **second))) is None) == stays
    assert (path.read_text() == before) == stays


def test_an_old_floor_is_replaced_whatever_its_windows(state: Path) -> None:
    floors.keep(a_a())
    assert floors.keep(a_a(replace(A_A, transactions=2000))) is not None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "other"}', '{"format_version": 1}', "\x00\xff"])
def test_a_foreign_file_in_its_place_is_warned_of_and_replaced(state: Path, content: str) -> None:
    folder, heard = a_a(), Heard()
    state.mkdir(parents=True)
    path = state / "0123456789ab-sqlite-tpcc.json"
    path.write_text(content, encoding="latin-1")
    assert "noise" not in floors.attach(folder.host, heard)
    assert [problem.where for problem in heard.warned] == [str(path)]
    assert floors.keep(folder) == path
    assert "noise" in floors.attach(folder.host)


def test_a_directory_that_cannot_be_written_is_a_warning(state: Path) -> None:
    heard = Heard()
    state.parent.mkdir(parents=True)
    state.write_text("a file where the directory should be")
    assert floors.keep(a_a(), heard) is None
    (problem,) = heard.warned
    assert isinstance(problem, Problem)
    assert "noise floor" in problem.what


def test_the_state_directory_is_that_of_the_user_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert floors.state_directory() == tmp_path / ".local" / "state" / "bufferlab"


def test_a_sweep_of_two_arms_leaves_its_floor_and_the_next_sweep_carries_it(tmp_path: Path) -> None:
    first = Bench(tmp_path / "bench")
    first.measure(first.experiment(sweep='arm = ["a", "b"]', knobs='pool_size = "20%"', repetitions=10))
    assert "noise" not in first.sweep().host
    second = Bench(tmp_path / "bench")
    heard = Heard()
    outcome = second.measure(second.experiment(repetitions=2), heard)
    assert not heard.warned
    floor = outcome.folder.host["noise"]["fake-tpcc"]
    assert floor["blocks"] == 10
    # The copy names its engine, and the floors of other engines stay separate.
    assert floor["engine"] == "fake"
    assert list(outcome.folder.host["noise"]) == ["fake-tpcc"]


def chapter(folder: SweepFolder) -> Section | None:
    return noise_floor(Analysis.of(folder))


@pytest.fixture(scope="module")
def floor_of_a_a(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the floor of a synthetic A/A sweep, as host.json has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        floors.keep(a_a())
        found: dict[str, Any] = floors.attach({"host_id": "0123456789ab"})["noise"]
    return found


def on_host_of(floor: dict[str, Any], sweep: Sweep) -> SweepFolder:
    """Return a synthetic sweep whose host.json has a floor; no file of a run has one."""
    folder = shared(sweep)
    folder.host["noise"] = floor
    return folder


def rows_of(section: Section) -> dict[str, tuple[str, ...]]:
    (table,) = section.blocks
    assert isinstance(table, Table)
    return {row.cells[0]: row.cells[1:] for row in table.rows}


def test_a_sweep_without_a_floor_has_no_such_chapter() -> None:
    assert chapter(shared(Sweep(blocks=2, **SHORT))) is None


def test_an_a_a_sweep_shows_what_it_found_itself() -> None:
    section = chapter(a_a())
    assert section is not None
    within, across, *found = rows_of(section)["Reads per New-Order"]
    assert "n = 20" in within
    assert "n = 20" in across
    assert len(found) == 3


def test_the_floor_stands_beside_the_scatter_of_the_sweep(floor_of_a_a: dict[str, Any]) -> None:
    section = chapter(on_host_of(floor_of_a_a, Sweep(blocks=5, **SHORT)))
    assert section is not None
    assert (
        section.intro == "Measured 2026-01-05 by noise-20260105-100000: one setting (pool_size 20%) twice in 10 "
        "blocks of 4,000 transactions."
    )
    assert len(rows_of(section)["Reads per New-Order"]) == 6


@pytest.mark.parametrize(
    ("sweep", "floor", "says"),
    [
        ({"throughput_noise": 0.2}, {}, "scatters clearly more than the floor in transactions per second"),
        ({"versions": {"core": "0.2.0"}}, {}, "other versions (core 0.1.0, now 0.2.0)"),
        ({}, {"measured_at": "2025-11-01T10:00:00Z"}, "the floor was 65 days old"),
    ],
)
def test_a_floor_that_does_not_fit_is_warned_of(
    floor_of_a_a: dict[str, Any], sweep: dict[str, Any], floor: dict[str, Any], says: str
) -> None:
    known = {name: {**found, **floor} for name, found in floor_of_a_a.items()}
    section = chapter(on_host_of(known, Sweep(blocks=5, **SHORT, **sweep)))
    assert section is not None
    assert "Warning" in section.intro
    assert says in section.intro


def test_counts_that_scatter_more_than_their_floor_do_not_make_the_host_busy(floor_of_a_a: dict[str, Any]) -> None:
    """Two points may react differently to the same transactions; a floor of one setting done twice cannot show that."""
    quiet = {
        name: {**found, "figures": [_silent(row) for row in found["figures"]]} for name, found in floor_of_a_a.items()
    }
    section = chapter(on_host_of(quiet, Sweep(blocks=3, noise=0.05, **SHORT)))
    assert section is not None
    assert "Warning" not in section.intro


def _silent(row: dict[str, Any]) -> dict[str, Any]:
    """Make a figure's runs nearly identical within a block."""
    low = {"value": 1e-6, "ci_low": 1e-6, "ci_high": 2e-6}
    return {**row, "within": {**row["within"], **low}} if row["metric"] == "reads_per_new_order" else row


def test_an_a_a_sweep_claims_no_difference_between_its_arms() -> None:
    report = build_report(a_a(replace(A_A, seed=11)))
    assert not [step for step in report.data.steps if step.direction in ("falls", "rises")]
