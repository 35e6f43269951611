"""Private servers, really booted: made, started, read back, stopped; and the messages for faults."""

from __future__ import annotations

import os
import signal
import socket as sockets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import accounts, table_sizes
from bufferlab.engines.innodb.option_file import read_back
from bufferlab.engines.innodb.programs import Build
from bufferlab.engines.servers import data_folder, signs_of_life, user
from bufferlab.engines.servers import data_folder as server_sizes
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import DataFileError, EnvironmentLackingError
from support import innodb
from support.core import ROOT

pytestmark = pytest.mark.real

MIB = 1 << 20


@pytest.fixture
def root() -> Iterator[Path]:
    with innodb.folder() as path:
        yield path


@pytest.fixture(scope="module")
def mysql() -> Build:
    return innodb.build("mysql-5.7")


class New:
    """A new data directory of each build and page size, made once; each test gets a copy."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, root: Path, build: Build, page_size_bytes: int = 16384) -> innodb.Place:
        made = self.root / f"{build.name}-{page_size_bytes}"
        if not made.exists():
            made.mkdir(mode=0o711)
            innodb.Place(build, made, page_size_bytes).initialise()
        return self._copied(made, root, build, page_size_bytes)

    def with_accounts(self, root: Path, build: Build) -> tuple[innodb.Place, data_folder.Identity]:
        """Return a data directory that also has the accounts of a load."""
        made = self.root / f"{build.name}-accounts"
        if not made.exists():
            made.mkdir(mode=0o711)
            self.at(made, build).with_accounts()
        place = self._copied(made, root, build, 16384)
        return place, data_folder.read_identity(place.database)

    def _copied(self, made: Path, root: Path, build: Build, page_size_bytes: int) -> innodb.Place:
        subprocess.run(["cp", "-a", "--reflink=auto", str(made / "database"), str(root)], check=True)
        return innodb.Place(build, root, page_size_bytes)


@pytest.fixture(scope="module")
def new() -> Iterator[New]:
    with innodb.folder() as path:
        yield New(path)


@pytest.fixture
def place(mysql: Build, root: Path, new: New) -> innodb.Place:
    """Return a new data directory of MySQL 5.7."""
    return new.at(root, mysql)


@pytest.fixture
def known(mysql: Build, root: Path, new: New) -> tuple[innodb.Place, data_folder.Identity]:
    """Return a data directory with the accounts of a load, and these accounts."""
    return new.with_accounts(root, mysql)


def gone(pid: int, within_seconds: float = 5.0) -> bool:
    """Return whether the process has ended. A zombie counts as ended: only its parent has not reaped it yet."""
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def ask(server: PrivateServer, query: str) -> list[tuple[Any, ...]]:
    with closing(server.connect()) as connection:
        return connection.rows(query)


def kill_and_ask(server: PrivateServer) -> None:
    with closing(server.connect()) as connection:
        os.kill(server.pid, signal.SIGKILL)
        gone(server.pid)
        connection.rows("SELECT 1")


def sleep_and_be_stopped(server: PrivateServer, pids: list[int]) -> None:
    pids.append(server.pid)
    with closing(server.connect(patient=True)) as connection:
        with signs_of_life.signs_of_life(lambda event: None, "sleeping", server.listen):
            # A slow statement is not a fault: it takes longer than the limit, while the server answers others.
            assert connection.rows("SELECT SLEEP(4)") == [(0,)]
        with signs_of_life.signs_of_life(lambda event: None, "sleeping", server.listen):
            os.kill(server.pid, signal.SIGSTOP)
            connection.rows("SELECT SLEEP(600)")


@pytest.mark.parametrize("page_size_bytes", [16384, pytest.param(4096, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", innodb.ALL)
def test_a_server_is_made_started_read_back_and_stopped(name: str, page_size_bytes: int, root: Path, new: New) -> None:
    build = innodb.build(name)
    place = new.at(root, build, page_size_bytes)
    identity = place.with_accounts()
    knobs = {
        "server": name,
        "page_size": page_size_bytes,
        "pool_size": 64 * MIB,
        "lru_scan_depth": 512,
        "flush_method": "O_DIRECT",
    }
    settings = {"innodb_lru_scan_depth": "512", "innodb_flush_method": "O_DIRECT"}
    with place.server((identity.user, identity.password), settings=settings) as server:
        pid, socket = server.pid, server.socket
        connection = server.connect()
        found = read_back(connection, build, knobs)
        people = connection.rows("SELECT user FROM mysql.user")
        databases = connection.rows("SHOW DATABASES")
        connection.close()
        assert os.stat(f"/proc/{pid}").st_uid == (user.server_user() or (os.getuid(), 0))[0]
    assert found.actual["page_size"] == page_size_bytes
    assert found.actual["pool_size"] == 64 * MIB
    assert found.actual["lru_scan_depth"] == 512
    assert found.actual["flush_method"] == "O_DIRECT"
    # A pool keeps a few per cent for its own descriptors.
    assert 0.9 * 64 * MIB < found.frames * page_size_bytes <= 64 * MIB
    assert str(found.actual["version"]).startswith(build.version)
    names = {str(person) for (person,) in people}
    assert {data_folder.USER, accounts.PROGRAM_USER} <= names
    assert not names & {"root", ""}
    assert "test" not in {str(name) for (name,) in databases}
    assert gone(pid)
    assert not socket.exists()


def test_nothing_of_a_servers_data_is_roots_and_nothing_is_open_to_others(place: innodb.Place) -> None:
    place.with_accounts()
    owner = (user.server_user() or (os.getuid(), 0))[0]
    for path in (place.data, *place.data.rglob("*")):
        assert path.lstat().st_uid == owner, path
    for private in (place.database, place.data, place.home):
        assert private.stat().st_mode & 0o077 == 0, private
    assert (place.database / "auth.json").stat().st_mode & 0o777 == 0o600


def test_the_password_is_in_no_option_file_log_or_command_line(
    known: tuple[innodb.Place, data_folder.Identity],
) -> None:
    place, identity = known
    with place.server((identity.user, identity.password)) as server:
        command = Path(f"/proc/{server.pid}/cmdline").read_bytes()
        surroundings = Path(f"/proc/{server.pid}/environ").read_bytes()
        conf = server.conf
    secret = identity.password.encode()
    assert secret not in command + surroundings + conf.encode() + (place.home / "server.log").read_bytes()
    assert identity.password not in repr(identity)


def test_a_wrong_password_is_told_at_once_and_not_after_two_minutes(
    known: tuple[innodb.Place, data_folder.Identity],
) -> None:
    place, _ = known
    started = time.monotonic()
    with pytest.raises(EngineFailure, match="refuses the user") as caught, place.server(("bufferlab", "wrong")):
        pass
    assert caught.value.kind == "data"
    assert time.monotonic() - started < 60


def test_a_server_that_is_killed_while_used_is_named_with_the_end_of_its_log(place: innodb.Place) -> None:
    with pytest.raises(EngineFailure) as caught, place.server() as server:
        kill_and_ask(server)
    assert caught.value.kind == "engine"
    assert "SIGKILL" in caught.value.what
    assert "ready for connections" in (place.home / "server.log").read_text()


def test_a_server_survives_neither_its_worker_nor_a_socket_left_by_it(place: innodb.Place) -> None:
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from support import innodb\n"
        "place = innodb.Place(innodb.build('mysql-5.7'), Path(sys.argv[1]))\n"
        "with place.server() as server:\n"
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
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert gone(pid)
    with pytest.raises(EnvironmentLackingError, match="socket already"), place.server():
        pass


def test_a_socket_whose_path_is_too_long_is_placed_elsewhere_and_removed(mysql: Build, root: Path, new: New) -> None:
    deep = root / ("d" * 90)
    deep.mkdir(mode=0o711)
    place = new.at(deep, mysql)
    with place.server() as server:
        socket = server.socket
        assert len(os.fsencode(socket)) < 100
        assert socket.parent.stat().st_mode & 0o077 == 0
        assert ask(server, "SELECT 1") == [(1,)]
    assert not socket.parent.exists()


def test_a_folder_the_servers_user_may_not_enter_is_named(place: innodb.Place) -> None:
    if user.server_user() is None:
        pytest.skip("NOT TESTED: servers run as ourselves, who may enter")
    place.root.chmod(0o700)
    with pytest.raises(EnvironmentLackingError, match="may not enter") as caught, place.server():
        pass
    assert str(place.root) in str(caught.value)
    assert "--data-dir" in str(caught.value)


def test_a_setting_the_server_does_not_know_is_named(place: innodb.Place) -> None:
    with pytest.raises(EngineFailure) as caught, place.server(settings={"innodb_no_such_thing": "1"}):
        pass
    assert caught.value.kind == "usage"
    assert "does not know the variable innodb_no_such_thing: it says:" in caught.value.what
    assert caught.value.where == "var.innodb_no_such_thing"
    assert caught.value.hint


def test_a_value_the_server_refuses_is_told_in_its_own_words(place: innodb.Place) -> None:
    with pytest.raises(EngineFailure) as caught, place.server(settings={"innodb_io_capacity": "plenty"}):
        pass
    assert caught.value.kind == "usage"
    assert caught.value.where == "var.innodb_io_capacity"
    assert "plenty" in caught.value.what


def test_the_socket_of_another_server_is_neither_used_nor_removed(place: innodb.Place) -> None:
    place.home.mkdir(mode=0o711)
    socket = place.home / "mysqld.sock"
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as other:
        other.bind(str(socket))
        other.listen()
        with pytest.raises(EnvironmentLackingError, match="socket already") as caught, place.server():
            pass
        assert caught.value.where == str(socket)
        assert caught.value.hint
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as client:
            client.connect(str(socket))


def test_a_server_that_answers_nobody_is_killed_and_told_from_a_slow_one(
    place: innodb.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrivateServer, "answer_seconds", 2.0)
    pids: list[int] = []
    with pytest.raises(EngineFailure, match="has not answered for 2 s") as caught, place.server() as server:
        sleep_and_be_stopped(server, pids)
    assert caught.value.kind == "engine"
    assert gone(pids[0])


def rubbish(data: Path) -> None:
    with (data / "ibdata1").open("r+b") as file:
        file.write(b"\xa5" * 65536)


def lost(data: Path) -> None:
    (data / "ibdata1").unlink()


@pytest.mark.parametrize("damage", [rubbish, lost])
def test_a_corrupt_data_directory_ends_with_the_servers_own_words(
    known: tuple[innodb.Place, data_folder.Identity], damage: Callable[[Path], None]
) -> None:
    place, _ = known
    damage(place.data)
    with pytest.raises(EngineFailure) as caught, place.server(ready_seconds=60):
        pass
    assert caught.value.kind in {"engine", "data"}
    assert caught.value.where


def test_other_data_than_a_load_made_is_refused(root: Path) -> None:
    with pytest.raises(DataFileError, match="not a data directory"):
        data_folder.read_identity(root)
    (root / "auth.json").write_text("{}")
    with pytest.raises(DataFileError):
        data_folder.read_identity(root)


def test_a_disk_that_fills_up_is_called_so(mysql: Build, root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a small file system is mounted by root alone")
    mount = root / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=30m,mode=711", "tmpfs", str(mount)], check=True)
    try:
        with pytest.raises(EngineFailure) as caught:
            innodb.Place(mysql, mount).initialise()
    finally:
        subprocess.run(["umount", str(mount)], check=True)
    assert caught.value.kind == "full_disk"


@pytest.mark.parametrize("name", innodb.ALL)
def test_trees_counted_in_the_files_hold_every_row(name: str, root: Path, new: New) -> None:
    build = innodb.build(name)
    place = new.at(root, build, 4096)
    identity = place.with_accounts()
    rows = 20_000
    with place.server((identity.user, identity.password)) as server:
        connection = server.connect(data_folder.DATABASE)
        connection.ask("CREATE TABLE t (id INT PRIMARY KEY, k INT, c CHAR(60), KEY by_k (k)) ENGINE = InnoDB")
        for first in range(0, rows, 1000):
            values = ", ".join(f"({i}, {-i}, '{'x' * 50}')" for i in range(first, first + 1000))
            connection.ask(f"INSERT INTO t VALUES {values}")
        sizes = table_sizes.sizes(connection, build, data_folder.DATABASE, trees=True)
        connection.ask("SET GLOBAL innodb_fast_shutdown = 0")
        connection.close()
    sizes.store(place.database)
    stored = server_sizes.read_sizes(place.database)
    table, index = stored["shape"]["trees"]
    assert (table["name"], index["name"]) == ("t", "by_k")
    assert table["rows"] == index["rows"] == rows
    assert table["level_pages"][0] == 1
    # Each level points to every page of the next level, from pages with some hundreds of pointers.
    assert table["height"] == 3
    assert table["leaf_pages"] * 4096 > rows * 70
    pages = sum(sum(tree["level_pages"]) for tree in (table, index))
    # The other allocated pages are those that segments reserve.
    assert 1.0 <= stored["allocated_bytes"] / (pages * 4096) < 1.3
