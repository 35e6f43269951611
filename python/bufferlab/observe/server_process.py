"""Finds the process of a server on this host, also of one in a container, which numbers its processes by itself.

The kernel names a process in each of its PID namespaces (proc(5), NSpid), its own one last. What is found must fit the
age that the server tells, as `host_side.server_pid` asks, and the identity in its data directory, where one is kept.
Servers of both families work in that directory (MySQL: mysqld.cc, my_setwd; PostgreSQL: miscinit.c, ChangeToDataDir).
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from bufferlab.engines.servers.questions import NotTold
from bufferlab.observe.host_side import server_pid
from bufferlab.observe.looker import Facts

_HOST = Path("/proc")
_SYSTEM_IDENTIFIER = struct.Struct("=q")
"""The first field of pg_control (pg_control.h, ControlFileData), as pg_control_system() tells it."""
_BEGINNING_BYTES = 4096


def find(facts: Facts, peer: int | None, proc: Path = _HOST) -> int | NotTold:
    """Return the server's first process. `peer` is the process at the other end of our Unix socket; None over TCP.

    Over TCP a server is known by the number of a thread, its age and its identity. Servers that were started together
    may agree in all that they tell: then none of them is returned.
    """
    remedy = "run it as root on the server's own host, and name its socket by ?socket=/path"
    found: int | NotTold = NotTold("the server does not tell which of its threads serves us", remedy)
    if peer is not None:
        found = _the_one([peer], facts, proc)
    if isinstance(found, NotTold) and facts.thread:
        found = _the_one(_numbered(facts.thread, proc), facts, proc)
    return found


def thread_of(facts: Facts, pid: int, proc: Path = _HOST) -> int | None:
    """Return the thread of the server `pid` that serves our session, as this host numbers it; None if not told."""
    if facts.thread is None:
        return None
    numbered = _numbered(facts.thread, proc)
    return next((one for one in numbered if server_pid(one, facts.uptime_s, proc) == pid), None)


def _the_one(threads: Iterable[int], facts: Facts, proc: Path) -> int | NotTold:
    """Return the one server that has one of the threads and fits what the server tells."""
    told = {server_pid(thread, facts.uptime_s, proc) for thread in threads}
    known = {pid: _has_identity(facts, pid, proc) for pid in told if isinstance(pid, int)}
    fitting = [pid for pid in known if known[pid]] or [pid for pid in known if known[pid] is None]
    if len(fitting) > 1:
        pids = ", ".join(map(str, sorted(fitting)))
        remedy = "name its Unix socket in the URL; that of a container is below /proc/PID/root"
        return NotTold(f"several servers of this host fit what it tells: processes {pids}", remedy)
    return fitting[0] if fitting else NotTold("the server runs on another host, or in a container")


def _numbered(thread: int, proc: Path) -> Iterator[int]:
    """Yield the threads of this host that have the number `thread` in their own PID namespace."""
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            for task in (entry / "task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    told = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
                    if told.get("NSpid", task.name).split()[-1] == str(thread):
                        yield int(task.name)


def _has_identity(facts: Facts, pid: int, proc: Path) -> bool | None:
    """Return whether the identity in a process's data directory is the server's; None where there is none to read."""
    with suppress(OSError, struct.error):
        if facts.flavour == "postgres" and facts.identity:
            identifier = _SYSTEM_IDENTIFIER.unpack_from(_beginning(proc / f"{pid}/cwd/global/pg_control"))[0]
            return str(identifier) == facts.identity
        if uuid := facts.settings.get("server_uuid"):
            told = re.search(rb"^server-uuid\s*=\s*(\S+)", _beginning(proc / f"{pid}/cwd/auto.cnf"), re.MULTILINE)
            return told[1] == uuid.encode() if told else None
    return None


def _beginning(file: Path) -> bytes:
    """Return the first bytes of a file; none of a link or a pipe, for whoever owns a container chooses what it is."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _BEGINNING_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)
