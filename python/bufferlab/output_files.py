"""Writes a file that a user names: either completely, or not at all, so that the old file stays unchanged.

A file is written under a temporary name in its folder, and renamed when it is complete. Symbolic links of this user and
of root are followed. Another user's link is replaced, so that the owner of a folder cannot redirect the file. If a
rename would change more than the content, the file is written in place: this holds for devices and pipes, standard
output, a file with several names, and a file whose folder or owner does not allow a new file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

Fill = Callable[[BinaryIO], object]
"""A function that writes the contents of the file to a stream."""

_OPEN = os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
_IN_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)
"""The errors that mean that a file cannot be replaced: no new file in the folder, another owner, or a mount point."""


def write(path: Path, fill: Fill, *, synced: bool = True) -> None:
    """Write the file with `fill`, and wait until it is on disk if `synced`. Raises OSError if that fails.

    Until the end, readers see the old file; the new one takes its mode and owner. A file that cannot be replaced (see
    the module) is written in place.
    """
    place = _place(path)
    if place.is_kept or not _replace(place, fill, synced):
        follow = os.O_APPEND if place.is_output else os.O_TRUNC
        with open(os.open(place.path, _OPEN | place.no_link | follow), "wb") as file:
            fill(file)


def try_place(path: Path) -> None:
    """Check that `write` could write the file, without changing anything. Raises the OSError that it would raise."""
    place = _place(path)
    if not place.is_kept:
        _replace(place, None, synced=False)


class _Place(NamedTuple):
    path: str
    """The path after following links."""
    found: os.stat_result | None = None
    """The status of the file at the path; None without a file, or for a link that is not followed."""
    is_output: bool = False
    """Whether standard output or standard error go to this file, so that the content is added to printed text."""
    no_link: int = os.O_NOFOLLOW

    @property
    def is_kept(self) -> bool:
        """Whether the file is written in place instead of being replaced."""
        plain = self.found is not None and stat.S_ISREG(self.found.st_mode) and self.found.st_nlink == 1
        return self.is_output or not (self.found is None or plain)


def _place(path: Path) -> _Place:
    """Return the place where to write the file. Raises OSError for a folder, and if writing is not allowed."""
    place, found = _behind_links(os.fspath(path))
    if found is None:
        # The target of a link below /proc may be without a path: it may be a pipe, for example.
        is_nameless = place.startswith("/proc/") and path.exists()
        return _Place(str(path), os.stat(path), no_link=0) if is_nameless else _Place(place)
    if stat.S_ISDIR(found.st_mode):
        raise _refusal(errno.EISDIR, place)
    if not stat.S_ISREG(found.st_mode):
        if not os.access(place, os.W_OK):
            raise _refusal(errno.EACCES, place)
        return _Place(place, found)
    # Because of fs.protected_regular the kernel refuses only an open(2) that may create the file.
    above = os.stat(os.path.dirname(place) or ".")
    is_for_all = above.st_mode & stat.S_ISVTX and above.st_mode & stat.S_IWOTH
    if is_for_all and found.st_uid not in (os.geteuid(), above.st_uid):
        raise _refusal(errno.EACCES, place)
    os.close(os.open(place, _OPEN | os.O_NOFOLLOW))
    return _Place(place, found, any(_is_at(found, descriptor) for descriptor in (1, 2)))


def _refusal(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _behind_links(path: str) -> tuple[str, os.stat_result | None]:
    """Return the path after following symbolic links, and its status: None without a file, or for another user's link.

    Raises OSError for more than _MOST_LINKS links, and if a folder cannot be read.
    """
    for _ in range(_MOST_LINKS):
        try:
            descriptor = os.open(path, _LOOK)
        except FileNotFoundError:
            return path, None
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISLNK(found.st_mode):
                return path, found
            if found.st_uid not in (os.geteuid(), 0):
                return path, None
            path = os.path.join(os.path.dirname(path), os.readlink("", dir_fd=descriptor))
        finally:
            os.close(descriptor)
    raise _refusal(errno.ELOOP, path)


def _replace(place: _Place, fill: Fill | None, synced: bool) -> bool:
    """Make the new file and rename it; without `fill`, only try to make it. Return whether the folder allows that.

    Raises OSError if writing fails for another reason.
    """
    folder, name = os.path.split(place.path)
    try:
        with _folder(folder or ".") as above, _new_file(above, place.found) as (temporary, file):
            if fill is not None:
                fill(file)
                file.flush()
                if synced:
                    os.fsync(file.fileno())
                os.rename(temporary, name, src_dir_fd=above, dst_dir_fd=above)
    except OSError as error:
        if place.found is not None and error.errno in _IN_PLACE:
            return False
        raise
    return True


@contextmanager
def _new_file(above: int, old: os.stat_result | None) -> Iterator[tuple[str, BinaryIO]]:
    """Context manager for a temporary file with the owner and mode of the old file. Unless renamed, it is removed."""
    name = f".bufferlab-{os.urandom(8).hex()}.new"
    with open(os.open(name, _OPEN | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=above), "wb") as file:
        try:
            if old is not None:
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
                os.fchmod(file.fileno(), old.st_mode & 0o777)
            yield name, file
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=above)


@contextmanager
def _folder(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_at(found: os.stat_result, descriptor: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(found, os.fstat(descriptor))
    return False
