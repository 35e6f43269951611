"""PostgreSQL's shared buffers: a clock sweep with usage counts (crates/bufferlab-sim/src/managers/postgres.rs).

Scans of large tables have rings (scans.rs in the same folder). This file says which tables are large, and how large a
ring is.
"""

from __future__ import annotations

from bufferlab.models.managers.declaration import BufferManager, Pool, Settings, Traced
from bufferlab.results.page_traces import PagesOfObject

_RING_BUFFERS = 32
"""The buffers of a bulk read's ring, 256 kB (freelist.c, GetAccessStrategy)."""
_RING_GROWS = "postgres >= 18"
"""The servers whose rings have room for reads that are under way (freelist.c, GetAccessStrategy)."""
_IO_CONCURRENCY = 16
"""The default of effective_io_concurrency from 18 on (bufmgr.h, DEFAULT_EFFECTIVE_IO_CONCURRENCY)."""
_COMBINED_BYTES = 128 << 10
"""The default of io_combine_limit in bytes (bufmgr.h, DEFAULT_IO_COMBINE_LIMIT)."""
_PAGE_BYTES = 8 << 10
_OTHER_PROCESSES = 20 + 16 + 8 + 2 + 6 + 32
"""The number of processes that may pin buffers besides the connections.

The 20 further connections of a private server (postgresql_conf.py), autovacuum_worker_slots and max_worker_processes by
default, then the special and auxiliary processes of proc.h and its IO workers.
"""
_MOST_TABLES = 255
"""The most tables that the core takes."""
_FORKS = (" (fsm)", " (vm)", " (init)")
_NO_TABLE = ("(catalog)", "(free)")


def _further(traced: Traced, pool: Pool) -> Settings:
    tables = sorted((one for one in traced.objects if _is_large(one, pool.frames)), key=lambda one: -one.pages)
    return {
        "ring_buffers": _ring_buffers(traced, pool),
        "large_tables": [
            {
                "first_page": one.first_page,
                "pages": one.pages,
                "had_rings": _is_large(one, traced.pool.frames),
            }
            for one in tables[:_MOST_TABLES]
        ],
    }


def _is_large(one: PagesOfObject, frames: int) -> bool:
    """Return whether scans of an object have a ring (heapam.c, initscan).

    Scans read no index through a ring. An index is named TABLE.INDEX.
    """
    is_table = "." not in one.name and not one.name.endswith(_FORKS) and one.name not in _NO_TABLE
    return is_table and one.pages > frames // 4


def _ring_buffers(traced: Traced, pool: Pool) -> int:
    """Return the buffers of a bulk read's ring (freelist.c, GetAccessStrategy and GetAccessStrategyWithSize)."""
    buffers = _RING_BUFFERS
    if traced.server.is_in(_RING_GROWS):
        combined = traced.ran.get("io_combine_limit", _COMBINED_BYTES) // _PAGE_BYTES
        wanted = buffers + combined * traced.ran.get("effective_io_concurrency", _IO_CONCURRENCY)
        # A process may pin only its share of the pool (bufmgr.c, GetPinLimit).
        buffers = min(wanted, max(buffers, pool.frames // (traced.connections + _OTHER_PROCESSES)))
    return max(1, min(buffers, pool.frames // 8))


MANAGER = BufferManager(
    name="postgres",
    version=3,
    meaning="PostgreSQL's shared buffers: a clock sweep with usage counts, and rings for scans of large tables",
    servers="postgres >= 15, < 19",
    further=_further,
)
