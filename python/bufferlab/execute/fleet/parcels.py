"""Transfers files of a sweep folder to the home host: a node cuts them into pieces, and home writes them again.

A piece is small enough to travel inside Ray's messages, so none goes into Ray's object store, which may be full. Home
trusts no node: sizes and names are limited here, and the files' contents are checked when they are opened, like those
of any foreign folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from bufferlab.errors import DataFileError
from bufferlab.results.store import BLOCK_TRACE_FILE, OTHER_POOLS_FILE, PAGE_TRACE_FILE
from bufferlab.units import MIB, format_bytes

PIECE_BYTES = 64 << 10
"""The bytes of a piece: Ray puts values above 100 KiB into its object store."""
Kind = Literal["sweep", "run", "pools"]
SWEEP_FILES = ("experiment.toml", "plan.json", "host.json")
POOLS_FILES = (OTHER_POOLS_FILE,)

_MOST_FILES = 24
_MOST_FILE_BYTES = 64 * MIB
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RUN_ID = re.compile(r"[0-9a-f]{16}")
_HINT = "its bufferlab is another, or it is not one of your nodes; leave it out of the cluster"

Item = dict[str, Any]
"""An item that a node sends: a dictionary with the event's name, like a worker's event."""


def packed(kind: Kind, name: str, folder: Path, files: Sequence[str]) -> Iterator[Item]:
    """Yield files of a folder as one parcel: its header, and each file in pieces.

    Raises OSError for a file that cannot be read, is a link, or has become shorter.
    """
    sizes = {file: (folder / file).stat(follow_symlinks=False).st_size for file in files}
    yield {"event": "parcel", "kind": kind, "name": name, "files": sizes}
    for file, size in sizes.items():
        descriptor = os.open(folder / file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as opened:
            while size:
                data = opened.read(min(size, PIECE_BYTES))
                if not data:
                    raise OSError(f"{file} became shorter while it was sent")
                size -= len(data)
                yield {"event": "piece", "data": data}


@dataclass
class Arriving:
    """A parcel that is being received: `take` writes its pieces into `folder`, which is empty at first.

    The constructor raises DataFileError for a header that bufferlab does not write, or a file that is too large.
    """

    header: Mapping[str, Any]
    folder: Path
    trace_bytes: int
    where: str
    """The name of the sending node, for messages."""
    _left: list[tuple[str, int]] = field(default_factory=list)
    _written: int = 0

    def __post_init__(self) -> None:
        kind, name, files = (self.header.get(key) for key in ("kind", "name", "files"))
        if kind not in ("sweep", "run", "pools") or not isinstance(files, dict) or not 0 < len(files) <= _MOST_FILES:
            self._refuse("a parcel that is none of a sweep")
        if kind == "run" and not (isinstance(name, str) and RUN_ID.fullmatch(name)):
            self._refuse(f"a run with the name {str(name)[:40]!r}")
        if kind != "run" and set(files) != {*(SWEEP_FILES if kind == "sweep" else POOLS_FILES)}:
            self._refuse("files that a sweep folder does not have")
        for file, size in files.items():
            if not isinstance(file, str) or not _NAME.fullmatch(file):
                self._refuse(f"a file with the name {str(file)[:40]!r}")
            most = self.trace_bytes if file in (PAGE_TRACE_FILE, BLOCK_TRACE_FILE) else _MOST_FILE_BYTES
            if type(size) is not int or not 0 <= size <= most:
                self._refuse(f"{file} of {size if type(size) is int else '?'} bytes, where {format_bytes(most)} may be")
        self._left = list(files.items())
        self._close_empty()

    @property
    def kind(self) -> Kind:
        """Return the kind of the parcel, from its header."""
        kind: Kind = self.header["kind"]
        return kind

    @property
    def name(self) -> str:
        """Return the run's name; "" for other parcels."""
        return str(self.header["name"])

    @property
    def bytes_left(self) -> int:
        """Return the number of bytes of the parcel's files that are still to come."""
        return sum(size for _, size in self._left) - self._written

    @property
    def is_whole(self) -> bool:
        """Return whether all pieces of the parcel have been written."""
        return not self._left

    def take(self, data: object) -> None:
        """Write the next piece. Raises DataFileError for a piece that was not announced, or is too large."""
        if not isinstance(data, bytes) or not self._left:
            self._refuse("a piece of nothing")
        name, size = self._left[0]
        if not 0 < len(data) <= min(PIECE_BYTES, size - self._written):
            self._refuse(f"a piece of {len(data)} bytes, more than {name} has")
        with (self.folder / name).open("ab") as file:
            file.write(data)
        self._written += len(data)
        if self._written == size:
            _sync(self.folder / name)
            self._left.pop(0)
            self._written = 0
            self._close_empty()

    def _close_empty(self) -> None:
        """Create the parcel's next files as long as they are empty: no piece comes for these."""
        while self._left and self._left[0][1] == 0:
            (self.folder / self._left.pop(0)[0]).touch(exist_ok=False)

    def _refuse(self, what: str) -> NoReturn:
        raise DataFileError(f"the node sent {what}", self.where, _HINT)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
