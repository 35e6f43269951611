"""MySQL and MariaDB as the worker drives them: load, check, run, check; and ends that do not come from the run
itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.innodb import programs
from bufferlab.execute.run.supervise import Outcome, supervise
from bufferlab.execute.stop import StopRequest
from support import innodb

pytestmark = pytest.mark.real

MIB = 1 << 20
PAGE_BYTES = 16384
WORKLOAD = {"name": "tpcc", "warehouses": 1, "load_seed": 1}


class Job:
    """One loaded database, and jobs on it in separate workers."""

    def __init__(self, name: str, root: Path, page_bytes: int = PAGE_BYTES) -> None:
        innodb.build(name)  # Fetched, or skipped.
        self.name, self.engine, self.root, self.page_bytes = name, name.split("-")[0], root, page_bytes
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
        knobs = {"server": self.name, "page_size": self.page_bytes}
        return self.do("load", knobs=knobs, workload=WORKLOAD, threads=2)

    def run(
        self, transactions: int, on_event: Callable[[dict[str, Any]], None] | None = None, **knobs: int | str
    ) -> Outcome:
        return self.do(
            "run",
            on_event,
            knobs={
                "server": self.name,
                "page_size": self.page_bytes,
                "pool_size": 20 * MIB,
                "flush_method": "O_DIRECT",
                "flush_log_at_trx_commit": "0",
                "statements": "spec",
                **knobs,
            },
            connections=4,
            workload={**WORKLOAD, "seed": 5},
            load={"mode": "closed"},
            warm_up={"max_transactions": 500, "max_seconds": 60},
            measure={"transactions": transactions, "max_seconds": 60},
            phases=[],
            sample_interval_ms=1000,
        )

    def passed(self, delivered: list[list[int]]) -> list[bool]:
        outcome = self.do("check", workload=WORKLOAD, delivered_orders=delivered)
        assert outcome.result is not None, outcome
        return [condition["passed"] for condition in outcome.result["conditions"]]

    def processes(self) -> list[int]:
        """Return the servers that still run on this database."""
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


@pytest.fixture(scope="module")
def loaded() -> Iterator[Path]:
    """Yield a closed database of MySQL 5.7; tests must not change it."""
    with innodb.folder() as path:
        job = Job("mysql-5.7", path)
        outcome = job.load()
        assert outcome.kind == "ok", outcome
        yield path


@pytest.fixture
def closed(loaded: Path, root: Path) -> Job:
    """Return a copy of the loaded database for one test."""
    subprocess.run(["cp", "-a", "--reflink=auto", str(loaded / "database"), str(root)], check=True)
    return Job("mysql-5.7", root)


EVERY_DAY = ("mysql-5.7", 16384)
MATRIX = [
    pytest.param(
        name, page_bytes, marks=[] if (name, page_bytes) == EVERY_DAY else [pytest.mark.servers, pytest.mark.slow]
    )
    for name in programs.PACKAGES
    for page_bytes in (4096, 16384)
]


@pytest.mark.parametrize(("name", "page_bytes"), MATRIX)
def test_a_database_is_loaded_checked_run_and_checked_again(
    name: str, page_bytes: int, root: Path, request: pytest.FixtureRequest
) -> None:
    job = Job(name, root, page_bytes)
    if (name, page_bytes) == ("mysql-5.7", PAGE_BYTES):
        job = request.getfixturevalue("closed")  # The load is shared with the other tests of this file.
    else:
        loaded = job.load()
        assert loaded.kind == "ok", loaded
    assert job.passed([]) == [True] * 13
    outcome = job.run(1000)
    assert outcome.kind == "ok", outcome
    result = outcome.result
    assert result is not None
    assert result["measured"]["transactions"] == 1000
    assert result["actual"]["page_size"] == page_bytes
    assert result["engine_version"] == innodb.build(name).version
    assert "innodb_buffer_pool_size" in result["engine_conf"]
    assert job.edges["end"]["pages_read"] > job.edges["start"]["pages_read"]
    assert job.passed(result["delivered_orders"]) == [True] * 13
    # If the deliveries of the run are not counted, condition 11 must notice them.
    assert job.passed([]) == [True] * 11 + [False, True]
    assert job.processes() == []


@pytest.mark.servers
@pytest.mark.slow
def test_transactions_that_meet_at_a_row_under_snapshot_isolation_are_tried_again(root: Path) -> None:
    """MariaDB's error 1020, as on a server that runs already with the default of 11.6.2 and later."""
    job = Job("mariadb-11.8", root)
    assert job.load().kind == "ok"
    outcome = job.run(2000, snapshot_isolation="on")
    assert outcome.kind == "ok", outcome
    assert outcome.result is not None
    assert job.edges["end"].get("transaction_retries", 0) > 0
    assert job.passed(outcome.result["delivered_orders"]) == [True] * 13


def test_a_server_killed_in_the_window_fails_the_run_and_a_stop_request_ends_it(closed: Job) -> None:
    job = closed

    def kill(event: dict[str, Any]) -> None:
        if event.get("edge") == "start":
            for pid in job.processes():
                os.kill(pid, signal.SIGKILL)

    killed = job.run(1_000_000, kill)
    assert killed.kind == "engine"
    assert killed.failure is not None
    assert "SIGKILL" in killed.failure.what

    def ask_to_stop(event: dict[str, Any]) -> None:
        if event.get("edge") == "start":
            threading.Timer(1.0, lambda: setattr(job.stop, "signal_number", signal.SIGTERM)).start()

    assert job.run(1_000_000, ask_to_stop).kind == "interrupted"
    assert job.processes() == []


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [("innodb_no_such_thing", "1", "does not know"), ("innodb_io_capacity", "plenty", "refuses the value")],
)
def test_a_variable_the_server_will_not_have_fails_the_run_by_its_name(
    closed: Job, variable: str, value: str, said: str
) -> None:
    outcome = closed.run(100, **{f"var.{variable}": value})
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert said in outcome.failure.what
    assert outcome.failure.where == f"var.{variable}"
    assert outcome.failure.hint
    assert closed.processes() == []


def test_the_socket_of_somebody_else_in_the_runs_folder_fails_the_run_and_stays(closed: Job) -> None:
    home = closed.root / "server"
    home.mkdir(mode=0o711, exist_ok=True)
    path = home / "mysqld.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path))
        outcome = closed.run(100)
        assert path.is_socket()
    path.unlink()
    assert outcome.kind == "environment"
    assert outcome.failure is not None
    assert "socket already" in outcome.failure.what
    assert outcome.failure.where == str(path)
    assert closed.processes() == []


@pytest.mark.slow
def test_a_server_that_is_stopped_in_the_window_fails_the_run_in_bounded_time(closed: Job) -> None:
    frozen_at: list[float] = []

    def freeze(event: dict[str, Any]) -> None:
        if event.get("edge") == "start":
            for pid in closed.processes():
                os.kill(pid, signal.SIGSTOP)
            frozen_at.append(time.monotonic())

    outcome = closed.run(1_000_000, freeze)
    # 30 s of patience, and the time to end all processes.
    assert 25 < time.monotonic() - frozen_at[0] < 75
    assert outcome.kind == "io"
    assert outcome.failure is not None
    assert "has not answered for 30 s" in outcome.failure.what
    assert closed.processes() == []
    assert closed.run(200).kind == "ok", "what was frozen and killed recovers"


@pytest.mark.slow
def test_a_server_that_is_stopped_in_the_check_fails_it_in_bounded_time(closed: Job) -> None:
    begun = time.monotonic()

    def freeze(event: dict[str, Any]) -> None:
        if event.get("event") == "alive" and event.get("phase") == "checking":
            for pid in closed.processes():
                os.kill(pid, signal.SIGSTOP)

    outcome = closed.do("check", freeze, workload=WORKLOAD, delivered_orders=[])
    assert time.monotonic() - begun < 120
    assert outcome.kind == "engine"
    assert outcome.failure is not None
    assert "has not answered for 30 s" in outcome.failure.what
    assert closed.processes() == []


def test_a_disk_that_fills_up_in_the_window_is_called_so(loaded: Path, root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a small file system is mounted by root alone")
    used = int(
        subprocess.run(["du", "-sm", str(loaded / "database")], capture_output=True, check=True).stdout.split()[0]
    )
    mount = root / "small"
    mount.mkdir()
    options = f"size={used + 12}m,mode=711"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mount)], check=True)
    try:
        subprocess.run(["cp", "-a", str(loaded / "database"), str(mount)], check=True)
        job = Job("mysql-5.7", mount)
        outcome = job.run(1_000_000, flush_method="fsync")
        left = job.processes()
    finally:
        subprocess.run(["umount", str(mount)], check=True)
    assert outcome.kind == "full_disk", outcome
    assert left == []
