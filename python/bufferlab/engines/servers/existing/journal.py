"""The file on this host that says which settings to put back on a server that bufferlab did not start.

There is one file for each server, the same for every URL (mode 0600, no password). A run writes it, whole or not at
all, before it changes the first setting, holds its lock while it lives, and removes it once everything is put back.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bufferlab.engines.servers.builds import servers_root
from bufferlab.errors import DataFileError, Problem

_FORMAT = "bufferlab-online-changes"
_FORMAT_VERSION = 2
_HINT = "compare the server's settings with those it should have, then delete this file"


@dataclass
class Record:
    """The settings that a run has changed, as the journal and the server itself keep them."""

    url: str
    """The URL by which the run reached the server; "" in the copy on the server."""
    since: str
    """The answer of `changes.Settings.since` then; when it differs now, the server has forgotten the changes."""
    variables: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name: `found`, the owner's value; `ours`, read back after the change; and what else the family must know."""

    def text(self) -> str:
        """Return the record as JSON."""
        told = {"format": _FORMAT, "format_version": _FORMAT_VERSION}
        return json.dumps({**told, "url": self.url, "since": self.since, "variables": self.variables})

    @classmethod
    def parse(cls, text: str, where: str) -> Record:
        """Return the record in a text; raise DataFileError, which names `where` it was found, when it holds none."""
        try:
            told = json.loads(text)
            if (told["format"], told["format_version"]) != (_FORMAT, _FORMAT_VERSION):
                raise ValueError("it is of another program, or another version of bufferlab")
            variables = {str(name): dict(entry) for name, entry in told["variables"].items()}
            if any("found" not in entry for entry in variables.values()):
                raise ValueError("a variable has no value to be put back")
            return cls(str(told["url"]), str(told["since"]), variables)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            what = f"the record of a server's settings that were changed cannot be read: {error!r}"
            raise DataFileError(what, where, _HINT) from error


class Journal:
    """The journal of one server, locked by this process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    def read(self) -> Record | None:
        """Return the record to put back; None when there is none. Raise DataFileError when the file is torn."""
        return read(self.path)

    def write(self, record: Record) -> None:
        """Replace the file by this record. The record is on the disk when this returns, and the lock is kept."""
        beside = self.path.with_suffix(".new")
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # Locked before it takes the name: nobody finds a journal of a live run that is not locked.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        text = record.text().encode() + b"\n"
        try:
            if os.write(descriptor, text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(beside))
            os.fsync(descriptor)
            beside.rename(self.path)
        except BaseException:
            os.close(descriptor)
            raise
        self.close()
        self._descriptor = descriptor
        place = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(place)  # The new name, too.
        finally:
            os.close(place)

    def clear(self) -> None:
        """Remove the file, because everything was put back."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Give up the lock."""
        os.close(self._descriptor)


def folder() -> Path:
    """Return the folder of all journals."""
    return servers_root().parent / "online-changes"


def path_of(server: str) -> Path:
    """Return the path of the journal of the server with this identity."""
    return folder() / f"{server}.json"


@contextmanager
def held(server: str) -> Iterator[Journal | None]:
    """Context manager that locks a server's journal and yields it; yields None when another process has the lock."""
    path = path_of(server)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            yield None
            return
        # The process that held it before us may have removed or replaced it.
        if os.fstat(descriptor).st_nlink:
            break
        os.close(descriptor)
    journal = Journal(path, descriptor)
    try:
        yield journal
    finally:
        if path.exists() and not path.stat().st_size:
            journal.clear()
        journal.close()


def read(path: Path) -> Record | None:
    """Return a journal's record; None when the file is missing or empty. Raise DataFileError when it is torn."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with open(descriptor, encoding="utf-8") as file:
            status = os.fstat(descriptor)
            # Its values are set with our rights on the server: nobody else may have written them.
            if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise DataFileError("others may write this journal of changed settings", str(path), _HINT)
            text = file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DataFileError(f"this journal of changed settings cannot be read: {error}", str(path), _HINT) from error
    return Record.parse(text, str(path)) if text else None


def every() -> list[tuple[Path, Record]]:
    """Return all journals that can be read."""
    return [(path, record) for path, record in _look() if isinstance(record, Record)]


def unreadable() -> list[Problem]:
    """Return a problem for each journal that cannot be read; it names the file."""
    return [problem for _, problem in _look() if isinstance(problem, Problem)]


def _look() -> Iterator[tuple[Path, Record | Problem | None]]:
    for path in sorted(folder().glob("*.json")) if folder().is_dir() else []:
        try:
            yield path, read(path)
        except DataFileError as error:
            yield path, error.problems[0]
