"""Checks whether a directory's file system honours O_DIRECT, and with which alignment, for every engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bufferlab.engines.behaviour import HostCheck
from bufferlab.engines.native import native

_NAME = "direct_io"


def not_asked_for(why: str) -> HostCheck:
    """Return the check for a run that reads through the page cache, and so needs no direct I/O."""
    return HostCheck(_NAME, True, f"not asked for: {why}")


def check(directory: Path, *, elsewhere: str = "--data-dir", instead: str) -> tuple[HostCheck, int | None]:
    """Return the check whether `directory` honours direct I/O, and the alignment in bytes that it asks for.

    The alignment is None if direct I/O is not honoured.

    For the hint, `elsewhere` names the option that chooses another directory, `instead` the setting that does without
    direct I/O.
    """
    found: dict[str, Any] = json.loads(native().check_direct_io(str(directory)))
    where = f"{directory} ({found.get('filesystem') or 'unknown file system'})"
    if not found["honoured"]:
        hint = f"choose a directory on a local disk with {elsewhere}, or measure with --set {instead}"
        return HostCheck(_NAME, False, f"{where}: {found.get('reason') or 'not honoured'}", hint), None
    alignment_bytes = int(found["alignment_bytes"])
    return HostCheck(_NAME, True, f"{where}: honoured, alignment {alignment_bytes} bytes"), alignment_bytes
