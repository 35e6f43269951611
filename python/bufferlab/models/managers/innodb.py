"""The models of two generations of InnoDB (crates/bufferlab-sim/src/managers/innodb), and the reasons to doubt them.

Reasons for doubt are: reads that depend on the run's speed, purge that has fallen behind, and a long free list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bufferlab.models.limits import MOST_HISTORY, MOST_HISTORY_GROWTH
from bufferlab.models.managers.declaration import BufferManager, Pool, Server, Settings, Traced
from bufferlab.models.managers.flushing import ONLY_WRITES, flushing
from bufferlab.models.managers.untraced_flushing import SETTINGS, untraced_flushing
from bufferlab.results.page_traces import Verdict
from bufferlab.results.window import Window

_FILLED = 1.5
"""The number of times that the pool must be filled before the window.

Before the first eviction, accesses do not reorder the LRU list (buf0buf.ic, buf_page_peek_if_too_old).
"""
_WAKES_CLEANER = "mysql >= 5.7; mariadb"
"""The servers up to MariaDB 10.4 in which a thread that finds no free frame wakes the page cleaner."""
_OLD_MIN_LEN = 512
"""The length of the shortest LRU list with an old sublist (buf0lru.h, BUF_LRU_OLD_MIN_LEN)."""
_HISTORY = "innodb_metric_trx_rseg_history_len"
REVISITS = "mysql >= 8.0; mariadb >= 10.3"
"""The servers whose purge accesses each changed row again (row0purge.cc, row_purge_reset_trx_id in MariaDB)."""
SMALLER_POOL = 2 / 3
"""In pools smaller than this fraction of the traced run's pool, purge that returns to each changed row may fall
behind."""
_CHANGED_ROWS = ("innodb_rows_inserted", "innodb_rows_updated", "innodb_rows_deleted")
_WRITES = 0.01
"""The least number of changed rows per transaction from which a workload counts as writing: the server itself changes a
few rows."""
_DEPTH = "lru_scan_depth"
_DEEP = 1 / 10
"""If the free list is longer than this fraction of the frames, it fills and empties in waves whose height depends on
timing."""


_DESCRIPTORS_INSIDE = "mariadb >= 10.11.12, < 11.0; mariadb >= 11.4.6, < 11.5; mariadb >= 11.8.2"
"""The servers whose pool size includes the descriptors of its frames (buf0buf.cc, buf_pool_t::get_n_blocks)."""
_EXTENT_BYTES = 8 << 20
"""Such a pool consists of extents of this size, and each extent begins with its frames' descriptors (buf0buf.cc,
innodb_buffer_pool_extent_size)."""
_DESCRIPTOR_BYTES = 152
"""The size of a frame's descriptor (sizeof buf_block_t), computed from the frames that 10.11.19 and 11.8.9 report for
pages of 4, 8 and 16 KiB."""


def _frames(server: Server, page_bytes: int, pool_bytes: int) -> int:
    """Return the frames of a pool (buf0buf.cc, buf_pool_t::get_n_blocks, first_page)."""
    if not server.is_in(_DESCRIPTORS_INSIDE):
        return pool_bytes // page_bytes
    in_extent = _EXTENT_BYTES // (page_bytes + _DESCRIPTOR_BYTES)
    of_descriptors = _EXTENT_BYTES // page_bytes - in_extent
    extents, rest_bytes = divmod(pool_bytes, _EXTENT_BYTES)
    return extents * in_extent + max(0, rest_bytes // page_bytes - of_descriptors)


def _neighbors(traced: Traced, _pool: Pool) -> Settings:
    """Return the effective flush_neighbors of MariaDB from 10.5 on: 0 unless the kernel reports the device as
    rotational."""
    return {"flush_neighbors": traced.ran.get("flush_neighbors", 1) if traced.is_rotational else 0}


def _by_speed(pool: Pool) -> str | None:
    """Return in words an `old_blocks_time` above 0, which makes reads depend on the run's speed; None if it is 0.

    Above 0, an access moves a page to the young sublist only after that time (buf0buf.ic). Also return None for a pool
    that is too small for an old sublist.
    """
    time_ms = pool.values["old_blocks_time"]
    return f"old_blocks_time is {time_ms:,} ms" if time_ms and pool.frames >= _OLD_MIN_LEN else None


def _doubts(traced: Traced, pool: Pool) -> Iterable[Verdict]:
    """Yield the reasons to doubt a prediction: purge, and the depth of the LRU scans."""
    behind = _behind(traced.edges, traced.transactions)
    # The trace contains the accesses of purge, so this doubt does not apply to the traced run's own point.
    if behind and pool != traced.pool:
        yield _purge_behind(
            f"purge was behind in the traced run: {behind}. In another pool it is behind by more or less"
        )
    elif pool.frames < SMALLER_POOL * traced.pool.frames and _may_fall_behind(traced) and not _kept_up(traced, pool):
        yield _purge_behind(
            "purge of this server goes back to each changed row; it kept up in the traced run, and may not with less "
            "than two thirds of its pool. A measured run there would tell"
        )
    of_trace = traced.pool.values[_DEPTH]
    if pool.values[_DEPTH] != of_trace:
        yield from _deep(pool, f" and not the trace's {of_trace:,}")


def _deep(pool: Pool, unlike: str = "") -> Iterable[Verdict]:
    """Yield a verdict if lru_scan_depth, the length of the free list, is a large share of the pool (_DEEP)."""
    depth = pool.values[_DEPTH]
    if depth > _DEEP * pool.frames:
        yield Verdict(
            name="scan_depth",
            sentence=f"lru_scan_depth is {depth:,}{unlike}: it is {100 * depth / pool.frames:.0f} % of the "
            "frames, and how many of them are free then depends on time, which the model does not know",
        )


def _purge_behind(sentence: str) -> Verdict:
    return Verdict(name="purge_behind", sentence=sentence)


def _behind(window: Window, transactions: int) -> str:
    """Return in words how far purge was behind in a window; "" if it kept up, or if the run lacks the counter."""
    first, last, highest = window.first_level(_HISTORY).value, window.level(_HISTORY).value, window.highest(_HISTORY)
    if first is None or last is None or highest.value is None:
        return ""
    if highest.value > MOST_HISTORY:
        return f"its history list had {highest.value:,.0f} transactions"
    grown = last - first
    return (
        f"its history list grew by {grown:,.0f} in {transactions:,} transactions"
        if grown > MOST_HISTORY_GROWTH * transactions
        else ""
    )


def _may_fall_behind(traced: Traced) -> bool:
    changes = [traced.edges.change(metric).value or 0.0 for metric in _CHANGED_ROWS]
    return traced.server.is_in(REVISITS) and sum(changes) > _WRITES * traced.transactions


def _kept_up(traced: Traced, pool: Pool) -> bool:
    """Return whether a measured run with this pool or a smaller one shows that purge keeps up in it."""
    return any(
        frames <= pool.frames and window.level(_HISTORY).value is not None and not _behind(window, transactions)
        for frames, transactions, window in traced.others()
    )


_UP_TO_10_4 = BufferManager(
    name="innodb57",
    version=3,
    meaning=(
        "InnoDB: a list with a midpoint, and a cleaner that works once a second or when the tail is dirty and no frame "
        "is free"
    ),
    servers="mysql >= 5.6, < 8.0; mariadb >= 10.2, < 10.5",
    further=lambda traced, _pool: {"wakes_cleaner": traced.server.is_in(_WAKES_CLEANER)},
    only_writes=ONLY_WRITES,
    presumes={"buffer_pool_instances": 1, "change_buffering": "none"},
    read_ahead=("innodb_buffer_pool_read_ahead", "innodb_buffer_pool_read_ahead_rnd"),
    filled=_FILLED,
    by_speed=_by_speed,
    writing=flushing,
    untraced_writing=untraced_flushing,
    untraced_settings=SETTINGS,
    doubts=_doubts,
    untraced=_deep,
)
_MYSQL_8_0 = replace(_UP_TO_10_4, servers="mysql >= 8.0, < 8.1", own_defaults={"flush_neighbors": 0})
"""The model for MySQL 8.0. Later versions have the same rules.

In buf0flu.cc of 8.4, buf_flush_LRU_list_batch, buf_flush_single_page_from_LRU and buf_flush_page_coordinator_thread do
the same as in 8.0. The only difference: a page of a dropped table stays in the list until a batch or a thread
finds it (buf_page_free_stale).
"""
MANAGERS = (
    _UP_TO_10_4,
    _MYSQL_8_0,
    replace(_MYSQL_8_0, servers="mysql >= 8.1, < 9.7", is_compared=False),
    replace(_MYSQL_8_0, servers="mysql >= 9.7, < 10"),
    replace(
        _UP_TO_10_4,
        name="innodb1011",
        version=3,
        meaning="InnoDB: a list with a midpoint, and a cleaner that is woken when half of lru_scan_depth is left free",
        servers="mariadb >= 10.5",
        frames=_frames,
        further=_neighbors,
    ),
)
"""The declarations of the two models.

The first model has four declarations, because its servers differ in a default, and predictions for some of them were
never compared with measured reads.
"""
