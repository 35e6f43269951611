"""Whether a path can be read, and how much of it is. Opens for reading alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.units import format_bytes


def size_bytes(path: Path) -> int:
    """Bytes of a file or block device. EnvironmentLackingError when it cannot be read."""
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
    """How much of it is read: what was asked for, or all."""
    has_bytes = size_bytes(path)
    if asked_bytes is not None and asked_bytes > has_bytes:
        raise SpecError(
            f"file_size = {format_bytes(asked_bytes)}, and it has {format_bytes(has_bytes)}",
            str(path),
            "ask for less, or leave file_size = auto: all of it",
        )
    return has_bytes if asked_bytes is None else asked_bytes
