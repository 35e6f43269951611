"""The host, for host.json: the core's fingerprint, or what Python can tell where there is no core."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from pathlib import Path
from typing import Any

from bufferlab.engines.native import native
from bufferlab.errors import EnvironmentLackingError
from bufferlab.execute.storage import filesystem_of


def fingerprint(directory: Path) -> dict[str, Any]:
    """Everything about the host that a result depends on; `directory` is where the data lives."""
    try:
        found: dict[str, Any] = json.loads(native().host_fingerprint(str(directory)))
    except EnvironmentLackingError:
        found = _plain(directory)
    return {**found, "data_directory": str(directory), "host_id": _identity(found)}


def _plain(directory: Path) -> dict[str, Any]:
    return {
        "os": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "filesystem": filesystem_of(directory),
    }


def _identity(found: dict[str, Any]) -> str:
    """Short and equal for equal hosts; says nothing about whose it is."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]
