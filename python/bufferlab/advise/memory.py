"""Tells how much memory a server's host or cgroup leaves: the most by which its pool can grow.

MemAvailable of the host (proc(5)), and of each cgroup above the server its limit less its use, without file pages that
the kernel gives back first (inactive_file: admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bufferlab import meminfo
from bufferlab.engines.servers.memory_limit import groups_of

_FILES = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}
_GIVEN_BACK = {1: "total_inactive_file", 2: "inactive_file"}


@dataclass(frozen=True)
class MemoryLeft:
    """The memory that is left, and who limits it."""

    size_bytes: int
    by: Literal["host", "cgroup"]


def left(pid: int) -> MemoryLeft | None:
    """Return how much memory a server may still take; None where the host does not tell."""
    return least(Path("/proc/meminfo"), groups_of(pid))


def least(meminfo_file: Path, groups: Iterable[tuple[Literal[1, 2], Path]]) -> MemoryLeft | None:
    """Return the least that the host and the groups leave. `groups` are versions and folders of cgroups."""
    host_bytes = meminfo.available_bytes(meminfo_file)
    found = [] if host_bytes is None else [MemoryLeft(host_bytes, "host")]
    for version, folder in groups:
        limit, used = _FILES[version]
        with suppress(OSError, ValueError):  # A group without a limit says "max", and the root has no such file.
            kept = int((folder / used).read_text()) - _given_back(folder, _GIVEN_BACK[version])
            found.append(MemoryLeft(max(0, int((folder / limit).read_text()) - max(0, kept)), "cgroup"))
    return min(found, key=lambda one: one.size_bytes, default=None)


def _given_back(folder: Path, name: str) -> int:
    told = dict(line.split(" ", 1) for line in (folder / "memory.stat").read_text().splitlines())
    return int(told.get(name, 0))
