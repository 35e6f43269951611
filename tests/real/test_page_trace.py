"""Page traces of real runs: the pool's actions in their order, and the curve computed from them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bufferlab as bl
from bufferlab.registry import open_sweep
from bufferlab.results.store import PAGE_TRACE_FILE, RunRecord
from bufferlab.results.trace_words import page_trace_words
from bufferlab.traces.middle_run import pool_bytes_of
from support import core, prepared
from support.fake import children, wait_until

pytestmark = pytest.mark.real

SIZES = core.ROOT / "tests/fixtures/page-trace/pool-sizes.toml"
TRACED = ("run", str(SIZES), "--probe", "page-trace")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bufferlab", *arguments]


@pytest.fixture(scope="module")
def place(disk: Path) -> Iterator[Path]:
    folder = disk / "page-trace"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def bufferlab(disk: Path, *arguments: str) -> str:
    done = prepared.run(arguments, core.environment(disk), 1800)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sweep(disk: Path, place: Path) -> dict[str, RunRecord]:
    """Return a small traced sweep, by the pool's size."""
    bufferlab(disk, *TRACED, "--quick", "--out", str(place))
    return runs_of(place)


def runs_of(place: Path) -> dict[str, RunRecord]:
    (folder,) = place.glob("pool-sizes-*")
    return {record.run.point.swept["pool_size"]: record for record in open_sweep(folder).runs()}


def counts(record: RunRecord) -> dict[str, Any]:
    assert record.run.page_trace is not None
    return {one.kind: one for one in record.run.page_trace.counts}


def frames(record: RunRecord) -> int:
    return int(record.run.settings["pool_frames"].actual)


def curve(disk: Path, record: RunRecord, sizes: list[int], *more: str) -> dict[str, Any]:
    asked = ",".join(f"{size}pages" for size in sizes)
    document: dict[str, Any] = json.loads(
        bufferlab(disk, "curve", str(record.folder), "--sizes", asked, "--json", *more)
    )
    return document


def test_the_trace_is_what_sqlite_counted_and_takes_three_bytes_an_access(sweep: dict[str, RunRecord]) -> None:
    for record in sweep.values():
        assert record.run.status == "ok", record.reason
        trace = record.run.page_trace
        assert trace is not None
        assert trace.status == "ok", trace.reason
        gets, reads = counts(record)["get"], counts(record)["read"]
        # The reading of page_count at each edge is counted, but is not part of the window.
        assert abs(gets.recorded - gets.counted) <= 4
        assert reads.recorded == reads.counted > 0
        assert (record.folder / PAGE_TRACE_FILE).stat().st_size <= 3 * sum(trace.events.values())
        assert sum(one.pages for one in trace.objects) == record.page_trace()["page"].n_unique()
        assert {"stock", "customer", "order_line", "orders_by_customer"} <= {one.name for one in trace.objects}


def test_every_event_follows_from_those_before_it(sweep: dict[str, RunRecord]) -> None:
    for record in sweep.values():
        table = record.page_trace()
        assert table is not None
        in_pool: set[int] = set()
        got, most = None, 0
        for page, kind in zip(table["page"].to_list(), table["kind"].to_list(), strict=True):
            match page_trace_words().kinds[kind]:
                case "get" if page not in in_pool:
                    assert got is None
                    got = page
                    continue
                case "read":
                    assert page == got, "a page was read that nobody had asked for"
                    in_pool.add(page)
                case "create":
                    assert page not in in_pool
                    in_pool.add(page)
                case "evict" | "drop":
                    in_pool.remove(page)
                case _:
                    assert page in in_pool
            got = None
            most = max(most, len(in_pool))
        assert 0.9 * frames(record) < most <= frames(record) + 1
        assert not in_pool, "closing the database drops what is left"


def test_the_curve_of_one_run_tells_what_the_other_pool_misses(disk: Path, sweep: dict[str, RunRecord]) -> None:
    sizes = {size: frames(record) for size, record in sweep.items()}
    for source in sweep.values():
        document = curve(disk, source, sorted(sizes.values()), "--by", "table")
        misses = {row["pool_pages"]: row["lru_misses"] for row in document["curve"]}
        for size, record in sweep.items():
            assert misses[sizes[size]] == pytest.approx(counts(record)["read"].counted, rel=0.03), size
        assert document["measured"] == {"pages": frames(source), "misses": counts(source)["read"].counted}
        by_table = document["by_table"].values()
        assert sum(one["accesses"] for one in by_table) == document["lru"]["accesses"]
        assert [sum(column) for column in zip(*(one["misses"] for one in by_table), strict=True)] == [
            row["lru_misses"] for row in document["curve"]
        ]


@pytest.mark.figures
def test_by_default_the_first_block_keeps_its_traces_and_the_report_tells_of_other_pools(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BUFFERLAB_NO_PAGE_TRACE")
    out = disk / "page-trace-default"
    out.mkdir()
    try:
        # Another page size than SQLite's default, so that SQLite makes its pool twice.
        bufferlab(disk, "run", "buffer-size", "--smoke", "--set", "page_size=8k", "--out", str(out))
        (folder,) = (path.parent for path in out.glob("*/plan.json"))
        swept = open_sweep(folder)
        traces = [(record.run.block, record.run.page_trace) for record in swept.runs()]
        assert sorted((block, trace.status) for block, trace in traces if trace) == [
            (0, "ok"), (0, "ok"), (1, "dropped"), (1, "dropped")
        ]  # fmt: skip
        assert all(one.recorded > 0 for _, trace in traces if trace for one in trace.counts[:1])
        found = swept.other_pools()
        assert found is not None
        (of,) = found.of
        assert len(of.pools) == 3
        assert of.traced.modelled_reads == pytest.approx(of.traced.measured_reads, rel=0.02)
        assert found.generated is not None
        assert [(point.index, len(point.runs)) for point in found.generated.points] == [(0, 3), (1, 3)]
        page = (folder / "report.html").read_text()
        assert "What other pools would have read" in page
        assert ">no run</text>" in page
        assert "What was predicted without any run" in page
        assert (folder / "figures/other-pools.svg").exists()
        (folder / "other-pools.json").unlink()
        bufferlab(disk, "run", "--resume", str(folder))
        assert (folder / "other-pools.json").exists()
        for flag in (("--no-page-trace",), ("--keep-traces", "all")):
            done = prepared.run(["run", "--resume", folder, *flag], core.environment(disk))
            assert done.returncode == 2
            assert "the sweep was begun with page traces" in done.stderr
    finally:
        shutil.rmtree(out)


def test_a_trace_that_reaches_its_limit_ends_and_its_run_stays(disk: Path) -> None:
    out = disk / "page-trace-limit"
    out.mkdir()
    more = ("--sweep", "pool_size=80%", "--repetitions", "1", "--probe", "page-trace", "--trace-limit", "1MiB")
    try:
        bufferlab(disk, "run", "buffer-size", "--smoke", *more, "--out", str(out))
        (path,) = out.glob("*/plan.json")
        (record,) = open_sweep(path.parent).runs()
        trace = record.run.page_trace
        assert record.ok
        assert trace is not None
        assert (trace.status, trace.reason) == ("failed", "the page trace ended at its limit of 1 MiB")
        assert sum(trace.events.values()) * 24 > 1 << 20
        assert record.page_trace() is None
        found = open_sweep(path.parent).other_pools()
        assert found is not None
        assert found.of == []
        assert found.generated is not None, "it needs no trace"
    finally:
        shutil.rmtree(out)


def test_the_curve_of_a_sweep_is_that_of_the_run_with_the_larger_of_two_pools_and_names_it(
    disk: Path, sweep: dict[str, RunRecord]
) -> None:
    folder = max(sweep.values(), key=lambda one: pool_bytes_of(one) or 0).folder
    of_sweep = json.loads(bufferlab(disk, "curve", str(folder.parent.parent), "--json"))
    assert of_sweep["curve"] == json.loads(bufferlab(disk, "curve", str(folder), "--json"))["curve"]
    with pytest.warns(UserWarning, match=f"2 runs have a page trace: run {folder.name} .* is read"):
        assert bl.trace(folder.parent.parent).equals(bl.trace(folder))


def test_the_trace_of_another_run_is_refused(disk: Path, sweep: dict[str, RunRecord]) -> None:
    small, large = sweep.values()
    folder = disk / "page-trace-foreign"
    shutil.copytree(small.folder.parent.parent, folder)
    try:
        shutil.copy(large.folder / PAGE_TRACE_FILE, folder / "runs" / small.folder.name / PAGE_TRACE_FILE)
        done = prepared.run(["curve", folder / "runs" / small.folder.name], core.environment(disk))
        assert done.returncode == 65
        assert PAGE_TRACE_FILE in done.stderr
    finally:
        shutil.rmtree(folder)


@pytest.mark.slow  # 16 s
def test_a_worker_killed_in_the_window_leaves_no_trace_and_the_next_run_has_one(disk: Path, tmp_path: Path) -> None:
    out = disk / "page-trace-killed"
    out.mkdir()
    more = ("--sweep", "pool_size=20%", "--transactions", "3000", "--out", str(out), "--quick")
    with subprocess.Popen(
        command(*TRACED, *more), env=core.environment(disk), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        wait_until(lambda: any(out.rglob("page-trace")), "the trace to begin", 60)
        for worker in children(process.pid):
            subprocess.run(["kill", f"-{signal.SIGKILL}", str(worker)], check=False)
        process.communicate(timeout=120)
    try:
        (record,) = runs_of(out).values()
        assert record.run.status == "failed"
        assert record.run.page_trace is not None
        assert record.run.page_trace.status == "failed"
        assert record.page_trace() is None
        assert not list(out.rglob(f"{PAGE_TRACE_FILE}*"))
        assert not list(out.rglob("page-trace"))
        bufferlab(disk, "run", "--resume", str(record.folder.parent.parent), "--probe", "page-trace")
        assert [one.run.page_trace.status for one in open_sweep(record.folder.parent.parent).runs() if one.ok
                and one.run.page_trace] == ["ok"]  # fmt: skip
    finally:
        shutil.rmtree(out)


@pytest.mark.slow
def test_the_curve_of_a_fifth_tells_all_sizes_within_three_per_cent(disk: Path) -> None:
    out = disk / "page-trace-whole"
    out.mkdir()
    try:
        bufferlab(disk, *TRACED, "--out", str(out))
        measured = runs_of(out)
        document = curve(disk, measured["20%"], sorted(frames(record) for record in measured.values()))
        misses = {row["pool_pages"]: row["lru_misses"] for row in document["curve"]}
        for size, record in measured.items():
            counted = counts(record)["read"].counted
            print(size, frames(record), counted, misses[frames(record)])
            assert misses[frames(record)] == pytest.approx(counted, rel=0.03), size
    finally:
        shutil.rmtree(out)
