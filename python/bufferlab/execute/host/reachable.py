"""Finds or creates directories that another user can reach: servers refuse root, so root starts them as another user.

Nothing here changes a directory that bufferlab did not create.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from bufferlab.engines import registry as engines
from bufferlab.errors import EnvironmentLackingError

Owner = tuple[int, int]
"""The numbers of a user and a group (uid, gid)."""

_TRAVERSE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


def servers_owner(engine: str) -> Owner | None:
    """Return the user that the engine's server runs as, if bufferlab is root; None if it runs as bufferlab's user."""
    if os.geteuid() != 0 or not engines.declaration(engine).needs_unprivileged_user:
        return None
    return engines.behaviour(engine).server_user()


def barrier(directory: Path, owner: Owner) -> Path | None:
    """Return the first directory on the path from / that this user cannot traverse; None if all can be traversed.

    Directories that do not exist yet count as traversable.
    """
    whole = directory.absolute()
    for path in (*reversed(whole.parents), whole):
        try:
            found = path.stat()
        except FileNotFoundError:
            return None  # Directories that bufferlab creates later will be traversable.
        mine, ours = found.st_uid == owner[0], found.st_gid == owner[1]
        bit = stat.S_IXUSR if mine else stat.S_IXGRP if ours else stat.S_IXOTH
        if owner[0] != 0 and not found.st_mode & bit:
            return path
    return None


def require_reachable(directory: Path, owner: Owner | None, purpose: str, flag: str) -> None:
    """Refuse a directory that the server's user cannot reach, before the server would fail there.

    Raises EnvironmentLackingError.
    """
    closed = barrier(directory, owner) if owner else None
    if closed is None:
        return
    assert owner is not None
    raise EnvironmentLackingError(
        f"the server's user (number {owner[0]}; servers do not run as root) cannot reach the directory for {purpose}: "
        f"{closed} is closed to others",
        str(directory),
        f"choose one below /var/tmp or /srv with {flag}, or run bufferlab as an ordinary user",
    )


def is_ours_alone(folder: Path) -> bool:
    """Return whether `folder` is a folder, not a link, that belongs to this user and that no other user may change."""
    found = folder.lstat()
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & others


def shared_root() -> Path:
    """Create and return the data folder to use if the server's user cannot reach root's own folders.

    Raises EnvironmentLackingError if another user owns it or may change it.
    """
    root = Path(f"/var/tmp/bufferlab-{os.getuid()}")
    with suppress(FileExistsError):
        root.mkdir(mode=0o711)
    if not is_ours_alone(root):
        raise EnvironmentLackingError(
            "the directory for data is not ours alone",
            str(root),
            "remove it, or choose others with --data-dir and $BUFFERLAB_CACHE",
        )
    # For any umask, the server's user must be able to traverse the folder.
    for folder in (root, root / "work", root / "cache"):
        folder.mkdir(mode=0o711, exist_ok=True)
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | _TRAVERSE)
    return root


def open_way(directory: Path, owner: Owner | None) -> None:
    """Let the server's user traverse a directory that bufferlab created.

    Other users can traverse it too, but cannot list it, and the names inside are random.
    """
    if owner is not None:
        directory.chmod(stat.S_IMODE(directory.stat().st_mode) | _TRAVERSE)
