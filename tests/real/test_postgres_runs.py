"""PostgreSQL as the worker drives it: load, check, run, check, also under a memory limit; and unwanted ends."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.postgres import control, programs
from bufferlab.engines.postgres.connection import connect
from bufferlab.engines.servers import data_folder, memory_limit
from bufferlab.engines.servers.client import FAILURES
from bufferlab.engines.servers.existing.address import private
from bufferlab.execute.run.supervise import Outcome, supervise
from bufferlab.execute.stop import StopRequest
from bufferlab.results.gaps import standstill
from bufferlab.results.store import sample_rows
from support import postgres

pytestmark = pytest.mark.real

OTHERS = tuple(name for name in programs.PACKAGES if name != "postgres-17")
MIB = 1 << 20
PAGE_BYTES = 8192
TPCC = {"name": "tpcc", "warehouses": 1, "load_seed": 1}
HOT_ROWS = {"name": "hot_rows", "rows": 20_000, "load_seed": 1}


class Job:
    """One loaded database, and jobs on it in separate workers."""

    def __init__(self, name: str, root: Path, workload: dict[str, Any] | None = None) -> None:
        postgres.build(name)  # Fetched, or skipped.
        self.name, self.root, self.workload = name, root, workload or TPCC
        self.database = root / "database"
        self.edges: dict[str, dict[str, int]] = {}
        self.stop = StopRequest()

    def do(self, kind: str, on_event: Callable[[dict[str, Any]], None] | None = None, **job: Any) -> Outcome:
        def hear(event: dict[str, Any]) -> None:
            if event.get("event") == "sample" and event.get("edge"):
                self.edges[event["edge"]] = {
                    row["metric"]: row["count"] for row in event["values"] if row["count"] is not None
                }
            if on_event:
                on_event(event)

        return supervise(
            kind,
            "postgres",
            {"database": str(self.database), **job},
            log_file=self.root / "worker.log",
            stop=self.stop,
            silent_seconds=60,
            on_event=hear,
        )

    def load(self) -> Outcome:
        knobs = {"server": self.name, "page_size": PAGE_BYTES, "data_checksums": "off"}
        return self.do("load", knobs=knobs, workload=self.workload, threads=2)

    def run(
        self,
        transactions: int,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        *,
        interval_ms: int = 1000,
        warm_up: int = 2000,
        max_seconds: int = 60,
        **knobs: int | str,
    ) -> Outcome:
        own = {"server": self.name, "page_size": PAGE_BYTES, "pool_size": 8 * MIB, "autovacuum": "off",
               "synchronous_commit": "off", "statements": "spec", "memory_limit": "off"}  # fmt: skip
        hot = {"hot_rows": 500, "layout": "scattered", "zipf": 0, "update_percent": 0}
        return self.do(
            "run",
            on_event,
            knobs={**own, **knobs},
            connections=4,
            workload={**self.workload, **(hot if self.workload["name"] == "hot_rows" else {}), "seed": 5},
            load={"mode": "closed"},
            warm_up={"max_transactions": warm_up, "max_seconds": 60},
            measure={"transactions": transactions, "max_seconds": max_seconds},
            phases=[],
            sample_interval_ms=interval_ms,
        )

    def passed(self, delivered: list[list[int]]) -> list[bool]:
        outcome = self.do("check", workload=self.workload, delivered_orders=delivered)
        assert outcome.result is not None, outcome
        return [condition["passed"] for condition in outcome.result["conditions"]]

    def change(self, metric: str) -> int:
        return self.edges["end"][metric] - self.edges["start"][metric]


@pytest.fixture
def root() -> Iterator[Path]:
    with postgres.folder() as path:
        yield path


@pytest.fixture(scope="module")
def loaded() -> Iterator[Path]:
    """Yield a closed database of PostgreSQL 15; tests must not change it."""
    with postgres.folder() as path:
        outcome = Job("postgres-15", path).load()
        assert outcome.kind == "ok", outcome
        yield path


@pytest.fixture
def closed(loaded: Path, root: Path) -> Job:
    """Return a copy of the loaded database for one test."""
    subprocess.run(["cp", "-a", "--reflink=auto", str(loaded / "database"), str(root)], check=True)
    return Job("postgres-15", root)


def pages_given(pid: int) -> float | None:
    """Return the pages that read calls gave a process since it began, by the kernel; None if it has ended."""
    try:
        told = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    except OSError:
        return None
    # Every other read call reads a signal: 128 bytes (signalfd(2)).
    return (int(told["rchar"]) - 128 * int(told["syscr"])) / (PAGE_BYTES - 128)


def run_in_memory(job: Job, transactions: int) -> tuple[int, float]:
    """Do a run whose pool holds everything; return the pages read by the server's count, and by its processes' read
    calls."""
    given: dict[str, dict[int, float | None]] = {}

    def look(event: dict[str, Any]) -> None:
        if edge := event.get("edge"):
            given[edge] = {pid: pages_given(pid) for pid in given.get("start") or postgres.processes(job.root)}

    outcome = job.run(transactions, look, max_seconds=300, pool_size=512 * MIB)
    assert outcome.kind == "ok", outcome
    pairs = [(before, given["end"][pid]) for pid, before in given["start"].items()]
    return job.change("pages_read"), sum(b - a for a, b in pairs if a is not None and b is not None)


# The tests below load and run version 15 every day.
@pytest.mark.parametrize("name", ["postgres-17", *(pytest.param(n, marks=pytest.mark.slow) for n in OTHERS)])
def test_a_database_is_loaded_checked_run_and_checked_again(name: str, root: Path) -> None:
    job = Job(name, root)
    loaded = job.load()
    assert loaded.kind == "ok", loaded
    # The log of a load is not copied for each run.
    assert sum(file.stat().st_size for file in (job.database / "data/pg_wal").glob("0*")) <= 32 * MIB
    assert job.passed([]) == [True] * 13
    waiting: dict[str, list[tuple[bool, float]]] = {}

    def look(event: dict[str, Any]) -> None:
        for row in event.get("values", ()):
            if row["metric"].startswith("postgres_activity_"):
                waiting.setdefault(row["metric"], []).append((event["edge"] is not None, row["value"]))

    outcome = job.run(1000, look, warm_up=500, interval_ms=50)
    assert outcome.kind == "ok", outcome
    # Four connections update one warehouse's row in turn; the one that got it reports that when it runs. At the edges
    # all of them stand still.
    assert waiting.keys() == {f"postgres_activity_{name}" for name in ("lock", "lwlock", "io")}
    assert 1 <= max(count for _, count in waiting["postgres_activity_lock"]) <= 4
    assert {count for at_edge, count in waiting["postgres_activity_lock"] if at_edge} == {0}
    result = outcome.result
    assert result is not None
    assert result["measured"]["transactions"] == 1000
    assert result["actual"]["page_size"] == PAGE_BYTES
    assert result["actual"]["pool_size"] == 8 * MIB
    assert result["engine_version"] == postgres.build(name).version
    assert "shared_buffers" in result["engine_conf"]
    assert result["confounds"] == []
    assert job.change("pages_read") > 0
    assert job.change("page_gets") > job.change("pages_read")
    assert job.change("postgres_database_xact_commit") >= 1000 * 0.98
    assert job.passed(result["delivered_orders"]) == [True] * 13
    # If the deliveries of the run are not counted, condition 11 must notice them.
    assert job.passed([]) == [True] * 11 + [False, True]
    assert postgres.processes(root) == []


@pytest.mark.alone
def test_pages_by_which_tables_grow_are_no_reads_where_the_server_counts_them_so(closed: Job) -> None:
    # PostgreSQL 15 counts one for every four New-Orders. Late reads by others would be in only one of the two counts.
    read, given = run_in_memory(closed, 1000)
    assert read <= 10
    assert abs(read - given) <= 10


@pytest.mark.alone  # As above: late reads by others would be in only one of the two counts.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["postgres-15", "postgres-16", "postgres-17", "postgres-18"])
def test_with_everything_in_memory_a_server_reads_what_its_processes_were_given(name: str, root: Path) -> None:
    job = Job(name, root)
    assert job.load().kind == "ok"
    read, given = run_in_memory(job, 12_000)  # 5,200 New-Orders.
    assert read <= 10
    assert abs(read - given) <= 10
    assert job.change("demand_misses") == read
    assert job.change("page_gets") == job.change("postgres_database_blks_hit") + read
    growth = job.change("postgres_growth_pages")
    assert job.change("postgres_database_blks_read") == read + growth
    assert growth > 1000 if name == "postgres-15" else growth == 0


@pytest.mark.slow  # 25 s
def test_who_watches_holds_no_snapshot_that_would_keep_old_rows_alive(closed: Job) -> None:
    job, root = closed, closed.root
    held: set[tuple[Any, ...]] = set()
    looks = []
    idle_with_snapshot = (
        "SELECT pid, state_change, query FROM pg_stat_activity WHERE backend_xmin IS NOT NULL "
        "AND state = 'idle in transaction' AND query LIKE '%pg_stat%' AND pid <> pg_backend_pid()"
    )

    def look(event: dict[str, Any]) -> None:
        if event.get("event") != "sample" or event.get("phase") != "measure" or event.get("edge"):
            return
        identity = data_folder.read_identity(job.database)
        address = private(str(root / "server"), identity.user, identity.password, "bufferlab", control.PORT)
        # On a busy machine a sample may arrive when its run is over and the server stops.
        with suppress(*FAILURES), closing(connect(address)) as connection:
            looks.append(event)
            # The server reads a session's state and its snapshot one after the other: only the same idle time with a
            # snapshot in two readings shows a snapshot that was held.
            first = set(connection.rows(idle_with_snapshot))
            held.update(first & set(connection.rows(idle_with_snapshot)))

    assert job.run(6000, look).kind == "ok"
    assert looks
    assert held == set()


def test_selects_of_hot_rows_read_each_page_of_their_rows_once(root: Path) -> None:
    job = Job("postgres-15", root, HOT_ROWS)
    assert job.load().kind == "ok"
    assert job.passed([]) == [True] * 6
    assert job.run(2000).kind == "ok"
    # Key and heap of 500 rows fit into the pool: each select gets the pages on its way, and reads none.
    assert job.change("pages_read") <= 20
    assert 3 <= job.change("page_gets") / 2000 < 4.5


def test_a_memory_limit_holds_through_a_run_and_nothing_of_it_is_left(
    closed: Job, hierarchy: memory_limit.Hierarchy
) -> None:
    job = closed
    seen: list[int] = []

    def look(event: dict[str, Any]) -> None:
        for group in memory_limit._ours(hierarchy.root):
            file = group / ("memory.usage_in_bytes" if hierarchy.version == 1 else "memory.current")
            if event.get("event") == "sample" and file.exists():
                seen.append(int(file.read_text()))

    outcome = job.run(1000, look, warm_up=500, memory_limit=96 * MIB)
    assert outcome.kind == "ok", outcome
    assert outcome.result is not None
    assert outcome.result["actual"]["memory_limit"] == 96 * MIB
    assert seen
    assert 16 * MIB < max(seen) <= 96 * MIB
    assert list(memory_limit._ours(hierarchy.root)) == []


def test_a_memory_limit_too_small_for_the_server_is_named_and_nothing_of_it_is_left(
    closed: Job, hierarchy: memory_limit.Hierarchy
) -> None:
    job, root = closed, closed.root
    # The pool fits, but the server's own memory does not fit with a full pool.
    outcome = job.run(1_000_000, pool_size=40 * MIB, memory_limit=44 * MIB)
    assert outcome.kind == "engine", outcome
    assert outcome.failure is not None
    assert "memory limit of 44 MiB was too small for the server" in outcome.failure.what
    assert "its log ends with" not in outcome.failure.what
    assert postgres.processes(root) == []
    assert list(memory_limit._ours(hierarchy.root)) == []


def test_a_server_killed_in_the_window_fails_the_run_and_a_stop_request_ends_it(closed: Job) -> None:
    job, root = closed, closed.root

    def kill(event: dict[str, Any]) -> None:
        if event.get("edge") == "start":
            os.kill(min(postgres.processes(root)), signal.SIGKILL)  # The postmaster is the process that began first.

    killed = job.run(1_000_000, kill, warm_up=300)
    assert killed.kind == "engine"
    assert killed.failure is not None
    assert "SIGKILL" in killed.failure.what

    def ask_to_stop(event: dict[str, Any]) -> None:
        if event.get("edge") == "start":
            threading.Timer(1.0, lambda: setattr(job.stop, "signal_number", signal.SIGTERM)).start()

    (job.database / "data/postmaster.pid").unlink(missing_ok=True)
    assert job.run(1_000_000, ask_to_stop, warm_up=300).kind == "interrupted"
    assert postgres.processes(root) == []


@pytest.mark.slow
def test_a_server_that_stood_still_is_found_in_the_samples_and_a_long_honest_query_is_not(root: Path) -> None:
    job = Job("postgres-17", root)
    assert job.load().kind == "ok"
    rows: list[dict[str, Any]] = []

    def hear(event: dict[str, Any]) -> None:
        if event.get("event") == "sample":
            rows.extend(sample_rows(event))

    def stop(event: dict[str, Any]) -> None:
        hear(event)
        if event.get("event") == "sample" and event["phase"] == "measure" and not stopped:
            stopped.extend(postgres.processes(root))
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            threading.Timer(6.5, lambda: [os.kill(pid, signal.SIGCONT) for pid in stopped]).start()

    stopped: list[int] = []
    assert job.run(1_000_000, stop, interval_ms=200, max_seconds=3).kind == "ok"
    found = standstill(rows, "measure", 0.2, is_server=True)
    assert found is not None
    assert 6 < found.seconds < 8

    rows.clear()
    job.workload = {"name": "script", "source": "mine.sql", "text": "SELECT pg_sleep(7);", "variables": {}}
    assert job.run(1, hear, interval_ms=200, warm_up=0).kind == "ok"
    assert standstill(rows, "measure", 0.2, is_server=True) is None
