"""`bufferlab list runs`: past sweeps with their answers."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from bufferlab.cli import past_runs
from bufferlab.cli.past_runs import Past
from support.fake import Bench


@pytest.fixture
def past(bench: Bench) -> Bench:
    """Return a bench with a good sweep, one with a failed run, a damaged one, and a folder that is not a sweep."""
    bench.measure(bench.experiment(repetitions=1))
    bench.measure(bench.experiment(knobs='behave = "io_error"', repetitions=1), failing=2)
    damaged = bench.out / "damaged-20260101-120000"
    damaged.mkdir()
    (damaged / "plan.json").write_text('{"experiment": ')
    (bench.out / "cache").mkdir()
    return bench


def test_past_sweeps_are_listed_each_in_a_line_and_a_damaged_one_stops_nothing(past: Bench) -> None:
    ended = past.bufferlab("list", "runs", past.out)
    assert ended.code == 0
    head, damaged, good, failed = ended.out.splitlines()
    assert head.split()[:3] == ["folder", "experiment", "engine"]
    assert damaged.startswith("damaged-20260101-120000 ")
    assert " damaged " in damaged
    assert "plan.json" in damaged
    assert good.split()[1:3] == ["fake-sweep", "fake"]
    assert "  2 of 2  " in good
    assert "Reads per New-Order" in good
    assert "  0 of 2, 2 failed  no run ended well" in failed


def test_a_folder_that_cannot_be_read_stops_nothing(past: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: Path) -> Past:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    monkeypatch.setattr(past_runs, "_past", refused)
    assert [one.problem for one in past_runs.past(past.out)] == ["it cannot be read: Permission denied"] * 3


def test_the_list_for_programs_has_whole_answers(past: Bench) -> None:
    runs = past.bufferlab("list", "runs", past.out, "--json").json["runs"]
    assert [run["status"] for run in runs] == ["damaged", "2 of 2 runs", "0 of 2 runs, 2 failed"]
    assert [bool(run["problem"]) for run in runs] == [True, False, False]
    assert runs[1]["answer"].endswith(".")
    assert runs[1]["began_at"].startswith("20")


def test_without_a_folder_those_of_runs_are_listed_and_no_folder_is_an_error(bench: Bench) -> None:
    missing = bench.bufferlab("list", "runs", bench.root / "nowhere")
    assert missing.code == 65
    assert "there is no such folder" in missing.err
    misplaced = bench.bufferlab("list", "load", bench.root)
    assert misplaced.code == 2
    assert f"bufferlab list runs {bench.root}" in misplaced.err
