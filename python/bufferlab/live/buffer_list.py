"""Lists PostgreSQL's buffers through pg_buffercache, so that the recorder knows the pages of frames that no recorded
call has filled.

The view identifies pages by relation, and system calls identify them by device and inode of a segment's file. So this
module translates relations to files. The recorder finds out where in memory buffer 0 is (frames/names.rs).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines.postgres import questions as postgres
from bufferlab.engines.servers.look import NotTold, Query, Question, ask, integer

_SUBJECT = "which pages the pool's buffers hold"
_BUFFERS = """\
SELECT bufferid, reltablespace, reldatabase, relfilenode, relforknumber, relblocknumber
FROM {place}.pg_buffercache WHERE relfilenode IS NOT NULL"""
_SEGMENT = Question("SELECT setting FROM pg_catalog.pg_settings WHERE name = 'segment_size' AND unit = '8kB'", _SUBJECT)
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


def listed(
    query: Query, pid: int, proc: Path = Path("/proc"), clock_ns: Callable[[], int] = time.monotonic_ns
) -> BufferList | NotTold:
    """Return the buffers of a server whose first process is `pid`, or why they are unknown.

    Exceptions other than the server's refusal pass through.
    """
    place = postgres.pool_place(query)
    if isinstance(place, NotTold):
        return place
    segment = ask(query, _SEGMENT)
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
