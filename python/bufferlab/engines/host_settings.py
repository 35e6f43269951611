"""Changes settings of the host for a run, and puts them back even after a crash.

Before it changes a setting, a run writes the old value into a small file that outlives its process. The next start of
any sweep, the sweep that lost its worker, and `bufferlab doctor` look for files of dead processes, and put the values
back. A value that somebody else has changed since stays. The files are in /run, which is empty after a boot, when the
settings are at their defaults too.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bufferlab.errors import EnvironmentLackingError
from bufferlab.proc_stat import stat_fields

JOURNAL = Path("/run/bufferlab/changed")
_FORMAT_VERSION = 1


def restore(journal: Path = JOURNAL) -> list[str]:
    """Put back the settings that dead processes left changed; return a sentence for each.

    Does nothing for a user who may not read the journal.
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
    """Context manager that writes a setting's file of /sys, yields the value read back, and puts the old value back.

    Raises EnvironmentLackingError when it cannot be written, or another process has changed it and not put it back.
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
    """Write the new value, and note what the kernel took of it: it rounds read-ahead to whole pages."""
    file.write_text(told["new"])
    try:
        if (taken := _value(file)) != told["new"]:
            _write(entry, told | {"new": taken})
    except OSError:
        file.write_text(told["old"])
        raise


def _put_back(told: dict[str, Any]) -> list[str]:
    """Put the old value back, unless somebody else has changed ours since; return a sentence if it was put back."""
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
    """Return whether that very process lives; its pid may have been given to another since."""
    return bool(told["boot"] == _boot() and told["process_start"] == _start_of(told["pid"]) is not None)


def _start_of(pid: int) -> str | None:
    """Return a process's start in ticks since the boot (proc(5), field 22); None when it is dead."""
    try:
        after_name = stat_fields(pid)
    except OSError:
        return None
    return None if after_name[0] in "ZX" else after_name[19]


def _boot() -> str:
    return _value(Path("/proc/sys/kernel/random/boot_id"))


def _read(entry: Path) -> dict[str, Any] | None:
    """Return the file's content; None when it is missing or torn, which means that nothing was changed yet."""
    try:
        told = json.loads(entry.read_text())
        wanted = {"file", "old", "new", "pid", "process_start", "boot"}
        return told if told.get("format_version") == _FORMAT_VERSION and wanted <= told.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _write(entry: Path, told: dict[str, Any]) -> None:
    """Write the file and sync it, so that it is on the disk before anything is changed."""
    beside = entry.with_suffix(".tmp")
    with beside.open("w") as file:
        json.dump({"format_version": _FORMAT_VERSION, **told}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(entry)


@contextmanager
def _held(journal: Path) -> Iterator[bool]:
    """Context manager that lets one process at a time use the journal; yields False where there is none."""
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
