"""Tells how much memory a program could still get on this host."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Return MemAvailable (proc_meminfo(5)) in bytes; None where the host does not tell it."""
    with suppress(OSError, ValueError, IndexError):
        for line in meminfo.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
