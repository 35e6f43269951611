"""Checks for every engine whether a directory's file system supports O_DIRECT, and with which alignment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bufferlab.engines.behaviour import HostCheck
from bufferlab.engines.native import native

_NAME = "direct_io"


def not_asked_for(why: str) -> HostCheck:
    """Return the result for a run that reads through the page cache and so needs no direct I/O."""
    return HostCheck(_NAME, True, f"not asked for: {why}")


def check(directory: Path, *, elsewhere: str = "--data-dir", instead: str) -> tuple[HostCheck, int | None]:
    """Check whether `directory` supports direct I/O; return the result and the required alignment in bytes.

    The alignment is None if direct I/O is not supported.

    In the hint, `elsewhere` is the option that chooses another directory, and `instead` the setting that avoids direct
    I/O.
    """
    found: dict[str, Any] = json.loads(native().check_direct_io(str(directory)))
    where = f"{directory} ({found.get('filesystem') or 'unknown file system'})"
    if not found["honoured"]:
        hint = f"choose a directory on a local disk with {elsewhere}, or measure with --set {instead}"
        return HostCheck(_NAME, False, f"{where}: {found.get('reason') or 'not honoured'}", hint), None
    alignment_bytes = int(found["alignment_bytes"])
    return HostCheck(_NAME, True, f"{where}: honoured, alignment {alignment_bytes} bytes"), alignment_bytes
