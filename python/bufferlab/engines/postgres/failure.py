"""Explains why a PostgreSQL process failed, from how it ended and the end of its log."""

from __future__ import annotations

import re
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.child_process import ended_by, lacks, missing_library, tail

_LINES = 60
_UNKNOWN = re.compile(r'unrecognized configuration parameter "([^"]*)"')
_INVALID = re.compile(r"LOG:\s+(?:[0-9:., -]*)(invalid value for parameter .*|.* is outside the valid range .*)")
_GRAVE = re.compile(r"\b(?:FATAL|PANIC|ERROR):|cannot be run|initdb: error|was terminated by signal|Assertion")
_BESIDE = re.compile(r"\b(?:HINT|DETAIL|STATEMENT|CONTEXT):")


def failure(what: str, code: int | None, log: Path) -> EngineFailure:
    """Return the cause: a library, the disk, memory, a setting the server refuses; or the last words of its log."""
    text = tail(log, _LINES)
    place = str(log)
    if library := missing_library(text):
        return EngineFailure("environment", lacks(library), place, "install the package")
    if "No space left on device" in text:
        return EngineFailure("full_disk", f"{what}: the disk is full", place, "free some space")
    if "could not map anonymous shared memory" in text or "could not resize shared memory" in text:
        said = f"{what}: the host has not the memory for its shared buffers"
        return EngineFailure("environment", said, place, "ask for a smaller pool_size")
    if unknown := _UNKNOWN.search(text):
        hint = "this version has no such setting; see `bufferlab list engines`"
        return EngineFailure("usage", f"the server does not know {unknown[1]}", place, hint)
    if invalid := _INVALID.search(text):
        return EngineFailure("usage", f"the server refuses a setting: {invalid[1]}", place, "ask for another value")
    ended = "" if code is None else f" ({ended_by(code)})"
    lines = text.splitlines()
    grave = [line for line in lines if _GRAVE.search(line)]
    others = [line for line in lines if not _BESIDE.search(line)]
    said = "\n".join(grave[-6:] or others[-4:]) or "nothing"
    return EngineFailure("engine", f"{what}{ended}; its log ends with:\n{said}", place, "see the server's log")
