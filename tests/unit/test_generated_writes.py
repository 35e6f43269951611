"""Writes predicted without any run: SQLite's log, the reasons why they are missing, the report and `accuracy`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bufferlab.execute.predicted_sweep import predict_sweep
from bufferlab.models import generated
from bufferlab.models.generated import Server
from bufferlab.models.managers import innodb
from bufferlab.report.build import build as build_report
from bufferlab.report.markdown import render_markdown
from bufferlab.results.page_traces import PredictedWrites, Prediction
from bufferlab.spec import Overrides, load
from support.fake import Bench
from support.generated import MYSQL, POSTGRES, SQLITE, predictions, written

SQLITE_SERVER = Server("sqlite", "3.54.1")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


def writes_of(found: Prediction) -> PredictedWrites:
    assert found.writes
    return found.writes


def sqlite_writes(folder: Path, **told: Any) -> dict[str, PredictedWrites]:
    """Return the writes of the first run of each of SQLite's pools."""
    found = predictions(written(folder, **SQLITE | told), SQLITE_SERVER)
    return {pool: writes_of(one) for (pool,), one in found.items()}


def test_every_pool_of_sqlite_writes_the_same_log(tmp_path: Path) -> None:
    small, large = sqlite_writes(tmp_path).values()
    assert small.pages == large.pages == small.least_pages
    assert small.redo_bytes == large.redo_bytes
    assert small.pages
    assert small.redo_bytes
    frames = small.redo_bytes / 4120
    assert small.pages < frames < 2 * small.pages, "a checkpoint writes a page once that the log has several times"
    assert (small.copy_bytes, small.waiting_share) == (0, 0.0)


def test_a_longer_log_is_written_back_less_often(tmp_path: Path) -> None:
    knobs = ('wal_autocheckpoint = "64KiB"', 'wal_autocheckpoint = "1MiB"', 'wal_autocheckpoint = "8MiB"')
    told = [next(iter(sqlite_writes(tmp_path / str(at), knobs=knob).values())) for at, knob in enumerate(knobs)]
    pages = [one.pages or 0 for one in told]
    assert pages[0] > pages[1] > pages[2] > 0
    assert [[doubt.name for doubt in one.doubts] for one in told] == [[], [], ["few_checkpoints"]]


def test_a_pool_that_one_transaction_fills_is_not_predicted(tmp_path: Path) -> None:
    told = sqlite_writes(tmp_path, sweep='pool_size = ["256KiB", "2MiB"]')
    assert "before the commit" in str(told["256KiB"].why_not)
    assert (told["256KiB"].pages, told["2MiB"].why_not) == (None, None)


@pytest.mark.parametrize(
    ("experiment", "server", "why"),
    [
        (POSTGRES, Server("postgres", "16.4"), "not calibrated for PostgreSQL 16.4"),
        (MYSQL, Server("mysql", "5.6.24"), "not calibrated for MySQL 5.6.24"),
    ],
)
def test_writes_without_calibration_are_null_and_say_so(
    tmp_path: Path, experiment: dict[str, str], server: Server, why: str
) -> None:
    for found in predictions(written(tmp_path, **experiment), server).values():
        assert why in str(writes_of(found).why_not)
        assert (writes_of(found).pages, found.writes_per) == (None, {})


def test_the_report_has_means_of_writes_with_intervals(bench: Bench, tmp_path: Path) -> None:
    with bench.in_environment():
        folder = predict_sweep(written(tmp_path, **SQLITE), Overrides(), bench.out).folder
        page = render_markdown(build_report(folder))
    assert "It knows reads and writes, and no time." in page
    assert "as means of generated runs" in page
    assert "predicted-writes.svg" in page


MYSQL_57, MYSQL_80, POSTGRES_17 = Server("mysql", "5.7.22"), Server("mysql", "8.0.15"), Server("postgres", "17.2")


def innodb_writes(folder: Path, server: Server, knobs: str = "", pool: str = "8MiB") -> PredictedWrites:
    """Return the writes of a generated run of InnoDB with 1 warehouse."""
    told = {**MYSQL, "knobs": f"lru_scan_depth = 100\nold_blocks_time = 0\n{knobs}", "sweep": f'pool_size = ["{pool}"]'}
    (found,) = predictions(written(folder, **told), server).values()
    return writes_of(found)


def test_a_small_pool_of_innodb_writes_dirty_pages_for_their_frames(tmp_path: Path) -> None:
    found = innodb_writes(tmp_path, MYSQL_57)
    early, late = found.ends
    assert found.pages
    assert late.pages <= early.pages < 1.1 * late.pages
    assert early.lru_writes > 0.9 * early.pages
    assert (early.age_bytes, late.age_bytes) == (8_082_616, 75_774_529)
    assert found.copy_bytes == found.page_bytes
    assert found.redo_bytes
    assert not found.doubts


def test_innodbs_log_and_copies_follow_their_settings(tmp_path: Path) -> None:
    plain = innodb_writes(tmp_path / "plain", MYSQL_57, 'doublewrite = "off"\nflush_log_at_trx_commit = "1"')
    assert (plain.copy_bytes, plain.redo_bytes) == (0, None)
    small = innodb_writes(tmp_path / "small", MYSQL_57, 'redo_log_capacity = "16MiB"')
    ages = [end.age_bytes or 0 for end in small.ends]
    assert 0.6 < ages[1] / (16 << 20) < 0.75


@pytest.mark.parametrize(
    ("server", "capacity", "sync"), [(MYSQL_57, 100663296, 75774529), (MYSQL_80, 100663296, 80684640)]
)
def test_the_latest_age_is_what_the_server_reports(server: Server, capacity: int, sync: int) -> None:
    """innodb_metric_log_max_modified_age_sync of runs with two files of 48 MiB."""
    usable = innodb._usable_bytes(server, capacity, 16384)
    assert round(innodb._LATEST * usable) == pytest.approx(sync, abs=1)


def test_writes_that_depend_on_the_age_are_null_and_need_a_run(tmp_path: Path) -> None:
    found = innodb_writes(tmp_path, MYSQL_80, "io_capacity = 20000", "48MiB")
    assert [doubt.name for doubt in found.doubts] == ["device_decides"]
    assert found.pages is None
    assert "200 transactions a second" in str(found.why_not)


def test_reads_do_not_depend_on_whether_writes_are_wanted(tmp_path: Path) -> None:
    for experiment, server in ((MYSQL, MYSQL_80), (POSTGRES, POSTGRES_17)):
        loaded = load(written(tmp_path / server.engine, **experiment))
        target = generated.generated(loaded, server, Overrides(), loaded)
        planned = target.plan.runs[0]
        point = target.plan.points[planned.point]
        reads, verdicts = target.reads(planned, point, lambda stage, share: None)
        told = target.predicted(planned, point, lambda stage, share: None).prediction
        assert told.found
        assert (reads.reads, verdicts) == (told.found.reads, told.verdicts)


def test_postgres_writes_between_a_slow_load_and_a_fast_one(tmp_path: Path) -> None:
    told = {**POSTGRES, "sweep": 'pool_size = ["10%"]'}
    (found,) = predictions(written(tmp_path, **told), POSTGRES_17).values()
    writes = writes_of(found)
    slow, fast = writes.ends
    assert slow.lru_writes > fast.lru_writes, "a slow load leaves the background writer more rounds"
    assert slow.pages == pytest.approx(fast.pages, rel=0.2)
    assert writes.redo_bytes
    assert [doubt.name for doubt in writes.doubts] == ["few_checkpoints"]
    assert found.generated
    assert any("200 to 1,600 transactions a second" in note for note in found.generated.notes)


def test_a_log_with_checksums_is_not_calibrated(tmp_path: Path) -> None:
    told = {**POSTGRES, "sweep": 'pool_size = ["10%"]', "knobs": f'{POSTGRES["knobs"]}\ndata_checksums = "on"'}
    (found,) = predictions(written(tmp_path, **told), POSTGRES_17).values()
    assert "data_checksums = on" in str(writes_of(found).why_not)
