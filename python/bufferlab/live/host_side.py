"""Finds a server's process on this host, and reads its processor time and its reads from /proc and /sys.

Only /proc/PID/io needs a privilege: the server's user and root may read it. A matching PID is not enough to identify
the server: the process's program and age must match too, and the identity in its data directory, if there is one. The
kernel lists a process's PID in each of its PID namespaces, the innermost last (proc(5), NSpid). Servers of both
families work in their data directory (MySQL: mysqld.cc, my_setwd; PostgreSQL: miscinit.c, ChangeToDataDir).
"""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bufferlab.engines.servers.look import Facts, NotTold
from bufferlab.procfs import mounts, processes, stat_fields

_POSTGRES = ("postgres", "postmaster")
_PROGRAMS = ("mysqld", "mariadbd", *_POSTGRES)
_FIRST_ARGUMENTS = 6
"""How many first arguments of a command may name the server's program: a dynamic loader may precede it."""
_BACKUPS = ("mariabackup", "mariadb-backup", "xtrabackup", "mysqldump", "mariadb-dump", "mydumper", "pg_dump",
            "pg_dumpall", "pg_basebackup", "pgbackrest", "restic", "borg", "rsync")  # fmt: skip
"""The names of programs that copy or dump data. The kernel keeps only 15 characters of a name."""
_NAME_CHARACTERS = 15
_CLOCK_S, _LONGEST_START_S = 5.0, 120.0
"""A process's age may be less than the server's uptime by the first number of seconds, or more by the second.

The server begins to count its uptime at some moment while it starts.
"""
_SECTOR_BYTES = 512


@dataclass(frozen=True)
class HostReading:
    """The counters of one server and its device at one moment; a counter that this user may not read is None."""

    t_s: float
    """The time of the reading, on the monotonic clock."""
    processor_s: float | None
    """The processor time of all processes of the server, including ended ones."""
    read_bytes: int | None
    """The bytes that read calls of the server returned, from the page cache or a device (rchar of /proc/PID/io)."""
    device_read_bytes: int | None
    """The bytes that a device read for the server (read_bytes of /proc/PID/io)."""
    device_write_bytes: int | None
    device: Mapping[str, int] | None
    """The counters of the device with the server's data, by all programs: reads, their time, writes, and the bytes of
    both."""
    read_bytes_of: Mapping[int, int] = field(default_factory=dict)
    """`read_bytes` of each process of the server, by its PID."""


@dataclass(frozen=True)
class HostWork:
    """The work of a server and its device between two readings; unknown values are None."""

    seconds: float
    processor_cores: float | None
    """The number of processors that the server used on average."""
    read_bytes: int | None
    device_read_bytes: int | None
    device_write_bytes: int | None
    page_cache_ratio: float | None
    """The fraction of the bytes read by the server that came from the kernel's page cache; 0 with direct I/O."""
    device: Mapping[str, int] | None
    why: str | None
    """Why some of these values are unknown; None if all are known."""


def peer_pid(descriptor: int) -> int | None:
    """Return the PID at the other end of a connected Unix socket; None for a TCP socket or an unknown process.

    It is the process that called listen (unix(7), SO_PEERCRED): mysqld, or PostgreSQL's first process.
    """
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
        if line.family == socket.AF_UNIX:
            told = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return struct.unpack("3i", told)[0] or None
    return None


def server_pid(thread: int, uptime_s: float, proc: Path = Path("/proc")) -> int | NotTold:
    """Return the PID of the server's first process on this host, given a thread or process id of the server.

    The server may be on another host or in a container, where ids differ. So the process must run a server's program,
    and its age must be about the `uptime_s` that the server reports.
    """
    other = NotTold("the server runs on another host, or in a container")
    try:
        status = dict(line.split(":\t", 1) for line in (proc / f"{thread}/status").read_text().splitlines())
        pid, parent = int(status["Tgid"]), int(status["PPid"])
        # A child of PostgreSQL's first process runs the same program. Names alone do not suffice, because the process
        # that starts the server (tini, a shell) may have the word postgres among its arguments.
        if _is_one_of(_POSTGRES, proc, pid) and _program(proc, parent) == _program(proc, pid):
            pid = parent
        age_s = _age_s(proc, pid)
    except (OSError, ValueError, KeyError):
        return other
    fits = -_CLOCK_S < age_s - uptime_s < _LONGEST_START_S
    return pid if fits and _is_one_of(_PROGRAMS, proc, pid) else other


def thread_processor_s(thread: int, proc: Path = Path("/proc")) -> float | None:
    """Return the processor time of one thread so far, in seconds; None if it has ended."""
    with suppress(OSError, ValueError, IndexError):
        return int((proc / f"{thread}/task/{thread}/schedstat").read_text().split()[0]) / 1e9
    return None


def read(pid: int, data_directory: str | None, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> HostReading:
    """Read the counters of the server whose first process is `pid`, its children included, and of its data's device."""
    reads_of: dict[int, int] = {}
    processor = from_device = to_device = 0.0
    may_read, lives = True, False
    for one in (pid, *children(proc, pid)):
        with suppress(OSError, ValueError, IndexError):
            fields = stat_fields(one, proc)
            # utime and stime; for the first process also cutime and cstime, the times of its ended children.
            processor += sum(int(ticks) for ticks in fields[11 : 15 if one == pid else 13])
            lives = True
        try:
            told = dict(line.split(": ") for line in (proc / f"{one}/io").read_text().splitlines())
        except PermissionError:
            may_read = False
        except (OSError, ValueError):
            continue  # The child has ended meanwhile; its counts were added to its parent's.
        else:
            reads_of[one] = int(told["rchar"])
            from_device += int(told["read_bytes"])
            to_device += int(told["write_bytes"])
    return HostReading(
        time.monotonic(),
        processor / os.sysconf("SC_CLK_TCK") if lives else None,
        sum(reads_of.values()) if lives and may_read else None,
        int(from_device) if lives and may_read else None,
        int(to_device) if lives and may_read else None,
        device_counters(data_directory, pid, proc, sys) if data_directory else None,
        reads_of,
    )


def between(first: HostReading, last: HostReading) -> HostWork:
    """Return the work of a server between two readings. No number is negative."""
    elapsed_s = max(last.t_s - first.t_s, 0.0)
    processor_s = _growth(first.processor_s, last.processor_s)
    reads, from_device = (
        _growth(first.read_bytes, last.read_bytes),
        _growth(first.device_read_bytes, last.device_read_bytes),
    )
    cached = None if not reads or from_device is None else max(0.0, 1 - from_device / reads)
    device = None
    if first.device is not None and last.device is not None:
        device = {name: max(0, count - first.device.get(name, count)) for name, count in last.device.items()}
    why = None if reads is not None else "only root and the server's user may read what a process reads (/proc/PID/io)"
    return HostWork(
        elapsed_s,
        processor_s / elapsed_s if processor_s is not None and elapsed_s else None,
        _whole(reads), _whole(from_device), _whole(_growth(first.device_write_bytes, last.device_write_bytes)),
        cached, device, why,
    )  # fmt: skip


def device_counters(
    directory: str, pid: int, proc: Path = Path("/proc"), sys: Path = Path("/sys")
) -> dict[str, int] | None:
    """Return the counters of the block device that holds a server's directory; None if it is unknown.

    `directory` is a path as the server sees it. Its process may see other file systems than this one does, so the path
    below the process's root is tried first. For a stacked device (LVM, RAID), the counters are those of the top device
    (Documentation/block/stat.rst).
    """
    number = None
    for path in (proc / f"{pid}/root{directory}", Path(directory)):
        with suppress(OSError):
            number = os.stat(path).st_dev
            break
    if number is None:
        return None
    block = sys / "dev/block"
    device = block / f"{os.major(number)}:{os.minor(number)}"
    if not device.exists() and (source := _mount_source(proc, pid, number)):
        # Btrfs and similar file systems report a device number that belongs to no device.
        with suppress(OSError):
            number = os.stat(source).st_rdev
            device = block / f"{os.major(number)}:{os.minor(number)}"
    with suppress(OSError, ValueError, IndexError):
        columns = [int(value) for value in (device / "stat").read_text().split()]
        return {"reads": columns[0], "read_bytes": columns[2] * _SECTOR_BYTES, "read_ms": columns[3],
                "writes": columns[4], "write_bytes": columns[6] * _SECTOR_BYTES}  # fmt: skip
    return None


def backup_programs(proc: Path = Path("/proc")) -> list[str]:
    """Return the names of running programs on this host that copy or dump data.

    A server's list of sessions lacks some.
    """
    known = {name[:_NAME_CHARACTERS]: name for name in _BACKUPS}
    found = set()
    for pid in processes(proc):
        # A process that has ended keeps its name until its parent reads its exit code.
        with suppress(OSError, IndexError):
            if (name := _program(proc, pid)) in known and stat_fields(pid, proc)[0] != "Z":
                found.add(known[name])
    return sorted(found)


def children(proc: Path, pid: int) -> Iterator[int]:
    """Yield the PIDs of the children of PostgreSQL's first process; nothing for MySQL and MariaDB.

    Those servers are one process each.
    """
    if not _is_one_of(_POSTGRES, proc, pid):
        return
    for one in processes(proc):
        with suppress(OSError, ValueError, IndexError):
            if int(stat_fields(one, proc)[1]) == pid:
                yield one


def _is_one_of(programs: Collection[str], proc: Path, pid: int) -> bool:
    if _program(proc, pid) in programs:
        return True
    with suppress(OSError):
        arguments = (proc / f"{pid}/cmdline").read_bytes().split(b"\0")[:_FIRST_ARGUMENTS]
        # A session of PostgreSQL has a title in place of its program: "postgres: user database ..." (ps_status.c).
        return any(Path(os.fsdecode(one).partition(": ")[0]).name in programs for one in arguments)
    return False


def _program(proc: Path, pid: int) -> str:
    with suppress(OSError):
        return os.fsdecode((proc / f"{pid}/comm").read_bytes()).strip()
    return ""


def _age_s(proc: Path, pid: int) -> float:
    started = int(stat_fields(pid, proc)[19])
    return float((proc / "uptime").read_text().split()[0]) - started / os.sysconf("SC_CLK_TCK")


def _mount_source(proc: Path, pid: int, number: int) -> str | None:
    """Return the device from which the file system with this device number is mounted, as the server sees it."""
    wanted = f"{os.major(number)}:{os.minor(number)}"
    places = (proc / f"{pid}/mountinfo", proc / "self/mountinfo")
    return next((mount.source for place in places for mount in mounts(place) if mount.device == wanted), None)


def _growth(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else max(last - first, 0)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


_HOST = Path("/proc")
_SYSTEM_IDENTIFIER = struct.Struct("=q")
"""The layout of pg_control's first field, the system identifier (pg_control.h, ControlFileData)."""
_BEGINNING_BYTES = 4096


def find(facts: Facts, peer: int | None, proc: Path = _HOST) -> int | NotTold:
    """Return the PID of the server's first process on this host, or why it is unknown.

    `peer` is the process at the other end of bufferlab's Unix socket; None over TCP. Over TCP a server is found by a
    thread's id, its age and its identity. If several servers match in all three, none of them is returned.
    """
    remedy = "run it as root on the server's own host, and name its socket by ?socket=/path"
    found: int | NotTold = NotTold("the server does not tell which of its threads serves us", remedy)
    if peer is not None:
        found = _the_one([peer], facts, proc)
    if isinstance(found, NotTold) and facts.thread:
        found = _the_one(_numbered(facts.thread, proc), facts, proc)
    return found


def thread_of(facts: Facts, pid: int, proc: Path = _HOST) -> int | None:
    """Return this host's id of the thread of server `pid` that serves bufferlab's session; None if unknown."""
    if facts.thread is None:
        return None
    numbered = _numbered(facts.thread, proc)
    return next((one for one in numbered if server_pid(one, facts.uptime_s, proc) == pid), None)


def _the_one(threads: Iterable[int], facts: Facts, proc: Path) -> int | NotTold:
    """Return the PID of the only server process that has one of `threads` and matches `facts`, or why there is none."""
    told = {server_pid(thread, facts.uptime_s, proc) for thread in threads}
    known = {pid: _has_identity(facts, pid, proc) for pid in told if isinstance(pid, int)}
    fitting = [pid for pid in known if known[pid]] or [pid for pid in known if known[pid] is None]
    if len(fitting) > 1:
        pids = ", ".join(map(str, sorted(fitting)))
        remedy = "name its Unix socket in the URL; that of a container is below /proc/PID/root"
        return NotTold(f"several servers of this host fit what it tells: processes {pids}", remedy)
    return fitting[0] if fitting else NotTold("the server runs on another host, or in a container")


def _numbered(thread: int, proc: Path) -> Iterator[int]:
    """Yield this host's ids of the threads that have the id `thread` in their innermost PID namespace."""
    for pid in processes(proc):
        with suppress(OSError):
            for task in (proc / f"{pid}/task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    told = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
                    if told.get("NSpid", task.name).split()[-1] == str(thread):
                        yield int(task.name)


def _has_identity(facts: Facts, pid: int, proc: Path) -> bool | None:
    """Return whether the identity in a process's data directory is the server's; None if it cannot be read."""
    with suppress(OSError, struct.error):
        if facts.flavour == "postgres" and facts.identity:
            identifier = _SYSTEM_IDENTIFIER.unpack_from(_beginning(proc / f"{pid}/cwd/global/pg_control"))[0]
            return str(identifier) == facts.identity
        if uuid := facts.settings.get("server_uuid"):
            told = re.search(rb"^server-uuid\s*=\s*(\S+)", _beginning(proc / f"{pid}/cwd/auto.cnf"), re.MULTILINE)
            return told[1] == uuid.encode() if told else None
    return None


def _beginning(file: Path) -> bytes:
    """Return the first bytes of a regular file; b"" for other files, because the owner of a container chooses the file.

    Raises OSError, also for a symbolic link.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _BEGINNING_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)
