"""Creates loop devices that do not outlive this process, over a file or over a copy of it in memory.

The device has the kernel's autoclear flag: it detaches itself when the last descriptor is closed, also at the death of
the process. A copy in memory is an unnamed file (memfd_create(2), in the kernel's internal tmpfs), which also
disappears with its descriptor. Nothing is mounted. Layouts follow linux/loop.h.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bufferlab import procfs
from bufferlab.errors import EnvironmentLackingError
from bufferlab.units import format_bytes

CONTROL = Path("/dev/loop-control")

_GET_FREE, _CONFIGURE, _CLEAR, _STATUS = 0x4C82, 0x4C0A, 0x4C01, 0x4C05
_READ_ONLY, _AUTOCLEAR, _DIRECT_IO = 1, 4, 16
#: struct loop_info64: device, inode, rdevice, offset, size limit, number, encryption type and key size, flags, name,
#: cipher, key, init.
_INFO = struct.Struct("=5Q4I64s64s32s2Q")
_FLAGS = 8
_SECTOR_BYTES = 512
_TRIES = 20
_GONE_SECONDS = 10.0
_CHUNK_BYTES = 16 << 20
_SPARE_BYTES = 512 << 20


@dataclass(frozen=True)
class AttachedLoop:
    """A loop device that is attached to its file."""

    path: Path
    direct_io: bool
    """Whether the loop device reads its file with direct I/O, so that pages are not cached twice."""


@contextmanager
def over(path: Path, size_bytes: int) -> Iterator[AttachedLoop]:
    """Context manager for a read-only loop device over the first `size_bytes` of a file or block device.

    Raises EnvironmentLackingError when the kernel gives this process no loop device.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with _attached(descriptor, size_bytes, direct_io=True) as attached:
            yield attached
    finally:
        os.close(descriptor)


@contextmanager
def over_memory(path: Path, size_bytes: int) -> Iterator[AttachedLoop]:
    """Context manager for a read-only loop device over a copy in memory of the first `size_bytes` of a file.

    Raises EnvironmentLackingError as `over` does, and if there is not enough memory for the copy plus _SPARE_BYTES.
    """
    available_bytes = procfs.available_bytes() or 0
    if available_bytes < size_bytes + _SPARE_BYTES:
        raise EnvironmentLackingError(
            f"a copy of {format_bytes(size_bytes)} in memory needs {format_bytes(size_bytes + _SPARE_BYTES)}; "
            f"{format_bytes(available_bytes)} are available",
            "device = tmpfs_loop",
            "ask for a smaller file_size",
        )
    memory = os.memfd_create("bufferlab-copy", os.MFD_CLOEXEC)
    try:
        _copy(path, memory, size_bytes)
        with _attached(memory, size_bytes, direct_io=False) as attached:
            yield attached
    finally:
        os.close(memory)


def why_not() -> str | None:
    """Return the reason why this user cannot create loop devices; None if this user can."""
    if os.geteuid() != 0:
        return "a loop device needs root"
    if not os.access(CONTROL, os.R_OK | os.W_OK):
        return f"{CONTROL} is missing or closed (is the module loop loaded? does the container allow it?)"
    return None


def _copy(path: Path, memory: int, size_bytes: int) -> None:
    with path.open("rb") as source:
        done = 0
        while done < size_bytes:
            sent = os.sendfile(memory, source.fileno(), done, min(_CHUNK_BYTES, size_bytes - done))
            if sent == 0:
                raise OSError(errno.EIO, f"it ended at {done} of {size_bytes} bytes", str(path))
            done += sent
        # Runs read the copy, so the original need not stay in the page cache.
        os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def _attached(backing: int, size_bytes: int, *, direct_io: bool) -> Iterator[AttachedLoop]:
    device, path = _configure(backing, size_bytes, direct_io=direct_io)
    try:
        flags = _INFO.unpack(fcntl.ioctl(device, _STATUS, bytes(_INFO.size)))[_FLAGS]
        yield AttachedLoop(path, bool(flags & _DIRECT_IO))
    finally:
        with suppress(OSError):
            fcntl.ioctl(device, _CLEAR)
        os.close(device)
        _wait_until_gone(path)


def _configure(backing: int, size_bytes: int, *, direct_io: bool) -> tuple[int, Path]:
    """Configure a free loop device in one step; return its descriptor and path.

    One step is used because a crash between two steps could leave the device attached. Raises EnvironmentLackingError
    if the kernel refuses, or if no device is free.
    """
    flags = _READ_ONLY | _AUTOCLEAR | (_DIRECT_IO if direct_io else 0)
    info = _INFO.pack(0, 0, 0, 0, size_bytes, 0, 0, 0, flags, b"bufferlab", b"", b"", 0, 0)
    config = struct.pack("=2I", backing, _SECTOR_BYTES) + info + bytes(64)
    try:
        control = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(error) from error
    try:
        for _ in range(_TRIES):
            path = Path(f"/dev/loop{fcntl.ioctl(control, _GET_FREE)}")
            device = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _CONFIGURE, config)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:  # EBUSY: another process took the device first.
                    raise
                time.sleep(0.05)
            else:
                return device, path
    except OSError as error:
        raise _refused(error) from error
    finally:
        os.close(control)
    raise EnvironmentLackingError("no loop device is free", str(CONTROL), "see losetup --list")


def _refused(error: OSError) -> EnvironmentLackingError:
    return EnvironmentLackingError(
        f"a loop device cannot be made: {error.strerror}",
        str(error.filename or CONTROL),
        "run as root, with Linux 5.8 or later, or leave device = as_is",
    )


def _wait_until_gone(path: Path) -> None:
    """Wait up to _GONE_SECONDS for the device to detach: programs such as udev may keep it open for a moment."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (Path("/sys/block") / path.name / "loop").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
