"""The cost of a server for its host, from files of /proc and /sys that the tests write."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.engines.servers.look import NotTold
from bufferlab.live import host_side
from bufferlab.live.host_side import HostReading

TICKS = os.sysconf("SC_CLK_TCK")


class Host:
    """The /proc of a host that has been up for 1,000 seconds."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.proc.mkdir()
        (self.proc / "uptime").write_text("1000.00 900.00\n")

    def process(self, pid: int, program: str, parent: int = 1, started_s: float = 400.0, busy_s: float = 0.0,
                io: dict[str, int] | None = None, command: str | None = None) -> None:  # fmt: skip
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "comm").write_text(program[:15] + "\n")
        (folder / "cmdline").write_bytes((command or program).replace(" ", "\0").encode())
        (folder / "status").write_text(f"Name:\t{program}\nTgid:\t{pid}\nPPid:\t{parent}\n")
        ticks = round(busy_s * TICKS)
        fields = ["S", str(parent), *["0"] * 9, str(ticks), "0", "0", "0", *["0"] * 4, str(round(started_s * TICKS))]
        (folder / "stat").write_text(f"{pid} (a ) name) {' '.join(fields)}\n")
        if io is not None:
            (folder / "io").write_text("".join(f"{name}: {value}\n" for name, value in io.items()))


IO = {"rchar": 1000, "wchar": 5, "read_bytes": 400, "write_bytes": 60}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_thread_leads_to_its_server(host: Host) -> None:
    host.process(50, "mariadbd")
    host.process(60, "postgres")
    host.process(61, "postgres", parent=60, started_s=990)
    host.process(70, "ld-linux-x86-64", command="/s/ld-linux-x86-64.so.2 --library-path /s/libs /s/mariadbd --x")
    assert host_side.server_pid(50, 600, host.proc) == 50
    assert host_side.server_pid(61, 600, host.proc) == 60
    assert host_side.server_pid(70, 600, host.proc) == 70


def test_what_starts_a_postgresql_is_not_its_first_process(host: Host) -> None:
    host.process(40, "tini", command="/sbin/tini -- postgres -D /data")
    host.process(41, "postgres", parent=40)
    host.process(42, "postgres", parent=41, started_s=990)
    host.process(44, "ld-linux-x86-64", parent=40, command="/s/ld-linux-x86-64.so.2 --library-path /s/libs /s/postgres")
    host.process(45, "ld-linux-x86-64", parent=44, command="/s/ld-linux-x86-64.so.2 --library-path /s/libs /s/postgres")
    assert host_side.server_pid(41, 600, host.proc) == host_side.server_pid(42, 600, host.proc) == 41
    assert host_side.server_pid(44, 600, host.proc) == host_side.server_pid(45, 600, host.proc) == 44


def test_another_program_or_age_is_not_the_server(host: Host) -> None:
    host.process(50, "mariadbd")
    host.process(51, "bash")
    for thread, uptime_s in ((50, 10_000.0), (50, 20.0), (51, 600.0), (99, 600.0)):
        told = host_side.server_pid(thread, uptime_s, host.proc)
        assert isinstance(told, NotTold), (thread, uptime_s)
        assert "on another host, or in a container" in told.why


def test_all_processes_of_postgres_are_added(host: Host) -> None:
    host.process(60, "postgres", busy_s=1, io=IO)
    host.process(61, "postgres", parent=60, busy_s=2, io=IO)
    host.process(62, "psql", parent=61, busy_s=4, io=IO)
    told = host_side.read(60, None, host.proc, host.sys)
    assert (told.processor_s, told.read_bytes, told.device_read_bytes, told.device_write_bytes) == (3, 2000, 800, 120)


def test_a_server_that_is_gone_has_no_counters(host: Host) -> None:
    told = host_side.read(60, "/nowhere", host.proc, host.sys)
    assert (told.processor_s, told.read_bytes, told.device) == (None, None, None)


def test_the_share_of_the_page_cache_follows_from_the_two_counts_of_reads() -> None:
    device = {"reads": 5, "read_bytes": 4096}
    first = HostReading(10.0, 1.0, 1000, 400, 60, device)
    last = HostReading(12.0, 4.0, 3000, 900, 60, {"reads": 9, "read_bytes": 8192})
    work = host_side.between(first, last)
    assert (work.seconds, work.processor_cores, work.read_bytes, work.device_read_bytes) == (2, 1.5, 2000, 500)
    assert work.page_cache_ratio == pytest.approx(0.75)
    assert work.device == {"reads": 4, "read_bytes": 4096}
    assert work.why is None


def test_what_may_not_be_read_is_said() -> None:
    work = host_side.between(HostReading(1, 1, None, None, None, None), HostReading(2, 2, None, None, None, None))
    assert (work.processor_cores, work.read_bytes, work.page_cache_ratio, work.device) == (1, None, None, None)
    assert "/proc/PID/io" in str(work.why)


counts = st.none() | st.integers(0, 2**64)
readings = st.builds(
    HostReading, st.floats(0, 1e9), st.none() | st.floats(0, 1e9), counts, counts, counts,
    st.none() | st.dictionaries(st.sampled_from(["reads", "writes"]), st.integers(0, 2**64)),
)  # fmt: skip


@given(first=readings, last=readings)
def test_nothing_between_two_readings_is_negative(first: HostReading, last: HostReading) -> None:
    work = host_side.between(first, last)
    numbers = [work.seconds, work.processor_cores, work.read_bytes, work.device_read_bytes, work.device_write_bytes]
    assert all(number is None or number >= 0 for number in numbers)
    assert work.page_cache_ratio is None or 0 <= work.page_cache_ratio <= 1
    assert all(count >= 0 for count in (work.device or {}).values())


def test_the_device_below_a_directory_is_read(tmp_path: Path, host: Host) -> None:
    data = tmp_path / "data"
    data.mkdir()
    number = os.stat(data).st_dev
    folder = host.sys / f"dev/block/{os.major(number)}:{os.minor(number)}"
    folder.mkdir(parents=True)
    (folder / "stat").write_text("  10 1 80 5 20 2 160 6 0 7 8 0 0 0 0 0 0\n")
    told = host_side.device_counters(str(data), 50, host.proc, host.sys)
    assert told == {"reads": 10, "read_bytes": 40960, "read_ms": 5, "writes": 20, "write_bytes": 81920}
    assert host_side.device_counters("/no/such/directory", 50, host.proc, host.sys) is None


def test_programs_that_copy_data_are_found_by_name(host: Host) -> None:
    host.process(80, "mariadb-backup")
    host.process(81, "pg_basebackup")
    host.process(82, "bash")
    host.process(83, "pg_dump")
    stat = host.proc / "83/stat"
    stat.write_text(stat.read_text().replace(") S ", ") Z "))
    # The dump has ended, but its parent has not reaped it yet.
    assert host_side.backup_programs(host.proc) == ["mariadb-backup", "pg_basebackup"]


def test_a_program_may_have_a_name_that_is_no_utf8(host: Host) -> None:
    host.process(80, "mariadb-backup")
    host.process(81, "bash")
    (host.proc / "81/comm").write_bytes(b"caf\xe9\n")
    assert host_side.backup_programs(host.proc) == ["mariadb-backup"]


def test_the_device_of_a_mount_is_found_beside_one_whose_name_is_no_utf8(host: Host) -> None:
    host.process(50, "mariadbd")
    (host.proc / "50/mountinfo").write_bytes(
        b"1 0 8:1 / /caf\xe9 rw - ext4 /dev/one rw\n2 1 0:40 / /srv rw - btrfs /dev/two rw\n"
    )
    assert host_side._mount_source(host.proc, 50, os.makedev(0, 40)) == "/dev/two"


def test_the_peer_of_a_unix_socket_is_known_and_of_tcp_is_not(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
        assert host_side.peer_pid(client.fileno()) == os.getpid()
        assert client.send(b"x") == 1, "the socket is still open"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert host_side.peer_pid(client.fileno()) is None


def test_the_time_of_a_thread_of_this_process_grows_while_it_works() -> None:
    thread = threading.get_native_id()
    before = host_side.thread_processor_s(thread)
    assert before is not None
    end_s = time.thread_time() + 0.02
    while time.thread_time() < end_s:
        pass
    after = host_side.thread_processor_s(thread)
    assert after is not None
    assert 0.015 < after - before < 1
    assert host_side.thread_processor_s(2**30) is None
