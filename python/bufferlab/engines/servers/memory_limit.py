"""Limits the memory of a server and the page cache of its files together, with a cgroup that exists for one run.

A cgroup's name contains its owner's PID namespace, PID and start time. The next start removes cgroups whose owner is
dead. The cgroup has version 1 (memory.limit_in_bytes) or 2 (memory.max): the one that has the host's memory controller.
The kernel charges a page to the cgroup that brought it into memory. So pages cached before would not count, and the
database is dropped from the cache first (`drop_cached`). The sources are the kernel's admin-guide/cgroup-v1/memory.rst
and cgroup-v2.rst.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bufferlab.engines.behaviour import HostCheck
from bufferlab.engines.memory_limit_knob import NAME, OFF, POOL
from bufferlab.engines.servers.child_process import can_join
from bufferlab.errors import BufferlabError, EnvironmentLackingError
from bufferlab.knob import Values
from bufferlab.procfs import mounts, stat_fields
from bufferlab.units import format_bytes

_PREFIX = "bufferlab-"
_REMOVE_SECONDS = 5.0
_HINT = (
    "leave memory_limit out, run as root, or in a cgroup with the memory controller delegated to you "
    "(systemd-run --user --scope -p Delegate=memory ...)"
)
_LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}
_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
_NO_SWAP = {1: (("memory.swappiness", "0"),), 2: (("memory.swap.max", "0"),)}


@dataclass(frozen=True)
class Hierarchy:
    """The place in a cgroup file system where bufferlab can create cgroups."""

    version: Literal[1, 2]
    folder: Path
    root: Path
    """The mount point, above every visible cgroup."""

    def __str__(self) -> str:
        return f"cgroup v{self.version} in {self.folder}"


class MemoryLimit:
    """A context manager for a cgroup that may use `limit_bytes` of memory; processes join through `procs`.

    Entering raises EnvironmentLackingError if the host does not allow it. Leaving kills the processes that are still in
    the cgroup, and removes it.
    """

    def __init__(self, limit_bytes: int | None, beside_rest_bytes: int = 0) -> None:
        """If `limit_bytes` is None, `begin` sets the limit: the memory of the idle server plus `beside_rest_bytes`."""
        self._asked_bytes, self._beside_rest_bytes = limit_bytes, beside_rest_bytes
        self._rest_bytes: int | None = None
        self._group: Path | None = None
        self._version: Literal[1, 2] = 1

    @classmethod
    def asked(cls, knobs: Values) -> MemoryLimit | None:
        """Return the limit that these knobs set; None if they set none."""
        asked = knobs.get(NAME, OFF)
        if asked == POOL:
            return cls(None, int(knobs["pool_size"]))
        return cls(asked) if isinstance(asked, int) else None

    @property
    def hint(self) -> str:
        """Return the hint for a limit that was too small."""
        return f"ask for a larger {NAME}, or a smaller pool_size" if self._asked_bytes else "ask for a larger pool_size"

    def __enter__(self) -> MemoryLimit:
        hierarchy = usable()
        self._version = hierarchy.version
        group = _make(hierarchy)
        self._group = group
        try:
            if self._asked_bytes is not None:
                self._set(self._asked_bytes)
            for name, value in _NO_SWAP[self._version]:
                with suppress(OSError):  # Not every kernel has a limit for swap.
                    (group / name).write_text(value)
        except OSError as error:
            _remove(group)
            raise EnvironmentLackingError(
                f"the memory of a server cannot be limited to {format_bytes(self._asked_bytes or 0)}: {error.strerror}",
                str(group),
                "ask for another memory_limit",
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._group is not None:
            _remove(self._group)

    @property
    def procs(self) -> Path:
        """Return the path of cgroup.procs, into which a process writes its PID to join the cgroup."""
        assert self._group is not None
        return self._group / "cgroup.procs"

    @property
    def actual_bytes(self) -> int:
        """Return the limit in force in bytes, which the kernel rounds to whole pages."""
        assert self._group is not None
        return int((self._group / _LIMIT[self._version]).read_text())

    def begin(self) -> None:
        """Record the memory of the server that has just started, and set a limit that is relative to it."""
        self._rest_bytes = self._held_bytes()
        if self._asked_bytes is None:
            self._set(self._rest_bytes + self._beside_rest_bytes)

    def taken(self) -> dict[str, int]:
        """Return the limit, the memory of the idle server, the memory now, and that of the page cache now, in bytes."""
        held = self._held_bytes()
        return {
            "memory_limit_bytes": self.actual_bytes,
            "memory_at_rest_bytes": self._rest_bytes or 0,
            "memory_held_bytes": held,
            "memory_page_cache_bytes": self._used_bytes() - held,
        }

    def _set(self, limit_bytes: int) -> None:
        assert self._group is not None
        (self._group / _LIMIT[self._version]).write_text(str(limit_bytes))

    def _used_bytes(self) -> int:
        assert self._group is not None
        return int((self._group / _USED[self._version]).read_text())

    def _held_bytes(self) -> int:
        """Return the cgroup's bytes without the page cache, which the kernel can reclaim."""
        assert self._group is not None
        told = dict(line.split() for line in (self._group / "memory.stat").read_text().splitlines())
        lists = ("total_active_file", "total_inactive_file") if self._version == 1 else ("active_file", "inactive_file")
        return self._used_bytes() - sum(int(told[name]) for name in lists)

    def ran_out(self) -> bool:
        """Return whether the kernel killed a process of the cgroup because it could reclaim no page."""
        assert self._group is not None
        name = "memory.oom_control" if self._version == 1 else "memory.events"
        with suppress(OSError):
            for line in (self._group / name).read_text().splitlines():
                word, _, count = line.partition(" ")
                if word == "oom_kill" and count.strip() != "0":
                    return True
        return False


def check(knobs: Values, beside_pool_bytes: int) -> HostCheck:
    """Check that this host can limit a server's memory as the knobs require, and that pool and server fit into the
    limit."""
    asked = knobs.get(NAME, OFF)
    if asked == OFF:
        return HostCheck(NAME, True, "not asked for")
    pool = int(knobs["pool_size"])
    needed = pool + beside_pool_bytes
    if isinstance(asked, int) and asked < needed:
        what = f"{NAME} = {format_bytes(asked)} does not hold a pool of {format_bytes(pool)} and a server beside it"
        return HostCheck(NAME, False, what, f"ask for {format_bytes(needed)} or more, or a smaller pool_size")
    try:
        said = format_bytes(asked) if isinstance(asked, int) else f"a server at rest and {format_bytes(pool)}"
        return HostCheck(NAME, True, f"{said} by {usable()}")
    except BufferlabError as error:
        return HostCheck(NAME, False, error.what, error.hint)


def usable() -> Hierarchy:
    """Return the place where bufferlab can create and join a cgroup; it is tried.

    Raise EnvironmentLackingError if none is.


    Also removes the cgroups of dead processes.
    """
    hierarchy = _find()
    remove_stale(hierarchy)
    group = _make(hierarchy)
    try:
        if not (group / _LIMIT[hierarchy.version]).exists():
            raise _cannot("the memory controller is not on for groups made there", hierarchy.folder)
        if said := can_join(group / "cgroup.procs"):
            raise _cannot(f"a process cannot join a group made there: {said}", hierarchy.folder)
    finally:
        _remove(group)
    return hierarchy


def remove_stale(hierarchy: Hierarchy) -> None:
    """Remove the cgroups of dead owners everywhere below the root, and kill the processes still in them."""
    for group in _ours(hierarchy.root):
        namespace, *owner = group.name.removeprefix(_PREFIX).split("-")
        # In a cgroup of another PID namespace (a container's), the same PID is another process.
        if namespace == _namespace() and len(owner) == 3 and _start_of(owner[0]) != owner[1]:
            _remove(group)


def drop_cached(database: Path) -> None:
    """Write a database's dirty pages to the disk, then drop its files from the page cache (posix_fadvise(2))."""
    for path in [database] if database.is_file() else sorted(database.rglob("*")):
        if not path.is_file():
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def groups_of(pid: int) -> Iterator[tuple[Literal[1, 2], Path]]:
    """Yield version and folder of each cgroup to which a process's memory is charged: the process's own, then its
    ancestors.

    If this file system does not show a cgroup, as with a container's, that cgroup and those below it are left out.
    """
    groups = _groups(str(pid))
    for point, root, kind, options in _mounts():
        version: Literal[1, 2] = 1 if kind == "cgroup" else 2
        if version == 2 or "memory" in options:
            folder = _own_folder(point, root, groups.get("memory" if version == 1 else "", "/"))
            yield from ((version, one) for one in (folder, *folder.parents) if one.is_relative_to(point))


def _find() -> Hierarchy:
    """Return the hierarchy with the memory controller, at this process's cgroup or its nearest suitable ancestor.

    Raise EnvironmentLackingError if there is none, or if bufferlab may not write to it.
    """
    mounts, own = _mounts(), _groups()
    for point, root, kind, options in mounts:
        if kind == "cgroup" and "memory" in options:
            folder = _own_folder(point, root, own.get("memory", "/"))
            if not os.access(folder, os.W_OK):
                raise _cannot("this folder may not be written", folder)
            return Hierarchy(1, folder, point)
    for point, root, kind, _ in mounts:
        if kind != "cgroup2" or "memory" not in _words(point / "cgroup.controllers"):
            continue
        folder = _own_folder(point, root, own.get("", "/"))
        for candidate in (folder, *folder.parents):
            if "memory" in _words(candidate / "cgroup.subtree_control") and os.access(candidate, os.W_OK):
                return Hierarchy(2, candidate, point)
            if candidate == point:
                break
        raise _cannot("neither this group nor one above it lets us make groups with the memory controller", folder)
    raise _cannot("no memory controller of cgroups is mounted", Path("/sys/fs/cgroup"))


def _cannot(why: str, where: Path) -> EnvironmentLackingError:
    return EnvironmentLackingError(f"memory cannot be limited on this host: {why}", str(where), _HINT)


def _mounts() -> list[tuple[Path, str, str, frozenset[str]]]:
    """Return (mount point, root of the mount, version, options) of every cgroup file system."""
    kinds = ("cgroup", "cgroup2")
    return [(Path(one.point), one.root, one.kind, one.options) for one in mounts() if one.kind in kinds]


def _groups(process: str = "self") -> dict[str, str]:
    """Return the path of a process's cgroup by controller; "" is the key of version 2 (cgroups(7))."""
    groups: dict[str, str] = {}
    with suppress(OSError):
        for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _own_folder(point: Path, root: str, own: str) -> Path:
    """Return the folder of this process's cgroup, or the mount point if that folder is not visible, as in a
    container."""
    inside = own[len(root.rstrip("/")) :] if own.startswith(root) else "/"
    folder = point / inside.strip("/")
    return folder if folder.is_dir() else point


def _words(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text().split()
    return []


def _make(hierarchy: Hierarchy) -> Path:
    group = hierarchy.folder / f"{_PREFIX}{_namespace()}-{os.getpid()}-{_start_of('self')}-{secrets.token_hex(4)}"
    try:
        group.mkdir()
    except OSError as error:
        raise _cannot(f"a group cannot be made: {error.strerror}", hierarchy.folder) from error
    return group


def _remove(group: Path) -> None:
    """Kill the cgroup's processes and remove it.

    Retry for _REMOVE_SECONDS, because the kernel needs a moment after a kill.
    """
    deadline = time.monotonic() + _REMOVE_SECONDS
    give_back = group / "memory.force_empty"
    with suppress(OSError):
        # Release the pages of files that are deleted next; otherwise the dead cgroup would keep them.
        if give_back.exists():
            give_back.write_text("0")
    while group.exists() and time.monotonic() < deadline:
        pids = [int(pid) for pid in _words(group / "cgroup.procs")]
        if 0 in pids:
            return  # PID 0 is a process of another PID namespace (cgroups(7)), so bufferlab did not start it.
        for pid in pids:
            # The PID may belong to another user's process if /proc hides owners (hidepid).
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.02)


def _ours(root: Path) -> Iterator[Path]:
    for folder, names, _ in os.walk(root):
        for name in [name for name in names if name.startswith(_PREFIX)]:
            names.remove(name)
            yield Path(folder) / name


def _namespace() -> str:
    """Return the inode number of this process's PID namespace (namespaces(7))."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _start_of(pid: str) -> str:
    """Return a process's start time in clock ticks since boot, which with the PID identifies it; "" if it is dead."""
    try:
        return stat_fields(pid)[19]
    except OSError:
        return ""
