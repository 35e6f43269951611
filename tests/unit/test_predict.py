"""Predictions from made-up traces: counts by hand, the sweep folder that holds them, and scans of PostgreSQL."""

from __future__ import annotations

import hashlib
import shutil
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bufferlab.execute.host import storage
from bufferlab.execute.predicted_sweep import predict_sweep
from bufferlab.models.predict import Target
from bufferlab.registry import open_sweep
from bufferlab.spec import Overrides
from support.fake import Bench
from support.predicted import LOOP, SERVER, names, predict, told, told_of
from support.threads import StopInTheSecond, endless_after_the_first
from support.traced import CREATE, GET, PREFETCH, READ, Access, build


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


# 65 pages in turn, twice: LRU with 64 frames evicts each page before its next access, 65 frames hold all, and OPT gives
# up only one page.


def test_counts_of_a_loop_are_those_made_by_hand(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, [*LOOP, (0, READ), (70, CREATE)], reads=60)
    document = told(bench, folder.path, "--sweep", "pool_size=256KiB,260KiB,264KiB")
    small, middle, large = document["predictions"]
    assert [point["pool_frames"] for point in document["predictions"]] == [64, 65, 66]
    assert (small["found"]["reads"], small["lru"]["reads"], small["opt"]["reads"]) == (65, 65, 1)
    assert (small["found"]["creates"], small["found"]["evictions"]) == (1, 66)
    assert [point["found"]["reads"] for point in (middle, large)] == [0, 0]
    assert small["reads_per"]["found"] == {"transaction": 6.5, "new_order": 65 / 4}
    assert (small["is_traced_point"], small["error"]) == (True, pytest.approx(65 / 60 - 1))
    assert (middle["is_traced_point"], middle["error"]) == (False, None)
    assert document["predictions"][0]["traced"]["measured_reads"] == 60
    assert (small["model"], small["model_version"]) == ("sqlite", 1)


def test_the_answer_is_a_sweep_folder_with_the_ordinary_report(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP, reads=60)
    ended = predict(bench, folder.path, "--sweep", "pool_size=256KiB,264KiB", "--json")
    assert ended.code == 0, ended.err
    sweep = open_sweep(Path(ended.json["sweep"]))
    first, second = sorted((record.run for record in sweep.runs()), key=lambda run: run.point.index)
    assert (first.source, first.inputs, first.clock, first.interval_kind) == ("predicted", "trace", "virtual", "none")
    assert first.prediction
    (trace,) = folder.path.glob("runs/*/page-trace.parquet")
    assert first.prediction.traced.page_trace_sha256 == hashlib.sha256(trace.read_bytes()).hexdigest()
    assert (first.versions["model sqlite"], first.engine_version) == ("1", "3.50.4")
    assert (second.settings["pool_size"].asked, second.settings["pool_size"].actual) == ("264KiB", 264 * 1024)
    page = (sweep.path / "report.md").read_text()
    assert "Predicted, not measured: the model sqlite, version 1" in page
    assert "264 KiB: the pool holds all 65 pages" in page
    assert "| 256 KiB | 64 | 16.25 | 16.25 | 16.25 | 0.25 | 15 | +8.3 % |" in page
    summary = pl.read_parquet(sweep.path / "summary.parquet")
    assert set(summary["source"]) == {"predicted"}


def test_reads_have_numbers_and_what_needs_time_or_writes_has_a_reason(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP, counters={"pages_written": 9, "page_gets": 65}, reads=60)
    found = open_sweep(Path(told(bench, folder.path)["sweep"]))
    values = found.runs()[0].values()
    assert values["reads_per_new_order"].value == 65 / 4
    assert values["hit_ratio"].value == 0.0
    assert (values["new_orders_per_s"].value, values["writes_per_new_order"].value) == (None, None)
    assert "no time passes" in str(values["new_orders_per_s"].reason)
    assert "the run did not count its writes" in str(values["writes_per_new_order"].reason)


def test_a_resume_does_the_points_that_are_missing(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP, sweep='pool_size = ["256KiB", "264KiB"]')
    whole = told(bench, folder.path)
    sweep = open_sweep(Path(whole["sweep"]))
    for record in sweep.runs():
        if record.run.point.index == 1:
            shutil.rmtree(record.folder)
    assert told_of(sweep)["status"] == "interrupted"
    with bench.in_environment():
        predict_sweep(folder.path, Overrides(), bench.out, sweep.path)
    assert told_of(open_sweep(sweep.path)) == whole


def test_a_resume_from_within_the_folder_works_in_the_one_around_it(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent of "." is "." again: a search upwards from there once never ended."""
    folder = build(tmp_path, LOOP, LOOP)
    whole = told(bench, folder.path)
    require_directory = storage.require_directory
    used: list[Path] = []

    def required(directory: Path, *more: str) -> None:
        assert directory.is_absolute()
        used.append(directory)
        require_directory(directory, *more)

    monkeypatch.setattr(storage, "require_directory", required)
    monkeypatch.chdir(whole["sweep"])
    with bench.in_environment():
        predict_sweep(folder.path, Overrides(), bench.out, Path("."))
    assert used[0] == bench.out
    assert told_of(open_sweep(Path(whole["sweep"]))) == whole


def test_a_resume_with_another_trace_is_refused(bench: Bench, tmp_path: Path) -> None:
    path = told(bench, build(tmp_path / "one", LOOP, LOOP).path)["sweep"]
    other = build(tmp_path / "other", LOOP, [*LOOP, (3, GET)])
    ended = bench.bufferlab("predict", other.path, "--resume", path)
    assert ended.code == 2
    assert "predicted_from differ" in ended.err
    measured = bench.bufferlab("run", "--resume", path)
    assert measured.code == 2
    assert "the runs of this sweep were predicted" in measured.err
    assert bench.bufferlab("predict", other.path, "--resume", other.path).code == 2


def test_a_stop_keeps_the_points_that_were_done(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a Ctrl-C in the second point the first stays complete, the second is a row, and a resume does the rest."""
    folder = build(tmp_path, LOOP, LOOP, sweep='pool_size = ["256KiB", "260KiB", "264KiB"]')
    with monkeypatch.context() as patched, bench.in_environment():
        patched.setattr(Target, "predicted", endless_after_the_first(Target.predicted))
        outcome = predict_sweep(folder.path, Overrides(), bench.out, progress=StopInTheSecond())
    assert outcome.signal_number == signal.SIGINT
    statuses = [record.run.status for record in open_sweep(outcome.folder.path).runs()]
    assert statuses == ["ok", "interrupted"]
    with bench.in_environment():
        predict_sweep(folder.path, Overrides(), bench.out, outcome.folder.path)
    assert len(told_of(open_sweep(outcome.folder.path))["predictions"]) == 3


def test_without_a_sweep_the_points_of_the_runs_experiment_are_predicted(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP, sweep='pool_size = ["10%", "20%"]')
    by_sweep = told(bench, folder.path)
    assert [point["label"] for point in by_sweep["predictions"]] == ["pool_size 10%", "pool_size 20%"]
    assert [point["pool_bytes"] for point in by_sweep["predictions"]] == [102 * 4096, 204 * 4096]
    run = next((folder.path / "runs").iterdir())
    assert told(bench, run) | {"sweep": ""} == by_sweep | {"sweep": ""}


def test_frames_are_the_targets_bytes_by_the_sources_own_count(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP, **SERVER, frames=1000, reads=1)
    point = told(bench, folder.path, "--sweep", "pool_size=32MiB")["predictions"][0]
    assert (point["pool_frames"], point["nominal_frames"]) == (2000, 2048)


def test_reads_of_a_server_are_misses_and_prefetches(bench: Bench, tmp_path: Path) -> None:
    window = [(1, GET), (2, PREFETCH), (2, GET), (3, GET), (3, CREATE), (4, CREATE)]
    folder = build(tmp_path, [(1, GET)], window, **SERVER, reads=3)
    found = told(bench, folder.path)["predictions"][0]["found"]
    assert (found["reads"], found["misses"], found["prefetch_reads"], found["creates"]) == (2, 1, 1, 1)


def test_a_setting_left_to_the_server_has_the_servers_default(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP, **(SERVER | {"knobs": 'lru_scan_depth = "200"'}))
    settings = told(bench, folder.path)["predictions"][0]["values"]
    assert settings == {"lru_scan_depth": 200, "old_blocks_pct": 37, "old_blocks_time": 1000, "flush_neighbors": 1}
    settings = told(bench, folder.path, "--set", "lru_scan_depth=auto")["predictions"][0]["values"]
    assert settings["lru_scan_depth"] == 1024


def test_a_larger_free_list_reads_more(bench: Bench, tmp_path: Path) -> None:
    loop = [(page, GET) for page in range(900)]
    folder = build(tmp_path, loop, loop * 3, **SERVER, step_us=10_000)
    document = told(bench, folder.path, "--sweep", "lru_scan_depth=100,400")
    first, second = (point["found"]["reads"] for point in document["predictions"])
    assert first < second


# PostgreSQL's scans: a table of 100 pages, read in turn. It has more than a quarter of 128 frames, and so a ring of 16
# buffers; with 512 frames it has no ring.

SCAN: list[Access] = [(page, GET) for page in range(100)]
POSTGRES: dict[str, Any] = {"engine": "postgres", "version": "17.2", "page_size": "8KiB"}
POSTGRES |= {"trace": {"objects": [{"name": "stock", "first_page": 0, "pages": 100}]}}


@pytest.mark.parametrize(
    ("traced", "latch", "reads", "found"),
    [
        ("1MiB", 9, [84, 0], [[], []]),  # The trace records that a ring was used.
        ("1MiB", 5, [0, 0], [[], []]),  # It records no ring, though a scan would have had one.
        ("4MiB", 5, [81, 0], [["guessed_scans"], []]),  # With this traced pool a scan had no ring either.
        ("1MiB", 1, [81, 0], [["guessed_scans"], []]),  # An older trace does not record rings.
    ],
)
def test_a_scan_of_a_large_table_keeps_no_more_of_it_than_its_ring(
    bench: Bench, tmp_path: Path, traced: str, latch: int, reads: list[int], found: list[list[str]]
) -> None:
    folder = build(tmp_path, SCAN, SCAN, **POSTGRES, sweep=f'pool_size = ["{traced}"]', latch=latch)
    points = told(bench, folder.path, "--sweep", "pool_size=1MiB,4MiB")["predictions"]
    assert [point["found"]["reads"] for point in points] == reads
    doubts = [[name for name in names(point["verdicts"]) if name == "guessed_scans"] for point in points]
    assert doubts == found


def test_checks_before_the_load_warm_no_pool(bench: Bench, tmp_path: Path) -> None:
    """The checks read all tables in turn, twice; then the load uses other pages, 8 of them before the window."""
    checks, load = [(page, GET) for page in range(200)] * 2, [(page, GET) for page in range(8)]
    window = [(page, GET) for page in range(20)] * 2
    of = {"transactions": 20, "step_us": 1000}
    young = build(tmp_path / "young", [*checks, *load], window, idle_until_us=399_500, **of)
    old = build(tmp_path / "old", [*checks, *load], window, **of)
    points = [told(bench, folder.path)["predictions"][0] for folder in (young, old)]
    assert [point["turnovers_before"] for point in points] == [8 / 64, 408 / 64]
    assert [names(point["verdicts"]) for point in points] == [["short_trace"], []]


def test_a_scan_in_its_ring_warms_no_pool(bench: Bench, tmp_path: Path) -> None:
    look_ups = [(page, GET) for page in range(100, 200)] * 2
    folder = build(tmp_path, SCAN * 3, look_ups, **POSTGRES, sweep='pool_size = ["1MiB"]', latch=9)
    result = told(bench, folder.path)
    point = result["predictions"][0]
    said = [one["sentence"] for one in point["verdicts"]]
    assert all(any(sentence in warning for warning in result["warnings"]) for sentence in said), "a terminal warns too"
    assert "short_trace" in names(point["verdicts"]), "each of three scans has 16 of 128 frames"
    assert point["turnovers_before"] == 3 * 16 / 128


def test_guessed_scans_tell_how_many_gets_were_guessed(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, [], [*SCAN, (100, GET), *SCAN[:3]], **POSTGRES, sweep='pool_size = ["1MiB"]')
    point = told(bench, folder.path)["predictions"][0]
    assert point["found"]["guessed_scan_gets"] == 97
    (sentence,) = [one["sentence"] for one in point["verdicts"] if one["name"] == "guessed_scans"]
    assert "97 gets were taken for such by their order" in sentence
