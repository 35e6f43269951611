"""PostgreSQL's shared buffers: a clock sweep with usage counts (crates/bufferlab-sim/src/managers/postgres.rs).

Scans of large tables have rings (scans.rs in the same folder). This file decides which tables are large, and how large
a ring is; dirty_buffers.py has the rules for dirty pages.

In a generated run sessions, the background writer and checkpoints write dirty buffers, by the same rules as for a
traced run (`dirty_buffers`). The last two follow the clock, and the load's speed is unknown without a run. So the
prediction is a range between two speeds.
"""

from __future__ import annotations

from dataclasses import replace

from bufferlab.models.access_rules import wal_of
from bufferlab.models.managers.declaration import BufferManager, Pool, Settings, Traced
from bufferlab.models.managers.dirty_buffers import DEFAULTS, DirtyBuffers, dirty_buffers
from bufferlab.models.managers.untraced import CLOCK_PER_S, AgeWriting, uncalibrated
from bufferlab.results.page_traces import PagesOfObject, Replayed
from bufferlab.versions import SERVERS

_RING_BUFFERS = 32
"""The number of buffers in the ring of a sequential scan (bulk read): 256 kB (freelist.c, GetAccessStrategy)."""
_RING_GROWS = "postgres >= 18"
"""The servers whose rings have additional buffers for reads in progress (freelist.c, GetAccessStrategy)."""
_IO_CONCURRENCY = 16
"""The default of effective_io_concurrency from 18 on (bufmgr.h, DEFAULT_EFFECTIVE_IO_CONCURRENCY)."""
_COMBINED_BYTES = 128 << 10
"""The default of io_combine_limit in bytes (bufmgr.h, DEFAULT_IO_COMBINE_LIMIT)."""
_PAGE_BYTES = 8 << 10
_FURTHER_CONNECTIONS = 20
"""The connections that a private server allows in addition to the workload's (postgresql_conf.py)."""
_PROCESSES = {"autovacuum_worker_slots": 16, "max_worker_processes": 8, "max_wal_senders": 0}
"""Settings that limit the number of processes other than connections -> their values on a private server."""
_SPECIAL_PROCESSES = 2
"""The number of special worker processes that MaxBackends includes (proc.h, NUM_SPECIAL_WORKER_PROCS)."""
_AUXILIARY_PROCESSES = 6 + 32
"""The auxiliary processes and IO workers, which may also pin buffers (proc.h, NUM_AUXILIARY_PROCS)."""
_HAS_FREE_LIST = "postgres < 19"
"""The servers with a list of buffers without a page (freelist.c, StrategyGetBuffer; from 19 on buf_internals.h's
BufferDesc has no freeNext)."""
_MOST_TABLES = 255
"""The most tables that the Rust core takes."""
_FORKS = (" (fsm)", " (vm)", " (init)")
_NO_TABLE = ("(catalog)", "(free)")


_SPEEDS = (0.5, 4.0)
"""The assumed speeds of the slow and the fast load, relative to the generator's clock. Real loads lie between them."""
_LOG = {"data_checksums": "off", "full_page_writes": "on", "wal_compression": "off"}
"""The settings that change the contents of the WAL -> the values with which its bytes were measured."""


def untraced_dirty_buffers(seen: Traced) -> AgeWriting | str:
    """Return how the server writes dirty buffers in a generated run, or why that is unknown."""
    wal = wal_of(seen.server.engine, seen.server.version)
    if wal is None:
        return uncalibrated(f"{SERVERS[seen.server.engine]} {seen.server.version}")
    if other := [f"{name} = {seen.words[name]}" for name, own in _LOG.items() if seen.words.get(name, own) != own]:
        return uncalibrated(" and ".join(other))
    rules = DirtyBuffers(
        ran={name: seen.numbers.get(name, default) for name, default in DEFAULTS.items()},
        change_bytes=wal.bytes_of_change,
        image_bytes=wal.bytes_of_image,
        io_share=None,
        redo_bytes=0,
        images=0,
        seconds=0.0,
    )
    slow, fast = (round(speed * CLOCK_PER_S) for speed in _SPEEDS)

    def log_bytes(changes: int, found: Replayed) -> int:
        return changes * wal.bytes_of_change + found.page_images * wal.bytes_of_image

    def checkpoints(log: int) -> float:
        # The fast load's window lasts the shortest time, so it has the fewest checkpoints.
        return replace(rules, seconds=seen.transactions / fast).checkpoints(log)

    return AgeWriting(
        ends=(
            rules.at(_SPEEDS[0], f"{slow} transactions a second"),
            rules.at(_SPEEDS[1], f"{fast:,} transactions a second"),
        ),
        times=(1.0, 1.0),
        copies_per_page=0.0,
        log_bytes=log_bytes,
        checkpoints=checkpoints,
        depends_on=rules.depends_on,
        notes=(f"Writes are those of loads of {slow} to {fast:,} transactions a second.",),
    )


def _further(traced: Traced, pool: Pool) -> Settings:
    tables = sorted((one for one in traced.objects if _is_large(one, pool.frames)), key=lambda one: -one.pages)
    return {
        "ring_buffers": _ring_buffers(traced, pool),
        "has_free_list": traced.server.is_in(_HAS_FREE_LIST),
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
    """Return whether scans of an object use a ring (heapam.c, initscan).

    Scans of an index use none. The name of an index is TABLE.INDEX.
    """
    is_table = "." not in one.name and not one.name.endswith(_FORKS) and one.name not in _NO_TABLE
    return is_table and one.pages > frames // 4


def _ring_buffers(traced: Traced, pool: Pool) -> int:
    """Return the buffers of a bulk read's ring (freelist.c, GetAccessStrategy and GetAccessStrategyWithSize)."""
    buffers = _RING_BUFFERS
    if traced.server.is_in(_RING_GROWS):
        # The server never reads more at once than io_max_combine_limit, even if io_combine_limit is larger.
        limits = ("io_combine_limit", "io_max_combine_limit")
        combined = min(traced.ran.get(name, _COMBINED_BYTES) for name in limits) // _PAGE_BYTES
        wanted = buffers + combined * traced.ran.get("effective_io_concurrency", _IO_CONCURRENCY)
        # A process may pin at most its share of the pool (bufmgr.c, GetPinLimit).
        buffers = min(wanted, max(buffers, pool.frames // _pinning_processes(traced)))
    return max(1, min(buffers, pool.frames // 8))


def _pinning_processes(traced: Traced) -> int:
    """Return the number of processes that may pin buffers (postinit.c, InitializeMaxBackends; bufmgr.c, GetPinLimit).

    For settings that the run did not record, take those of a private server.
    """
    connections = traced.ran.get("max_connections", traced.connections + _FURTHER_CONNECTIONS)
    others = sum(traced.ran.get(name, own) for name, own in _PROCESSES.items())
    return connections + others + _SPECIAL_PROCESSES + _AUXILIARY_PROCESSES


MANAGER = BufferManager(
    name="postgres",
    version=6,
    meaning="PostgreSQL's shared buffers: a clock sweep with usage counts, and rings for scans of large tables",
    servers="postgres >= 15, < 20",
    further=_further,
    writing=dirty_buffers,
    untraced_writing=untraced_dirty_buffers,
    untraced_settings=tuple(DEFAULTS),
    only_writes=tuple(DEFAULTS),
    asks=("io_combine_limit", "io_max_combine_limit", "effective_io_concurrency", "max_connections", *_PROCESSES),
)
