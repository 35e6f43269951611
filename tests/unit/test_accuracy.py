"""`accuracy`, a predicted sweep compared with a measured one: errors by hand, steps, the choice, and refused
comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bufferlab.chapter.analysis import Analysis, Group
from bufferlab.chapter.elements import PanelsPlot
from bufferlab.execute.predicted_sweep import predict_sweep
from bufferlab.registry import open_sweep
from bufferlab.report.comparison import accuracy_page
from bufferlab.report.comparison.accuracy import accuracy, was_seen
from bufferlab.report.comparison.accuracy_page import answer, as_report
from bufferlab.report.json_output import printed
from bufferlab.results.check_parts import Check
from bufferlab.results.checks_of_every_engine import check_sweep
from bufferlab.results.store import SweepFolder
from bufferlab.spec import Overrides
from support.fake import Bench
from support.traced import GET, Access, build, repeat

REAL = Path(__file__).parents[1] / "fixtures/prediction"
"""MySQL 5.7.22, TPC-C, 1 warehouse: a traced run at 30 %, and three runs at each of five pools without a trace."""
LOOP: list[Access] = [(page, GET) for page in range(80)]
"""LRU in 64 frames misses all 80 pages of each pass, in 80 frames none."""
TWO = 'pool_size = ["256KiB", "320KiB"]'


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@pytest.fixture
def measured(tmp_path: Path) -> SweepFolder:
    """Return a measured sweep: 98 to 102 reads in the small pool (predicted: 80), about 4 in the large one (0)."""
    folder = build(tmp_path, LOOP, LOOP, sweep=TWO, reads=100, counters={"db_other_reads": 0})
    return repeat(folder, [[98, 102, 100, 99], [4, 4, 5, 3, 4]])


def predict(bench: Bench, traced: SweepFolder, **overrides: Any) -> SweepFolder:
    with bench.in_environment():
        return predict_sweep(traced.path, Overrides(**overrides), bench.out).folder


def test_errors_are_those_of_the_means(bench: Bench, measured: SweepFolder) -> None:
    told = printed(accuracy(measured, predict(bench, measured)))
    small, large = told["points"]
    assert (small["measured"]["value"], small["measured"]["n"]) == (pytest.approx(99.8 / 4, rel=1e-3), 5)
    assert small["predicted"] == 20.0
    assert small["error"] == pytest.approx(80 / 99.8 - 1, rel=1e-3)
    assert small["inside"] is False
    assert (small["measured_frames"], small["prediction"]["pool_frames"]) == (64, 64)
    assert (large["predicted"], large["error"]) == (0.0, -1.0)
    assert small["in_development"] is False
    (every,) = told["summaries"]
    assert (every["name"], every["n"], every["largest"]) == ("all", 2, -1.0)
    assert every["mean"] == pytest.approx((1 + 1 - 80 / 99.8) / 2, rel=1e-3)
    assert every["times_better"] == pytest.approx(1.0)


def test_steps_and_the_choice_are_judged_by_what_was_measured(bench: Bench, measured: SweepFolder) -> None:
    found = accuracy(measured, predict(bench, measured))
    told = printed(found)
    assert told["steps"] == [{"a": "256 KiB", "b": "320 KiB", "measured": "falls", "predicted": "falls", "right": True}]
    assert (told["chosen_label"], told["best_label"], told["regret"]) == ("320 KiB", "320 KiB", 0.0)
    assert "The model tells the direction of 1 of 1 resolved step." in answer(found)
    assert answer(found).endswith("It would choose 320 KiB, which is the best.")


def test_pools_that_read_nothing_have_no_error_and_are_no_pair_of_ends(bench: Bench, tmp_path: Path) -> None:
    pools = 'pool_size = ["320KiB", "400KiB"]'
    folder = build(tmp_path / "none", LOOP, LOOP, sweep=pools, counters={"db_other_reads": 0})
    folder = repeat(folder, [[0], [0, 0]])
    told = accuracy(folder, predict(bench, folder))
    assert [(point.measured.value, point.predicted, point.error) for point in told.points] == [(0, 0, None)] * 2
    assert answer(told) == ("Reads per New-Order: none were measured where there is a prediction, which is 0 at most.")


def test_a_choice_that_the_measurement_regrets_is_told(bench: Bench, tmp_path: Path) -> None:
    """The larger pool was measured to read more, as if the model had a fault."""
    folder = build(tmp_path / "odd", LOOP, LOOP, sweep=TWO, reads=100, counters={"db_other_reads": 0})
    folder = repeat(folder, [[100, 100, 101, 99], [150, 151, 149, 150, 150]])
    told = printed(accuracy(folder, predict(bench, folder)))
    assert told["steps"][0]["right"] is False
    assert (told["chosen_label"], told["best_label"], told["regret"]) == (
        "320 KiB",
        "256 KiB",
        pytest.approx(0.5, rel=1e-3),
    )


def test_a_step_of_which_nothing_may_be_claimed_is_not_resolved(
    bench: Bench, measured: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    predicted = predict(bench, measured)
    monkeypatch.setattr(Analysis, "claim_blocked", lambda *_: "1 whole block, a claim needs 2")
    found = accuracy(measured, predicted)
    assert [(step.measured, step.right) for step in found.steps] == [("not resolved", None)]
    assert "resolved step" not in answer(found)
    assert "would choose" not in answer(found)


def test_the_only_error_is_no_bound_of_others(bench: Bench, tmp_path: Path) -> None:
    """80 predicted reads are 19.84 % fewer than 99.8 measured ones; a pool that read nothing has no error."""
    folder = build(tmp_path / "bound", LOOP, LOOP, sweep=TWO, reads=100, counters={"db_other_reads": 0})
    folder = repeat(folder, [[98, 102, 100, 99], [0, 0, 0, 0, 0]])
    told = answer(accuracy(folder, predict(bench, folder)))
    assert told.startswith("Reads per New-Order at 256 KiB: the model predicts 20, 19.8 % below the measured 24.9")
    assert "LRU predicts 20, 19.8 % below it. The prediction lies outside the measured 95 % interval." in told
    assert told.endswith("The model tells the direction of 1 of 1 resolved step.")
    assert "within" not in told


def test_one_point_gives_no_choice(bench: Bench, measured: SweepFolder) -> None:
    found = accuracy(measured, predict(bench, measured, sweep=(("pool_size", ("256KiB",)),)))
    assert [point.label for point in found.points] == ["256 KiB"]
    told = printed(found)
    assert (told["chosen_label"], told["best_label"], told["regret"]) == (None, "256 KiB", None)
    assert answer(found).endswith(
        "One point shows neither the error at other settings nor which setting the model would choose."
    )
    assert "summary" not in [section.id for section in as_report(found).sections]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (0.0213, "2.1 % above"),
        (-0.3, "30.0 % below"),
        (0.999, "99.9 % above"),
        (1.0, "2.00 times"),
        (196.4, "197 times"),
    ],
)
def test_an_error_from_twice_the_measured_value_on_is_a_multiple(error: float, told: str) -> None:
    assert accuracy_page._off(error) == told


def test_the_data_of_the_figure_have_the_points_of_every_panel(bench: Bench, measured: SweepFolder) -> None:
    found = accuracy(measured, predict(bench, measured))
    found.sides.a.groups = tuple(Group(point.label, (point,)) for point in found.sides.a.points)
    figure = as_report(found).headline
    assert figure is not None
    assert isinstance(figure.plot, PanelsPlot)
    labels = [panel.title for panel in figure.plot.panels]
    assert len(set(labels)) == 2
    names = [row.cells[0] for row in figure.data.rows]
    for label in labels:
        assert sum(name.startswith(f"{label}, ") for name in names) == 3, "model, LRU and measured"


def test_points_of_one_side_alone_are_named(bench: Bench, measured: SweepFolder) -> None:
    found = accuracy(measured, predict(bench, measured, sweep=(("pool_size", ("256KiB", "280KiB")),)))
    told = printed(found)
    assert [[one["label"] for one in told["sides"][side]] for side in ("only_a", "only_b")] == [
        ["pool_size 320KiB"],
        ["pool_size 280KiB"],
    ]
    assert "Only predicted: pool_size 280KiB." in as_report(found).limits


def test_a_failed_check_of_the_measured_runs_is_repeated(
    bench: Bench, measured: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = accuracy(measured, predict(bench, measured))
    monkeypatch.setattr(Analysis, "checks", [Check("agree", "Counts agree", "failed", "1 and 2", ("reads",))])
    told = "A check of the measured runs failed, which puts reads and misses in doubt: Counts agree."
    assert told in as_report(found).limits


@pytest.mark.figures
def test_the_page_has_the_figure_and_the_terminal_the_table(bench: Bench, measured: SweepFolder) -> None:
    predicted = predict(bench, measured)
    page, svg = bench.root / "page.html", bench.root / "figure.svg"
    ended = bench.bufferlab("accuracy", measured.path, predicted.path, "--html", page, "--svg", svg)
    assert ended.code == 0, ended.err
    assert "-19.8 %" in ended.out
    assert "held out" in ended.out
    assert "<svg" in page.read_text()
    assert "measured and predicted" in page.read_text()
    assert svg.read_text().startswith("<?xml")


def test_unlike_sources_are_refused_and_named(bench: Bench, measured: SweepFolder) -> None:
    predicted = predict(bench, measured)
    for pair, what in (
        ((predicted.path, predicted.path), "this sweep was predicted"),
        ((measured.path, measured.path), "this sweep was measured"),
    ):
        ended = bench.bufferlab("accuracy", *pair)
        assert (ended.code, ended.out) == (2, "")
        assert what in ended.err
    assert printed(accuracy(predicted, measured)) == printed(accuracy(measured, predicted)), "in either order"
    for arguments in ((), ("--force",)):
        ended = bench.bufferlab("compare", measured.path, predicted.path, *arguments)
        assert ended.code == 2
        assert "one side was measured and the other predicted" in ended.err
        assert "bufferlab accuracy MEASURED PREDICTED" in ended.err


def test_other_settings_are_refused_by_name(bench: Bench, tmp_path: Path, measured: SweepFolder) -> None:
    other = build(tmp_path / "other", LOOP, LOOP, sweep=TWO, knobs='io_mode = "buffered"')
    ended = bench.bufferlab("accuracy", measured.path, predict(bench, other).path)
    assert ended.code == 2
    assert "io_mode was direct when measured and buffered when predicted" in ended.err


def test_one_run_of_mysql_predicts_its_other_pools(bench: Bench) -> None:
    """The aim at one warehouse: an error of 4 % in the mean, 8 % at most, and a third of the error of LRU with the same
    bytes."""
    pools = ("pool_size", ("10%", "20%", "30%", "40%", "50%"))
    with bench.in_environment():
        predicted = predict_sweep(REAL / "traced", Overrides(sweep=(pools,)), bench.out).folder
    found = accuracy(open_sweep(REAL / "measured"), predicted)
    every = found.summaries[0]
    assert every.n == 5
    assert every.mean <= 0.04
    assert abs(every.largest) <= 0.08
    assert every.lru_mean >= 3 * every.mean
    assert [step.right for step in found.steps] == [True] * 4
    assert all(point.in_development for point in found.points)
    own = next(point.prediction for point in found.points if point.prediction.is_traced_point)
    assert own.found
    assert abs(own.found.reads / own.traced.measured_reads - 1) <= 0.03
    told = [record.measured() for record in predicted.runs()]
    assert [check.name for check in check_sweep(told) if check.status == "failed"] == []


@pytest.mark.parametrize(
    ("version", "asked", "seen"),
    [
        ("5.7.22", {"pool_size": "30%", "lru_scan_depth": "400"}, True),
        ("8.0.15", {"pool_size": "50%"}, False),
        ("5.7.22", {"pool_size": "25%", "lru_scan_depth": "100"}, False),
        ("5.7.22", {"pool_size": "30%", "lru_scan_depth": "100", "warehouses": "4"}, False),
        ("8.0.15", {"pool_size": "50%", "lru_scan_depth": "100"}, True),
        ("8.0.15", {"pool_size": "50%", "lru_scan_depth": "400"}, False),
    ],
)
def test_a_cell_of_development_is_known_by_all_its_settings(version: str, asked: dict[str, str], seen: bool) -> None:
    """lru_scan_depth is 1024 by default; a cell of development that does not name it had 100."""
    settings = {"warehouses": "1", "lru_scan_depth": "1024", "old_blocks_time": "0"} | asked
    assert was_seen("mysql", version, settings, frozenset({"pool_size", "lru_scan_depth"}), "tpcc") is seen
