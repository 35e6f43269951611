"""Whole sweeps on private servers by the command line: killed ones, and one over two builds with report and
comparison."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.servers.fetched import servers_root
from support import core, innodb, prepared
from support.fake import children, is_alive, wait_until

pytestmark = pytest.mark.real


class Place:
    """The folders of one sweep, with the servers that were fetched already."""

    def __init__(self, root: Path) -> None:
        self.root, self.out, self.data = root, root / "out", root / "data"
        for folder in (self.out, self.data, root / "cache"):
            folder.mkdir(mode=0o711)
        (root / "cache" / "servers").symlink_to(servers_root())

        # The command need not wait for other sweeps on this disk, of other tests or users.
        self.places = ("--out", str(self.out), "--data-dir", str(self.data), "--share-device")

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        places = self.places if arguments[0] == "run" else ()
        return prepared.run([*arguments, *places], core.environment(self.root), 600)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "bufferlab", *arguments, *self.places],
            env=core.environment(self.root),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def servers(self) -> list[int]:
        """Return the living servers whose option file is below this place."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            except OSError:
                continue
            if b"--defaults-file=" + os.fsencode(self.root) in command and is_alive(int(entry.name)):
                found.append(int(entry.name))
        return found

    def sockets(self) -> list[str]:
        """Return the listening sockets below this place (proc_net(5): unix)."""
        return [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if str(self.root) in line]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Yield one place for all tests: each sweep finds the data that an earlier one loaded."""
    with innodb.folder() as path:
        yield Place(path)


def test_after_a_kill_of_the_command_line_neither_worker_nor_server_nor_socket_is_left(place: Place) -> None:
    innodb.build("mysql-5.7")
    process = place.start(
        "run", "hot-rows", "--engine", "mysql", "--server", "mysql-5.7", "--smoke", "--set", "rows=20000",
        "--sweep", "hot_rows=500", "--transactions", "100000000",
    )  # fmt: skip
    runs = place.data / ".bufferlab-work"
    wait_until(lambda: any(runs.glob("*/*/server/mysqld.sock")), "the first run's server", 120)
    wait_until(lambda: bool(place.servers()) and bool(place.sockets()), "the server to listen", 60)
    workers, servers = children(process.pid), place.servers()
    assert workers
    assert servers
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    # A server's first thread may end before its other threads have closed the socket.
    left = lambda: any(is_alive(pid) for pid in (*workers, *servers)) or place.servers() or place.sockets()  # noqa: E731
    wait_until(lambda: not left(), "worker, server and socket to end", 5)


@pytest.mark.slow
def test_a_point_the_server_will_not_start_with_fails_and_the_others_are_measured(place: Place) -> None:
    innodb.build("mysql-5.7")
    done = place.run(
        "run", "buffer-size", "--engine", "mysql", "--server", "mysql-5.7", "--smoke", "--repetitions", "1", "--json",
        "--set", "pool_size=20%", "--sweep", "var.innodb_io_capacity=200,plenty",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    statuses = {point["swept"]["var.innodb_io_capacity"]: point for point in json.loads(done.stdout)["points"]}
    assert statuses["200"]["status"] == "ok"
    assert statuses["plenty"]["status"] == "failed"
    assert "var.innodb_io_capacity" in statuses["plenty"]["reason"]
    (failure,) = [one["failure"] for one in statuses["plenty"]["failures"]]
    assert (failure["kind"], failure["where"]) == ("usage", "var.innodb_io_capacity")
    assert "1 run failed because settings or statements were refused, which trying again does not mend" in done.stderr
    assert place.servers() == []
    # This sweep has removed what the killed one left.
    assert list((place.data / ".bufferlab-work").glob("*/*")) == []


def experiments_of_docs() -> list[str]:
    """Return the experiments that docs/questions.md names and that run on MySQL and MariaDB."""
    named = dict.fromkeys(re.findall(r"bufferlab run ([a-z-]+)", (core.ROOT / "docs/questions.md").read_text()))
    texts = {name: core.ROOT / "experiments" / name / "experiment.toml" for name in named}
    return [name for name, file in texts.items() if file.is_file() and re.search(r"innodb|mysql", file.read_text())]


@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.parametrize("experiment", experiments_of_docs())
@pytest.mark.parametrize("server", ["mysql-9", "mariadb-11.8"])
def test_an_experiment_of_the_docs_runs_on_todays_servers_without_a_failed_check(
    place: Place, server: str, experiment: str
) -> None:
    innodb.build(server)
    engine = server.partition("-")[0]
    done = place.run("run", experiment, "--engine", engine, "--server", server, "--smoke", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert all(point["status"] == "ok" for point in answer["points"])
    checks = {check["name"]: check for check in answer["checks"]}
    # This test does not check whether other guests of the host were busy.
    assert [check for name, check in checks.items() if check["status"] == "failed" and name != "stolen_time"] == []
    # The check compares the bytes that the server counts with those that the kernel counts for it.
    assert checks["process_read_bytes"]["status"] == "passed", checks["process_read_bytes"]


@pytest.mark.servers
@pytest.mark.slow
def test_a_sweep_over_two_servers_is_reported_and_compared(place: Place) -> None:
    for name in ("mysql-5.7", "mysql-8.0"):
        innodb.build(name)
    done = place.run(
        "run", "buffer-size", "--engine", "mysql", "--smoke", "--sweep", "server=mysql-5.7,mysql-8.0",
        "--set", "pool_size=20%", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert [point["swept"] for point in answer["points"]] == [{"server": "mysql-5.7"}, {"server": "mysql-8.0"}]
    assert all(point["status"] == "ok" for point in answer["points"])
    sweep = Path(answer["sweep"])
    versions = {json.loads(path.read_text())["engine_version"] for path in sweep.glob("runs/*/run.json")}
    assert {version.rsplit(".", 1)[0] for version in versions} == {"5.7", "8.0"}
    assert (sweep / "report.html").is_file()
    caches = [row["value"] for point in answer["points"] for row in point["summaries"]
              if row["metric"] == "effective_cache_bytes"]  # fmt: skip
    assert len(caches) == 2
    assert all(cache > 1 << 20 for cache in caches)
    compared = place.run("compare", sweep, "--between", "server=mysql-5.7", "server=mysql-8.0", "--json")
    assert compared.returncode == 0, compared.stderr
    assert json.loads(compared.stdout)
