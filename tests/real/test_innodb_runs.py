"""MySQL and MariaDB as the worker drives them: load, check, run, check; and ends that are not the run's own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bufferlab.execute.stop import StopRequest
from bufferlab.execute.supervise import Outcome, supervise
from support import innodb

pytestmark = pytest.mark.real

MIB = 1 << 20
PAGE_BYTES = 16384
WORKLOAD = {"name": "tpcc", "warehouses": 1, "load_seed": 1}


class Job:
    """One loaded database, and jobs on it in workers of their own."""

    def __init__(self, name: str, root: Path) -> None:
        innodb.build(name)  # Fetched, or skipped.
        self.name, self.engine, self.root = name, name.split("-")[0], root
        self.database = root / "database"
        self.edges: dict[str, dict[str, int]] = {}
        self.stop = StopRequest()

    def do(self, kind: str, on_event: Callable[[dict[str, Any]], None] | None = None, **job: Any) -> Outcome:
        def hear(event: dict[str, Any]) -> None:
            if event.get("event") == "sample" and event.get("edge"):
                self.edges[event["edge"]] = {row["metric"]: row["count"] for row in event["values"] if row["count"]}
            if on_event:
                on_event(event)

        return supervise(
            kind,
            self.engine,
            {"database": str(self.database), **job},
            log_file=self.root / "worker.log",
            stop=self.stop,
            silent_seconds=60,
            on_event=hear,
        )

    def load(self) -> Outcome:
        knobs = {"server": self.name, "page_size_bytes": PAGE_BYTES}
        return self.do("load", knobs=knobs, workload=WORKLOAD, threads=2)

    def run(self, transactions: int, on_event: Callable[[dict[str, Any]], None] | None = None) -> Outcome:
        return self.do(
            "run",
            on_event,
            knobs={
                "server": self.name,
                "page_size_bytes": PAGE_BYTES,
                "pool_size_bytes": 20 * MIB,
                "innodb_flush_method": "O_DIRECT",
                "innodb_flush_log_at_trx_commit": "0",
                "statements": "spec",
            },
            connections=4,
            workload={**WORKLOAD, "seed": 5},
            load={"mode": "closed"},
            warm_up={"max_transactions": 2000, "max_seconds": 60},
            measure={"transactions": transactions, "max_seconds": 60},
            phases=[],
            sample_interval_ms=1000,
        )

    def passed(self, delivered: list[list[int]]) -> list[bool]:
        outcome = self.do("check", workload=WORKLOAD, delivered_orders=delivered)
        assert outcome.result is not None, outcome
        return [condition["passed"] for condition in outcome.result["conditions"]]

    def processes(self) -> list[int]:
        """Servers that still run on this database."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            except OSError:
                continue
            if os.fsencode(self.root) in command:
                found.append(int(entry.name))
        return found


@pytest.fixture
def root() -> Iterator[Path]:
    with innodb.folder() as path:
        yield path


@pytest.mark.parametrize("name", ["mysql-5.7", "mariadb-10.11"])
def test_a_database_is_loaded_checked_run_and_checked_again(name: str, root: Path) -> None:
    job = Job(name, root)
    loaded = job.load()
    assert loaded.kind == "ok", loaded
    assert job.passed([]) == [True] * 13
    outcome = job.run(1000)
    assert outcome.kind == "ok", outcome
    result = outcome.result
    assert result is not None
    assert result["measured"]["transactions"] == 1000
    assert result["actual"]["page_size_bytes"] == PAGE_BYTES
    assert result["engine_version"] == innodb.build(name).version
    assert "innodb_buffer_pool_size" in result["engine_conf"]
    assert job.edges["end"]["pages_read"] > job.edges["start"]["pages_read"]
    assert job.passed(result["delivered_orders"]) == [True] * 13
    # Without the deliveries that the run counted, condition 11 must notice them.
    assert job.passed([]) == [True] * 11 + [False, True]
    assert job.processes() == []


def test_a_server_killed_in_the_window_fails_the_run_and_a_stop_request_ends_it(root: Path) -> None:
    job = Job("mysql-5.7", root)
    assert job.load().kind == "ok"

    def kill(event: dict[str, Any]) -> None:
        if event.get("edge") == "start":
            for pid in job.processes():
                os.kill(pid, signal.SIGKILL)

    killed = job.run(1_000_000, kill)
    assert killed.kind == "engine"
    assert killed.problem is not None
    assert "SIGKILL" in killed.problem.what

    def ask_to_stop(event: dict[str, Any]) -> None:
        if event.get("edge") == "start":
            threading.Timer(1.0, lambda: setattr(job.stop, "signal_number", signal.SIGTERM)).start()

    assert job.run(1_000_000, ask_to_stop).kind == "interrupted"
    assert job.processes() == []
