"""The sweep folder: what is published is complete, and foreign or damaged folders are refused by name."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from bufferlab.errors import DataFileError, EnvironmentLackingError, Failure, InternalError
from bufferlab.registry import open_sweep, registry
from bufferlab.results import store
from bufferlab.results.schema import Run
from bufferlab.results.store import SweepFolder, latency_rows, sample_rows
from support.fake_disks import tiny_disk
from support.marks import leave_marked
from support.synthetic import BUFFER_SIZE, Sweep, build

SMALL = Sweep(truths=BUFFER_SIZE[:2], blocks=1, warm_up_seconds=2)


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    return build(tmp_path, SMALL)


def test_a_folder_that_the_disk_does_not_read_is_told(sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> str:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(store, "_fingerprint", refused)
    for read in (sweep.runs, lambda: open_sweep(sweep.path)):
        with pytest.raises(EnvironmentLackingError, match="cannot be read: Input/output error"):
            read()


def a_run(sweep: SweepFolder, run_id: str = "ab" * 8) -> dict[str, Any]:
    found = sweep.runs()[0].run.model_dump(mode="json")
    return {**found, "run_id": run_id, "files": {}}


def test_a_published_run_comes_back_as_it_was_written(sweep: SweepFolder) -> None:
    reopened = open_sweep(sweep.path)
    record = reopened.runs()[0]
    assert [run.run_id for run in reopened.runs()] == [run.run_id for run in sweep.runs()]
    assert record.ok
    assert record.run.point.swept in ({"pool_size": "5%"}, {"pool_size": "10%"})
    assert set(record.samples()["edge"].unique()) == {None, "start", "end"}
    assert record.latency()["count"].sum() == 2 * SMALL.transactions
    assert "worker log" in record.log()
    assert reopened.experiment == "buffer-size"


def test_a_folder_whose_name_is_a_pattern_is_read_as_it_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "runs[20%,60%] *"
    folder.mkdir()
    record = build(folder, SMALL).runs()[0]
    assert record.latency()["count"].sum() == 2 * SMALL.transactions
    frame = pl.DataFrame(schema=store.polars_schema(store.BLOCK_TRACE_COLUMNS))
    store.write_block_trace(folder / "block-trace.parquet", [frame, frame])
    assert (folder / "block-trace.parquet").exists()


def test_a_run_of_before_open_loop_and_phases_is_read_as_closed_and_without_them(sweep: SweepFolder) -> None:
    file = sweep.runs()[0].folder / "run.json"
    document = json.loads(file.read_text())
    del document["seal"], document["load"], document["phases"], document["database"]["shape"], document["block_trace"]
    file.write_text(json.dumps({**document, "seal": store._seal(document)}))
    old = next(record.run.model_dump(mode="json") for record in sweep.runs() if record.folder == file.parent)
    assert old["load"]["mode"] == "closed"
    assert old["phases"] == []
    assert old["database"]["shape"] is None
    assert old["block_trace"] is None


def test_the_load_the_phases_and_the_shape_of_a_run_come_back(sweep: SweepFolder) -> None:
    load = {"mode": "open", "rate_per_s": 250.0, "arrivals": "poisson", "patience_s": 10.0}
    phases = [{"name": "range_scan", "transactions": 400, "seconds": 2.5}]
    tree = {
        "name": "sbtest1", "table": "sbtest1", "kind": "table", "rows": 30, "leaf_pages": 2, "interior_pages": 1,
        "overflow_pages": 0, "height": 2, "level_pages": [1, 2], "payload_bytes": 5700, "unused_bytes": 900,
    }  # fmt: skip
    shape = {"page_size_bytes": 4096, "pages": 4, "free_pages": 0, "trees": [tree]}
    run = a_run(sweep)
    run |= {"load": load, "phases": phases, "database": {**run["database"], "shape": shape}}
    sweep.publish_run(Run(**run), [], [], "")
    (stored,) = (record.run.model_dump(mode="json") for record in sweep.runs() if record.run_id == run["run_id"])
    assert (stored["load"], stored["phases"], stored["database"]["shape"]) == (load, phases, shape)


def test_counters_stay_exact_integers_beyond_what_a_float_holds(sweep: SweepFolder) -> None:
    exact = 2**53 + 1
    rows = [
        {"t_s": 0.0, "phase": "measure", "edge": "start", "metric": "page_gets", "count": exact, "probe": "engine",
         "subject": ""}
    ]  # fmt: skip
    record = sweep.publish_run(Run(**a_run(sweep)), rows, [], "")
    assert record.samples()["count"].to_list() == [exact]


def test_every_parquet_file_says_its_format_version(sweep: SweepFolder) -> None:
    for name in ("samples.parquet", "latency.parquet"):
        assert pl.read_parquet_metadata(sweep.runs()[0].folder / name)["format_version"] == "2"


def test_two_sweeps_in_one_second_get_two_folders(tmp_path: Path) -> None:
    first, second = build(tmp_path, SMALL), build(tmp_path, SMALL)
    assert first.path != second.path
    assert second.path.name == f"{first.path.name}-2"


@pytest.mark.parametrize("name", ["run.json", "samples.parquet", "latency.parquet", "worker.log"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "removed", "emptied"])
def test_a_damaged_run_is_refused_and_the_file_is_named(sweep: SweepFolder, name: str, damage: str) -> None:
    path = sweep.runs()[1].folder / name
    whole = path.read_bytes()
    middle = len(whole) // 2
    if damage == "removed":
        path.unlink()
    else:
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        path.write_bytes({"truncated": whole[:-7], "flipped": flipped, "emptied": b""}[damage])
    with pytest.raises(DataFileError) as error:
        open_sweep(sweep.path)
    assert error.value.exit_code == 65
    assert error.value.where == str(path)
    assert error.value.hint


def test_a_number_edited_in_run_json_is_noticed(sweep: SweepFolder) -> None:
    path = sweep.runs()[0].folder / "run.json"
    document = json.loads(path.read_text())
    document["seed"] += 1
    path.write_text(json.dumps(document))
    with pytest.raises(DataFileError, match="changed after it was written"):
        open_sweep(sweep.path)


def test_a_run_in_another_runs_folder_is_refused(sweep: SweepFolder) -> None:
    folder = sweep.runs()[0].folder
    folder.rename(folder.with_name("0123456789abcdef"))
    with pytest.raises(DataFileError, match="another run's folder"):
        open_sweep(sweep.path)


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("name", ["run.json", "plan.json"])
def test_another_format_is_refused_and_the_hint_says_what_to_use(sweep: SweepFolder, name: str, version: int) -> None:
    path = (sweep.runs()[0].folder if name == "run.json" else sweep.path) / name
    document = {**json.loads(path.read_text()), "format_version": version}
    path.write_text(json.dumps(document))
    with pytest.raises(DataFileError, match=f"{name} has format version {version}") as error:
        open_sweep(sweep.path)
    assert "version that wrote it" in (error.value.hint or "")


@pytest.mark.parametrize("name", ["plan.json", "host.json"])
@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "other"}', "\x00\x01"])
def test_a_foreign_folder_is_refused_and_the_file_is_named(sweep: SweepFolder, name: str, content: str) -> None:
    (sweep.path / name).write_text(content)
    with pytest.raises(DataFileError) as error:
        open_sweep(sweep.path)
    assert name in (error.value.where or "")


@pytest.mark.parametrize("damaged", [{"point": 0}, {"block": 0}, {"point": "x", "block": 0}, {"point": -1, "block": 0}])
def test_a_plan_with_a_run_of_no_point_or_block_is_refused(sweep: SweepFolder, damaged: dict[str, object]) -> None:
    path = sweep.path / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "runs": [damaged]}))
    with pytest.raises(DataFileError, match="plan"):
        open_sweep(sweep.path)


@pytest.mark.parametrize("missing", ["plan.json", "host.json", "experiment.toml", "runs"])
def test_a_folder_that_lacks_a_part_is_refused(sweep: SweepFolder, missing: str) -> None:
    path = sweep.path / missing
    path.rename(sweep.path / "elsewhere")
    with pytest.raises(DataFileError):
        open_sweep(sweep.path)


def test_a_folder_that_does_not_exist_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="no such sweep folder") as error:
        open_sweep(tmp_path / "nowhere")
    assert "bufferlab run" in (error.value.hint or "")


def test_planned_runs_are_found_in_a_few_passes_over_a_plan(sweep: SweepFolder) -> None:
    passes = 0

    class Counted(list[dict[str, Any]]):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            nonlocal passes
            passes += 1
            return super().__iter__()

    sweep.plan["runs"] = Counted({"point": point, "block": block} for point in range(50) for block in range(3))
    assert len(sweep.planned_cells) == 150
    assert passes < 5


def test_an_interrupted_publication_is_ignored_and_cleaned(sweep: SweepFolder) -> None:
    leftover = sweep.path / "runs" / ".tmp-0123456789abcdef"
    leftover.mkdir()
    (leftover / "run.json").write_text('{"half": ')
    leave_marked(leftover)
    reopened = open_sweep(sweep.path)
    assert len(reopened.runs()) == 2
    assert reopened.clean_temporaries() == [".tmp-0123456789abcdef"]
    assert not leftover.exists()


def test_a_report_removes_what_a_killed_one_left(sweep: SweepFolder) -> None:
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from bufferlab.registry import open_sweep\n"
        "sweep = open_sweep(Path(sys.argv[1]))\n"
        "Path.rename = lambda *names: os.kill(os.getpid(), 9)\n"
        "sweep.write_derived('figures/reads.svg', '<svg/>')\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(sweep.path)], check=False)
    assert killed.returncode == -9
    assert len(list(sweep.path.rglob(".tmp-*"))) == 1
    sweep.write_derived("report.md", "whole")
    assert list(sweep.path.rglob(".tmp-*")) == []
    assert list((sweep.path / "figures").iterdir()) == []


@pytest.mark.parametrize("stage", ["write", "fsync", "rename"])
def test_a_crash_while_publishing_leaves_no_half_run(
    sweep: SweepFolder, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if stage == "write":
            patched.setattr(store, "write_parquet", crash)
        elif stage == "fsync":
            patched.setattr(os, "fsync", crash)
        else:
            patched.setattr(Path, "rename", crash)
        with pytest.raises(KeyboardInterrupt):
            sweep.publish_run(Run(**a_run(sweep)), [], [], "")
    assert len(open_sweep(sweep.path).runs()) == 2


def test_files_are_on_disk_before_the_run_gets_its_name(sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that makes publishing atomic: the files, their folder, the rename, the folder above."""
    events: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def noted_fsync(descriptor: int) -> None:
        events.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        fsync(descriptor)

    def noted_rename(self: Path, target: Path) -> Path:
        events.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    run = a_run(sweep)
    events.clear()
    sweep.publish_run(Run(**run), [], [], "")
    files = {"fsync samples.parquet", "fsync latency.parquet", "fsync worker.log", "fsync run.json"}
    assert set(events[:4]) == files
    assert events[4:] == [f"fsync .tmp-{run['run_id']}", "rename", "fsync runs"]


def test_a_run_is_never_published_over_another(sweep: SweepFolder) -> None:
    with pytest.raises(InternalError, match="already published"):
        sweep.publish_run(Run(**a_run(sweep, sweep.runs()[0].run_id)), [], [], "")


def test_a_failed_run_is_published_with_its_reason(sweep: SweepFolder) -> None:
    failed = {
        **a_run(sweep),
        "status": "failed",
        "failure": {"kind": "full_disk", "what": "the disk is full", "where": "/data", "hint": "free some space"},
        "measured": None,
        "warm_up": None,
        "database": None,
        "settings": {},
        "actual_key": None,
    }
    record = sweep.publish_run(Run(**failed), [], [], "no space left on device")
    assert not record.ok
    assert record.failure == Failure("the disk is full", "/data", "free some space", "full_disk")
    assert record.reason == "the disk is full (/data); free some space"
    assert {run.failure for run in sweep.runs()} == {None, record.failure}
    assert record.samples().height == 0


@pytest.mark.parametrize(
    "ended",
    [
        {"status": "ok", "failure": {"kind": "io", "what": "read failed"}},
        {"status": "failed", "failure": None},
        {"status": "failed", "failure": {"kind": "killed", "what": "no such kind"}},
        {"status": "failed", "failure": {"kind": "io"}},
    ],
)
def test_a_run_has_a_failure_of_a_known_kind_unless_it_ended_well(sweep: SweepFolder, ended: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="failure"):
        Run(**{**a_run(sweep), **ended})


def test_a_run_that_did_not_end_well_is_not_published_without_its_failure(sweep: SweepFolder) -> None:
    run = Run(**a_run(sweep))
    run.status = "failed"
    with pytest.raises(InternalError, match="failure"):
        sweep.publish_run(run, [], [], "")


def row(**changes: Any) -> dict[str, Any]:
    ordinary = {"t_s": 0.0, "phase": "measure", "edge": None, "metric": "page_gets", "subject": "", "count": 1,
                "value": None, "reason": None, "probe": "engine"}  # fmt: skip
    return {**ordinary, **changes}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"metric": "page_hugs"}, "page_hugs"),
        ({"count": None, "value": 1.0}, "counter"),
        ({"count": None}, "neither a number nor a reason"),
        ({"metric": "db_bytes"}, "gauge"),
    ],
)
def test_rows_that_break_the_registrys_rules_are_our_bug(
    sweep: SweepFolder, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InternalError, match=complaint):
        sweep.publish_run(Run(**a_run(sweep)), [row(**changes)], [], "")


def test_a_missing_number_with_a_reason_is_kept_with_its_reason(sweep: SweepFolder) -> None:
    missing = row(metric="device_reads", probe="device", count=None, reason="tmpfs has no device")
    record = sweep.publish_run(Run(**a_run(sweep)), [missing], [], "")
    assert record.samples()["reason"].to_list() == ["tmpfs has no device"]
    assert record.samples()["count"].to_list() == [None]


def test_a_misspelt_field_of_run_json_is_our_bug(sweep: SweepFolder) -> None:
    with pytest.raises(ValidationError, match="wramup"):
        Run(**a_run(sweep), wramup={})
    with pytest.raises(ValueError, match="wramup"):
        Run(**a_run(sweep)).wramup = {}  # type: ignore[attr-defined]


def test_a_workers_sample_becomes_rows() -> None:
    event = {
        "event": "sample",
        "t_s": 2,
        "phase": "measure",
        "values": [
            {"metric": "page_gets", "subject": "", "count": 5, "value": None, "reason": None, "probe": "engine"},
        ],
    }
    assert sample_rows(event) == [row(t_s=2.0, count=5)]


def test_a_workers_histogram_ends_at_its_largest_value() -> None:
    rows = latency_rows(
        [
            {
                "transaction_type": "payment",
                "time": "service",
                "buckets": [[10, 20, 3], [20, 40, 1], [40, 80, 0]],
                "max_us": 33,
            }
        ]
    )
    assert [(found["low_us"], found["high_us"], found["count"]) for found in rows] == [(10, 20, 3), (20, 33, 1)]


@pytest.mark.parametrize("left_kib", range(0, 68, 4))
def test_a_disk_that_fills_at_any_page_keeps_earlier_runs_and_says_how_to_go_on(tmp_path: Path, left_kib: int) -> None:
    with tiny_disk(tmp_path / "disk", size_kib=4096) as disk:
        sweep = build(disk, SMALL)
        rows = [row(t_s=float(second), count=second**3) for second in range(3000)]
        run = a_run(sweep)
        fill_but(disk, left_kib * 1024)
        ends = {
            "run --resume": refusal_of(lambda: sweep.publish_run(Run(**run), rows, [], "log " * 3000)),
            "report": refusal_of(lambda: sweep.write_derived("figures/a.svg", "<svg/>" * 5000)),
        }
        for command, error in ends.items():
            assert error is None or error.what.endswith("cannot be written: No space left on device")
            assert error is None or f"free some space, then: bufferlab {command} {sweep.path}" in (error.hint or "")
        assert left_kib > 40 or any(ends.values())
        assert not list(sweep.path.rglob(".tmp-*"))
        assert len(open_sweep(sweep.path).runs()) >= 2


def test_a_sweep_folder_that_cannot_be_made_is_the_environments(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", size_kib=256) as disk:
        fill_but(disk, 0)
        with pytest.raises(EnvironmentLackingError, match="the sweep folder cannot be written: No space left"):
            SweepFolder.create(disk, registry(), "", {"experiment": "x"}, {})
        assert [entry.name for entry in disk.iterdir()] == ["filler"]


def test_a_folder_of_figures_that_is_a_link_is_not_followed(sweep: SweepFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (sweep.path / "figures").symlink_to(elsewhere)
    with pytest.raises(DataFileError, match="is a link"):
        sweep.write_derived("figures/a.svg", "<svg/>")
    assert not list(elsewhere.iterdir())


def refusal_of(write: Callable[[], object]) -> EnvironmentLackingError | None:
    """Return the error with which writing was refused; None if it was not."""
    try:
        write()
    except EnvironmentLackingError as error:
        return error
    return None


def fill_but(disk: Path, left_bytes: int) -> None:
    """Fill the disk until `left_bytes` are left."""
    free_bytes = shutil.disk_usage(disk).free
    (disk / "filler").write_bytes(b"\0" * (free_bytes - left_bytes))


def test_a_derived_file_is_replaced_whole(sweep: SweepFolder) -> None:
    sweep.write_derived("figures/a.svg", "first, and longer")
    path = sweep.write_derived("figures/a.svg", "second")
    assert path.read_text() == "second"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.svg"]


def test_samples_that_change_after_they_were_read_are_read_again(sweep: SweepFolder, tmp_path: Path) -> None:
    run = next(record for record in sweep.runs() if record.ok)
    rows = run.samples()
    assert run.samples() is rows
    copied = replace(run, folder=tmp_path / "copy")
    shutil.copytree(run.folder, copied.folder)
    (copied.folder / "samples.parquet").write_bytes(b"damaged")
    with pytest.raises(DataFileError):
        copied.samples()
