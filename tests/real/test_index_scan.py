"""Q1 by both plans on the real engine, from start to end: plans in the engine's words, answers, the figures of a
query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bufferlab.engines import host_settings
from bufferlab.engines.servers.fetched import servers_root
from bufferlab.registry import open_sweep
from support import core, innodb, postgres, prepared

pytestmark = pytest.mark.real


def share_servers(folder: Path) -> None:
    """Give the folder's cache the servers that were fetched before; its data stay separate."""
    (folder / "cache").mkdir(mode=0o755)
    (folder / "cache" / "servers").symlink_to(servers_root())


def results_of(folder: Path, *more: str) -> Path:
    """Run the smoke size of the experiment by the command line; return the folder of its results."""
    out = folder / "index-scan"
    arguments = ["index-scan", "--smoke", "--share-device", "--json", "--out", str(out), *more]
    ended = prepared.run(["run", *arguments], core.environment(folder), 600)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)
    (found,) = out.glob("index-scan-*")
    return found


@pytest.mark.figures
def test_the_smoke_size_tells_plans_answers_and_what_a_query_costs(disk: Path) -> None:
    folder = results_of(disk)
    reads: dict[str, list[float]] = {"index_scan": [], "sequential": []}
    words = {"index_scan": "SEARCH lineitem USING INDEX lineitem_by_shipdate", "sequential": "SCAN lineitem"}
    for record in open_sweep(folder).runs():
        run = record.run.model_dump(mode="json")
        assert run["status"] == "ok", run["failure"]
        assert run["warm_up"]["gate"] == "cold"
        plan, drawn = run["workload"]["plan"], run["workload"]["drawn"]
        assert drawn["plan"] == plan
        assert words[plan] in drawn["plan_text"]
        assert drawn["answers_checked"] == 2
        assert 1_000 < drawn["rows_in_range"] < 4_000, "a quarter of a year at scale factor 0.01"
        assert [row["passed"] for row in run["consistency"]["conditions"]] == [True, True, True]
        figures = record.values()
        assert (figures["seconds_per_transaction"].value or 0) > 0
        reads[plan].append(figures["reads_per_transaction"].value or 0)
    assert all(len(of) == 2 for of in reads.values())
    pages_of_table = min(reads["sequential"])
    assert pages_of_table > 500, "the whole table, past a pool of 16 %"
    assert max(reads["index_scan"]) > 0.5 * 2_200, "nearly a page for each row"


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.usefixtures("hierarchy")  # Under a memory limit no page of the copy is cached when a run begins.
def test_the_devices_read_ahead_decides_the_size_of_postgresqls_requests(disk: Path) -> None:
    postgres.build("postgres-15")  # Fetched, or skipped.
    device, may = host_settings.read_ahead_of(disk), host_settings.settable(disk, "read_ahead")
    if device.file is None or not may.ok:
        pytest.skip(f"NOT TESTED: {may.detail}")
    before = device.file.read_text()
    with postgres.folder() as folder:
        share_servers(folder)
        out = results_of(
            folder, "--engine", "postgres", "--set", "server=postgres-15", "--set", "plan=sequential",
            "--set", "memory_limit=96MiB", "--sweep", "read_ahead=0,64", "--repetitions", "1",
        )  # fmt: skip
        assert device.file.read_text() == before
        sizes_kib: dict[int, set[float]] = {0: set(), 64: set()}
        for record in open_sweep(out).runs():
            assert record.run.status == "ok", record.run.failure
            actual = {name: setting.actual for name, setting in record.run.settings.items()}
            assert actual["read_ahead"] == str(actual["read_ahead_run_kib"])
            size_kib = record.values()["device_read_size_kib"].value
            assert size_kib is not None
            sizes_kib[actual["read_ahead_run_kib"]].add(size_kib)
        assert max(sizes_kib[0]) < 5, "a page of the kernel's at a time, and a few files read at the start"
        # In addition to the table a few pages of other files are read, each separately.
        assert min(sizes_kib[64]) > 2 * max(sizes_kib[0])


@pytest.mark.alone
@pytest.mark.parametrize(
    ("engine", "more"),
    [
        ("sqlite", ("--set", "io_mode=buffered")),
        pytest.param("mysql", ("--set", "server=mysql-5.7", "--set", "flush_method=fsync"), marks=pytest.mark.slow),
    ],
)
def test_every_engine_reads_with_the_read_ahead_that_was_asked_for(
    disk: Path, engine: str, more: tuple[str, ...]
) -> None:
    device, may = host_settings.read_ahead_of(disk), host_settings.settable(disk, "read_ahead")
    if device.file is None or not may.ok:
        pytest.skip(f"NOT TESTED: {may.detail}")
    if engine == "mysql":
        innodb.build("mysql-5.7")  # Fetched, or skipped.
    before = device.file.read_text()
    with postgres.folder() as folder:
        share_servers(folder)
        plan = ("--set", "plan=sequential", "--sweep", "read_ahead=as_is,0,64", "--repetitions", "1")
        out = results_of(folder, "--engine", engine, *more, *plan)
        assert device.file.read_text() == before
        found = {}
        for record in open_sweep(out).runs():
            assert record.run.status == "ok", record.run.failure
            actual = {name: setting.actual for name, setting in record.run.settings.items()}
            found[actual["read_ahead"]] = actual["read_ahead_run_kib"]
        assert found == {"as_is": int(before), "0": 0, "64": 64}
