"""Reads which file systems are mounted at which paths, as a process sees them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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
