"""Removes block trace instances that killed runs left in the kernel's tracefs."""

from __future__ import annotations

import json
from contextlib import suppress

from bufferlab.engines.native import native
from bufferlab.errors import EnvironmentLackingError


def clean() -> list[str]:
    """Remove the tracefs instances of dead bufferlab processes; return their names."""
    with suppress(EnvironmentLackingError):
        names: list[str] = json.loads(native().tracefs_clean())
        return names
    return []
