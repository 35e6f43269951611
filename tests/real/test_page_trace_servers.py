"""Page traces of real servers: they agree with the server's own counters, and leave nothing behind.

The servers record themselves, which any user can do.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bufferlab.registry import open_sweep
from support import innodb, prepared
from support.fake import children, wait_until
from support.traced_servers import Place, require_what_was_counted

pytestmark = pytest.mark.real

# Its sessions are processes and its relations have no fixed numbers, so it covers all cases of InnoDB, and more.
EVERY_DAY = ["postgres-17"]
OTHERS = [
    "mysql-5.6",
    "mysql-5.7",
    "mysql-8.0",
    "mysql-9",
    "mariadb-10.2",
    "mariadb-10.11",
    "mariadb-11.4",
    "mariadb-11.8",
    "postgres-15",
    "postgres-16",
    "postgres-18",
    "postgres-18.6",
    "postgres-19",
]
BUILDS = [*EVERY_DAY, *(pytest.param(name, marks=[pytest.mark.servers, pytest.mark.slow]) for name in OTHERS)]

_SCANS = """\
-- setup
CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER NOT NULL, data TEXT NOT NULL);
INSERT INTO t SELECT i, i % 1000, lpad(i::text, 400, 'c') FROM generate_series(1, 100000) AS many (i);
-- transaction: look weight=20
\\set id random(1, 100000)
SELECT v FROM t WHERE id = :id;
-- transaction: scan weight=1
SELECT count(*) FROM t WHERE v >= 5;
"""


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with innodb.folder() as root:
        yield Place(root, request.param)


@contextmanager
def traced(place: Place, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command; yield it once accesses are recorded."""
    with subprocess.Popen(
        place.command(*more), env=place.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        wait_until(place.traces, "the trace to begin", 240)
        yield process


@contextmanager
def ext4(image: Path, size_bytes: int, folder: Path) -> Iterator[None]:
    """Mount a disk of that size on the folder, which other users may enter."""
    with image.open("wb") as file:
        file.truncate(size_bytes)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
    try:
        folder.chmod(0o711)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("place", BUILDS, indirect=True)
def test_the_trace_is_what_the_server_counted(place: Place) -> None:
    done = prepared.run(place.command()[3:], place.environment, 900)
    assert done.returncode == 0, done.stderr
    require_what_was_counted(place, 0.2 if place.name == "mariadb-11.8" else 0.005)


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize("place", ["postgres-16", "postgres-17", "postgres-18"], indirect=True)
def test_scans_that_sessions_and_their_parallel_workers_share_are_counted_to_the_page(place: Place) -> None:
    script = place.out.parent / "scans.sql"
    script.write_text(_SCANS)
    size = ("--connections", "4", "--transactions", "1000", "--repetitions", "1", "--sweep", "pool_size=30%")
    server = ("--engine", "postgres", "--server", place.name, "--probe", "page-trace")
    words = [sys.executable, "-m", "bufferlab", "run", str(script), *server, *size, *place.places, "--json"]
    done = subprocess.run(words, env=place.environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {check["name"]: check["status"] for check in answer["checks"]}["postgres_io_reads"] == "passed"
    (record,) = open_sweep(Path(answer["sweep"])).runs()
    trace = record.run.page_trace
    assert trace is not None
    assert trace.status == "ok", trace.reason
    gets, reads, writes = trace.counts
    assert (gets.recorded, gets.counter) == (gets.counted, "page_gets")
    assert (reads.recorded, reads.counter) == (reads.counted, "pages_read")
    assert writes.counter == "pages_written"
    assert reads.counted > 50_000, "scans go past the pool"


def kill_workers(process: subprocess.Popen[bytes]) -> None:
    for worker in children(process.pid):
        os.kill(worker, signal.SIGKILL)
    process.communicate(timeout=240)


def require_no_trace(place: Place) -> None:
    """Require that the only run failed, and so did its trace, of which no file is left."""
    (record,) = place.runs()
    assert record.run.status == "failed"
    assert record.run.page_trace is not None
    assert record.run.page_trace.status == "failed"
    assert record.page_trace() is None
    assert not list(place.out.parent.rglob("page-trace*"))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["mysql-5.7"], indirect=True)
def test_a_disk_that_fills_fails_the_trace_and_says_so(place: Place) -> None:
    data = place.out.parent / "data"

    def server_has_started() -> bool:
        logs = [log for trace in data.rglob("page-trace") for log in trace.parent.rglob("server.log")]
        return any("ready for connections" in log.read_text(errors="replace") for log in logs)

    with ext4(place.out.parent / "disk.img", 1 << 30, data):
        # The trace is written after the server has ended; it is larger than the space that the server's temporary files
        # free.
        with traced(place, "--set", "update_percent=0", "--transactions", "150000") as process:
            # On a full disk a server whose files are not made yet does not start.
            wait_until(server_has_started, "the server to start", 60)
            with (data / "other-files").open("wb", buffering=0) as filler:
                while process.poll() is None:
                    with suppress(OSError):
                        filler.write(bytes(1 << 20))
                        continue
                    time.sleep(0.002)
            _, told = process.communicate(timeout=240)
        left = {path.name for path in data.iterdir()} - {"lost+found", "other-files"}
    (record,) = place.runs()
    assert record.run.page_trace is not None, record.reason
    assert record.run.page_trace.status == "failed"
    assert "No space left" in (record.run.page_trace.reason or "")
    assert record.page_trace() is None
    assert process.returncode == 1, told
    assert left == set()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["mysql-5.7"], indirect=True)
def test_a_kill_of_the_worker_ends_the_server_and_its_trace(place: Place) -> None:
    with traced(place, "--transactions", "1000000") as process:
        kill_workers(process)
    require_no_trace(place)
    assert not list(place.out.parent.rglob("bufferlab-inside*"))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["mysql-5.7"], indirect=True)
def test_two_servers_of_one_build_record_themselves_at_once(place: Place) -> None:
    with traced(place, "--transactions", "20000") as first:
        second = subprocess.run(
            [*place.command(), "--out", str(place.out.parent / "second")],
            env=place.environment, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        _, told = first.communicate(timeout=240)
    assert (first.returncode, second.returncode) == (0, 0), (told, second.stderr)
    require_what_was_counted(place)
