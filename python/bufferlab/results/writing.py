"""Writes the files of a sweep folder with our own write and fsync, so that a full disk is an errno.

A library would raise its own error, with a sentence only. This file knows no format but Parquet's writer.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from bufferlab.errors import EnvironmentLackingError

if TYPE_CHECKING:
    import polars as pl

_CURES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EROFS: "make the disk writable, or work on a copy of the folder",
    errno.EACCES: "make the folder writable, or work on a copy of it",
    errno.EPERM: "make the folder writable, or work on a copy of it",
    errno.ENOENT: "put the folder back",
}


@contextmanager
def into(folder: Path, what: str, kept: str, then: str) -> Iterator[None]:
    """Turn what the file system refuses into EnvironmentLackingError: what is kept, what to free, and what to run then.

    The error covers the work inside: it must write nothing but files of that folder.
    """
    try:
        yield
    except OSError as error:
        cure = _CURES.get(error.errno or 0, "look at the disk")
        raise EnvironmentLackingError(
            f"{what} cannot be written: {error.strerror or error}", str(folder), f"{kept}; {cure}, then: {then}"
        ) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        _sync(file)


def copy(source: Path, target: Path) -> None:
    """Copy a file and wait until it is on the disk."""
    with source.open("rb") as old, target.open("wb") as new:
        shutil.copyfileobj(old, new, 1 << 20)
        _sync(new)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_parquet(path: Path, frame: pl.DataFrame | pl.LazyFrame, metadata: Mapping[str, str]) -> None:
    """Write a frame as Parquet and wait until it is on the disk. Raises OSError when the disk refuses it."""
    import polars as pl

    with path.open("wb") as file:
        sink = _Sink(file)
        target = cast("IO[bytes]", sink)
        try:
            frame.lazy().sink_parquet(target, metadata=dict(metadata), compression="zstd", maintain_order=True)
        except pl.exceptions.PolarsError as error:
            if sink.refused is None:
                raise
            raise sink.refused from error
        _sync(file)


class _Sink(io.RawIOBase):
    """A file that passes on what polars writes and keeps the system's error, of which polars would make a sentence.

    It has no descriptor, or polars would write past it.
    """

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file
        self.refused: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.refused = error
            raise


def _sync(file: io.BufferedWriter) -> None:
    file.flush()
    os.fsync(file.fileno())
