"""Reads the bytes of a foreign file into memory.

It decompresses the file, and refuses one that would exhaust the memory.

A small file may unpack to any size, and one request of a block trace may touch any number of pages. The free memory
limits both.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import zlib
from pathlib import Path
from stat import S_ISREG
from typing import Any

from bufferlab.errors import DataFileError, EnvironmentLackingError
from bufferlab.procfs import assumed_bytes
from bufferlab.units import format_bytes

#: A file may have at most 1/8 of the free memory's bytes: polars needs several times a text's bytes for its columns.
_SHARE_OF_MEMORY = 8
#: The bytes of memory for each access: it takes 13, and several times as many while pages are numbered and counted.
_BYTES_OF_ACCESS = 128
_CHUNK_BYTES = 1 << 20
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
SUFFIXES = ".zst, .gz, .xz or .bz2"
"""The file name suffixes of compressed files, as text for messages."""


def most_bytes() -> int:
    """Return the largest number of file bytes that may be read into memory."""
    return assumed_bytes() // _SHARE_OF_MEMORY


def most_accesses() -> int:
    """Return the largest number of accesses that fit into the free memory, below 2^32."""
    return min(assumed_bytes() // _BYTES_OF_ACCESS, (1 << 32) - 1)


def is_packed(path: Path) -> bool:
    """Return whether a path has the suffix of a compressed file, such as .gz."""
    return path.suffix.lower() in (*_OPENERS, ".zst")


def require_regular(path: Path) -> None:
    """Raise DataFileError for a device or a pipe, which may have no end; raise OSError for a missing file."""
    if not S_ISREG(path.stat().st_mode):
        raise DataFileError("not a regular file", str(path), "give a file, not a device or a pipe")


def first_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of a file's contents, unpacked. Raise DataFileError if they are damaged, or OSError."""
    if is_packed(path):
        return _unpacked(path, count, cut=True)
    with path.open("rb") as file:
        return file.read(count)


def all_bytes(path: Path) -> bytes:
    """Return the contents of a file, unpacked. Raise DataFileError if they are damaged or too large, or OSError."""
    most = most_bytes()
    if is_packed(path):
        return _unpacked(path, most, cut=False)
    size_bytes = path.stat().st_size
    if size_bytes > most:
        raise _too_large(path, most)
    return path.read_bytes()


def _unpacked(path: Path, most: int, *, cut: bool) -> bytes:
    kind = path.suffix.lower()
    zstd = _zstd() if kind == ".zst" else None
    bad = (zstd.ZstdError,) if zstd else (gzip.BadGzipFile, lzma.LZMAError, zlib.error)
    found = bytearray()
    try:
        with (zstd.open if zstd else _OPENERS[kind])(path, "rb") as file:
            while piece := file.read(_CHUNK_BYTES):
                found += piece
                if cut and len(found) >= most:
                    return bytes(found[:most])
                if len(found) > most:
                    raise _too_large(path, most)
    except (*bad, EOFError, MemoryError) as error:
        what = f"{'zstd' if zstd else kind} cannot unpack it: {error}"
        raise DataFileError(what, str(path), "copy the whole file again") from error
    except OSError as error:
        # Only bz2 raises an OSError without an errno for damaged data: it has no exception class.
        if error.errno is not None:
            raise
        raise DataFileError(f"{kind} cannot unpack it: {error}", str(path), "copy the whole file again") from error
    return bytes(found)


def _zstd() -> Any:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError as error:
        hint = "unpack it with zstd -d, or install the package backports.zstd"
        raise EnvironmentLackingError("this Python cannot read .zst", "curve", hint) from error
    return zstd


def _too_large(path: Path, most: int) -> DataFileError:
    what = f"it holds more than {format_bytes(most)}, an eighth of the memory that is free"
    return DataFileError(what, str(path), "cut the trace, or use a machine with more memory")


def too_many(path: Path) -> DataFileError:
    """Return the error for a file that has more accesses than fit into the free memory."""
    what = f"it has more than {most_accesses():,} accesses, for which the free memory suffices"
    return DataFileError(what, str(path), "cut the trace, or use a machine with more memory")
