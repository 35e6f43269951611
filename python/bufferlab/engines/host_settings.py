"""Changes settings of the host for a run, and restores them even after a crash.

Before it changes a setting, a run writes the old value into a small file that outlives its process. Three places look
for files of dead processes and restore the values: the next start of any sweep, the sweep that lost its worker, and
`bufferlab doctor`. If another program has changed a value since, that value stays. The files are in /run, which is
empty after a boot, when the settings are at their defaults too.

Read-ahead is one such setting. It belongs to the whole device, for every program that reads it through the page cache
(/sys/block/*/queue/read_ahead_kb, kernel: mm/readahead.c). Engines that read through the page cache have it as a knob.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bufferlab.engines.behaviour import HostCheck, NativeKnobs
from bufferlab.engines.native import native
from bufferlab.engines.read_ahead_knob import AS_IS, NAME
from bufferlab.errors import EnvironmentLackingError
from bufferlab.procfs import stat_fields

JOURNAL = Path("/run/bufferlab/changed")
_FORMAT_VERSION = 1


def restore(journal: Path = JOURNAL) -> list[str]:
    """Restore the settings that dead processes left changed; return a sentence for each.

    Does nothing if the user may not read the journal.
    """
    said = []
    with suppress(PermissionError), _held(journal) as there:
        for entry in sorted(journal.glob("*.json")) if there else ():
            told = _read(entry)
            if told is None:
                entry.unlink(missing_ok=True)
            elif not _is_alive(told):
                said += _put_back(told)
                entry.unlink(missing_ok=True)
    return said


@contextmanager
def changed(file: Path, value: str, journal: Path = JOURNAL) -> Iterator[str]:
    """Context manager that writes a setting's file of /sys, yields the value read back, and restores the old value.

    Raises EnvironmentLackingError if it cannot be written, or if another process changed it and has not restored it.
    """
    restore(journal)
    entry = journal / f"{str(file).strip('/').replace('/', '!')}.json"
    try:
        journal.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _held(journal):
            other = _read(entry)
            if other is not None:
                raise EnvironmentLackingError(
                    f"process {other['pid']} has changed this setting and has not put it back yet",
                    str(file),
                    "wait for that run to end",
                )
            note = {"file": str(file), "old": _value(file), "new": value, **_me()}
            _write(entry, note)
            _set(file, note, entry)
    except OSError as error:
        with suppress(OSError):
            entry.unlink(missing_ok=True)
        raise EnvironmentLackingError(
            f"the setting cannot be changed to {value}: {error.strerror}",
            str(file),
            "run as root, or leave it as it is",
        ) from error
    try:
        yield _value(file)
    finally:
        with _held(journal):
            told = _read(entry)
            if told is not None:
                _put_back(told)
            entry.unlink(missing_ok=True)


def _set(file: Path, told: dict[str, Any], entry: Path) -> None:
    """Write the new value to a setting's file, and store in the journal the value that the kernel rounded it to."""
    file.write_text(told["new"])
    try:
        if (taken := _value(file)) != told["new"]:
            _write(entry, told | {"new": taken})
    except OSError:
        file.write_text(told["old"])
        raise


def _put_back(told: dict[str, Any]) -> list[str]:
    """Restore a setting's old value, unless another program has changed the value that bufferlab set.

    Return a sentence if it was restored. Errors of the file are ignored.
    """
    file = Path(told["file"])
    with suppress(OSError):
        if _value(file) == told["new"] != told["old"]:
            file.write_text(told["old"])
            return [f"{file} was left at {told['new']} by process {told['pid']}; it is {_value(file)} again"]
    return []


def _value(file: Path) -> str:
    return file.read_text().strip()


def _me() -> dict[str, Any]:
    return {"pid": os.getpid(), "process_start": _start_of(os.getpid()), "boot": _boot()}


def _is_alive(told: dict[str, Any]) -> bool:
    """Return whether the process that made this journal entry still runs; another process may have its PID by now."""
    return bool(told["boot"] == _boot() and told["process_start"] == _start_of(told["pid"]) is not None)


def _start_of(pid: int) -> str | None:
    """Return a process's start time in ticks since the boot (proc(5), field 22); None if it is dead."""
    try:
        after_name = stat_fields(pid)
    except OSError:
        return None
    return None if after_name[0] in "ZX" else after_name[19]


def _boot() -> str:
    return _value(Path("/proc/sys/kernel/random/boot_id"))


def _read(entry: Path) -> dict[str, Any] | None:
    """Return the content of a journal entry; None if it is missing, incomplete or of another format.

    If it is missing or incomplete, the setting had not been changed yet.
    """
    try:
        told = json.loads(entry.read_text())
        wanted = {"file", "old", "new", "pid", "process_start", "boot"}
        return told if told.get("format_version") == _FORMAT_VERSION and wanted <= told.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _write(entry: Path, told: dict[str, Any]) -> None:
    """Write a journal entry and sync it, so that it is on the disk before the setting is changed."""
    beside = entry.with_suffix(".tmp")
    with beside.open("w") as file:
        json.dump({"format_version": _FORMAT_VERSION, **told}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(entry)


@contextmanager
def _held(journal: Path) -> Iterator[bool]:
    """Context manager that locks the journal against other processes; yields False without a journal."""
    try:
        descriptor = os.open(journal, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield True
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class ReadAhead:
    """The file that controls a device's read-ahead, or the reason why it cannot be set."""

    file: Path | None
    why_not: str = ""

    @property
    def kib(self) -> int | None:
        """The current read-ahead in KiB; None if it cannot be read."""
        try:
            return int(self.file.read_text()) if self.file else None
        except (OSError, ValueError):
            return None


def read_ahead_of(path: Path) -> ReadAhead:
    """Return the read-ahead of the block device at `path`, or else of the device that stores the file at `path`."""
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
def read_ahead_changed(path: Path, asked: str) -> Iterator[int | None]:
    """Context manager that sets the read-ahead of a path's device to `asked` KiB, or does not change it ("as_is").

    Yields the KiB read back, None if unknown. Raises EnvironmentLackingError if it cannot be set.
    """
    found = read_ahead_of(path)
    if asked == AS_IS:
        yield found.kib
        return
    if found.file is None:
        raise EnvironmentLackingError(found.why_not, f"read_ahead = {asked}", "leave it: --set read_ahead=as_is")
    with changed(found.file, asked) as read_back:
        yield int(read_back)


@contextmanager
def around_run(database: Path, knobs: NativeKnobs) -> Iterator[dict[str, int | str]]:
    """Context manager that applies a run's read-ahead to the device of its database; yields the value in effect."""
    asked = str(knobs.get(NAME, AS_IS))
    with read_ahead_changed(database, asked) as kib:
        if kib is None:
            yield {NAME: AS_IS}
        else:
            yield {NAME: asked if asked == AS_IS else str(kib), "read_ahead_run_kib": kib}


def checks(directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
    """Check whether a run's read-ahead can be set for a directory; return [] if the run does not change it."""
    asked = str(knobs.get(NAME, AS_IS))
    return [] if asked == AS_IS else [settable(directory, f"{NAME} = {asked}")]


def settable(path: Path, asked: str, instead: str = "") -> HostCheck:
    """Check whether this user may set the read-ahead of a path's device.

    `instead` is additional advice for the hint.
    """
    found = read_ahead_of(path)
    hint = "leave read_ahead = as_is" + (f"; {instead}" if instead else "")
    if found.file is None:
        return HostCheck("read-ahead", False, f"{asked}: {found.why_not}", hint)
    if os.geteuid() != 0 or not os.access(found.file, os.W_OK):
        what = f"{asked}: the read-ahead of a device needs root ({found.file} is {found.kib} KiB)"
        return HostCheck("read-ahead", False, what, f"run as root, or {hint}")
    return HostCheck("read-ahead", True, f"{found.file} is {found.kib} KiB, and can be set")
