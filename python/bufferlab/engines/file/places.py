"""Checks that a path can be read, and how many bytes of it a run reads. Opens it for reading only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.units import format_bytes


def size_bytes(path: Path) -> int:
    """Return the bytes of a file or block device.

    Raise EnvironmentLackingError when it cannot be read, SpecError when it is neither.
    """
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISBLK(kind):
            raise SpecError("this is neither a file nor a block device", str(path), "name a file or a block device")
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        hint = "a block device needs root or the group disk; of a file, the right to read it"
        raise EnvironmentLackingError(f"it cannot be read: {error.strerror}", str(path), hint) from error
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)


def range_bytes(path: Path, asked_bytes: int | None) -> int:
    """Return how many bytes of the path are read: as many as asked for, or all. Raise SpecError when it has fewer."""
    has_bytes = size_bytes(path)
    if asked_bytes is not None and asked_bytes > has_bytes:
        raise SpecError(
            f"file_size = {format_bytes(asked_bytes)}, and it has {format_bytes(has_bytes)}",
            str(path),
            "ask for less, or leave file_size = auto: all of it",
        )
    return has_bytes if asked_bytes is None else asked_bytes
