"""Restores host settings that a dead worker left changed. Sweeps, runs and `bufferlab doctor` call it."""

from __future__ import annotations

from bufferlab.engines import registry as engines
from bufferlab.errors import EnvironmentLackingError


def restore_host() -> list[str]:
    """Restore every changed host setting, and return a sentence for each.

    An engine that this installation lacks cannot have changed any; it is skipped.
    """
    said: list[str] = []
    for name in engines.names():
        if engines.declaration(name).changes_host:
            try:
                said += engines.behaviour(name).restore_host()
            except EnvironmentLackingError:
                continue
    return said
