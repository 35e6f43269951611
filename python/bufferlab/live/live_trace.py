"""Records the page accesses of an already running server.

Only the kernel records; bufferlab's code does not enter the server.


The tier `misses` follows the server's system calls (frames.py); the tier `full` has probes at the sites of its build.
`plan` returns where the probes will be, or refuses; `attach` attaches them; `recorded` reads the records. If the
sessions of a server are processes (PostgreSQL), the probes are in its binary file. They would also stop another server
that runs the same file, so `plan` refuses if there is one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines import registry
from bufferlab.engines.native import ServerTrace, ask_host, native
from bufferlab.engines.servers import page_sites
from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.look import Facts, NotTold
from bufferlab.engines.servers.page_sites import PageSites
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.live import frames
from bufferlab.live.frames import BufferList
from bufferlab.procfs import stat_fields
from bufferlab.results.trace_words import hint_for, page_trace_words
from bufferlab.versions import SERVERS

Tier = Literal["misses", "full"]
"""The recorded accesses. "misses": reads, creations, evictions and writes of pages; "full": all accesses."""
Ended = Literal["whole", "rate", "lost", "gone", "stopped", "limit"]
"""Why a trace ended, in this order: as planned, too many stops, lost records, the server ended, the user stopped it,
the file was full."""

_OFTEN_US: Mapping[Flavour, float] = {"mysql": 2.0, "mariadb": 2.0, "postgres": 3.0}


def stop_us(flavour: Flavour, tier: Tier) -> float:
    """Return about how long an event of a tier stops a thread of the server, in microseconds, recording included.

    With `full`, each event is a thread that stops at a probe. On an AMD EPYC under KVM, kernel 6.18, a stop took 1.0 us
    in an empty loop if the site gives 4 values, as InnoDB's sites do, and 1.2 us for 10 values, as PostgreSQL's. If the
    loop read 64 KiB between two stops, a stop took 3.1 to 5.4 us, because the kernel's code had left the caches. On
    servers it took 1.5 to 3 us on MySQL and 2.5 to 4.6 us on PostgreSQL (docs/advice.md). This was measured with a
    former recorder; a stop of the present one takes 0.70 to 0.76 of that in such loops.
    """
    return _OFTEN_US[flavour] if tier == "full" else frames.CALL_US


_THREADS = 1 << 16


@dataclass(frozen=True)
class SitePlan:
    """The plan of the tier `full`: the places of probes in a running server."""

    pid: int
    """The PID, on this host, of the server's first process."""
    tier: Tier
    server: str
    """The server's name and version, for readers."""
    binary: Path
    """The path by which the kernel finds the process's binary, even in a container or after its file was replaced."""
    program: str
    """The path of the binary, as the server sees it."""
    elsewhere: bool
    """Whether the server sees another file system than this process, because it is in a container."""
    sites: PageSites
    """The places in the binary at which the build gets, reads and evicts pages."""
    stop_us: float
    """About how long each stop of a thread takes, in microseconds."""
    forks: bool
    """Whether each session of the server is a process. Probes then stop all processes that run the binary."""

    @property
    def sentence(self) -> str:
        """Return words on the attachment, its place, its cost and its end, for asking the user's consent."""
        where = f"{self.program}{' of its container' if self.elsewhere else ''}"
        whose = "all processes of this program" if self.forks else "this process alone"
        return (
            f"Tier full: the kernel sets {len(self.sites.settings['site'])} breakpoints (uprobes) in {self.server},"
            f" process {self.pid} ({where}), in {whose}: at the functions that get, read, make or evict a page of the"
            f" pool. A thread that comes to one stops for about {self.stop_us:g} µs, and goes on. No code of ours runs"
            " in the server, and its file stays as it is. The kernel removes the breakpoints after each window, and"
            " when this command ends, however it ends."
        )

    def job(self, spool: Path, limit_bytes: int, events_per_s_max: float) -> str:
        """Return the settings for the recorder in the Rust core, as JSON."""
        trace = self.sites.by_kernel(self.binary, {"path": str(spool), "limit_bytes": limit_bytes})
        job = {"pid": self.pid, "events_per_s_max": events_per_s_max, "forks": self.forks, "trace": {"sites": trace}}
        return json.dumps(job)


LivePlan = SitePlan | frames.CallPlan
"""The plan for recording a running server: its accesses at places in its binary, or its system calls."""


def plan(pid: int, facts: Facts, tier: Tier, proc: Path = Path("/proc")) -> LivePlan:
    """Return the plan of a tier for a running server; attach nothing. `pid` is the server's first process.

    For the tier `misses` it raises the errors of `frames.plan`. For `full` it raises SpecError if the sites of the
    build are unknown, or the process does not match the facts. It raises EnvironmentLackingError if this user or host
    cannot trace the server, if the server has ended, or if another PostgreSQL server runs the same binary.
    """
    return _of_sites(pid, facts.flavour, proc) if tier == "full" else frames.plan(pid, facts, proc)


def _of_sites(pid: int, flavour: Flavour, proc: Path) -> SitePlan:
    page_sites.require_processor()
    try:
        found = page_sites.program_of(proc / str(pid))
        binary, program, elsewhere = found.file, found.path, found.elsewhere
        sites = page_sites.known(registry.family(flavour).page_sites_table, binary, in_use=True)
    except PermissionError as error:
        what = "page accesses of a server that runs cannot be recorded: this user may not look at its process"
        raise EnvironmentLackingError(what, f"process {pid}", "run as root on the server's host") from error
    except FileNotFoundError as error:
        what = "page accesses of a server that runs cannot be recorded: its process has ended"
        raise EnvironmentLackingError(what, f"process {pid}", "look at the server again") from error
    where = f"{program}, process {pid}"
    if sites is None:
        hint = "`bufferlab doctor` lists builds that can be traced; what the server's own counters tell needs no trace"
        if flavour in page_sites.LEARNABLE and not elsewhere:
            which = f"--pid {pid}" if found.is_replaced else program
            hint = f"learn it on a private server, which takes some seconds: sudo bufferlab learn {which}"
        raise SpecError(
            "page accesses of this server cannot be recorded: it is not known where this build's functions get, read"
            " and evict a page",
            where,
            hint,
        )
    if not sites.server.startswith(SERVERS[flavour]):
        what = f"this process is {sites.server}, and the server said that it is {SERVERS[flavour]}"
        raise SpecError(what, where, "name the server by a URL that leads to this process")
    forks = flavour == "postgres"
    if forks and (others := [one for one in page_sites.running(binary) if not _belongs(one, pid, proc)]):
        raise EnvironmentLackingError(
            f"another server runs the same binary (process {others[0]}), and a probe would stop it too",
            where,
            "attach while only one of them runs, or give one a copy of the binary",
        )
    ask_host("page accesses of servers cannot be recorded", native().live_trace_check)
    return SitePlan(pid, "full", sites.server, binary, program, elsewhere, sites, stop_us(flavour, "full"), forks)


class LiveTrace:
    """A trace that is attached, or has ended. Leaving its context detaches it and removes its file."""

    def __init__(self, plan: LivePlan, core: ServerTrace, spool: Path) -> None:
        self.plan, self.spool = plan, spool
        self._core = core
        self._ended: dict[str, Any] | None = None

    def told(self) -> dict[str, Any]:
        """Return the recorder's state: state, detached, start_ns, end_ns, events by kind, stops and stops_per_s.

        `other_processes` is the number of other processes that run the same binary; these stopped `other_stops` times.
        """
        told: dict[str, Any] = json.loads(self._core.told())
        return told

    def name_frames(self, buffers: BufferList) -> None:
        """Give the recorder the page of each buffer, from the server's own list of its buffers."""
        self._core.name_frames(buffers.asked_ns, buffers.files, buffers.buffer, buffers.file, buffers.page)

    def finish(self) -> dict[str, Any]:
        """Detach, if still attached, and return the final state.

        It has the keys of `told`, and also lost, reader_cpu_ns and detach_ns.
        """
        if self._ended is None:
            self._ended = json.loads(self._core.finish())
        assert self._ended is not None
        return self._ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._core.finish()
        self.spool.unlink(missing_ok=True)


def attach(plan: LivePlan, spool: Path, *, events_per_s_max: float, limit_bytes: int) -> LiveTrace:
    """Attach a plan's probes or programs, and return the trace. Accesses go into the file `spool`.

    The file is new, or an open one named by its path in /proc/self/fd. It gets at most `limit_bytes`. Above
    `events_per_s_max` events per second the trace detaches itself. Raises EnvironmentLackingError if the kernel
    refuses.
    """
    job = plan.job(spool, limit_bytes, events_per_s_max)
    core = ask_host("page accesses of this server cannot be recorded", lambda: native().live_trace(job))
    return LiveTrace(plan, core, spool)


@dataclass(frozen=True)
class Recorded:
    """The record of one attachment."""

    tier: Tier
    columns: Mapping[str, NDArray[Any]]
    """The columns of page-trace.parquet (page, kind, latch, thread, delta_us), one row per access, in time order.

    A page's number is its index into `object` and `page_in_object`.
    """
    object: NDArray[np.uint32]
    """The object of each page: InnoDB's tablespace number, or for PostgreSQL an index into `relations`."""
    page_in_object: NDArray[np.uint32]
    seconds: float
    """The seconds in which all accesses of the tier were recorded."""
    ended: Ended
    relations: tuple[tuple[int, ...], ...] = ()
    """(tablespace, database, relation, fork) of each of PostgreSQL's objects."""
    read_s: NDArray[np.float64] | None = None
    """The time of each read on the monotonic clock, also of reads before `seconds` began; None for the tier `full`."""
    moved: NDArray[np.bool_] | None = None
    """For each row, whether it reads a page whose eviction was not recorded; None for `full`, which records all."""
    cannot_say: NotTold | None = None
    """The reason why the record gives no answer; None if it may give one."""
    elsewhere_ratio: float = 0.0
    """The fraction of the bytes read by calls that went into other memory than the pool's."""


def recorded(trace: LiveTrace, *, stopped: bool = False) -> Recorded:
    """End a trace and return its record. `stopped` means that the user ended it early.

    If `ended` is "lost", accesses are missing; after "limit" none were recorded. Raises EnvironmentLackingError if the
    recorder could not write its file.
    """
    told = trace.finish()
    if told["problem"]:
        hint = hint_for(told["problem"], "free some space there, or use another disk (TMPDIR)")
        raise EnvironmentLackingError(told["problem"], str(trace.spool.resolve().parent), hint)
    records = _records(trace.spool)
    # Recording begins and ends on one processor after another. Only between start_ns and end_ns all of them record.
    first = int(np.searchsorted(records["t_ns"], told["start_ns"]))
    end = int(np.searchsorted(records["t_ns"], told["end_ns"], "right"))
    records, start_ns, found, read_s = records[first:end], told["start_ns"], None, None
    if isinstance(trace.plan, frames.CallPlan):
        read = page_trace_words().kinds.index("read")
        found = frames.judge(records["kind"], records["site"], told, read, trace.plan.pool_pages)
        read_s = records["t_ns"][records["kind"] == read] / 1e9
        if found.first < len(records):
            start_ns = int(records["t_ns"][found.first])
        records = records[found.first :]
    columns, pages = _columns(records, start_ns)
    return Recorded(
        trace.plan.tier,
        columns,
        (pages >> np.uint64(32)).astype(np.uint32),
        pages.astype(np.uint32),
        (told["end_ns"] - start_ns) / 1e9,
        _ended(told, stopped),
        tuple(tuple(relation) for relation in told["relations"]),
        read_s,
        found.moved if found else None,
        found.cannot_say if found else None,
        frames.elsewhere_ratio(told["frames"], trace.plan.page_size_bytes)
        if isinstance(trace.plan, frames.CallPlan)
        else 0.0,
    )


def _ended(told: Mapping[str, Any], stopped: bool) -> Ended:
    if told["lost"]:
        return "lost"
    if told["over_limit_bytes"] is not None:
        return "limit"
    if told["state"] in get_args(Ended):
        ended: Ended = told["state"]
        return ended
    return "stopped" if stopped else "whole"


def _belongs(pid: int, server: int, proc: Path) -> bool:
    """Return whether a process is the server or a child of it; True for a process that has ended."""
    if pid == server:
        return True
    with suppress(OSError, ValueError, IndexError):
        return int(stat_fields(pid, proc)[1]) == server
    return True  # The process has ended meanwhile.


def _record() -> np.dtype[np.void]:
    return np.dtype(list(page_trace_words().record))


def _records(spool: Path) -> np.ndarray[Any, Any]:
    """Return the records in the recorder's file; none if the file is missing or empty."""
    if not spool.exists() or not spool.stat().st_size:
        return np.empty(0, _record())
    return np.memmap(spool, _record(), "r")


def _columns(records: np.ndarray[Any, Any], start_ns: int) -> tuple[dict[str, NDArray[Any]], NDArray[np.uint64]]:
    """Return the columns of records, and the pages as numbers: object in the upper 32 bits, page in the lower."""
    keys = records["object"].astype(np.uint64) << np.uint64(32) | records["page"]
    pages, page = np.unique(keys, return_inverse=True)
    # Round times before taking differences, so that their sum stays within a microsecond of the clock.
    times_us = (records["t_ns"] - np.uint64(start_ns)) // np.uint64(1000)
    delta_us = np.diff(times_us, prepend=np.uint64(0))
    columns = {
        "page": page.astype(np.uint32),
        "kind": np.ascontiguousarray(records["kind"]),
        "latch": np.ascontiguousarray(records["latch"]),
        # Thread numbers have 16 bits. An observation of hours may see more sessions; two that share a number are far
        # apart in time.
        "thread": (records["thread"] % _THREADS).astype(np.uint16),
        "delta_us": np.minimum(delta_us, np.iinfo(np.uint32).max).astype(np.uint32),
    }
    return columns, pages


def with_one_numbering(windows: Sequence[Recorded]) -> list[Recorded]:
    """Return the windows with objects renumbered, so that each has the same number in all windows.

    Each recorded window has another numbering of PostgreSQL's relations.
    """
    numbers: dict[tuple[int, ...], int] = {}
    for window in windows:
        for name in window.relations:
            numbers.setdefault(name, len(numbers))
    of_each = [np.array([numbers[name] for name in one.relations], np.uint32) for one in windows]
    return [
        replace(one, object=of[one.object], relations=tuple(numbers)) if one.relations else one
        for one, of in zip(windows, of_each, strict=True)
    ]
