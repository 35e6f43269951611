"""Finds the kernel's read-ahead of the device under a path, checks whether it can be set, and sets it for one run.

It is one setting of the whole device, for all that read it through the page cache
(/sys/block/*/queue/read_ahead_kb, kernel: mm/readahead.c). Engines that read through the page cache have it as a knob.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines import host_settings
from bufferlab.engines.behaviour import HostCheck, NativeKnobs
from bufferlab.engines.native import native
from bufferlab.engines.read_ahead_knob import AS_IS, NAME
from bufferlab.errors import EnvironmentLackingError


@dataclass(frozen=True)
class ReadAhead:
    """The file that holds a device's read-ahead, or the reason why it cannot be set."""

    file: Path | None
    why_not: str = ""

    @property
    def kib(self) -> int | None:
        """The read-ahead now, in KiB; None when it cannot be read."""
        try:
            return int(self.file.read_text()) if self.file else None
        except (OSError, ValueError):
            return None


def read_ahead_of(path: Path) -> ReadAhead:
    """Return the read-ahead of the whole device that holds a path, or that the path is."""
    found = path.stat()
    is_block = stat.S_ISBLK(found.st_mode)
    if not is_block and os.major(found.st_dev) == 0:
        return ReadAhead(None, f"the file system of {path} reads ahead by a setting of its own, not by its device's")
    name = json.loads(native().resolve_device(str(path))).get("name")
    if not name:
        return ReadAhead(None, f"the device of {path} is not known")
    file = Path("/sys/block") / str(name).replace("/", "!") / "queue" / "read_ahead_kb"
    return ReadAhead(file) if file.exists() else ReadAhead(None, f"{name} has no read-ahead that could be set")


@contextmanager
def changed(path: Path, asked: str) -> Iterator[int | None]:
    """Context manager that sets the read-ahead of a path's device to `asked` KiB, or leaves it ("as_is").

    Yields the KiB read back, None where they are not known. Raises EnvironmentLackingError where it cannot be set.
    """
    found = read_ahead_of(path)
    if asked == AS_IS:
        yield found.kib
        return
    if found.file is None:
        raise EnvironmentLackingError(found.why_not, f"read_ahead = {asked}", "leave it: --set read_ahead=as_is")
    with host_settings.changed(found.file, asked) as read_back:
        yield int(read_back)


@contextmanager
def around_run(database: Path, knobs: NativeKnobs) -> Iterator[dict[str, int | str]]:
    """Context manager that applies a run's knob to the device of its database; yields the settings by name."""
    asked = str(knobs.get(NAME, AS_IS))
    with changed(database, asked) as kib:
        if kib is None:
            yield {NAME: AS_IS}
        else:
            yield {NAME: asked if asked == AS_IS else str(kib), "read_ahead_run_kib": kib}


def checks(directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
    """Return the check whether a run's knob can be obeyed in a directory; empty where it asks for nothing."""
    asked = str(knobs.get(NAME, AS_IS))
    return [] if asked == AS_IS else [settable(directory, f"{NAME} = {asked}")]


def settable(path: Path, asked: str, instead: str = "") -> HostCheck:
    """Return the check whether this user may set the read-ahead of a path's device.

    `instead` is the hint's other advice.
    """
    found = read_ahead_of(path)
    hint = "leave read_ahead = as_is" + (f"; {instead}" if instead else "")
    if found.file is None:
        return HostCheck("read-ahead", False, f"{asked}: {found.why_not}", hint)
    if os.geteuid() != 0 or not os.access(found.file, os.W_OK):
        what = f"{asked}: the read-ahead of a device needs root ({found.file} is {found.kib} KiB)"
        return HostCheck("read-ahead", False, what, f"run as root, or {hint}")
    return HostCheck("read-ahead", True, f"{found.file} is {found.kib} KiB, and can be set")
