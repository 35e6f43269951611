"""Decides how much memory a server may take for work that is not measured."""

from __future__ import annotations

from pathlib import Path


def free_quarter(at_most_bytes: int, unit_bytes: int, at_least_bytes: int) -> int:
    """Return the bytes of a pool for loading and checking: a quarter of the free memory, within the bounds.

    It is rounded down to whole units, unless the lower bound decides.
    """
    available = 0
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    return max(at_least_bytes, min(at_most_bytes, available // 4) // unit_bytes * unit_bytes)
