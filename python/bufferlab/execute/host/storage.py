"""The directories that a sweep works in: where they are, whether they can be used, and which process locks them.

An unusable directory is refused before any work. This file copies nothing (copy_method.py does).
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bufferlab import marked
from bufferlab.errors import EnvironmentLackingError
from bufferlab.execute.host.reachable import Owner, barrier, is_ours_alone, open_way, shared_root
from bufferlab.procfs import mounts
from bufferlab.units import format_bytes

SCRATCH = ".bufferlab-work"
ROOM = "fleet"
"""The name of the cache folder in which a cluster node does its blocks."""
LOCK_SECONDS = 60.0
"""A time limit in seconds, longer than any bufferlab process locks a directory.

Removing the copies of a killed sweep takes longest.
"""
GLANCE_SECONDS = 0.2
"""A time limit in seconds, longer than a report locks a sweep folder to find out whether a sweep uses it
(`SweepFolder.is_running`)."""
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")
_SPARE_BYTES = 1 << 20


def cache_root(owner: Owner | None = None) -> Path:
    """Return the folder of loaded databases and rates: $BUFFERLAB_CACHE, or the user's cache folder.

    `owner` is the user that a server runs as. If that user cannot reach the cache folder, return a shared one.
    """
    if own := os.environ.get("BUFFERLAB_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    usual = Path(base) / "bufferlab"
    return shared_root() / "cache" if owner and barrier(usual, owner) else usual


def data_directory(flag: Path | None, out: Path, owner: Owner | None = None) -> Path:
    """Return the folder for the runs' copies of databases: --data-dir, $BUFFERLAB_DATA, or the results' folder `out`.

    `owner` is the user that a server runs as. If neither is set and that user cannot reach `out`, return a shared
    folder.
    """
    chosen = flag or os.environ.get("BUFFERLAB_DATA")
    if chosen:
        return Path(chosen).absolute()
    return shared_root() / "work" if owner and barrier(out, owner) else out.absolute()


def require_directory(directory: Path, purpose: str, flag: str) -> None:
    """Create the directory and write to it once: a failure now is better than one after the load.

    Raises EnvironmentLackingError if the directory cannot be created or written.
    """
    probe = directory / f".bufferlab-{secrets.token_hex(4)}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with probe.open("xb") as file:
            file.write(b"bufferlab")
        probe.unlink()
    except OSError as error:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
        raise EnvironmentLackingError(
            f"the directory for {purpose} cannot be written: {error.strerror}",
            str(directory),
            f"choose another with {flag}",
        ) from error


def require_disk(directory: Path, flag: str) -> None:
    """Refuse a directory on a file system in memory, where reads cost nothing. Raises EnvironmentLackingError."""
    kind = filesystem_of(directory)
    if kind in _MEMORY_FILE_SYSTEMS:
        raise EnvironmentLackingError(
            f"the data would live in memory ({kind}), where reads cost nothing",
            str(directory),
            f"choose a directory on a disk with {flag}",
        )


def require_space(directory: Path, need_bytes: int, purpose: str, flag: str) -> None:
    """Refuse work that needs more bytes than the disk has free. Raises EnvironmentLackingError."""
    free_bytes = shutil.disk_usage(directory).free
    if free_bytes < need_bytes + _SPARE_BYTES:
        raise EnvironmentLackingError(
            f"{purpose} needs about {format_bytes(need_bytes + _SPARE_BYTES)}; {format_bytes(free_bytes)} are free",
            str(directory),
            f"free some space, choose another directory with {flag}, or ask for fewer --warehouses",
            kind="full_disk",
        )


def filesystem_of(path: Path) -> str:
    """Return the type of the file system that holds an existing path: "ext4", "tmpfs"; "" if it is unknown."""
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    best, found = -1, ""
    text = str(path.resolve())
    for mount in mounts():
        inside = text == mount.point or text.startswith(mount.point.rstrip("/") + "/")
        # A subvolume's device number differs from that of its mount. In that case the longest mount point decides.
        rank = len(mount.point) + (1_000_000 if mount.device == wanted else 0)
        if inside and rank > best:
            best, found = rank, mount.kind
    return found


@contextmanager
def scratch(data_dir: Path, owner: Owner | None = None) -> Iterator[Path]:
    """Context manager for the folder of one sweep's copies. Leaving removes the folder, also after an exception.

    Entering first removes the folders of killed sweeps. `owner` is the user that a server runs as; that user may
    traverse the folder. Raises EnvironmentLackingError if its parent folder is a symbolic link, or if another user owns
    or may change it.
    """
    root = data_dir / SCRATCH
    with ExitStack() as stack:
        with locked(data_dir):
            root.mkdir(mode=0o755, exist_ok=True)
            _require_own(root)
            stack.callback(remove_if_empty, root)
            marked.remove_leftovers(root, "*")
            own = stack.enter_context(marked.folder(root, secrets.token_hex(6)))
            for folder in (root, own):
                open_way(folder, owner)
        yield own


def remove_if_empty(root: Path) -> None:
    """Remove the parent folder of all sweeps' copies, if it is empty."""
    with suppress(OSError, EnvironmentLackingError), locked(root.parent):
        root.rmdir()


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Context manager that locks a sweep folder while runs are added: a second resume would do each run again.

    Raises EnvironmentLackingError if another process has locked it.
    """
    what, hint = "another process is adding runs to this sweep folder", "wait for it to end"
    with _held(folder, GLANCE_SECONDS, EnvironmentLackingError(what, str(folder), hint)):
        yield


def clean_temporaries(out: Path) -> None:
    """Remove the unfinished sweep folders of killed sweeps.

    The caller must hold `locked(out)`, as their creators do.
    """
    marked.remove_leftovers(out.resolve(), f"{marked.TEMPORARY}*")


def _require_own(folder: Path) -> None:
    """Refuse a symbolic link, which could lead root into another user's folder, and a folder that other users may
    change.

    Raises EnvironmentLackingError.
    """
    if not is_ours_alone(folder):
        raise EnvironmentLackingError(
            "this is not a folder of this user alone, and copies of databases would go there",
            str(folder),
            "remove it, or choose another directory with --data-dir",
        )


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Context manager that locks a directory for a moment, by flock on the directory itself: no lock file stays.

    Any user who may read the directory may also lock it for a long time. Raises EnvironmentLackingError after
    LOCK_SECONDS.
    """
    what = f"another process has held this directory for {LOCK_SECONDS:g} s"
    hint = "end that process (`fuser` names it), or choose another directory"
    with _held(directory, LOCK_SECONDS, EnvironmentLackingError(what, str(directory), hint)):
        yield


@contextmanager
def _held(directory: Path, seconds: float, refused: EnvironmentLackingError) -> Iterator[None]:
    """Context manager that locks a directory by flock. Raises `refused` if another process holds it for `seconds`."""
    descriptor, deadline = os.open(directory, os.O_RDONLY | os.O_DIRECTORY), time.monotonic() + seconds
    try:
        while not marked.takes(descriptor):
            if time.monotonic() >= deadline:
                raise refused
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)
