"""Marks the folders that bufferlab makes, so that it removes only its own leftovers, never another program's folder.

The mark is a file in the folder. The process that made the folder keeps the mark locked (flock(2)) as long as it lives.
A process number in the mark would not be enough: the kernel reuses numbers, and other PID namespaces have their own.
This module never removes a folder without this user's mark, follows no symbolic link (callers resolve links that users
chose), and removes nothing through a mount point, because files mounted there are not bufferlab's.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

MARK = ".bufferlab-mark"
TEMPORARY = ".tmp-"
"""The prefix of the names of unfinished folders, which are renamed when they are complete."""

State = Literal["left", "in use", "foreign"]
"""The state of a folder: "left" if it has this user's mark but no process holds it, "in use" if a process does,
"foreign" if it lacks this user's mark or cannot be opened."""

_TEXT = b"bufferlab made this folder and may remove it\n"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def folder(parent: Path, name: str, mode: int = 0o700, *, keeps_mark: bool = False) -> Iterator[Path]:
    """Context manager that makes a marked folder, holds it while the context lasts, and removes it at the end.

    A folder that was renamed in the meantime is kept, and loses its mark unless `keeps_mark`. Raises OSError if the
    folder cannot be made.
    """
    with opened(parent) as above:
        os.mkdir(name, mode, dir_fd=above)
        inside = os.open(name, _FOLDER, dir_fd=above)
        mark = None
        try:
            mark = _make_mark(inside)
            yield parent / name
        finally:
            with suppress(OSError):
                if _is_at(inside, name, above):
                    _empty(inside, above)
                    os.rmdir(name, dir_fd=above)
                elif not keeps_mark:
                    os.unlink(MARK, dir_fd=inside)
            for descriptor in (mark, inside):
                if descriptor is not None:
                    os.close(descriptor)


def use(kept: Path) -> int | None:
    """Hold a folder of the cache, and record the time as its last use. Return a descriptor; closing it ends the use.

    The first use marks the folder. Return None if it cannot be marked: it is another user's, or its disk is full or
    read-only.
    """
    try:
        with opened(kept) as inside:
            mark = os.open(MARK, _FILE | os.O_CREAT, 0o600, dir_fd=inside)
    except OSError:
        return None
    try:
        fcntl.flock(mark, fcntl.LOCK_SH)
        if os.fstat(mark).st_size == 0:
            os.pwrite(mark, _TEXT, 0)
        os.utime(mark)
    except OSError:
        os.close(mark)
        return None
    return mark


def clear(path: Path) -> None:
    """Remove an unmarked folder that is inside one of bufferlab's folders. If that fails, leave it."""
    with suppress(OSError), opened(path.parent) as above, _opened_in(above, path.name, _FOLDER) as inside:
        _empty(inside, above)
        os.rmdir(path.name, dir_fd=above)


def last_use_s(kept: Path) -> float:
    """Return the time of the folder's last use, in seconds since 1970; without a mark, the time of its last change.

    Raises OSError if the folder is missing or cannot be read.
    """
    mark = kept / MARK
    return (mark if mark.is_file() else kept).lstat().st_mtime


def state(path: Path) -> State:
    """Return whether the folder is left over from a process that has ended, in use, or foreign."""
    return _claim(path, remove=False)


def remove(path: Path) -> State:
    """Remove the folder if it is left over; return the state it had. Raises OSError if it cannot be removed."""
    return _claim(path, remove=True)


def leftovers(parent: Path, pattern: str) -> list[Path]:
    """Return the folders in `parent` whose names match the pattern and whose state is "left", sorted by name."""
    return [path for path in sorted(parent.glob(pattern)) if state(path) == "left"]


def remove_leftovers(parent: Path, pattern: str) -> list[str]:
    """Remove the folders that `leftovers` returns; return the names of those that were removed."""
    names = []
    for path in sorted(parent.glob(pattern)):
        with suppress(OSError):
            if remove(path) == "left":
                names.append(path.name)
    return names


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Context manager for a descriptor of a folder. Raises NotADirectoryError for a symbolic link or a file.

    Raises another OSError if the folder is missing or may not be read.
    """
    descriptor = os.open(path, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _claim(path: Path, *, remove: bool) -> State:
    with ExitStack() as stack:
        try:
            above = stack.enter_context(opened(path.parent))
            inside = stack.enter_context(_opened_in(above, path.name, _FOLDER))
            mark = stack.enter_context(_opened_in(inside, MARK, _FILE))
        except OSError:
            return "foreign"
        if not _is_ours(mark):
            return "foreign"
        if not takes(mark):
            return "in use"
        if remove:
            _empty(inside, above)
            os.rmdir(path.name, dir_fd=above)
        return "left"


def takes(descriptor: int) -> bool:
    """Lock an open file or folder (flock(2)) if no other process holds it; return whether this process now does."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _opened_in(above: int, name: str, flags: int) -> Iterator[int]:
    descriptor = os.open(name, flags, dir_fd=above)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _make_mark(inside: int) -> int:
    mark = os.open(MARK, _FILE | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=inside)
    fcntl.flock(mark, fcntl.LOCK_EX)
    # Write the text only after locking: until then other processes must consider the folder foreign.
    os.pwrite(mark, _TEXT, 0)
    return mark


def _is_ours(mark: int) -> bool:
    """Return whether this user wrote the mark, and the mark has only one name.

    With a second name (a hard link) another user could put the mark into another folder.
    """
    found = os.fstat(mark)
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1
    return is_own and os.pread(mark, len(_TEXT) + 1, 0) == _TEXT


def _is_at(inside: int, name: str, above: int) -> bool:
    """Return whether the folder with descriptor `inside` still has this name in the folder with descriptor `above`."""
    try:
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(inside))


def _empty(inside: int, above: int) -> None:
    """Remove everything in an open folder, the mark last, so that a half-removed folder is still marked.

    If the folder, or a folder below it, is a mount point, remove nothing and raise OSError.
    """
    mount = _mount_of(above)
    for where, _, _, folder in os.fwalk(".", dir_fd=inside):
        if _mount_of(folder) != mount:
            raise OSError(errno.EBUSY, "something is mounted there; unmount it first", where)
    for name in sorted(os.listdir(inside), key=lambda name: name == MARK):
        if stat.S_ISDIR(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=inside)
        else:
            os.unlink(name, dir_fd=inside)


def _mount_of(descriptor: int) -> tuple[int, str]:
    """Return (device, mount) of an open folder. The device alone is not enough: a bind mount has that of its source.

    The mount is "" if the kernel does not show it.
    """
    with suppress(OSError), open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as told:
        return os.fstat(descriptor).st_dev, next((line for line in told if line.startswith("mnt_id:")), "")
    return os.fstat(descriptor).st_dev, ""
