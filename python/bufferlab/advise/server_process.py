"""Finds the process of a server on this host, also of one in a container, which numbers its processes by itself.

The kernel names a process in each of its PID namespaces (proc(5), NSpid), its own one last. What is found must fit the
age that the server tells, as `host_side.server_pid` asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bufferlab.engines.servers.questions import NotTold
from bufferlab.observe.host_side import server_pid
from bufferlab.observe.looker import Facts

_HOST = Path("/proc")


def find(facts: Facts, peer: int | None, proc: Path = _HOST) -> int | NotTold:
    """Return the server's first process. `peer` is the process at the other end of our Unix socket; None over TCP."""
    found: int | NotTold = NotTold("the server does not tell which of its threads serves us")
    for one in (peer, facts.thread, *(_of_containers(facts.thread, proc) if facts.thread else ())):
        if one is not None:
            found = server_pid(one, facts.uptime_s, proc)
            if isinstance(found, int):
                return found
    return found


def _of_containers(thread: int, proc: Path) -> Iterator[int]:
    """Yield the threads of this host that have the number `thread` in a PID namespace of their own."""
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            for task in (entry / "task").iterdir():
                with suppress(OSError, ValueError, KeyError):
                    told = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
                    numbers = told["NSpid"].split()
                    if len(numbers) > 1 and numbers[-1] == str(thread):
                        yield int(numbers[0])
