"""Where data may live: file systems, free space, directories that can be written, leftovers of the dead.

Refuses early and clearly; copies nothing (restore.py does).
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bufferlab import marked
from bufferlab.errors import EnvironmentLackingError
from bufferlab.execute.reach import Owner, barrier, is_ours_alone, open_way, shared_root
from bufferlab.units import format_bytes

SCRATCH = ".bufferlab-work"
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")
_SPARE_BYTES = 1 << 20


def cache_root(owner: Owner | None = None) -> Path:
    """Where loaded databases and rates are kept: $BUFFERLAB_CACHE, or the user's cache folder.

    With an owner, the user a server runs as: where that user can reach it.
    """
    if own := os.environ.get("BUFFERLAB_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    usual = Path(base) / "bufferlab"
    return shared_root() / "cache" if owner and barrier(usual, owner) else usual


def data_directory(flag: Path | None, out: Path, owner: Owner | None = None) -> Path:
    """Where the copies that runs work on live: --data-dir, $BUFFERLAB_DATA, or beside the results.

    With an owner, the user a server runs as: where that user can reach it, if nothing was chosen.
    """
    chosen = flag or os.environ.get("BUFFERLAB_DATA")
    if chosen:
        return Path(chosen).absolute()
    return shared_root() / "work" if owner and barrier(out, owner) else out.absolute()


def require_directory(directory: Path, purpose: str, flag: str) -> None:
    """Make the directory and write to it once, or EnvironmentLackingError: better now than after the load."""
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
    """Refuse a file system in memory: reads from it would measure nothing."""
    kind = filesystem_of(directory)
    if kind in _MEMORY_FILE_SYSTEMS:
        raise EnvironmentLackingError(
            f"the data would live in memory ({kind}), where reads cost nothing",
            str(directory),
            f"choose a directory on a disk with {flag}",
        )


def require_space(directory: Path, need_bytes: int, purpose: str, flag: str) -> None:
    """Refuse to start what would fill the disk."""
    free_bytes = shutil.disk_usage(directory).free
    if free_bytes < need_bytes + _SPARE_BYTES:
        raise EnvironmentLackingError(
            f"{purpose} needs about {format_bytes(need_bytes + _SPARE_BYTES)}; {format_bytes(free_bytes)} are free",
            str(directory),
            f"free some space, choose another directory with {flag}, or ask for fewer --warehouses",
            kind="full_disk",
        )


def filesystem_of(path: Path) -> str:
    """The type of the file system that holds an existing path: "ext4", "tmpfs"; "" when it cannot be told."""
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    best, found = -1, ""
    text = str(path.resolve())
    with suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        for line in mounts:
            fields = line.split()
            point, kind = fields[4], fields[fields.index("-") + 1]
            inside = text == point or text.startswith(point.rstrip("/") + "/")
            # Subvolumes have device numbers of their own; the longest mount point decides then.
            rank = len(point) + (1_000_000 if fields[2] == wanted else 0)
            if inside and rank > best:
                best, found = rank, kind
    return found


@contextmanager
def scratch(data_dir: Path, owner: Owner | None = None) -> Iterator[Path]:
    """A folder for one sweep's copies, gone afterwards whatever happens; those of dead sweeps go first.

    With an owner, the user a server runs as: one that user can pass.

    EnvironmentLackingError when the folder around them is a symbolic link, or another user's.
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
    """Remove the folder around the copies of sweeps, unless one has a copy in it."""
    with suppress(OSError), locked(root.parent):
        root.rmdir()


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold a sweep folder while runs are added to it: two resumes of one folder would do them twice."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EnvironmentLackingError(
                "another process is adding runs to this sweep folder", str(folder), "wait for it to end"
            ) from None
        yield
    finally:
        os.close(descriptor)


def clean_temporaries(out: Path) -> None:
    """Remove sweep folders a killed sweep was about to create; hold `locked(out)`, as their creators do."""
    marked.remove_leftovers(out.resolve(), f"{marked.TEMPORARY}*")


def _require_own(folder: Path) -> None:
    """Refuse a link, which would lead root into somebody else's folder, and a folder that another user may change."""
    if not is_ours_alone(folder):
        raise EnvironmentLackingError(
            "this is not a folder of this user alone, and copies of databases would go there",
            str(folder),
            "remove it, or choose another directory with --data-dir",
        )


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold a directory for a moment: flock on the directory itself, so that no lock file stays behind."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
