"""Reads a loaded database, one file or a directory of files: its size, its hashes, its parts by name.

This file copies nothing (copy_method.py does). A directory may contain plain files and directories only: sockets and
links that a server leaves in it cannot be copied byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bufferlab.errors import DataFileError

_CHUNK_BYTES = 4 << 20
_OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Parts = dict[str, str | None]
"""The SHA-256 of every file of a directory by its path inside, None for a directory; empty for a one-file database."""


@dataclass(frozen=True)
class Fingerprint:
    """The size and hashes that identify the bytes of a database."""

    size_bytes: int
    sha256: str
    """SHA-256 of the file; for a directory, SHA-256 of the sorted list of its parts with their hashes."""
    parts: Parts


def entries(directory: Path) -> Iterator[Path]:
    """Yield everything below a directory, parents first, sorted by name, so that the order is the same on every host.

    Raises DataFileError for anything but plain files and directories.
    """
    for path in sorted(directory.iterdir()):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "a socket" if stat.S_ISSOCK(mode) else "a special file"
            raise DataFileError(
                f"the loaded database holds {kind}, which cannot be copied", str(path), "keep it outside the data"
            )
        yield path
        if stat.S_ISDIR(mode):
            yield from entries(path)


def size_of(database: Path) -> int:
    """Return the bytes of the file, or of all files below the directory. Holes count with their full length."""
    if not database.is_dir():
        return database.stat().st_size
    return sum(path.stat().st_size for path in entries(database) if path.is_file())


def fingerprint(database: Path, check: Callable[[], None]) -> Fingerprint:
    """Read every byte and return the fingerprint. `check` is called between chunks and may raise to abort."""
    if not database.is_dir():
        return Fingerprint(size_of(database), _hash(database, check), {})
    parts: Parts = {
        str(path.relative_to(database)): None if path.is_dir() else _hash(path, check) for path in entries(database)
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return Fingerprint(size_of(database), digest, parts)


def difference(stored: Mapping[str, str | None], found: Mapping[str, str | None]) -> str:
    """Return a phrase that names the first changed part; for a one-file database, that its contents changed."""
    for name in sorted({*stored, *found}):
        if name not in found:
            return f"{name} is missing"
        if name not in stored:
            return f"{name} was not loaded"
        if stored[name] != found[name]:
            return f"the contents of {name} are not what was loaded"
    return "its contents are not what was loaded"


def protect(database: Path) -> None:
    """Make the database readable for this user only, and its files read-only: runs work on copies.

    Its directories stay writable for this user, so that they can be removed. Each directory gets this user as owner
    before its contents do, so that the server's user cannot put anything else there meanwhile. Raises OSError for a
    link.
    """
    if not stat.S_ISDIR(database.lstat().st_mode):
        _take(os.open(database, _OPENED), 0o400)
        return
    for _, _, files, folder in os.fwalk(database):
        _take(os.dup(folder), 0o700)
        for name in files:
            _take(os.open(name, _OPENED, dir_fd=folder), 0o400)


def _take(descriptor: int, mode: int) -> None:
    """Give the open file or directory to this user, with this mode, and close it."""
    try:
        if os.geteuid() == 0:
            os.fchown(descriptor, 0, 0)
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def make_durable(database: Path) -> None:
    """Wait until every file and directory of a database is on the device."""
    for path in (*(entries(database) if database.is_dir() else ()), database):
        fsync(path)


def fsync(path: Path) -> None:
    """Wait until this file or directory is on the device."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _hash(path: Path, check: Callable[[], None]) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            check()
            digest.update(chunk)
    return digest.hexdigest()
