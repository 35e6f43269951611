"""Private PostgreSQL servers, really booted: made, started, read back, stopped; and the messages if they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import consistency_by_psycopg, relation_sizes
from bufferlab.engines.postgres.declaration import DECLARATION
from bufferlab.engines.postgres.postgresql_conf import read_back, server_settings
from bufferlab.engines.servers import child_process, memory_limit, user
from bufferlab.engines.servers import data_folder as server_sizes
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import EnvironmentLackingError
from bufferlab.execute.data.copy_method import restore
from bufferlab.execute.data.trees import fingerprint
from bufferlab.knob import Native, values_of
from support import postgres
from support.core import ROOT

pytestmark = pytest.mark.real

MIB = 1 << 20


@pytest.fixture
def root() -> Iterator[Path]:
    with postgres.folder() as path:
        yield path


@pytest.fixture(scope="module")
def build() -> Build:
    return postgres.build("postgres-15")


@pytest.fixture(scope="module")
def empty(build: Build) -> Iterator[Path]:
    """Yield a new cluster; tests must not change it."""
    with postgres.folder() as path:
        postgres.Place(build, path).initialise()
        yield path


@pytest.fixture
def place(build: Build, root: Path, empty: Path) -> postgres.Place:
    """Return a copy of the new cluster for one test."""
    subprocess.run(["cp", "-a", "--reflink=auto", str(empty / "database"), str(root)], check=True)
    return postgres.Place(build, root)


def ask(server: PrivateServer, query: str) -> list[tuple[Any, ...]]:
    with closing(server.connect()) as connection:
        return connection.rows(query)


def listening(pid: int) -> list[str]:
    """Return the sockets on which a process waits for network connections, in the kernel's words."""
    own = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    tables = [Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:] for kind in ("tcp", "tcp6")]
    return [line for table in tables for line in table if f"socket:[{line.split()[9]}]" in own]


def kill_backend_and_ask(server: PrivateServer) -> None:
    with closing(server.connect()) as connection:
        ((backend,),) = connection.rows("SELECT pg_backend_pid()")
        os.kill(backend, signal.SIGKILL)
        postgres.gone(server.pid)
        connection.rows("SELECT 1")


def stop_and_ask(server: PrivateServer) -> None:
    """Run a long statement while every process of the server is stopped, with a second thread that listens."""
    server.listen()
    with closing(server.connect()) as connection:
        for pid in postgres.processes(server.log.parent.parent):
            os.kill(pid, signal.SIGSTOP)
        threading.Thread(target=server.listen).start()
        connection.rows("SELECT 1")


def native(version: str, **asked: str) -> dict[str, Native]:
    """Return every knob that the version has, with a value other than its default."""
    knobs = DECLARATION.by_name()
    return values_of({**DECLARATION.defaults(), **{n: knobs[n].parse(v) for n, v in asked.items()}}, 0)


@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("name", postgres.ALL)
def test_a_server_is_made_started_read_back_and_stopped(name: str, checksums: bool, root: Path) -> None:
    build = postgres.build(name)
    place = postgres.Place(build, root).initialise(checksums)
    asked = {
        "pool_size": "24MiB",
        "bgwriter_delay": "50ms",
        "bgwriter_lru_multiplier": "3.5",
        "bgwriter_flush_after": "64KiB",
        "checkpoint_timeout": "10min",
        "max_wal_size": "256MiB",
        "wal_buffers": "1MiB",
        "effective_io_concurrency": "32",
        "wal_compression": "pglz",
        "work_mem": "8MiB",
        "random_page_cost": "1.1",
        "data_checksums": "on" if checksums else "off",
    }
    newer = {16: {"debug_io_direct": "data,wal"}, 17: {"io_combine_limit": "64KiB"}, 18: {"io_method": "sync"}}
    for major, more in newer.items():
        asked |= more if build.numbers >= (major,) else {}
    knobs = {**native(build.version, **asked), "server": name}
    with place.server(settings=server_settings(build.version, knobs)) as server:
        pid, socket = server.pid, server.socket
        with closing(server.connect()) as connection:
            found = read_back(connection, build, knobs, None)
            people = [name for (name,) in connection.rows("SELECT rolname FROM pg_roles WHERE rolcanlogin")]
            places = connection.rows("SELECT datcollate, pg_encoding_to_char(encoding) FROM pg_database")
        assert os.stat(f"/proc/{pid}").st_uid == (user.server_user() or (os.getuid(), 0))[0]
        assert listening(pid) == []
    assert {name: found.actual[name] for name in knobs} == knobs
    assert found.confounds == []
    assert found.frames == 24 * MIB // 8192
    assert str(found.actual["server_version"]).startswith(build.version)
    assert people == ["bufferlab"]
    assert set(places) == {("C", "UTF8")}
    assert postgres.gone(pid)
    assert not socket.exists()
    assert postgres.processes(root) == []


def test_nothing_of_a_servers_data_is_roots_and_nothing_is_open_to_others(place: postgres.Place) -> None:
    with place.server():
        pass
    owner = (user.server_user() or (os.getuid(), 0))[0]
    for path in (place.data, *place.data.rglob("*")):
        assert path.lstat().st_uid == owner, path
    for private in (place.database, place.data, place.home):
        assert private.stat().st_mode & 0o077 == 0, private
    assert (place.database / "auth.json").stat().st_mode & 0o777 == 0o600


def test_the_password_is_in_no_file_log_or_command_line(place: postgres.Place) -> None:
    with place.server() as server:
        seen = Path(f"/proc/{server.pid}/cmdline").read_bytes() + Path(f"/proc/{server.pid}/environ").read_bytes()
        seen += server.conf.encode()
    identity = place.identity
    files = [path for folder in (place.home, place.data) for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 900
    assert not [path for path in files if identity.password.encode() in path.read_bytes()]
    assert identity.password.encode() not in seen
    assert identity.password not in repr(identity)


def test_a_wrong_password_is_told_at_once_and_not_after_two_minutes(place: postgres.Place) -> None:
    started = time.monotonic()
    with pytest.raises(EngineFailure, match="refuses the user") as caught, place.server(("bufferlab", "wrong")):
        pass
    assert caught.value.kind == "data"
    assert time.monotonic() - started < 60


def test_a_server_that_loses_a_process_ends_and_is_named_with_the_end_of_its_log(place: postgres.Place) -> None:
    with pytest.raises(EngineFailure) as caught, place.server() as server:
        kill_backend_and_ask(server)
    assert caught.value.kind == "engine"
    assert "was terminated by signal 9" in caught.value.what
    assert postgres.processes(place.root) == []


def segments() -> set[str]:
    """Return the System V shared memory of this namespace, by number."""
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}


@pytest.mark.alone
def test_a_server_survives_neither_its_worker_nor_leaves_memory_or_a_query_behind(place: postgres.Place) -> None:
    before, shared = segments(), set(os.listdir("/dev/shm"))
    program = (
        "import sys, threading, time\n"
        "from pathlib import Path\n"
        "from support import postgres\n"
        "place = postgres.Place(postgres.build('postgres-15'), Path(sys.argv[1]))\n"
        "with place.server() as server:\n"
        "    connection = server.connect()\n"
        "    threading.Thread(target=connection.ask, args=('SELECT count(*) FROM generate_series(1, 10^12)',),"
        " daemon=True).start()\n"
        "    time.sleep(0.5)\n"
        "    print(server.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", program, str(place.root)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests'}"},
        text=True,
    )
    assert worker.stdout is not None
    pid = int(worker.stdout.readline())
    left = postgres.processes(place.root)
    assert len(left) >= 5, "postmaster, checkpointer, writers and the connection"
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert postgres.gone(pid)
    assert all(postgres.gone(each, 10) for each in left), "a query ends when its client is gone"
    if child_process.can_own_ipc(user.server_user()):
        assert segments() <= before
        assert set(os.listdir("/dev/shm")) <= shared
    with pytest.raises(EnvironmentLackingError, match="socket already"), place.server():
        pass


@pytest.mark.parametrize("name", postgres.EVERY_DAY)
def test_a_killed_initdb_leaves_no_shared_memory(name: str, root: Path) -> None:
    if not child_process.can_own_ipc(user.server_user()):
        pytest.skip("NOT TESTED: this system forbids the namespaces that end shared memory")
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from support import postgres\n"
        "postgres.Place(postgres.build(sys.argv[1]), Path(sys.argv[2])).initialise()\n"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", program, name, str(root)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests'}"},
    )
    deadline = time.monotonic() + 60
    while not (used := segments_of_initdb(root)):
        assert worker.poll() is None, "it ended before it was seen"
        assert time.monotonic() < deadline
    running = postgres.processes(root)
    for pid in [worker.pid, *running]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    worker.wait()
    assert all(postgres.gone(pid, 10) for pid in running)
    assert not used & set(os.listdir("/dev/shm"))


def segments_of_initdb(root: Path) -> set[str]:
    """Return the names of the POSIX segments that processes below this folder see and PostgreSQL makes."""
    found: set[str] = set()
    for pid in postgres.processes(root):
        with suppress(OSError):
            if b"--boot" in (command := Path(f"/proc/{pid}/cmdline").read_bytes()) or b"--single" in command:
                found |= {path for path in os.listdir(f"/proc/{pid}/root/dev/shm") if path.startswith("PostgreSQL.")}
    return found


def test_a_socket_whose_path_is_too_long_is_placed_elsewhere_and_removed(build: Build, root: Path, empty: Path) -> None:
    deep = root / ("d" * 90)
    deep.mkdir(mode=0o711)
    subprocess.run(["cp", "-a", "--reflink=auto", str(empty / "database"), str(deep)], check=True)
    with postgres.Place(build, deep).server() as server:
        socket = server.socket
        assert len(os.fsencode(socket)) < 100
        assert socket.parent.stat().st_mode & 0o077 == 0
        assert ask(server, "SELECT 1") == [(1,)]
    assert not socket.parent.exists()


def test_a_folder_the_servers_user_may_not_enter_is_named(place: postgres.Place) -> None:
    if user.server_user() is None:
        pytest.skip("NOT TESTED: servers run as ourselves, who may enter")
    place.root.chmod(0o700)
    with pytest.raises(EnvironmentLackingError, match="may not enter") as caught, place.server():
        pass
    assert str(place.root) in str(caught.value)
    assert "--data-dir" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"no_such_thing": "1"}, "no_such_thing"), ({"bgwriter_delay": "1ms"}, "bgwriter_delay")],
)
def test_a_setting_the_server_does_not_take_is_named(
    place: postgres.Place, settings: dict[str, str], told: str
) -> None:
    with pytest.raises(EngineFailure) as caught, place.server(settings=settings):
        pass
    assert caught.value.kind == "usage"
    assert told in caught.value.what


@pytest.mark.parametrize("damage", ["rubbish", "lost", "other version"])
def test_a_corrupt_cluster_ends_with_the_servers_own_words(place: postgres.Place, damage: str) -> None:
    control_file = place.data / "global/pg_control"
    match damage:
        case "rubbish":
            control_file.write_bytes(b"\xa5" * 8192)
        case "lost":
            control_file.unlink()
        case _:
            (place.data / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(EngineFailure) as caught, place.server(ready_seconds=60):
        pass
    assert caught.value.kind in {"engine", "data"}
    assert "FATAL" in caught.value.what or "PANIC" in caught.value.what or "could not find" in caught.value.what


def test_a_disk_that_fills_up_is_called_so(build: Build, root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a small file system is mounted by root alone")
    mount = root / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m,mode=711", "tmpfs", str(mount)], check=True)
    try:
        with pytest.raises(EngineFailure) as caught:
            postgres.Place(build, mount).initialise()
    finally:
        subprocess.run(["umount", str(mount)], check=True)
    assert caught.value.kind == "full_disk"


def test_a_restored_copy_is_the_same_to_the_byte_and_a_server_starts_on_it(place: postgres.Place) -> None:
    with place.server() as server:
        ask(server, "CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
    copy = postgres.Place(place.build, place.root / "copy")
    copy.root.mkdir(mode=0o711)
    restore(place.database, copy.database, "copy", lambda: None, user.server_user())
    assert fingerprint(copy.database, lambda: None) == fingerprint(place.database, lambda: None)
    with copy.server() as server:
        assert ask(server, "SELECT count(*) FROM t") == [(1000,)]


@pytest.mark.parametrize("name", postgres.ALL)
def test_trees_counted_in_the_files_hold_every_row(name: str, root: Path) -> None:
    place = postgres.Place(postgres.build(name), root).initialise()
    rows = 200_000
    with place.server() as server, closing(server.connect()) as connection:
        connection.rows("CREATE TABLE t (id int PRIMARY KEY, k int, c text)")
        connection.rows(f"INSERT INTO t SELECT i, -i, repeat('x', 50) FROM generate_series(1, {rows}) AS i")
        connection.rows("CREATE INDEX by_k ON t (k)")
        connection.rows("VACUUM (FREEZE, ANALYZE)")
        connection.rows("CHECKPOINT")
        sizes = relation_sizes.sizes(connection, place.build, "bufferlab", trees=True)
    sizes.store(place.database)
    stored = server_sizes.read_sizes(place.database)
    table, index = stored["shape"]["trees"]
    assert (table["name"], index["name"]) == ("t", "by_k")
    assert table["rows"] == index["rows"] == rows
    # An index of 200,000 whole numbers has leaves of some 367 entries, one or two pages above them, and a root.
    assert table["level_pages"][0] == index["level_pages"][0] == 1
    assert rows / 367 * 0.95 < index["leaf_pages"] < rows / 367 * 1.1
    assert table["leaf_pages"] * 8192 > rows * 80
    pages = table["leaf_pages"] + table["interior_pages"] + sum(index["level_pages"])
    # In addition each index has its meta page, also that of the table's TOAST table, which is empty.
    assert pages + 3 == stored["allocated_bytes"] // 8192


def test_a_damaged_index_and_a_broken_row_are_told_by_the_check(place: postgres.Place) -> None:
    with place.server() as server, closing(server.connect()) as connection:
        connection.rows("CREATE EXTENSION amcheck")
        connection.rows("CREATE TABLE sbtest1 (id int PRIMARY KEY, k int, c text, pad text)")
        digits = "(SELECT string_agg(repeat('1', 11), '-') FROM generate_series(1, {}))"
        connection.rows(
            f"INSERT INTO sbtest1 SELECT i, 1, {digits.format(10)}, {digits.format(5)} FROM generate_series(1, 500) i",
        )
        connection.rows("CREATE INDEX k_1 ON sbtest1 (k)")
        job = {"workload": {"name": "hot_rows", "rows": 500}, "delivered_orders": []}
        sound = consistency_by_psycopg.check(server.address, job, place.database)
        assert [row["passed"] for row in sound["conditions"]] == [True] * 6
        connection.rows("UPDATE sbtest1 SET pad = 'short' WHERE id < 4")
        broken = consistency_by_psycopg.check(server.address, job, place.database)["conditions"]
        assert [row["passed"] for row in broken] == [True, True, True, True, False, True]
        assert broken[4]["violations"] == 3
        assert broken[4]["example"]["id"] == 1
        # The index lacks a row of its table, but the catalogue says that it is complete.
        connection.rows("UPDATE pg_index SET indisready = false, indislive = false WHERE indexrelid = 'k_1'::regclass")
        connection.rows("INSERT INTO sbtest1 SELECT 501, 1, c, pad FROM sbtest1 WHERE id = 5")
        connection.rows("UPDATE pg_index SET indisready = true, indislive = true WHERE indexrelid = 'k_1'::regclass")
        trees = consistency_by_psycopg.check(server.address, job, place.database)["conditions"]
        assert [row["passed"] for row in trees] == [False]
        assert "k_1" in trees[0]["example"]["message"]


def test_a_memory_limit_bounds_the_server_and_its_page_cache_and_is_gone_afterwards(
    place: postgres.Place, hierarchy: memory_limit.Hierarchy
) -> None:
    version = hierarchy.version
    with place.server() as server:
        ask(server, "CREATE TABLE large AS SELECT i, repeat('x', 1000) AS c FROM generate_series(1, 100000) AS i")
        ask(server, "VACUUM (FREEZE) large")
    with memory_limit.MemoryLimit(64 * MIB) as limit:
        memory_limit.drop_cached(place.database)
        group = limit.procs.parent
        with place.server(group=limit.procs, settings={"max_parallel_workers_per_gather": "0"}) as server:
            members = {int(pid) for pid in limit.procs.read_text().split()}
            assert server.pid in members
            assert ask(server, "SELECT count(*) FROM large") == [(100000,)]
            used = int((group / ("memory.usage_in_bytes" if version == 1 else "memory.current")).read_text())
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        assert limit.actual_bytes == 64 * MIB
        assert used <= 64 * MIB
        # The table has more than 100 MiB: the kept part is page cache of the cgroup, and fills it.
        assert int(stat["cache" if version == 1 else "file"]) > 24 * MIB
        assert not limit.ran_out()
    assert not group.exists()


@pytest.mark.usefixtures("hierarchy")
def test_a_limit_that_is_too_small_for_the_server_is_seen(place: postgres.Place) -> None:
    with memory_limit.MemoryLimit(48 * MIB) as limit:
        query = "SELECT length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 300000)"
        with pytest.raises(EngineFailure), place.server(group=limit.procs) as server:
            ask(server, query)
        assert limit.ran_out()


def test_a_group_left_by_a_killed_worker_is_removed_at_the_next_start(
    place: postgres.Place, hierarchy: memory_limit.Hierarchy
) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from bufferlab.engines.servers.memory_limit import MemoryLimit\n"
        "from support import postgres\n"
        "place = postgres.Place(postgres.build('postgres-15'), Path(sys.argv[1]))\n"
        "with MemoryLimit(64 << 20) as limit, place.server(group=limit.procs) as server:\n"
        "    print(limit.procs, flush=True)\n"
        "    time.sleep(60)\n"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", program, str(place.root)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests'}"},
        text=True,
    )
    assert worker.stdout is not None
    group = Path(worker.stdout.readline().strip()).parent
    assert group.exists()
    assert group in memory_limit._ours(hierarchy.root), "another's living group is let alone"
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    memory_limit.usable()
    assert not group.exists()
    assert postgres.processes(place.root) == []


def test_a_stopped_server_is_killed_by_whoever_listens_and_named(
    place: postgres.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrivateServer, "answer_seconds", 1.0)
    with pytest.raises(EngineFailure, match="has not answered for 1 s") as caught, place.server() as server:
        stop_and_ask(server)
    assert caught.value.kind == "engine"
    assert postgres.processes(place.root) == []


def test_an_abandoned_server_is_gone_with_all_its_processes(place: postgres.Place) -> None:
    with place.server() as server:
        connection = server.connect()
        threading.Timer(0.5, server.abandon).start()
        with pytest.raises(Exception, match=r"."):
            connection.rows("SELECT pg_sleep(60)")
        connection.close()
        # An error raised inside after the stop was requested is not a failure of the server.
    assert postgres.processes(place.root) == []
