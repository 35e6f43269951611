"""Explains why a PostgreSQL process failed, from how it ended and the end of its log."""

from __future__ import annotations

import re
from functools import partial

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.child_process import failed

_UNKNOWN = re.compile(r'unrecognized configuration parameter "([^"]*)"')
_INVALID = re.compile(r"LOG:\s+(?:[0-9:., -]*)(invalid value for parameter .*|.* is outside the valid range .*)")


def _refused(text: str, what: str, place: str) -> EngineFailure | None:
    """Return the failure of a server that lacked memory, or refused a setting; None when it failed otherwise."""
    if "could not map anonymous shared memory" in text or "could not resize shared memory" in text:
        said = f"{what}: the host has not the memory for its shared buffers"
        return EngineFailure("environment", said, place, "ask for a smaller pool_size")
    if unknown := _UNKNOWN.search(text):
        hint = "this version has no such setting; see `bufferlab list engines`"
        return EngineFailure("usage", f"the server does not know {unknown[1]}", place, hint)
    if invalid := _INVALID.search(text):
        return EngineFailure("usage", f"the server refuses a setting: {invalid[1]}", place, "ask for another value")
    return None


failure = partial(
    failed,
    refused=_refused,
    disk_full=("No space left on device",),
    grave=r"\b(?:FATAL|PANIC|ERROR):|cannot be run|initdb: error|was terminated by signal|Assertion",
    beside=r"\b(?:HINT|DETAIL|STATEMENT|CONTEXT):",
)
"""Returns why a server's process failed."""
