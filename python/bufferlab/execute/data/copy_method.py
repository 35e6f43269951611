"""Copies a loaded database for a run: byte-identical, written to the device, and dropped from the page cache.

The copy is a reflink if the file system can make one (ioctl_ficlone(2)), else a plain copy. Each sweep tests once
whether reflinks work, so that it never mixes both methods. Holes of sparse files stay holes (lseek(2), SEEK_DATA).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from bufferlab.execute.data.trees import entries, fsync
from bufferlab.execute.host.reachable import Owner

Method = Literal["reflink", "copy"]

_FICLONE = 0x40049409
_CHUNK_BYTES = 16 << 20
_WRITE_AND_WAIT = 7
"""The flags SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER of sync_file_range(2) together."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def probe_method(source: Path, target: Path) -> Method:
    """Return the copy method between two directories. It is tried on small unnamed files."""
    with ExitStack() as stack:
        try:
            original, clone = (stack.enter_context(_unnamed(folder)) for folder in (source, target))
            os.write(original, bytes(4096))
            fcntl.ioctl(clone, _FICLONE, original)
        except OSError:
            return "copy"
    return "reflink"


@contextmanager
def _unnamed(folder: Path) -> Iterator[int]:
    """Context manager for an unnamed file, which the kernel removes when it is closed (O_TMPFILE of open(2))."""
    descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def restore(source: Path, target: Path, method: Method, check: Callable[[], None], owner: Owner | None = None) -> None:
    """Copy a file or directory to `target`, wait until it is on the device, and drop both from the page cache.

    Files are created with mode 0600, directories with 0700, for `owner` if one is given. `check` is called between
    chunks and may raise to abort. Raises OSError if the disk is full or fails, and DataFileError for anything in a
    directory except plain files and directories.
    """
    made, copies = [], []
    for path in (source, *(entries(source) if source.is_dir() else ())):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir(mode=0o700)
            made.append(copy)
        else:
            _copy_file(path, copy, method, check, owner)
            copies.append(copy)
    # Wait for the disk only after all files are copied, because waiting after each of a server's thousand files took
    # seconds.
    for copy in copies:
        with copy.open("rb") as written:
            _wait_until_written(written.fileno())
            _drop(written.fileno())
    if not made:
        fsync(target)
    # Change the owner of folders last. If this were done earlier, the new owner could replace a path that is still
    # used.
    for directory in reversed(made):
        if owner is not None:
            os.chown(directory, *owner)
        fsync(directory)


def _copy_file(source: Path, target: Path, method: Method, check: Callable[[], None], owner: Owner | None) -> None:
    """Copy a file, and make the kernel start writing the copy to the device."""
    with source.open("rb") as original, target.open("xb") as copy:
        os.fchmod(copy.fileno(), 0o600)
        if owner is not None:
            os.fchown(copy.fileno(), *owner)
        if method == "reflink":
            fcntl.ioctl(copy, _FICLONE, original.fileno())
        else:
            _copy(original.fileno(), copy.fileno(), check)
        for descriptor in (original.fileno(), copy.fileno()):
            _drop(descriptor)


def _wait_until_written(descriptor: int) -> None:
    """Wait until the pages of an open file are on the device. Raises OSError if the device refuses them.

    It calls sync_file_range(2). fsync(2) would also write the journal and flush the device, for each file; the fsync of
    the folders does so once for all.
    """
    if _LIBC.sync_file_range(descriptor, ctypes.c_int64(0), ctypes.c_int64(0), _WRITE_AND_WAIT) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _drop(descriptor: int) -> None:
    """Drop those pages of a file that are already on the device from the page cache, and start writing the others
    (fs/fadvise.c).

    If they stayed cached, a buffered run would not have to read them, and a run with direct I/O would have less memory.
    """
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _copy(source: int, target: int, check: Callable[[], None]) -> None:
    size = os.fstat(source).st_size
    for start, end in _stretches(source, size):
        offset = os.lseek(target, start, os.SEEK_SET)
        while offset < end:
            check()
            sent = os.sendfile(target, source, offset, min(_CHUNK_BYTES, end - offset))
            if sent == 0:
                raise OSError(f"the source ended at {offset} of {size} bytes")
            offset += sent
    os.ftruncate(target, size)


def _stretches(source: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a file that is not a hole. A file system without holes reports one part."""
    end = 0
    while end < size:
        try:
            start = os.lseek(source, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # The rest of the file is a hole.
            raise
        end = os.lseek(source, start, os.SEEK_HOLE)
        yield start, end
