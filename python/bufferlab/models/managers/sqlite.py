"""bufferlab's page pool for SQLite: least recently used (crates/bufferlab-sim/src/managers/sqlite.rs).

The writes of SQLite's log and checkpoints do not depend on the pool's size. A commit appends each changed page to the
log (wal.c, sqlite3WalFrames). When the log has reached its limit, a checkpoint writes each page of the log once into
the database file (wal.c, walCheckpoint). A dirty page leaves the pool earlier (it spills) only if the pool is full of
pages in use (pcache.c, sqlite3PcacheFetchStress).
"""

from __future__ import annotations

from dataclasses import dataclass

from bufferlab.models.managers.declaration import BufferManager, Traced
from bufferlab.models.managers.untraced import LogWriting

_SPILLED_LIMIT = 0.01
"""The largest share of spilled pages among the pages written. Above it, writes depend on the pool's size."""
CHECKPOINTS = "wal_autocheckpoint"
"""The setting for the size of the log, in bytes, at which a commit begins a checkpoint."""
_FRAME_HEADER_BYTES = 24
"""The bytes of the frame header before each page in the log (wal.c, WAL_FRAME_HDRSIZE)."""
_MOST_CHANGED = 0.75
"""If a transaction changes more than this share of the pool's frames, dirty pages are assumed to spill.

SQLite spills when nine tenths of the pool are dirty or in use (pcache1.c, pcache1FetchStage2); cursors use about ten
pages more.
"""
_WHY = "checkpoints write the pages of the log, and every pool has the same log"


@dataclass(frozen=True)
class SameWrites:
    """The writes in the traced run's window, which are the same for a pool of any size."""

    pages: int
    log_bytes: int
    why: str = _WHY


def of_log(traced: Traced) -> SameWrites | str:
    """Return the writes of a run of SQLite, or the reason why they depend on the pool."""
    pages, log = (traced.edges.change(name) for name in ("pages_written", "wal_write_bytes"))
    if pages.value is None or log.value is None:
        return f"the run did not count its writes: {pages.reason or log.reason}"
    if not log.value:
        return "the run wrote no write-ahead log"
    spilled = traced.edges.change("pages_spilled").value or 0.0
    if spilled > _SPILLED_LIMIT * pages.value:
        return f"{spilled:,.0f} dirty pages were written before their commit, and another pool may write more or fewer"
    return SameWrites(round(pages.value), round(log.value))


def of_generated_log(seen: Traced) -> LogWriting:
    """Return how SQLite writes in a generated run.

    Its checkpoint limit is converted to frames as in engine.rs, `apply`.
    """
    frame_bytes = seen.ran["page_size"] + _FRAME_HEADER_BYTES
    return LogWriting(max(1, seen.ran[CHECKPOINTS] // frame_bytes), frame_bytes, _MOST_CHANGED, _WHY)


MANAGER = BufferManager(
    name="sqlite",
    version=1,
    meaning="bufferlab's page pool for SQLite",
    servers="sqlite",
    writing=of_log,
    untraced_writing=of_generated_log,
    untraced_settings=(CHECKPOINTS,),
)
