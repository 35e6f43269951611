"""Finds the probe sites of a build: places in a server's binary at which a page of the pool is requested, read, evicted
or otherwise changes its state.

A private server records these events itself, by code that it loads. For an already running server, the kernel records
them.

A family's page_sites.toml lists builds by the SHA-256 of their executable segments, so that a name or a version cannot
mislead. `bufferlab learn` adds builds on this host (learnt.py). A build that neither of them lists cannot be traced: a
probe at a wrong place would break the server.

`program_of` finds the program of a process: the file that it runs, even if its path leads to another file by now.

The kernel names the file in /proc/PID/exe (proc_pid_exe(5)). If a dynamic loader started the process, the file is the
one whose code is mapped. A process may see another file system than bufferlab, as in a container. A service of systemd
has its own mount namespace, but may see the same files as bufferlab (systemd.exec(5), PrivateTmp). So folders are
compared, not namespaces.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bufferlab.engines.behaviour import OnEvent
from bufferlab.engines.native import NativePageTrace, ask_host, failure_of_core, native
from bufferlab.engines.servers import learnt
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.child_process import LOADER, Preload
from bufferlab.engines.servers.signs_of_life import signs_of_life
from bufferlab.errors import BufferlabError, EnvironmentLackingError, Failure, SpecError
from bufferlab.procfs import processes
from bufferlab.results.trace_words import page_trace_words

T = TypeVar("T")

_FLAG = "--probe page-trace"
_OF_THE_CORE = ("fields", "modes_if_in_pool")
_OF_US = ("hash_index", "uncounted", "late", "inside")
"""Entries of a site in page_sites.toml that only Python uses; the core does not get them."""
LEARNABLE: tuple[Flavour, ...] = ("postgres", "mysql", "mariadb")
"""The flavours whose builds `bufferlab learn` can learn."""
WRITES = frozenset(("dirty", "write"))
"""The kinds of sites that only bufferlab's code inside a server records.

The kernel's probes leave them out: they cost much, and no advice needs these kinds.
"""
_NO_SPOOL = {"path": "", "limit_bytes": 0}
_PROCESSOR = "x86_64"
"""The processor architecture of all known builds, as `platform.machine` names it."""


@dataclass(frozen=True)
class PageSites:
    """The probe sites in one build's binary, and how their records are read."""

    server: str
    """The server's name and version for messages."""
    settings: dict[str, Any]
    """The build's entries of page_sites.toml: `fields`, `modes_if_in_pool`, `site` and others."""

    @property
    def has_hash_index(self) -> bool:
        """Return whether a trace of this build contains the gets through the adaptive hash index."""
        return any(site.get("hash_index") for site in self.settings["site"])

    @property
    def cost_is_shown(self) -> bool:
        """Return whether docs/benchmarks.md has a measurement of a trace's cost for this build."""
        return bool(self.settings["cost_shown"])

    @property
    def uncounted(self) -> list[int]:
        """Return the numbers of the sites whose gets the server does not count."""
        return self._numbers("uncounted")

    @property
    def late(self) -> list[int]:
        """Return the numbers of the sites whose gets the server may count with a delay."""
        return self._numbers("late")

    def _numbers(self, flag: str) -> list[int]:
        return [number for number, site in enumerate(self.settings["site"]) if site.get(flag)]

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of accesses that a trace of this build contains, if the server records itself."""
        words = page_trace_words().kinds
        told = {kind for site in self.settings["site"] for kind in (*site["kinds"], *site.get("kinds_if_flag", ()))}
        return sorted(told, key=words.index)

    def job(self, build: Build, spool: Mapping[str, Any]) -> str:
        """Return as JSON the core's settings with which the build records its accesses into `spool` itself."""
        # If the place for the kernel's probe has too few bytes for a jump, "inside" gives another place for code in the
        # server.
        placed = [{**site, **site.get("inside", {})} for site in self.settings["site"]]
        return json.dumps(self._asked(placed, build.binary, spool))

    def by_kernel(self, binary: Path, spool: Mapping[str, Any]) -> dict[str, Any]:
        """Return the core's settings with which the kernel records accesses, but no page writes, into `spool`."""
        return self._asked([site for site in self.settings["site"] if not WRITES & {*site["kinds"]}], binary, spool)

    def _asked(self, of: Iterable[Mapping[str, Any]], binary: Path, spool: Mapping[str, Any]) -> dict[str, Any]:
        sites = [{name: value for name, value in site.items() if name not in _OF_US} for site in of]
        same = {name: value for name, value in self.settings.items() if name in _OF_THE_CORE}
        return {"binary": str(binary), "spool": dict(spool), **same, "sites": sites}


def known(table: Path, binary: Path, *, in_use: bool = False) -> PageSites | None:
    """Return a binary's sites: from a family's page_sites.toml, else as learnt on this host; None if they are unknown.

    For a server `in_use`, only root's learnt sites are used, and only if the kernel's links proved them. Raise
    EnvironmentLackingError for a file that is not a program, and what `learnt.of_build` raises.
    """
    digest = text_sha256(binary)
    for entry in tomllib.loads(table.read_text("utf-8"))["build"]:
        if entry["text_sha256"] == digest:
            return PageSites(entry["server"], {name: entry[name] for name in entry if name != "server"})
    kept = learnt.of_build(digest, binary, by_root_alone=in_use)
    if kept is None or (in_use and "links" not in kept.proof["by"]):
        return None
    return PageSites(kept.server, dict(kept.settings))


def find(table: Path, build: Build) -> PageSites:
    """Return the sites of a build. Raise SpecError if they are unknown, and what `known` raises."""
    if sites := known(table, build.binary):
        return sites
    others = "choose a build with --set server=NAME: `bufferlab doctor` lists those that can be traced"
    learns = f"learn it, which takes some seconds: bufferlab learn {build.binary}"
    raise SpecError(
        f"accesses to the pages of {build.flavour} {build.version} cannot be recorded: it is not known where this"
        " build's functions get, read and evict a page",
        f"{_FLAG}, {build.binary}",
        learns if build.flavour in LEARNABLE else f"leave the trace out, or {others}",
    )


def require(table: Path, build: Build) -> PageSites:
    """Return the sites of a build that can record itself on this host.

    Raise SpecError for an unknown build, and EnvironmentLackingError if this host cannot trace.
    """
    require_processor()
    sites = find(table, build)
    job = sites.job(build, _NO_SPOOL)
    ask_host("page accesses of servers cannot be recorded", lambda: native().page_trace_check(job))
    return sites


def require_processor() -> None:
    """Raise EnvironmentLackingError on a processor architecture for which no build is known."""
    if (processor := platform.machine()) != _PROCESSOR:
        # The hint does not suggest another build: all known builds are for x86-64.
        what = "page accesses of servers cannot be recorded on this processor: only builds for x86-64 are known"
        hint = "leave the trace out, or use a machine with an x86-64 processor"
        raise EnvironmentLackingError(what, processor, hint)


class Recording:
    """A trace of one server's page accesses, from before its first instruction on.

    If the trace is optional, a server that cannot be recorded runs without it, and the run says why.
    """

    def __init__(self, sites: PageSites | Failure, build: Build, asked: Mapping[str, Any], on_event: OnEvent) -> None:
        """`sites` is a failure if the build cannot be traced here and the trace is optional."""
        self._required = asked["required"]
        self._on_event = on_event
        self._refused: Failure | None = None
        self._uncounted: list[int] = []
        self._late: list[int] = []
        self._kinds: list[str] = []
        self._trace: NativePageTrace | None = None
        if isinstance(sites, Failure):
            self._refused = sites
            return
        self._uncounted, self._late, self._kinds = sites.uncounted, sites.late, sites.kinds
        self._trace = self._try(lambda: native().page_trace(sites.job(build, asked["spool"])))

    def _try(self, act: Callable[[], T]) -> T | None:
        """Return the core's answer; None if the core has refused an optional trace."""
        try:
            return None if self._refused else act()
        except Exception as error:
            self._refused = failure_of_core(error)
            if self._required or not self._refused:
                raise
            return None

    def begin(self, home: Path) -> Preload | None:
        """Start reading; return how the server must be started to be recorded; None without a trace.

        Write the recorder's files into the server's folder. Raises the core's error if the trace is required.
        """
        trace = self._trace
        told = json.loads((trace and self._try(lambda: trace.begin(str(home)))) or "null")
        return Preload(dict(told["environment"]), told["descriptor"]) if told else None

    def require_on(self) -> None:
        """Raise the core's error if the trace is required and the started server is not recorded."""
        if self._trace:
            self._try(self._trace.require_on)

    def added_to(self, result: dict[str, Any]) -> dict[str, Any]:
        """End the trace; return the run's `result` with the trace's outcome added to its records."""
        told = self._ended()
        refused = {"refused": asdict(self._refused)} if self._refused else {}
        recorded = result["recorded"]
        of_sites = {"uncounted_sites": self._uncounted, "late_sites": self._late, "kinds": self._kinds}
        page_trace = {**recorded["page_trace"], "recorder": "inside", **told, **refused, **of_sites}
        return {**result, "recorded": {**recorded, "page_trace": page_trace}}

    def close(self) -> None:
        """End the trace, even if the run failed; do nothing if it has ended."""
        self._ended()

    def _ended(self) -> dict[str, Any]:
        """End the trace; return the core's answer.

        This writes a file, which takes minutes for a long trace on a slow disk.
        """
        if not self._trace:
            return {}
        with signs_of_life(self._on_event, "keeping the page trace"):
            told: dict[str, Any] | None = json.loads(self._trace.finish())
        return told or {}


@contextmanager
def recording(
    table: Path, build: Build, asked: Mapping[str, Any] | None, on_event: OnEvent
) -> Iterator[Recording | None]:
    """Context manager for a trace of a server that is started inside it; yields None if no trace was requested.

    `on_event` gets signs of life while the trace is written.
    """
    if asked is None:
        yield None
        return
    sites: PageSites | Failure
    try:
        sites = require(table, build)
    except BufferlabError as error:
        # Raise the failure: when the plan was made, the server could be recorded, so the build or the host has changed
        # since.
        if asked["required"]:
            raise
        sites = error.failure
    trace = Recording(sites, build, asked, on_event)
    try:
        yield trace
    finally:
        trace.close()


def running(binary: Path) -> list[int]:
    """Return the PIDs of the processes that run this file, in any container.

    Containers of one image see the image's files on different devices. But they share the files, and so the kernel's
    probes in them. So files are compared by inode, size and time, not by device (overlayfs.rst, "Inode properties").
    """
    wanted = _identity(binary)
    found = []
    for pid in processes():
        with suppress(OSError):
            process = Path(f"/proc/{pid}")
            if _identity(process / "exe") == wanted or _has_loaded(process, wanted[0]):
                found.append(pid)
    return sorted(found)


def _has_loaded(process: Path, inode: int) -> bool:
    return is_loader(process / "exe") and any(code.inode == inode for code in mapped_code(process))


def is_loader(exe: Path) -> bool:
    """Return whether a dynamic loader started the process: /proc/PID/exe is then the loader, not the program."""
    return fnmatch(os.readlink(exe), f"*/{LOADER}")


class MappedCode(NamedTuple):
    """A file from which a process has mapped executable code."""

    inode: int
    path: str
    """The path of the file as the process sees it."""
    addresses: str
    """The mapping's first and last address, as in /proc/PID/map_files."""


def mapped_code(process: Path) -> list[MappedCode]:
    """Return the files whose code a process has mapped; `process` is its folder in /proc.

    Raises OSError if unreadable.
    """
    lines = [line.split(maxsplit=5) for line in (process / "maps").read_text().splitlines()]
    return [MappedCode(int(line[4]), line[5], line[0]) for line in lines if "x" in line[1] and len(line) > 5]


def _identity(binary: Path) -> tuple[int, int, int]:
    told = binary.stat()
    return told.st_ino, told.st_size, told.st_mtime_ns


def text_sha256(binary: Path) -> str:
    """Return the SHA-256 of a binary's executable segments, which `strip` does not change.

    Raise EnvironmentLackingError for a file that is not a program.
    """
    return _digest(binary, binary.stat().st_mtime_ns)


@cache
def _digest(binary: Path, changed_ns: int) -> str:
    digest = hashlib.sha256()
    ranges = ask_host("its code cannot be read", lambda: native().executable_ranges(str(binary)))
    with binary.open("rb") as file:
        for offset, length in json.loads(ranges):
            file.seek(offset)
            digest.update(file.read(length))
    return digest.hexdigest()


PROGRAMS = ("mysqld", "mariadbd", "postgres")
"""The names of servers' programs."""
_DELETED = " (deleted)"


@dataclass(frozen=True)
class ServerProgram:
    """The program of a server's process."""

    file: Path
    """The path by which the kernel finds it, even in a container or after its file was replaced."""
    path: str
    """Its path, as the process sees it."""
    elsewhere: bool
    """Whether the process sees other files at this path than bufferlab does, because it is in a container or a
    chroot."""

    @property
    def is_replaced(self) -> bool:
        """Return whether its path now leads to another file, or to none."""
        return _place(Path(self.path)) != _place(self.file)


def program_of(process: Path) -> ServerProgram:
    """Return the program of a process, which need not be a server; `process` is its folder in /proc.

    Raises PermissionError for a process that this user may not examine, and FileNotFoundError for one that has ended.
    """
    exe = process / "exe"
    if is_loader(exe):
        for code in mapped_code(process):
            path = code.path.removesuffix(_DELETED)
            if Path(path).name in PROGRAMS:
                # If the path leads to another file by now, root can still open the mapped file (proc_pid_map_files(5)).
                replaced = process / "map_files" / code.addresses
                file = Path(f"{process}/root{path}") if path == code.path else replaced
                return ServerProgram(file, path, _elsewhere(process, path))
    path = os.readlink(exe).removesuffix(_DELETED)
    return ServerProgram(exe, path, _elsewhere(process, path))


def _elsewhere(process: Path, path: str) -> bool:
    root = (process / "root").stat()
    folder = Path(path).parent
    is_ours = os.path.samestat(root, Path("/").stat())
    return not is_ours or _place(Path(f"{process}/root{folder}")) != _place(folder)


def _place(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode of a file; None if this user finds no file there."""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None
