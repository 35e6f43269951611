"""Lists and removes databases and servers that bufferlab keeps, and folders that killed processes left behind.

Only folders with bufferlab's mark are removed, and only if no process uses them. While a sweep runs, a small file in
the cache (a note) names its directories. The note of a killed sweep stays, and shows where to look for its folders.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Literal

from bufferlab import marked
from bufferlab.engines.servers import learnt
from bufferlab.engines.servers.fetched import servers_root
from bufferlab.engines.servers.private_server import SHORT_SOCKETS
from bufferlab.execute.host.storage import ROOM, SCRATCH, cache_root, remove_if_empty

Kind = Literal["database", "server", "left over"]

_NOTES = "places"
_NOTE = "directories.json"
_DAY_S = 86400


@dataclass(frozen=True)
class Leftover:
    """A folder that bufferlab keeps, or that a killed process left behind."""

    PRINTED: ClassVar = ("kind", "name", "path", "size_bytes", "last_used_at", "in_use")

    kind: Kind
    name: str
    path: Path
    size_bytes: int
    last_used_s: float
    """The time of the folder's last use, in seconds since the epoch."""
    in_use: bool

    @property
    def last_used_at(self) -> datetime:
        """Return the time of the folder's last use, in UTC."""
        return datetime.fromtimestamp(self.last_used_s, UTC)


@contextmanager
def noted(cache: Path, *directories: Path) -> Iterator[None]:
    """Context manager that lists a sweep's directories in a note in the cache; leaving removes the note.

    Leaving also removes the notes of killed sweeps of which no folder is left.
    """
    notes = cache.resolve() / _NOTES
    notes.mkdir(exist_ok=True)
    with marked.folder(notes, secrets.token_hex(6)) as note:
        text = json.dumps([str(directory.resolve()) for directory in directories])
        (note / _NOTE).write_text(text)
        yield
    _forget()


def kept() -> list[Leftover]:
    """Return the loaded databases and fetched servers in this user's caches."""
    databases = [file for cache in _caches() for file in sorted(cache.glob("data/[!.]*/manifest.json"))]
    servers = [file for cache in _caches() for file in sorted(cache.glob("servers/[!.]*/manifest.json"))]
    return [
        *(_entry("database", _database_name(manifest), manifest.parent) for manifest in databases),
        *(_entry("server", manifest.parent.name, manifest.parent) for manifest in servers),
    ]


def left_over(*directories: Path) -> list[Leftover]:
    """Return the folders that killed processes left in the caches, in `directories`, and in noted sweep directories."""
    noted = [place for note in _notes() for place in _directories(note)]
    in_caches = [
        *_left_in({cache / "data": "a killed load" for cache in _caches()}),
        *_left_in({cache / "servers": "a killed fetch" for cache in _caches()}),
        *_left_in({cache / learnt.WORK: "a killed learner's copy" for cache in _caches()}),
        *_left_in({cache / ROOM: "a block of a cluster's sweep" for cache in _caches()}),
    ]
    short = [
        _entry("left over", "a killed server's socket", path)
        for path in marked.leftovers(Path("/tmp").resolve(), f"{SHORT_SOCKETS}*")
    ]
    worked = dict.fromkeys([*(directory.resolve() for directory in directories), *noted])
    return [*in_caches, *short, *(entry for place in worked for entry in _left_by_sweeps(place))]


def unused(days: int) -> list[Leftover]:
    """Return the kept folders that are not in use and were not used for `days` days."""
    before_s = time.time() - days * _DAY_S
    return [entry for entry in kept() if not entry.in_use and entry.last_used_s < before_s]


def remove(entries: Iterable[Leftover]) -> dict[Leftover, str]:
    """Remove these folders, and the notes of killed sweeps of which no folder is left.

    Return the folders that could not be removed, each with the reason.
    """
    stayed = {entry: why for entry in entries if (why := _remove(entry)) is not None}
    _forget()
    return stayed


def _forget() -> None:
    """Remove the notes of killed sweeps of which no folder is left."""
    for note in _notes():
        if not any(_left_by_sweeps(directory) for directory in _directories(note)):
            with suppress(OSError):
                marked.remove(note)


def _left_by_sweeps(directory: Path) -> list[Leftover]:
    places = {directory / SCRATCH: "copies of a killed sweep", directory: "a sweep folder in the making"}
    for runs in (directory / "runs", *sorted(directory.glob("*/runs"))):
        places |= {runs.parent: places.get(runs.parent, "a report in the making"), runs: "a run that was being written"}
    return _left_in(places)


def _left_in(places: Mapping[Path, str]) -> list[Leftover]:
    return [
        _entry("left over", what, path)
        for place, what in places.items()
        for path in marked.leftovers(place, "*" if place.name in (SCRATCH, learnt.WORK) else f"{marked.TEMPORARY}*")
    ]


def _remove(entry: Leftover) -> str | None:
    try:
        with _loaders_kept_out(entry) as alone:
            state = marked.remove(entry.path) if alone else "in use"
    except OSError as error:
        return f"{error.strerror} ({error.filename})"
    if entry.path.parent.name == SCRATCH:
        remove_if_empty(entry.path.parent)
    return {"left": None, "in use": "it is in use", "foreign": "it does not have bufferlab's mark"}[state]


@contextmanager
def _loaders_kept_out(entry: Leftover) -> Iterator[bool]:
    """Context manager that holds the lock of a database's key, also for a database of a killed process.

    Yields False if a sweep holds the lock, and True for an entry that is not a database.
    """
    if entry.path.parent not in [cache / "data" for cache in _caches()]:
        yield True
        return
    key = entry.path.name.removeprefix(marked.TEMPORARY).partition("-")[0]
    with loaders_kept_out(entry.path.parent, key) as alone:
        yield alone


@contextmanager
def loaders_kept_out(data: Path, key: str, wait: Callable[[], None] | None = None) -> Iterator[bool]:
    """Context manager that locks a key, so that no sweep verifies its database; yields False if a sweep does.

    With `wait`, it is called again and again until no sweep does.
    """
    descriptor = os.open(data / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while not (alone := marked.takes(descriptor)) and wait:
            wait()
        yield alone
    finally:
        os.close(descriptor)


def _caches() -> list[Path]:
    """Return the user's cache, and the cache that servers can reach. If root runs bufferlab, these are two folders."""
    return list(dict.fromkeys(path.resolve() for path in (cache_root(), servers_root().parent)))


def _notes() -> list[Path]:
    return [file.parent for cache in _caches() for file in sorted((cache / _NOTES).glob(f"*/{_NOTE}"))]


def _directories(note: Path) -> list[Path]:
    with suppress(OSError, ValueError, TypeError):
        return [Path(text) for text in json.loads((note / _NOTE).read_text())]
    return []


def _entry(kind: Kind, name: str, path: Path) -> Leftover:
    return Leftover(kind, name, path, _size_bytes(path), marked.last_use_s(path), marked.state(path) == "in use")


def _database_name(manifest: Path) -> str:
    """Return engine, version and workload of a database; "?" if the manifest lacks them."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        recipe = json.loads(manifest.read_text())["recipe"]
        version = recipe.get("engine_version")
        return " ".join(map(str, filter(None, (recipe["engine"], version, recipe["workload"].get("name")))))
    return "?"


def _size_bytes(path: Path) -> int:
    """Return the bytes of a folder on the device. Symbolic links are not followed."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(OSError):  # The file was removed meanwhile.
                total += (Path(folder) / name).lstat().st_blocks * 512
    return total
