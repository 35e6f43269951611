"""The sweep folder: what is published is whole, and what is not ours or damaged is refused by name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bufferlab.errors import DataFileError, InternalError
from bufferlab.results import store
from bufferlab.results.store import SweepFolder, latency_rows, sample_rows
from support.marks import leave_marked
from support.synthetic import BUFFER_SIZE, Sweep, build

SMALL = Sweep(truths=BUFFER_SIZE[:2], blocks=1, warm_up_seconds=2)


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    return build(tmp_path, SMALL)


def a_run(sweep: SweepFolder, run_id: str = "ab" * 8) -> dict[str, Any]:
    found = dict(sweep.runs()[0].run)
    return {**found, "run_id": run_id, "files": {}}


def test_a_published_run_comes_back_as_it_was_written(sweep: SweepFolder) -> None:
    reopened = SweepFolder.open(sweep.path)
    record = reopened.runs()[0]
    assert [run.run_id for run in reopened.runs()] == [run.run_id for run in sweep.runs()]
    assert record.ok
    assert record.run["point"]["swept"] in ({"pool_size": "5%"}, {"pool_size": "10%"})
    assert set(record.samples()["edge"].unique()) == {None, "start", "end"}
    assert record.latency()["count"].sum() == 2 * SMALL.transactions
    assert "worker log" in record.log()
    assert reopened.experiment == "buffer-size"


def test_a_folder_whose_name_is_a_pattern_is_read_as_it_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "runs[20%,60%] *"
    folder.mkdir()
    record = build(folder, SMALL).runs()[0]
    assert record.latency()["count"].sum() == 2 * SMALL.transactions
    frame = pl.DataFrame(schema=store._polars_schema(store.BLOCK_TRACE_COLUMNS))
    store.write_block_trace(folder / "block-trace.parquet", [frame, frame])
    assert (folder / "block-trace.parquet").exists()


def test_a_run_of_before_open_loop_and_phases_is_read_as_closed_and_without_them(sweep: SweepFolder) -> None:
    file = sweep.runs()[0].folder / "run.json"
    document = json.loads(file.read_text())
    del document["seal"], document["load"], document["phases"], document["database"]["shape"], document["block_trace"]
    file.write_text(json.dumps({**document, "seal": store._seal(document)}))
    old = next(record.run for record in sweep.runs() if record.folder == file.parent)
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
    sweep.publish_run(run, [], [], "")
    (stored,) = (record.run for record in sweep.runs() if record.run_id == run["run_id"])
    assert (stored["load"], stored["phases"], stored["database"]["shape"]) == (load, phases, shape)


def test_counters_stay_exact_integers_beyond_what_a_float_holds(sweep: SweepFolder) -> None:
    exact = 2**53 + 1
    rows = [
        {"t_s": 0.0, "phase": "measure", "edge": "start", "metric": "page_gets", "count": exact, "probe": "engine",
         "subject": ""}
    ]  # fmt: skip
    record = sweep.publish_run(a_run(sweep), rows, [], "")
    assert record.samples()["count"].to_list() == [exact]


def test_every_parquet_file_says_its_format_version(sweep: SweepFolder) -> None:
    for name in ("samples.parquet", "latency.parquet"):
        assert pl.read_parquet_metadata(sweep.runs()[0].folder / name)["format_version"] == "1"


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
        SweepFolder.open(sweep.path)
    assert error.value.exit_code == 65
    assert error.value.where == str(path)
    assert error.value.hint


def test_a_number_edited_in_run_json_is_noticed(sweep: SweepFolder) -> None:
    path = sweep.runs()[0].folder / "run.json"
    document = json.loads(path.read_text())
    document["seed"] += 1
    path.write_text(json.dumps(document))
    with pytest.raises(DataFileError, match="changed after it was written"):
        SweepFolder.open(sweep.path)


def test_a_run_in_another_runs_folder_is_refused(sweep: SweepFolder) -> None:
    folder = sweep.runs()[0].folder
    folder.rename(folder.with_name("0123456789abcdef"))
    with pytest.raises(DataFileError, match="another run's folder"):
        SweepFolder.open(sweep.path)


def test_a_newer_format_is_refused_and_the_hint_says_what_to_use(sweep: SweepFolder) -> None:
    path = sweep.runs()[0].folder / "run.json"
    document = {**json.loads(path.read_text()), "format_version": 2}
    path.write_text(json.dumps(document))
    with pytest.raises(DataFileError, match="format version 2") as error:
        SweepFolder.open(sweep.path)
    assert "version that wrote it" in (error.value.hint or "")


@pytest.mark.parametrize("name", ["plan.json", "host.json"])
@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "other"}', "\x00\x01"])
def test_a_foreign_folder_is_refused_and_the_file_is_named(sweep: SweepFolder, name: str, content: str) -> None:
    (sweep.path / name).write_text(content)
    with pytest.raises(DataFileError) as error:
        SweepFolder.open(sweep.path)
    assert name in (error.value.where or "")


@pytest.mark.parametrize("missing", ["plan.json", "host.json", "experiment.toml", "runs"])
def test_a_folder_that_lacks_a_part_is_refused(sweep: SweepFolder, missing: str) -> None:
    path = sweep.path / missing
    path.rename(sweep.path / "elsewhere")
    with pytest.raises(DataFileError):
        SweepFolder.open(sweep.path)


def test_a_folder_that_does_not_exist_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="no such sweep folder") as error:
        SweepFolder.open(tmp_path / "nowhere")
    assert "bufferlab run" in (error.value.hint or "")


def test_an_interrupted_publication_is_ignored_and_cleaned(sweep: SweepFolder) -> None:
    leftover = sweep.path / "runs" / ".tmp-0123456789abcdef"
    leftover.mkdir()
    (leftover / "run.json").write_text('{"half": ')
    leave_marked(leftover)
    reopened = SweepFolder.open(sweep.path)
    assert len(reopened.runs()) == 2
    assert reopened.clean_temporaries() == [".tmp-0123456789abcdef"]
    assert not leftover.exists()


@pytest.mark.parametrize("stage", ["write", "fsync", "rename"])
def test_a_crash_while_publishing_leaves_no_half_run(
    sweep: SweepFolder, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if stage == "write":
            patched.setattr(store, "_write_parquet", crash)
        elif stage == "fsync":
            patched.setattr(os, "fsync", crash)
        else:
            patched.setattr(Path, "rename", crash)
        with pytest.raises(KeyboardInterrupt):
            sweep.publish_run(a_run(sweep), [], [], "")
    assert len(SweepFolder.open(sweep.path).runs()) == 2


def test_files_are_on_disk_before_the_run_gets_its_name(sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that makes it atomic: files, their folder, the rename, the folder above."""
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
    sweep.publish_run(run, [], [], "")
    files = {"fsync samples.parquet", "fsync latency.parquet", "fsync worker.log", "fsync run.json"}
    assert set(events[:4]) == files
    assert events[4:] == [f"fsync .tmp-{run['run_id']}", "rename", "fsync runs"]


def test_a_run_is_never_published_over_another(sweep: SweepFolder) -> None:
    with pytest.raises(InternalError, match="already published"):
        sweep.publish_run(a_run(sweep, sweep.runs()[0].run_id), [], [], "")


def test_a_failed_run_is_published_with_its_reason(sweep: SweepFolder) -> None:
    failed = {
        **a_run(sweep),
        "status": "failed",
        "reason": "the disk is full",
        "measured": None,
        "warm_up": None,
        "database": None,
        "knobs_actual": {},
        "actual_key": None,
    }
    record = sweep.publish_run(failed, [], [], "no space left on device")
    assert not record.ok
    assert record.run["reason"] == "the disk is full"
    assert record.samples().height == 0


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
        sweep.publish_run(a_run(sweep), [row(**changes)], [], "")


def test_a_missing_number_with_a_reason_is_kept_with_its_reason(sweep: SweepFolder) -> None:
    missing = row(metric="device_reads", probe="device", count=None, reason="tmpfs has no device")
    record = sweep.publish_run(a_run(sweep), [missing], [], "")
    assert record.samples()["reason"].to_list() == ["tmpfs has no device"]
    assert record.samples()["count"].to_list() == [None]


def test_a_misspelt_field_of_run_json_is_our_bug(sweep: SweepFolder) -> None:
    with pytest.raises(InternalError, match="wramup"):
        sweep.publish_run({**a_run(sweep), "wramup": {}}, [], [], "")


def test_a_workers_sample_becomes_rows() -> None:
    event = {
        "event": "sample",
        "t_s": 2,
        "phase": "measure",
        "values": [{"metric": "page_gets", "subject": "", "count": 5, "probe": "engine"}],
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


def test_a_derived_file_is_replaced_whole(sweep: SweepFolder) -> None:
    sweep.write_derived("figures/a.svg", "first, and longer")
    path = sweep.write_derived("figures/a.svg", "second")
    assert path.read_text() == "second"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.svg"]
