"""The process of a server: found by the socket, by its thread, or by the number that a container gave the thread."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.look import Facts, NotTold
from bufferlab.live import host_side

UPTIME_S = 500.0
UUID, OTHER = "6ad4b66c-0000-11f0-8000-000000000001", "6ad4b66c-0000-11f0-8000-000000000002"


def facts(thread: int | None, flavour: Flavour = "mysql", identity: str = "a", **settings: str) -> Facts:
    version, numbers, unit = "8.0.15", (8, 0, 15), "transaction"
    return Facts(flavour, version, numbers, identity, 16384, 1 << 26, unit, "", UPTIME_S, thread, None, settings)


def add(proc: Path, pid: int, name: str, tasks: Mapping[int, str]) -> Path:
    """Add a process, with the numbers of its tasks in all their PID namespaces; return its data directory."""
    tick = os.sysconf("SC_CLK_TCK")
    stat = f"{pid} ({name}) S 1 " + " ".join(["0"] * 17) + f" {int((1000 - UPTIME_S - 1) * tick)} 0"
    for task, numbers in tasks.items():
        folder = proc / f"{pid}/task/{task}"
        folder.mkdir(parents=True)
        status = f"Name:\t{name}\nTgid:\t{pid}\nPPid:\t1\nNSpid:\t{numbers}\n"
        for place in (folder, proc / f"{task}"):
            place.mkdir(exist_ok=True)
            (place / "status").write_text(status)
            (place / "comm").write_text(name)
            (place / "stat").write_text(stat)
    data = proc / f"data-{pid}"
    (data / "global").mkdir(parents=True)
    (proc / f"{pid}/cwd").symlink_to(data)
    return data


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a host with a shell, a server, and a server in a container, where its process 700 and thread 701 are 1 and
    30."""
    (tmp_path / "uptime").write_text("1000.0 1.0\n")
    add(tmp_path, 30, "bash", {30: "30"})
    add(tmp_path, 500, "mysqld", {500: "500", 501: "501"})
    add(tmp_path, 700, "mysqld", {700: "700\t1", 701: "701\t30"})
    return tmp_path


@pytest.mark.parametrize(
    ("thread", "peer", "pid"), [(501, None, 500), (None, 700, 700), (30, None, 700), (30, 700, 700), (501, 700, 700)]
)
def test_the_first_process_is_found(proc: Path, thread: int | None, peer: int | None, pid: int) -> None:
    assert host_side.find(facts(thread), peer, proc) == pid


@pytest.mark.parametrize(
    ("told", "pid", "thread"), [(501, 500, 501), (30, 700, 701), (30, 500, None), (31, 700, None), (None, 700, None)]
)
def test_the_thread_of_our_session_is_the_servers_as_this_host_numbers_it(
    proc: Path, told: int | None, pid: int, thread: int | None
) -> None:
    """Process 30 of this host is a shell."""
    assert host_side.thread_of(facts(told), pid, proc) == thread


def test_of_two_containers_each_has_its_own_thread_of_that_number(proc: Path) -> None:
    add(proc, 900, "mysqld", {900: "900\t1", 930: "930\t30"})
    assert [host_side.thread_of(facts(30), pid, proc) for pid in (700, 900)] == [701, 930]


def test_the_process_that_serves_our_session_of_postgres_is_the_servers_child(proc: Path) -> None:
    add(proc, 800, "postgres", {800: "800\t1"})
    add(proc, 840, "postgres", {840: "840\t40"})
    status = proc / "840/status"
    status.write_text(status.read_text().replace("PPid:\t1", "PPid:\t800"))
    assert host_side.thread_of(facts(40, "postgres"), 800, proc) == 840


def test_a_session_of_a_server_that_a_loader_started_is_known_by_its_title(proc: Path) -> None:
    """As with a fetched PostgreSQL 19: the kernel names the loader, and a session has replaced its command by a
    title."""
    add(proc, 800, "ld-linux-x86-64", {800: "800"})
    add(proc, 840, "ld-linux-x86-64", {840: "840"})
    status = proc / "840/status"
    status.write_text(status.read_text().replace("PPid:\t1", "PPid:\t800"))
    loader = b"/x/ld-linux-x86-64.so.2\0--library-path\0/x\0"
    (proc / "800/cmdline").write_bytes(loader + b"/y/bin/postgres\0-D\0/data\0")
    (proc / "840/cmdline").write_bytes(loader + b"postgres: monitor shop 127.0.0.1(36318) SELECT\0\0\0")
    assert host_side.find(facts(840, "postgres"), None, proc) == 800
    assert host_side.thread_of(facts(840, "postgres"), 800, proc) == 840
    (proc / "840/cmdline").write_bytes(b"python: a postgres: of its own\0")
    assert isinstance(host_side.find(facts(840, "postgres"), None, proc), NotTold)


def test_a_server_elsewhere_is_not_found(proc: Path) -> None:
    # The server in the container would report 30, not the number that its thread has on the host.
    for thread in (None, 30_000, 701):
        found = host_side.find(facts(thread), None, proc)
        assert isinstance(found, NotTold)
    (proc / "uptime").write_text("5000.0 1.0\n")
    assert isinstance(host_side.find(facts(30), 700, proc), NotTold), "it is older than the server says"


def test_of_two_servers_that_fit_neither_is_taken_unless_the_socket_tells_which(proc: Path) -> None:
    add(proc, 900, "mysqld", {900: "900\t1", 930: "930\t30"})
    found = host_side.find(facts(30), None, proc)
    assert isinstance(found, NotTold)
    assert "processes 700, 900" in found.why
    assert found.remedy
    assert "Unix socket" in found.remedy
    assert host_side.find(facts(30), 900, proc) == 900


def test_the_identity_in_the_data_directory_tells_which_server_it_is(proc: Path) -> None:
    mine = facts(30, server_uuid=UUID)
    (proc / "data-700/auto.cnf").write_text(f"[auto]\nserver-uuid={OTHER}\n")
    assert isinstance(host_side.find(mine, None, proc), NotTold), "a server of another host, over TCP"
    second = add(proc, 900, "mysqld", {900: "900\t1", 930: "930\t30"})
    assert host_side.find(mine, None, proc) == 900, "the one that is not known to be another"
    (second / "auto.cnf").write_text(f"[auto]\nserver-uuid={UUID}\n")
    add(proc, 950, "mysqld", {950: "950\t1", 951: "951\t30"})
    assert host_side.find(mine, None, proc) == 900, "the one that is known to be it"
    (proc / "data-700/auto.cnf").write_text(f"[auto]\nserver-uuid={UUID}\n")
    assert isinstance(host_side.find(mine, None, proc), NotTold), "a copy of its data"


def test_a_pipe_or_a_link_in_place_of_the_identity_is_not_read(proc: Path) -> None:
    file = proc / "data-700/auto.cnf"
    os.mkfifo(file)
    assert host_side.find(facts(30, server_uuid=UUID), None, proc) == 700
    file.unlink()
    (proc / "elsewhere").write_text(f"[auto]\nserver-uuid={OTHER}\n")
    file.symlink_to(proc / "elsewhere")
    assert host_side.find(facts(30, server_uuid=UUID), None, proc) == 700


def test_postgres_is_known_by_its_system_identifier(proc: Path) -> None:
    for pid, identifier in ((800, 7_412_345_678_901_234_567), (850, 7_412_345_678_901_234_568)):
        data = add(proc, pid, "postgres", {pid: f"{pid}\t40"})
        (data / "global/pg_control").write_bytes(struct.pack("=q", identifier) + b"more")
    assert host_side.find(facts(40, "postgres", "7412345678901234568"), None, proc) == 850
    assert isinstance(host_side.find(facts(40, "postgres", "5"), None, proc), NotTold)
    assert isinstance(host_side.find(facts(40, "postgres", ""), None, proc), NotTold), "it tells no identity"
