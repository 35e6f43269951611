"""Whether a server that runs already is on this host: then its memory, its disk and its process are this host's too."""

from __future__ import annotations

import socket as sockets
import struct
from contextlib import suppress
from pathlib import Path

from bufferlab.engines.servers.existing.address import Address

_CGROUP_MEMORY = (
    ("0::", Path("/sys/fs/cgroup"), "memory.max"),
    (":memory:", Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
)
"""What stands before the path in a line of /proc/PID/cgroup, the mount point, the file of the limit (cgroups(7))."""
_NO_LIMIT_BYTES = 1 << 60
"""cgroup version 1 says "no limit" by a number near 2^63."""
_PEER = struct.Struct("3i")


def may_be_here(address: Address) -> bool:
    """Return whether the address is a socket or one of this host's own; then a tunnel may still lead elsewhere.

    A name that cannot be resolved may be this host's.
    """
    if address.socket:
        return True
    try:
        found = sockets.getaddrinfo(address.host, address.port, type=sockets.SOCK_DGRAM)
    except OSError:
        return True
    return any(_is_ours(family, place) for family, _, _, _, place in found)


def _is_ours(family: int, place: tuple[object, ...]) -> bool:
    """Return whether an interface of this host has the address: nobody can bind another's."""
    with suppress(OSError), sockets.socket(family, sockets.SOCK_DGRAM) as probe:
        probe.bind((place[0], 0, *place[2:]))
        return True
    return False


def peer(line: sockets.socket) -> int | None:
    """Return the process that listens at the other end of a Unix socket; None where this host cannot see it."""
    with suppress(OSError):
        pid, _, _ = _PEER.unpack(line.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _PEER.size))
        return pid or None
    return None


def memory_limit_bytes(pid: int) -> int | None:
    """Return the least memory limit of the control groups that hold a process; None where there is none to see."""
    limits = []
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            for words, root, name in _CGROUP_MEMORY:
                _, found, group = line.partition(words)
                if found:
                    limits += _limits(root, group, name)
    return min(limits, default=None)


def _limits(root: Path, group: str, name: str) -> list[int]:
    """Return the limits of a group and of all above it."""
    folder, found = root / group.lstrip("/"), []
    while folder.is_relative_to(root):
        with suppress(OSError, ValueError):  # "max" is no number.
            limit = int((folder / name).read_text())
            found += [limit] if limit < _NO_LIMIT_BYTES else []
        folder = folder.parent
    return found
