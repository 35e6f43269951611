"""Reads the kernel's facts in /proc: free memory, mounted file systems as a process sees them, and processes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_UNKNOWN_BYTES = 1 << 30


def available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Return MemAvailable (proc_meminfo(5)) in bytes; None if the host does not report it."""
    with suppress(OSError, ValueError, IndexError):
        for line in meminfo.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def assumed_bytes() -> int:
    """Return the bytes of memory that a program could still get; one gibibyte if the host does not report that."""
    told = available_bytes()
    return _UNKNOWN_BYTES if told is None else told


_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A mounted file system, or a part of one (proc_pid_mountinfo(5))."""

    device: str
    """The device's number: major:minor."""
    root: str
    """The path, inside the file system, of the mounted folder."""
    point: str
    """The path at which the file system is mounted."""
    kind: str
    source: str
    """The source of the mount: a device, or a word that the file system chooses."""
    options: frozenset[str]
    """The options of the file system, not those of this mount."""


def mounts(mountinfo: Path = Path("/proc/self/mountinfo")) -> Iterator[Mount]:
    """Yield all mounts in the order of the kernel's list; none if the list cannot be read.

    Users may mount something under a name with any bytes, so lines that cannot be parsed are left out.
    """
    with suppress(OSError):
        for line in os.fsdecode(mountinfo.read_bytes()).split("\n"):
            with suppress(ValueError, IndexError):
                fields = [_ESCAPED.sub(lambda found: chr(int(found[1], 8)), field) for field in line.split(" ")]
                kind, source, options = fields[fields.index("-", 6) + 1 :][:3]
                yield Mount(fields[2], fields[3], fields[4], kind, source, frozenset(options.split(",")))


def processes(proc: Path = Path("/proc")) -> Iterator[int]:
    """Yield the numbers (PIDs) of all processes. Raises OSError if `proc` cannot be read."""
    return (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())


def stat_fields(pid: int | str, proc: Path = Path("/proc")) -> list[str]:
    """Return the fields of a process that follow its name, from the state on (proc_pid_stat(5): field 3).

    A process chooses its name, which may have any bytes, even brackets and invalid UTF-8. Raises OSError if the process
    has ended or its file cannot be read.
    """
    return (proc / f"{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
