"""Where a path is: how large, on which device, and where that device's read-ahead is set. Opens for reading alone."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines.native import native
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.units import format_bytes


@dataclass(frozen=True)
class ReadAhead:
    """The file of a device's read-ahead, or why it has none that could be set."""

    file: Path | None
    why_not: str = ""

    @property
    def kib(self) -> int | None:
        """What it is now."""
        try:
            return int(self.file.read_text()) if self.file else None
        except (OSError, ValueError):
            return None


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


def read_ahead_of(path: Path) -> ReadAhead:
    """Of the whole device that holds a path, or that it is."""
    found = path.stat()
    is_block = stat.S_ISBLK(found.st_mode)
    if not is_block and os.major(found.st_dev) == 0:
        return ReadAhead(None, f"the file system of {path} reads ahead by a setting of its own, not by its device's")
    name = json.loads(native().resolve_device(str(path))).get("name")
    if not name:
        return ReadAhead(None, f"the device of {path} is not known")
    file = Path("/sys/block") / str(name).replace("/", "!") / "queue" / "read_ahead_kb"
    return ReadAhead(file) if file.exists() else ReadAhead(None, f"{name} has no read-ahead that could be set")
