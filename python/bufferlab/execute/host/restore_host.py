"""Restores the host after killed runs: settings that they changed, and block trace instances in the kernel's tracefs.

Sweeps, runs and `bufferlab doctor` call it.
"""

from __future__ import annotations

import json
from contextlib import suppress

from bufferlab.engines import registry as engines
from bufferlab.engines.native import native
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


def clean_tracefs() -> list[str]:
    """Remove the tracefs instances of dead bufferlab processes; return their names."""
    with suppress(EnvironmentLackingError):
        names: list[str] = json.loads(native().tracefs_clean())
        return names
    return []
