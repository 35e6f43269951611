"""Reads /proc and /sys of a server on this host: our thread's processor time, the device, the page cache.

Nothing here needs a right beyond those of any user. Of a server on another host there is nothing to read.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_SERVERS = ("mysqld", "mariadbd", "postgres")
_SECTOR_BYTES = 512
_KIB = 1024
#: Columns of /sys/dev/block/*/stat (Documentation/block/stat.rst), counted from 0.
_DEVICE = {
    "device_reads": (0, 1),
    "device_read_bytes": (2, _SECTOR_BYTES),
    "device_writes": (4, 1),
    "device_write_bytes": (6, _SECTOR_BYTES),
}


def is_server_thread(thread: int | None) -> bool:
    """Return whether a thread or process of that number, on this host, belongs to a database server."""
    with suppress(OSError):
        status = Path(f"/proc/{thread}/status").read_text()
        process = next(line.split()[1] for line in status.splitlines() if line.startswith("Tgid:"))
        return Path(f"/proc/{process}/comm").read_text().strip() in _SERVERS
    return False


def processor_s(thread: int | None) -> float | None:
    """Return the processor time of a thread so far; None where it cannot be read."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{thread}/task/{thread}/schedstat").read_text().split()[0]) / 1e9
    return None


class Device:
    """The block device that holds a directory of this host. All programs' requests are counted."""

    def __init__(self, directory: str) -> None:
        number = os.stat(directory).st_dev
        self._stat = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
        self.name = self._stat.parent.resolve().name
        self.read()

    def read(self) -> dict[str, int]:
        """Return its counters. Raises OSError where the kernel tells none."""
        columns = self._stat.read_text().split()
        return {name: int(columns[place]) * unit for name, (place, unit) in _DEVICE.items()}


def page_cache_bytes() -> int:
    """Return the size of the host's page cache (Cached of /proc/meminfo)."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Cached:"):
            return int(line.split()[1]) * _KIB
    return 0
