"""Decides which user a private server runs as, and checks that this user can reach a path.

MySQL and MariaDB refuse to run as root. If bufferlab is root, servers run as `nobody`, or as $BUFFERLAB_SERVER_USER;
otherwise they run as the user of bufferlab.
"""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO

from bufferlab.errors import EnvironmentLackingError

VARIABLE = "BUFFERLAB_SERVER_USER"
_DEFAULT = "nobody"
_ROOT_DIRECTORY = Path("/var/tmp/bufferlab-0")
_NEEDED = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}
"""The capabilities, with their bits (capabilities(7)), that root needs for a server that runs as another user.

With them root runs the server as that user, gives that user files, reads these files, and ends the server.
"""
_STATUS = Path("/proc/self/status")
_NOT_OURS = "a process of the server's user put it there: look what it is, and begin the sweep anew"
_READ_EXECUTE = 0o5
_EXECUTE = 0o1


def server_user() -> tuple[int, int] | None:
    """Return the (uid, gid) that servers run as if bufferlab is root; None if they run as bufferlab's user.

    Raise EnvironmentLackingError if $BUFFERLAB_SERVER_USER names no user, or root, and if root's capabilities were
    dropped, as in some containers.
    """
    if os.geteuid() != 0:
        return None
    name = os.environ.get(VARIABLE) or _DEFAULT
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise EnvironmentLackingError(
            f"there is no user {name} to run the server as", f"${VARIABLE}", f"set {VARIABLE} to an unprivileged user"
        ) from None
    if entry.pw_uid == 0:
        raise EnvironmentLackingError(
            "the server refuses to run as root", f"${VARIABLE}", f"set {VARIABLE} to an unprivileged user"
        )
    if dropped := [name for name, bit in _NEEDED.items() if not _capabilities() >> bit & 1]:
        raise EnvironmentLackingError(
            f"the server's user cannot be changed to {name}: this process is root without {', '.join(dropped)}",
            f"{_STATUS}: CapEff",
            "run bufferlab as an ordinary user (docker run --user 1000), or leave it these capabilities (--cap-add)",
        )
    return entry.pw_uid, entry.pw_gid


def _capabilities() -> int:
    """Return the bits of the effective capabilities (proc_pid_status(5)); all bits if the kernel does not show them."""
    try:
        told = next(line for line in _STATUS.read_text().splitlines() if line.startswith("CapEff:"))
    except (OSError, StopIteration):
        return -1
    return int(told.split()[1], 16)


def default_root() -> Path | None:
    """Return root's folder for files that servers must reach, because they may not enter root's home; None if not root.

    Create it if it is missing. Raise EnvironmentLackingError if other users own it or may write to it.
    """
    if os.geteuid() != 0:
        return None
    with suppress(FileExistsError):
        _ROOT_DIRECTORY.mkdir(mode=0o711)
    found = _ROOT_DIRECTORY.lstat()
    # All users may write to the parent folder: a user who created this folder first could put anything into it.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        raise EnvironmentLackingError(
            "this folder belongs to somebody else, or others may write to it",
            str(_ROOT_DIRECTORY),
            "remove it, or choose other places with BUFFERLAB_CACHE and --data-dir",
        )
    # Set the mode, because the umask may keep the server's user from traversing the folder.
    _ROOT_DIRECTORY.chmod(stat.S_IMODE(found.st_mode) | 0o111)
    return _ROOT_DIRECTORY


def give(path: Path, user: tuple[int, int] | None) -> None:
    """Give a file or folder to `user`; do nothing for None. Symbolic links are not followed."""
    if user is not None:
        os.chown(path, *user, follow_symlinks=False)


def write_for(path: Path, text: str, user: tuple[int, int] | None) -> None:
    """Replace a file that only `user` may read (None: this process's user), in a folder that `user` may have changed.

    Raises FileExistsError if `user` creates a file of that name at the same time.
    """
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        if user is not None:
            os.fchown(descriptor, *user)
        file.write(text)


def open_log(path: Path, user: tuple[int, int] | None) -> IO[bytes]:
    """Open a log for appending, which only `user` may read (None: this process's user); it may exist already.

    Raises EnvironmentLackingError for a path that is not a regular file, or is a file with a second name (hard link).
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise EnvironmentLackingError(f"the log cannot be opened: {error.strerror}", str(path), _NOT_OURS) from error
    log = os.fdopen(descriptor, "ab")
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        log.close()
        raise EnvironmentLackingError("the log is no file of its own", str(path), _NOT_OURS)
    if user is not None:
        os.fchown(descriptor, *user)
    return log


def make_folder_for(path: Path, user: tuple[int, int] | None) -> None:
    """Create a folder (mode 0700, owned by `user`), or change an existing one to that; a symbolic link is refused.

    Raises EnvironmentLackingError if something else is there.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        what = f"the server's folder cannot be opened: {error.strerror}"
        raise EnvironmentLackingError(what, str(path), _NOT_OURS) from error
    try:
        os.fchmod(descriptor, 0o700)
        if user is not None:
            os.fchown(descriptor, *user)
    finally:
        os.close(descriptor)


def require_reachable(path: Path, user: tuple[int, int] | None, *, needs: int = _EXECUTE) -> None:
    """Raise EnvironmentLackingError unless `user` can traverse the parents of `path` and has `needs` (rwx bits) on it.

    Nothing is checked if `user` is None, which stands for this process's user.
    """
    if user is None:
        return
    path = path.resolve()
    for folder in [*reversed(path.parents), path]:
        try:
            found = folder.stat()
        except OSError as error:
            raise EnvironmentLackingError(f"it cannot be looked at: {error.strerror}", str(folder)) from error
        needed = needs if folder == path else _EXECUTE
        if _bits(found, user) & needed != needed:
            mode = f"mode {found.st_mode & 0o777:o}"
            raise EnvironmentLackingError(
                f"the server runs as user {_name(user[0])}, who may not enter {folder} ({mode})",
                str(path),
                f"choose another directory with --data-dir and BUFFERLAB_CACHE (such as below {_ROOT_DIRECTORY}), "
                f"or another user with {VARIABLE}",
            )


def require_runnable(binary: Path, user: tuple[int, int] | None) -> None:
    """Raise EnvironmentLackingError if `user` cannot execute the server's binary."""
    require_reachable(binary, user, needs=_READ_EXECUTE)


def _bits(found: os.stat_result, user: tuple[int, int]) -> int:
    if found.st_uid == user[0]:
        return found.st_mode >> 6 & 0o7
    if found.st_gid == user[1]:
        return found.st_mode >> 3 & 0o7
    return found.st_mode & 0o7


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
