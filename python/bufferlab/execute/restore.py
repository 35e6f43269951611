"""A run's own copy of a loaded database: byte-identical, on the device, and out of the page cache.

Reflink where the file system can (ioctl_ficlone(2)), else a copy; which one is probed once, so that a
sweep never mixes them.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Literal

Method = Literal["reflink", "copy"]

_FICLONE = 0x40049409
_CHUNK_BYTES = 16 << 20


def probe_method(source: Path, target: Path) -> Method:
    """What the file systems of these two directories can do together: tried on a small file."""
    original, clone = source / f".tmp-reflink-{secrets.token_hex(4)}", target / "reflink-probe"
    try:
        original.write_bytes(bytes(4096))
        with original.open("rb") as readable, clone.open("wb") as writable:
            fcntl.ioctl(writable, _FICLONE, readable.fileno())
    except OSError:
        return "copy"
    finally:
        original.unlink(missing_ok=True)
        clone.unlink(missing_ok=True)
    return "reflink"


def restore(source: Path, target: Path, method: Method, check: Callable[[], None]) -> None:
    """Make `target` from `source`, wait until it is on the device, and drop both from the page cache.

    `check` is called between chunks and may raise to give up. OSError when the disk is full.
    """
    with source.open("rb") as original, target.open("wb") as copy:
        os.fchmod(copy.fileno(), 0o600)
        if method == "reflink":
            fcntl.ioctl(copy, _FICLONE, original.fileno())
        else:
            _copy(original.fileno(), copy.fileno(), check)
        os.fsync(copy.fileno())
        # Otherwise a buffered run would find in memory what it should read, and a direct one less free memory.
        for descriptor in (original.fileno(), copy.fileno()):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _copy(source: int, target: int, check: Callable[[], None]) -> None:
    offset, size = 0, os.fstat(source).st_size
    while offset < size:
        check()
        sent = os.sendfile(target, source, offset, min(_CHUNK_BYTES, size - offset))
        if sent == 0:
            raise OSError(f"the source ended at {offset} of {size} bytes")
        offset += sent
