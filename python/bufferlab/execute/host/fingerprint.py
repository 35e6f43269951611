"""Collects the host's fingerprint for host.json, by the core or else by Python, and compares its memory with pools."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.engines.native import native
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.errors import EnvironmentLackingError
from bufferlab.execute.host.storage import filesystem_of
from bufferlab.plan import GridPoint
from bufferlab.units import format_bytes


def fingerprint(directory: Path) -> dict[str, Any]:
    """Return everything about the host that a result depends on. `directory` is the folder of the data."""
    try:
        found: dict[str, Any] = json.loads(native().host_fingerprint(str(directory)))
    except EnvironmentLackingError:
        found = _plain(directory)
    return {**found, "data_directory": str(directory), "host_id": _identity(found), "boot_key": boot_key()}


def memory_bytes() -> int:
    """Return the bytes of this host's total memory, used or free."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(engine: EngineDeclaration, points: Sequence[GridPoint]) -> None:
    """Refuse pools larger than this host's memory: the kernel would kill their runs, or other programs.

    Raises an EnvironmentLackingError that names the first such point. The pool of a server by URL may be on another
    host and is not checked.
    """
    if not engine.results.pool:
        return
    whole = memory_bytes()
    for point in points:
        pool = point.engine[engine.results.pool].number
        if pool > whole and not is_url(point.knobs.get("server")):
            raise EnvironmentLackingError(
                f"a pool of {format_bytes(pool)} does not fit into this host's {format_bytes(whole)} of memory",
                f"point {point.label}",
                f"ask for a smaller {engine.results.pool}",
            )


def _plain(directory: Path) -> dict[str, Any]:
    return {
        "os": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "filesystem": filesystem_of(directory),
    }


def boot_key() -> str:
    """Return a short hash of the kernel's random boot id (random(4)): it distinguishes hosts with equal `host_id`.

    It differs between runners of a CI, but not between containers of one host.
    """
    with suppress(OSError):
        return hashlib.sha256(Path("/proc/sys/kernel/random/boot_id").read_bytes()).hexdigest()[:12]
    return ""


def booted_at() -> datetime:
    """Return when this system booted, by its current clock (proc_uptime(5))."""
    return datetime.now(UTC) - timedelta(seconds=float(Path("/proc/uptime").read_text().split()[0]))


def _identity(found: dict[str, Any]) -> str:
    """Return a short hash of the fingerprint. It is equal for equal hosts, and does not reveal whose host it is."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]
