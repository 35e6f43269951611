"""Follows the system calls with which a server of any build reads and writes pages, and lists PostgreSQL's buffers.

The memory address into which a call reads shows the page's frame. `plan` finds the pool in the server's address space,
or refuses. `judge` decides from which row on the records count, or why they give no answer. The recorder is
crates/bufferlab-probe/src/page_trace/calls.rs.

`listed_buffers` reads PostgreSQL's pg_buffercache, so that the recorder knows the pages of frames that no recorded call
has filled. The view identifies pages by relation, and system calls identify them by device and inode of a segment's
file. So this module translates relations to files. The recorder finds out where in memory buffer 0 is
(frames/names.rs).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines.native import ask_host, native
from bufferlab.engines.postgres import questions as postgres
from bufferlab.engines.servers.look import Facts, NotTold, Query, Question, ask, integer
from bufferlab.errors import EnvironmentLackingError
from bufferlab.live import constants
from bufferlab.units import format_bytes, format_percent

CALL_US = 0.5
"""The microseconds that recording adds to a read or write call.

Measured on an AMD EPYC under KVM, kernel 6.18 (docs/benchmarks.md).
"""
OTHER_CALL_US = 0.1
"""The microseconds added to any other system call of the host while calls are recorded."""
READER_US = 1.5
"""The processor time of bufferlab's reader for each recorded call, in microseconds."""
MOVED, UNNAMED = 1, 2
"""Flags of a read (frames.rs).

MOVED: its page seemed to be in another frame. UNNAMED: the previous page of its frame was unknown.
"""
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+ *(.*)")
_ELF_32_BIT = b"\x7fELF\x01"
"""The first bytes of a 32-bit program (elf.h, ELFCLASS32)."""
_SEGMENT = "/SYSV"
"""The beginning of a shared segment's name in /proc/PID/maps (ipc/shm.c)."""
_CHUNK_BYTES = 128 << 20
"""The default size of InnoDB's chunks."""


@dataclass(frozen=True)
class CallPlan:
    """The plan of the tier `misses`, which records the calls of a running server."""

    pid: int
    """The PID, on this host, of the server's first process."""
    server: str
    page_size_bytes: int
    regions: tuple[tuple[int, int], ...]
    """(begin, end) of each mapping in the server's address space that may hold the pool."""
    ring_reads: int
    """A frame that a session fills again after fewer reads belongs to a scan's buffer ring; 0 for a server without
    rings."""
    pool_pages: int
    is_shared: bool
    """Whether the regions also hold pages that are not the pool's: PostgreSQL's shared memory contains WAL pages
    too."""
    tier: Literal["misses"] = "misses"
    stop_us: float = CALL_US

    @property
    def sentence(self) -> str:
        """Return words on the attachment, its place, its cost and its end, for asking the user's consent."""
        return (
            f"Tier misses: small programs in the kernel (BPF) note each read and write call of {self.server}, process"
            f" {self.pid}, and which frame of the pool it fills or empties. No thread is stopped, no memory is read,"
            f" and nothing goes into the server. A noted call takes about {CALL_US:g} µs more, any other system call"
            f" of this host about {OTHER_CALL_US:g} µs. The kernel removes the programs when this command ends,"
            " however it ends."
        )

    def job(self, spool: Path, limit_bytes: int, events_per_s_max: float) -> str:
        """Return the settings for the recorder in the Rust core, as JSON."""
        pool = {"page_size_bytes": self.page_size_bytes, "regions": self.regions, "ring_reads": self.ring_reads,
                "sweep_reads": int(constants.SWEEP_SHARE * self.pool_pages), "is_shared": self.is_shared}  # fmt: skip
        trace = {"calls": {"pool": pool, "spool": {"path": str(spool), "limit_bytes": limit_bytes}}}
        return json.dumps({"pid": self.pid, "events_per_s_max": events_per_s_max, "trace": trace})


def plan(pid: int, facts: Facts, proc: Path = Path("/proc")) -> CallPlan:
    """Return the plan for recording a server's calls; attach nothing.

    Raises EnvironmentLackingError if this user or kernel cannot record calls, if the server has ended or is a 32-bit
    program, or if its pool is not found.
    """
    where = f"process {pid}"
    try:
        maps = (proc / f"{pid}/maps").read_text()
        with (proc / f"{pid}/exe").open("rb") as program:
            is_32_bit = program.read(len(_ELF_32_BIT)) == _ELF_32_BIT
        if not maps:  # A process without mappings is a zombie: it has ended, and its parent has not waited for it.
            raise ProcessLookupError
    except PermissionError as error:
        what = "the calls of this server cannot be followed: this user may not look at its process"
        raise EnvironmentLackingError(what, where, "run as root on the server's host") from error
    except OSError as error:
        what = "the calls of this server cannot be followed: its process has ended"
        raise EnvironmentLackingError(what, where, "look at the server again") from error
    if is_32_bit:
        what = "the calls of this server cannot be followed: it is a program of 32 bits, whose calls have other numbers"
        raise EnvironmentLackingError(what, where, "use a server of 64 bits")
    regions = pool_regions(maps, facts)
    if not regions:
        what = f"no memory of {facts.engine}'s is as large as its pool ({format_bytes(facts.pool_size_bytes)})"
        raise EnvironmentLackingError(what, f"/proc/{pid}/maps", "does the URL lead to this process?")
    ask_host("the calls of servers cannot be followed", native().call_trace_check)
    server = f"{facts.engine} {'.'.join(map(str, facts.numbers))}"
    pool_pages = facts.pool_size_bytes // facts.page_size_bytes
    rings = constants.ring_reads(facts.flavour, pool_pages)
    return CallPlan(pid, server, facts.page_size_bytes, regions, rings, pool_pages, facts.flavour == "postgres")


def pool_regions(maps: str, facts: Facts) -> tuple[tuple[int, int], ...]:
    """Return (begin, end) of each mapping that may hold the pool, from the text of /proc/PID/maps.

    For PostgreSQL these are shared mappings at least as large as the pool. For InnoDB they are private mappings at
    least as large as a chunk, or the pool if that is smaller; with large pages MySQL has its chunks in shared segments
    of System V.
    """
    is_shared = facts.flavour == "postgres"
    chunk = int(facts.settings.get("innodb_buffer_pool_chunk_size") or 0) or _CHUNK_BYTES
    least = facts.pool_size_bytes if is_shared else min(chunk, facts.pool_size_bytes)
    found = []
    for line in maps.splitlines():
        if not (told := _MAPPING.fullmatch(line.rstrip())):
            continue
        begin, end, rights, name = int(told[1], 16), int(told[2], 16), told[3], told[4]
        is_of_kind = (rights[3] == "s") == is_shared or name.startswith(_SEGMENT)
        if "w" in rights and is_of_kind and end - begin >= least and not name.startswith("["):
            found.append((begin, end))
    return tuple(found)


@dataclass(frozen=True)
class JudgedFrames:
    """The result of `judge` for a record of calls."""

    first: int
    """The first row that counts. From there on, the previous page of the frame is known for nearly every read."""
    cannot_say: NotTold | None
    moved: NDArray[np.bool_]
    """For each row from `first` on, whether it is a read of a page whose eviction was not recorded."""


def judge(
    kinds: NDArray[np.uint8], sites: NDArray[np.uint8], told: Mapping[str, Any], read: int, pool_pages: float
) -> JudgedFrames:
    """Judge the rows of a record of calls: return from which row on they count, or why they give no answer.

    `told` has the recorder's counts; `read` is the number of the kind "read".
    """
    rows = np.flatnonzero(kinds == read)
    unnamed = (sites[rows] & UNNAMED) != 0
    # For each read: the number of reads from it to the end, and how many of these had a frame whose previous page was
    # unknown.
    behind = np.arange(len(rows), 0, -1)
    unnamed_behind = np.cumsum(unnamed[::-1])[::-1]
    good = np.flatnonzero(unnamed_behind <= constants.UNNAMED_SHARE * behind)
    place = int(good[0]) if len(good) else len(rows)
    first = int(rows[place]) if place < len(rows) else len(kinds)
    moved = ((sites & MOVED) != 0) & (kinds == read)
    return JudgedFrames(first, _doubt(moved[rows], place, told, pool_pages), moved[first:])


def elsewhere_ratio(counts: Mapping[str, Any], page_size_bytes: int) -> float:
    """Return the fraction of the bytes read that went into other memory than the pool's, such as a backup's."""
    elsewhere, pool = int(counts["elsewhere_read_bytes"]), int(counts["read_pages"]) * page_size_bytes
    return elsewhere / (elsewhere + pool) if elsewhere else 0.0


def _doubt(moved: NDArray[np.bool_], place: int, told: Mapping[str, Any], pool_pages: float) -> NotTold | None:
    """Return the reason why the reads give no answer, or None.

    Reads from index `place` on count; `moved` has a flag for each read.
    """
    reads, left = len(moved), len(moved) - place
    odd, seen = int(told["frames"]["odd_reads"]), int(told["frames"]["frames"])
    unseen = int(told["left_out_calls"]) + int(told["calls_without_file"])
    if unseen > constants.MOVED_SHARE * (reads + unseen):
        why = f"{unseen:,} calls showed no buffer or no file, beside {reads:,} pages that were read"
        return NotTold(why, "measure: bufferlab run with the same load")
    if reads and odd > constants.ODD_READS * (reads + odd):
        share = format_percent(odd / (reads + odd))
        why = f"{share} of the reads into the pool are no whole pages, as of compressed tables: frames cannot be told"
        return NotTold(why, "measure: bufferlab run with the same load")
    if reads < constants.LEAST_READS:
        return None  # `answer` then reports that there are too few reads.
    if seen < constants.FRAMES_SEEN * pool_pages:
        why = f"reads went into {seen:,} frames of a pool of {pool_pages:,.0f}: too few to tell what leaves it"
        return NotTold(why, "record for longer, or while more of the pool is replaced")
    # If a page was evicted unrecorded, its frame is empty, so the next read into the frame shows no previous page. Many
    # such pages look the same as a pool that turns over slowly.
    turns_slowly = left < (1 - constants.FIRST_TURNOVER) * reads
    judged = moved if turns_slowly else moved[place:]
    if judged.sum() > constants.MOVED_SHARE * len(judged):
        share = format_percent(judged.mean())
        why = f"{share} of the reads are of pages whose leaving was not seen, as where many frames are free"
        return NotTold(why, "measure: bufferlab run with the same load")
    if turns_slowly:
        share = format_percent(left / reads)
        why = f"only the last {share} of the reads tell which page made room for theirs: the pool turns over slowly"
        return NotTold(why, "record for longer")
    return None


_SUBJECT = "which pages the pool's buffers hold"
_BUFFERS = """\
SELECT bufferid, reltablespace, reldatabase, relfilenode, relforknumber, relblocknumber
FROM {place}.pg_buffercache WHERE relfilenode IS NOT NULL"""
_SEGMENT_SIZE = Question(
    "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'segment_size' AND unit = '8kB'", _SUBJECT
)
_DEFAULT, _GLOBAL = 1663, 1664
"""The OIDs of the tablespaces whose files are inside the data directory (pg_tablespace.dat)."""
_FORKS = ("", "_fsm", "_vm", "_init")
"""The file name suffix of each fork, indexed by the fork's number (relpath.c)."""


@dataclass(frozen=True)
class BufferList:
    """The pages in a pool's buffers at one moment."""

    asked_ns: int
    """The time just before the query, on the monotonic clock."""
    files: list[tuple[int, int]]
    """The (device number as the kernel encodes it, inode) of each file."""
    buffer: NDArray[np.uint32]
    """The number of each buffer, counted from 0."""
    file: NDArray[np.uint32]
    """The file of each buffer's page, as an index into `files`."""
    page: NDArray[np.uint32]
    """The number of each buffer's page in its file."""


def listed_buffers(
    query: Query, pid: int, proc: Path = Path("/proc"), clock_ns: Callable[[], int] = time.monotonic_ns
) -> BufferList | NotTold:
    """Return the buffers of a server whose first process is `pid`, or why they are unknown.

    Exceptions other than the server's refusal pass through.
    """
    place = postgres.pool_place(query)
    if isinstance(place, NotTold):
        return place
    segment = ask(query, _SEGMENT_SIZE)
    if isinstance(segment, NotTold) or not segment:
        return NotTold(f"{_SUBJECT}: the server does not say how long its files are")
    segment_pages = integer(segment[0]["setting"])
    asked_ns = clock_ns()
    rows = ask(query, Question(_BUFFERS.format(place=place), _SUBJECT))
    if isinstance(rows, NotTold):
        return rows
    columns = ("bufferid", "reltablespace", "reldatabase", "relfilenode", "relforknumber", "relblocknumber")
    table = np.array([[integer(row[name]) for name in columns] for row in rows], np.int64).reshape(-1, len(columns))
    segments = np.column_stack((table[:, 1:5], table[:, 5] // segment_pages))
    wanted, of_row = np.unique(segments, axis=0, return_inverse=True)
    found = [_file(proc / str(pid), *(int(number) for number in one)) for one in wanted]
    # Rows whose file is deleted, or not visible to this process, are left out.
    is_found = np.array([one is not None for one in found], bool)
    numbers = np.cumsum(is_found) - 1
    of_row = of_row.reshape(-1)
    kept = is_found[of_row] if len(table) else np.empty(0, bool)
    return BufferList(
        asked_ns,
        [one for one in found if one is not None],
        (table[kept, 0] - 1).astype(np.uint32),
        numbers[of_row[kept]].astype(np.uint32),
        (table[kept, 5] % segment_pages).astype(np.uint32),
    )


def _file(
    process: Path, tablespace: int, database: int, relation: int, fork: int, segment: int
) -> tuple[int, int] | None:
    """Return the device and inode of a relation's segment; None if its file is not found."""
    if not 0 <= fork < len(_FORKS):
        return None
    name = f"{relation}{_FORKS[fork]}{f'.{segment}' if segment else ''}"
    try:
        # The server's working directory is its data directory (postmaster.c, ChangeToDataDir).
        told = (_folder(process, tablespace, database) / name).stat()
    except OSError:
        return None
    return os.major(told.st_dev) << 20 | os.minor(told.st_dev), told.st_ino


def _folder(process: Path, tablespace: int, database: int) -> Path:
    """Return the folder of a database's files in a tablespace. Raises OSError."""
    if tablespace == _GLOBAL:
        return process / "cwd/global"
    if tablespace == _DEFAULT:
        return process / f"cwd/base/{database}"
    link = process / f"cwd/pg_tblspc/{tablespace}"
    # An absolute link is resolved relative to the server's root directory, because the server may be in a container.
    place = Path(f"{process}/root{target}") if (target := os.readlink(link)).startswith("/") else link
    version = sorted(one for one in place.iterdir() if one.name.startswith("PG_"))
    if len(version) != 1:
        raise FileNotFoundError(f"{place}: {len(version)} versions")
    return version[0] / str(database)
