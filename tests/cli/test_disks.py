"""Full, tiny and read-only disks: commands refuse them before the work if they can know, else report them clearly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.fake import Bench, wait, wait_until
from support.fake_disks import fill, read_only, tiny_disk
from support.synthetic import BUFFER_SIZE, Sweep, build


def test_a_read_only_results_directory_is_refused_before_any_work(bench: Bench) -> None:
    experiment = bench.experiment()
    with read_only(bench.out):
        ended = bench.run(experiment)
    assert ended.code == 3
    assert "the directory for the results cannot be written: Read-only file system" in ended.err
    assert f"where: {bench.out}" in ended.err
    assert "--out" in ended.err
    assert not bench.cache.exists()


def test_a_read_only_data_directory_is_refused(bench: Bench) -> None:
    experiment = bench.experiment()
    with read_only(bench.root / "data") as data:
        ended = bench.run(experiment, "--data-dir", data)
    assert ended.code == 3
    assert "the directory for the data cannot be written: Read-only file system" in ended.err
    assert "--data-dir" in ended.err


def test_a_read_only_cache_is_refused(bench: Bench) -> None:
    experiment = bench.experiment()
    with read_only(bench.cache):
        ended = bench.run(experiment)
    assert ended.code == 3
    assert "$BUFFERLAB_CACHE" in ended.err


def test_a_disk_that_cannot_hold_a_copy_is_refused_with_what_is_needed(bench: Bench) -> None:
    experiment = bench.experiment()
    with tiny_disk(bench.root / "data", size_kib=1024) as data:
        ended = bench.run(experiment, "--data-dir", data)
    assert ended.code == 3
    assert "a run's copy of the database needs about" in ended.err
    assert "are free" in ended.err
    assert not (bench.cache / "data").exists()


def test_a_disk_that_cannot_hold_the_loaded_database_is_refused(bench: Bench) -> None:
    experiment = bench.experiment()
    with tiny_disk(bench.cache, size_kib=1024):
        ended = bench.run(experiment)
    assert ended.code == 3
    assert "the loaded database needs about" in ended.err
    assert "BUFFERLAB_CACHE" in ended.err


def test_a_run_that_fills_the_disk_fails_alone_and_gives_the_space_back(bench: Bench) -> None:
    experiment = bench.experiment(sweep='behave = ["fill_disk", "ok"]', repetitions=2)
    with tiny_disk(bench.root / "data", size_kib=16 * 1024) as data:
        ended = bench.run(experiment, "--data-dir", data)
        assert list(data.iterdir()) == []
    assert ended.code == 1
    for run in bench.runs():
        if run["settings"]["behave"]["asked"] == "fill_disk":
            assert "No space left on device" in run["failure"]["what"]
        else:
            assert run["status"] == "ok"


def test_results_that_fill_the_disk_end_the_sweep_with_earlier_runs_kept_and_resumable(bench: Bench) -> None:
    experiment = bench.experiment(knobs="pace_ms = 100", transactions=4000, repetitions=2)
    data = bench.root / "data"
    with tiny_disk(bench.out, size_kib=16 * 1024):
        process = bench.start("run", experiment, "--out", bench.out, "--data-dir", data)
        wait_until(lambda: bool(list(bench.out.glob("fake-sweep-*/runs/[0-9a-f]*"))), "the first run to be published")
        filler = bench.out / "filler"
        fill(filler)
        ended = wait(process)
        assert ended.code == 3, ended.err
        assert "the results of a run cannot be written: No space left on device" in ended.err
        assert f"bufferlab run --resume {bench.sweep_path()}" in ended.err
        assert bench.leftovers() == []
        filler.unlink()
        assert bench.bufferlab("run", "--resume", bench.sweep_path(), "--data-dir", data).code == 0
        assert len(bench.runs()) == 4


def test_a_report_on_a_read_only_disk_says_so_and_what_to_do(tmp_path: Path, bench: Bench) -> None:
    sweep = build(tmp_path / "runs", Sweep(truths=BUFFER_SIZE[:2], blocks=1, warm_up_seconds=2))
    with read_only(sweep.path):
        ended = bench.bufferlab("report", sweep.path, "--md")
    assert ended.code == 3
    assert "the report cannot be written: Read-only file system" in ended.err
    assert f"then: bufferlab report {sweep.path}" in ended.err


@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["list", "metrics", "--json"]])
def test_a_full_disk_under_standard_output_is_the_environments(bench: Bench, arguments: list[str]) -> None:
    bench.root.mkdir(parents=True)
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "bufferlab", *arguments]
        ended = subprocess.run(command, env=bench.environment, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 3
    assert "an output cannot be written: No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_error_keeps_its_code_where_its_json_cannot_be_written(bench: Bench) -> None:
    bench.root.mkdir(parents=True)
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "bufferlab", "audit", str(bench.root / "missing"), "--json"]
        ended = subprocess.run(command, env=bench.environment, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, "missing" in ended.stderr, "Traceback" in ended.stderr) == (65, True, False)
