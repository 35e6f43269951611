"""PostgreSQL's values from stored samples: where pages came from, which process wrote them, what a version lacks; its
checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Table
from bufferlab.engines.postgres import metrics
from bufferlab.engines.postgres.chapters import inside as chapter
from bufferlab.registry import registry
from bufferlab.report.answer import answer
from bufferlab.report.chapters import chapters_of
from bufferlab.report.result_tables import main_table
from bufferlab.results.check_parts import Check, MeasuredRun
from bufferlab.results.checks_of_every_engine import check_sweep
from bufferlab.results.schema import StoredSetting
from bufferlab.results.window import Value
from support.synthetic import Sweep, build
from support.synthetic_postgres import SPLITS, Postgres, memory_split

#: Without noise and in short windows: the planted effects do not depend on them, and the tests write fewer samples.
QUIET = {"noise": 0.0, "block_noise": 0.0, "throughput_noise": 0.0, "blocks": 1}
QUIET |= {"warm_up_seconds": 2, "transactions": 5750}


def runs(folder: Path, sweep: Sweep) -> list[MeasuredRun]:
    return [record.measured() for record in build(folder, sweep).runs()]


def value(run: MeasuredRun, name: str) -> float:
    value = run.values[name].value
    assert value is not None, run.values[name].reason
    return value


def checks(folder: Path, **changes: Any) -> dict[str, Check]:
    """Return the checks of a sweep of two blocks; a check reads single runs, or all runs of a point."""
    return {check.name: check for check in check_sweep(runs(folder, memory_split(**{"blocks": 2, **changes})))}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> list[MeasuredRun]:
    found = runs(tmp_path_factory.mktemp("quiet"), memory_split(**QUIET))
    return sorted(found, key=lambda run: run.run.point.index)


def test_a_page_get_is_served_by_shared_buffers_by_the_page_cache_or_by_the_device(quiet: list[MeasuredRun]) -> None:
    for truth, run in zip(SPLITS, quiet, strict=True):
        reads = truth.reads_per_new_order
        assert value(run, "device_pages_per_new_order") == pytest.approx(reads * (1 - truth.cached_share), rel=1e-3)
        assert value(run, "page_cache_pages_per_new_order") == pytest.approx(reads * truth.cached_share, rel=1e-3)
        assert value(run, "page_cache_share") == pytest.approx(truth.cached_share, abs=1e-3)
        parts = ("shared_buffer_hits", "page_cache_pages", "device_pages")
        whole = sum(value(run, f"{name}_per_transaction") for name in parts)
        assert whole == pytest.approx(value(run, "page_gets_per_transaction"), rel=1e-6)


def test_where_the_device_read_more_than_was_asked_the_split_is_not_told(tmp_path: Path) -> None:
    (run, *_) = runs(tmp_path, memory_split(**QUIET, truths=SPLITS[2:], kind=Postgres(read_ahead=2.0)))
    for name in ("page_cache_share", "page_cache_pages_per_transaction"):
        assert run.values[name].value is None
        assert run.values[name].reason == metrics.NO_SPLIT
    assert value(run, "device_pages_per_transaction") > 0


def test_where_the_servers_own_bytes_cannot_be_read_the_devices_stand_for_them(tmp_path: Path) -> None:
    kind = Postgres(hidden=True)
    (run, *_) = runs(tmp_path / "device", memory_split(**QUIET, truths=SPLITS[:1], kind=kind))
    assert value(run, "page_cache_share") == pytest.approx(SPLITS[0].cached_share, abs=1e-3)
    (run, *_) = runs(
        tmp_path / "none", memory_split(**QUIET, truths=SPLITS[:1], kind=kind, device_reason="not resolved")
    )
    assert run.values["page_cache_share"].reason == "not resolved"
    assert value(run, "shared_buffer_hits_per_transaction") > 0


@pytest.mark.parametrize("version", ["15.18", "16.10", "17.2", "18.0"])
def test_who_wrote_pages_is_told_on_every_version(tmp_path: Path, version: str) -> None:
    (run, *_) = runs(tmp_path, memory_split(**QUIET, truths=SPLITS[:1], kind=Postgres(version=version)))
    whole = value(run, "writes_per_s")
    assert value(run, "checkpoint_writes_per_s") == pytest.approx(0.5 * whole, rel=1e-3)
    assert value(run, "cleaner_writes_per_s") == pytest.approx(0.3 * whole, rel=1e-3)
    assert value(run, "backend_writes_per_s") == pytest.approx(0.2 * whole, rel=1e-3)
    assert value(run, "checkpoints_in_window") == 1
    assert value(run, "wal_log_bytes_per_transaction") == pytest.approx(3000)
    assert value(run, "server_cpu_us_per_transaction") == pytest.approx(1000)


def test_a_sweep_of_checkpoints_needs_three_in_each_window(tmp_path: Path) -> None:
    (run, *_) = runs(tmp_path, memory_split(**QUIET, truths=SPLITS[:1]))
    found = {check.name: check for check in check_sweep([run])}["postgres_checkpoints"]
    assert (found.status, found.detail) == ("not_applicable", "no setting of checkpoints was swept")
    run.run.point.swept["max_wal_size"] = "1GiB"
    found = {check.name: check for check in check_sweep([run])}["postgres_checkpoints"]
    assert (found.status, found.touches) == ("failed", ("writes",))
    assert "fewest of 1 runs: 1 (" in found.detail
    assert "are missing from the writes" in found.detail
    run.values["checkpoints_in_window"] = Value(3.0)
    found = {check.name: check for check in check_sweep([run])}["postgres_checkpoints"]
    assert found.status == "passed"


@pytest.mark.parametrize("version", ["15.18", "17.2"])
def test_pages_by_which_tables_grow_are_no_reads_on_any_version(tmp_path: Path, version: str) -> None:
    """Until version 15 the server's own counters include them."""
    kind = Postgres(version=version, growth=10_000.0)
    (run, *_) = runs(tmp_path, memory_split(**QUIET, truths=SPLITS[:1], kind=kind))
    reads = value(run, "reads_per_new_order")
    assert value(run, "heap_pages_read_per_new_order") == pytest.approx(0.7 * reads, rel=1e-3)
    assert value(run, "index_pages_read_per_new_order") == pytest.approx(0.3 * reads, rel=1e-3)
    found = {check.name: check for check in check_sweep([run])}
    assert found["postgres_tables"].status == "passed"


def test_other_engines_have_none_of_these_figures_and_say_so(tmp_path: Path) -> None:
    (run, *_) = runs(tmp_path, Sweep(blocks=1))
    assert run.values["page_cache_share"].reason == metrics.NOT_POSTGRES
    assert run.values["backend_writes_per_s"].reason == metrics.NOT_POSTGRES
    assert run.values["heap_pages_read_per_transaction"].value is None


def test_every_counter_says_where_its_number_comes_from() -> None:
    ours = [metric for name, metric in registry().raw.items() if name.startswith("postgres_")]
    assert len(ours) == 30 + 12 + 3
    assert all(metric.meaning and metric.source for metric in ours)
    gauges = {metric.name for metric in ours if metric.kind != "counter"}
    assert gauges == {f"postgres_activity_{name}" for name in ("lock", "lwlock", "io")}


@pytest.mark.parametrize("version", ["15.18", "16.10", "17.2", "18.0"])
def test_a_healthy_sweep_passes_every_check_that_its_version_can_make(tmp_path: Path, version: str) -> None:
    found = checks(tmp_path, kind=Postgres(version=version))
    assert [check for check in found.values() if check.status == "failed"] == []
    passed = {name for name, check in found.items() if check.status == "passed"}
    assert {"page_gets_constant", "postgres_commits", "postgres_tables", "postgres_split"} <= passed
    assert ("postgres_io_reads" in passed) is (version[:2] != "15")
    assert found["process_read_bytes"].status == "not_applicable"
    assert found["device_read_bytes"].status == "not_applicable"


def test_with_direct_io_the_bytes_of_server_and_device_are_compared(tmp_path: Path) -> None:
    found = checks(tmp_path, kind=Postgres(version="17.2", io_direct="data"))
    assert found["device_read_bytes"].status == "passed"
    assert found["process_read_bytes"].status == "passed"
    assert found["postgres_split"].status == "not_applicable"


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("postgres_commits", {"add": {"postgres_database_xact_commit": -100}}),
        ("postgres_commits", {"add": {"postgres_database_xact_commit": 5000}}),
        ("postgres_io_reads", {"scale": {"postgres_io_pages_read": 0.8}, "kind": Postgres(version="16.10")}),
        ("postgres_io_reads", {"scale": {"postgres_io_pages_read": 1.05}, "kind": Postgres(version="16.10")}),
        ("postgres_tables", {"scale": {"postgres_statio_idx_blks_hit": 0.8}}),
    ],
)
def test_each_check_finds_the_fault_it_is_there_for(tmp_path: Path, check: str, fault: dict[str, object]) -> None:
    found = checks(tmp_path, **fault)
    assert found[check].status == "failed", found[check]


@pytest.mark.parametrize(("gets", "status"), [(1500, "passed"), (1800, "failed")])
def test_in_a_short_window_a_session_s_first_use_of_the_catalogues_is_no_fault(
    tmp_path: Path, gets: int, status: str
) -> None:
    found = checks(tmp_path, transactions=5, add={"page_gets": gets})
    assert found["postgres_tables"].status == status, found["postgres_tables"]


def test_pages_that_one_view_counts_twice_where_sessions_meet_are_no_fault(tmp_path: Path) -> None:
    found = checks(tmp_path, scale={"postgres_io_pages_read": 0.88}, kind=Postgres(version="18.0"))
    assert found["postgres_io_reads"].status == "passed"


def test_reading_ahead_is_no_fault_and_the_split_is_said_not_to_be_told(tmp_path: Path) -> None:
    found = checks(tmp_path, truths=SPLITS[2:], kind=Postgres(read_ahead=3.0))["postgres_split"]
    assert found.status == "not_applicable"
    assert found.detail == metrics.NO_SPLIT


def test_the_report_tells_where_pages_came_from_and_that_reads_are_not_the_devices(tmp_path: Path) -> None:
    analysis = Analysis.of(build(tmp_path, memory_split()))
    section = chapter(analysis)
    assert section is not None
    tables = {block.id: block for block in section.blocks if isinstance(block, Table)}
    assert set(tables) == {"page-sources", "page-writers", "server-log"}
    heads = [column.title for column in tables["page-sources"].columns]
    assert heads[2:6] == ["Page gets", "Shared buffers", "Page cache", "Device"]
    assert len(tables["page-sources"].rows) == len(SPLITS)
    assert answer(analysis)


def test_what_answers_for_one_budget_is_what_the_device_read(tmp_path: Path) -> None:
    """Misses of shared buffers fall as they grow; the device reads most in the middle, where both caches hold the same
    pages."""
    humped = tuple(replace(truth, cached_share=cached) for truth, cached in zip(SPLITS, (0.9, 0.2, 0.1), strict=True))
    sweep = memory_split(truths=humped)
    analysis = Analysis.of(build(tmp_path / "bounded", sweep))
    assert analysis.headline == "device_pages_per_new_order"
    said = answer(analysis)
    assert said.startswith("Pages from the device per New-Order do not move one way as the buffer pool grows")
    assert "4 MiB to 64 MiB rises" in said
    assert "64 MiB to 128 MiB falls" in said
    heads = [column.title for column in main_table(analysis).columns]
    assert heads[2].startswith("Pages from the device")
    free = Analysis.of(build(tmp_path / "free", memory_split(truths=humped, kind=Postgres(memory_limit_bytes=None))))
    assert free.headline == "reads_per_new_order"
    assert "fall at every step" in answer(free)


def test_a_page_cache_that_had_not_settled_fails_a_check_of_its_own(tmp_path: Path) -> None:
    sweep = build(tmp_path, memory_split(**QUIET, truths=SPLITS[:1]))
    (run,) = [record.measured() for record in sweep.runs()]
    for drift, status in ((1.05, "passed"), (1.25, "failed"), (0.8, "failed")):
        found = {check.name: check for check in check_sweep([replace(run, device_drift=drift)])}["steady_page_cache"]
        assert found.status == status, found
    settings = {**run.settings, "memory_limit": StoredSetting(actual="off")}
    unbounded = replace(run, run=run.run.model_copy(update={"settings": settings}))
    found = {check.name: check for check in check_sweep([unbounded])}["steady_page_cache"]
    assert found.status == "not_applicable"


def test_the_chapter_is_of_postgresql_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    others = chapters_of(Analysis.of(build(tmp_path / "other", Sweep(blocks=1))))
    assert chapter not in others
    assert chapter in chapters_of(Analysis.of(build(tmp_path, memory_split(truths=SPLITS[:1], blocks=1))))
