"""Folders that bufferlab made, told from everybody else's by a mark inside, and removed by nobody else's mistake.

The mark is a file that the maker of a folder keeps locked (flock(2)) while it lives: process numbers are given again,
and other PID namespaces have their own. A folder without the mark of this user is never removed, and no symbolic link
is followed: a caller resolves the links that its user chose.
"""

from __future__ import annotations

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
"""How the names of folders begin that are renamed when they are whole."""

State = Literal["left", "in use", "foreign"]
"""Of a folder: ours and nobody's any more; ours and somebody's; not ours."""

_TEXT = b"bufferlab made this folder and may remove it\n"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def folder(parent: Path, name: str, mode: int = 0o700) -> Iterator[Path]:
    """Make a marked folder, held while the context lasts, and remove it at the end.

    A folder that was renamed meanwhile stays, without the mark.
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
                    _empty(inside)
                    os.rmdir(name, dir_fd=above)
                else:
                    os.unlink(MARK, dir_fd=inside)
            for descriptor in (mark, inside):
                if descriptor is not None:
                    os.close(descriptor)


def use(kept: Path) -> int | None:
    """Hold a folder that bufferlab keeps, and note the time as its last use; a descriptor to close afterwards.

    The first use marks the folder. None where it cannot be marked: another user's, or on a read-only disk.
    """
    try:
        with opened(kept) as inside:
            mark = os.open(MARK, _FILE | os.O_CREAT, 0o600, dir_fd=inside)
    except OSError:
        return None
    fcntl.flock(mark, fcntl.LOCK_SH)
    if os.fstat(mark).st_size == 0:
        os.pwrite(mark, _TEXT, 0)
    os.utime(mark)
    return mark


def last_use_s(kept: Path) -> float:
    """When the folder was used last, in seconds since the epoch; without a mark, when it was made."""
    mark = kept / MARK
    return (mark if mark.is_file() else kept).lstat().st_mtime


def state(path: Path) -> State:
    """Whose the folder is."""
    return _claim(path, remove=False)


def remove(path: Path) -> State:
    """Remove the folder if its maker is dead; its state before. OSError when it cannot be removed."""
    return _claim(path, remove=True)


def leftovers(parent: Path, pattern: str) -> list[Path]:
    """The folders in `parent`, of names of this pattern, that bufferlab made and whose makers are dead."""
    return [path for path in sorted(parent.glob(pattern)) if state(path) == "left"]


def remove_leftovers(parent: Path, pattern: str) -> list[str]:
    """Remove the folders of `leftovers`; the names of those that are gone."""
    names = []
    for path in sorted(parent.glob(pattern)):
        with suppress(OSError):
            if remove(path) == "left":
                names.append(path.name)
    return names


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of a folder that is no symbolic link. NotADirectoryError for a link, or a file."""
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
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "in use"
        if remove:
            _empty(inside)
            os.rmdir(path.name, dir_fd=above)
        return "left"


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
    os.pwrite(mark, _TEXT, 0)  # Only now: until it is locked it must look like nobody's.
    return mark


def _is_ours(mark: int) -> bool:
    """Written by this user; a second name would let somebody carry a mark into another folder."""
    found = os.fstat(mark)
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1
    return is_own and os.pread(mark, len(_TEXT) + 1, 0) == _TEXT


def _is_at(inside: int, name: str, above: int) -> bool:
    """Is the open folder still the one of that name?"""
    try:
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(inside))


def _empty(inside: int) -> None:
    """Remove all in an open folder, the mark last: what an interrupted removal leaves is still marked."""
    for name in sorted(os.listdir(inside), key=lambda name: name == MARK):
        if stat.S_ISDIR(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=inside)
        else:
            os.unlink(name, dir_fd=inside)
