"""Sweeps over the number of connections, on private servers: the server has as many sessions as asked for."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bufferlab.engines.servers.fetched import servers_root
from support import core, innodb

pytestmark = [pytest.mark.real, pytest.mark.servers, pytest.mark.slow]

#: A connected socket's state in /proc/net/unix (proc_net(5)); the server's ends have the path on which it listens.
_CONNECTED = "03"


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with innodb.folder() as path:
        for folder in ("data", "cache"):
            (path / folder).mkdir(mode=0o711)
        (path / "cache" / "servers").symlink_to(servers_root())
        yield path


def test_concurrency_on_postgres_tells_where_a_transactions_time_goes(root: Path) -> None:
    engine, server = "postgres", "postgres-17"
    places = ("--out", root / engine, "--data-dir", root / "data", "--share-device")
    words = ["run", "concurrency", "--smoke", "--json", "--engine", engine, "--server", server, *places]
    command = [sys.executable, "-m", "bufferlab", *map(str, words)]
    done = subprocess.run(command, env=core.environment(root), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {point["status"] for point in answer["points"]} == {"ok"}
    assert len({point["swept"]["connections"] for point in answer["points"]}) > 1
    (folder,) = (root / engine).glob("concurrency-*")
    page = (folder / "report.html").read_text()
    # Samples of pg_stat_activity.
    assert "LWLock" in page


def sessions(below: Path) -> dict[str, int]:
    """Return the connections of each server that listens below a folder, by its socket's path."""
    found: dict[str, int] = {}
    for line in Path("/proc/net/unix").read_text().splitlines():
        if str(below) in line:
            *_, state, _, path = line.split()
            found[path] = found.get(path, 0) + (state == _CONNECTED)
    return found


def test_swept_connections_are_open_at_the_server_and_the_report_tells_them_apart(root: Path) -> None:
    engine, server = "mysql", "mysql-5.7"
    places = ("--out", root / engine, "--data-dir", root / "data", "--share-device")
    asked = ("--set", "pool_size=20%", "--sweep", "connections=1,4,8", "--repetitions", "1", "--transactions", "2000")
    words = ["run", "buffer-size", "--smoke", "--json", "--engine", engine, "--server", server, *asked, *places]
    command = [sys.executable, "-m", "bufferlab", *map(str, words)]
    most: dict[str, int] = {}
    # Files, not pipes: no thread reads the output while sessions are counted.
    with (root / "out").open("w") as out, (root / "err").open("w") as err:
        process = subprocess.Popen(command, env=core.environment(root), stdout=out, stderr=err)
        while process.poll() is None:
            for path, count in sessions(root / "data" / ".bufferlab-work").items():
                most[path] = max(count, most.get(path, 0))
            time.sleep(0.02)
    assert process.returncode == 0, (root / "err").read_text()
    one, four, eight = sorted(most.values())
    assert (four - one, eight - one) == (3, 7), most
    assert 1 <= one <= 4, "the driver's session, and those that sample and set up: three were seen"
    (folder,) = (root / engine).glob("buffer-size-*")
    told = {
        point["swept"]["connections"]: point["status"] for point in json.loads((root / "out").read_text())["points"]
    }
    assert told == {"1": "ok", "4": "ok", "8": "ok"}
    assert "Connections" in (folder / "report.html").read_text()
