"""Settings of the host that a dead worker left changed: put back by whoever comes next, through the engines."""

from __future__ import annotations

from bufferlab.engines import registry as engines
from bufferlab.errors import EnvironmentLackingError


def restore_host() -> list[str]:
    """A sentence for each setting that was put back; nothing where this installation cannot have changed any."""
    said: list[str] = []
    for name in engines.names():
        if engines.declaration(name).changes_host:
            try:
                said += engines.behaviour(name).restore_host()
            except EnvironmentLackingError:
                continue
    return said
