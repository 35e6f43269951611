"""Reads how much memory a program could still get on this host."""

from __future__ import annotations

from contextlib import suppress
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
