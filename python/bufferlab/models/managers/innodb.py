"""The models of two generations of InnoDB (crates/bufferlab-sim/src/managers/innodb), and the reasons to doubt them.

Reasons for doubt are: reads that depend on the run's speed, purge that has fallen behind, and a long free list.

For a generated run, this file has the shortest and the longest time that pages may stay dirty. The page cleaner writes
the oldest dirty pages. How old pages get depends on the device and on the load's speed, which are unknown without a
run. The server's rules limit this age on both sides. Below `innodb_adaptive_flushing_lwm`, 10 % of the redo log, the
cleaner writes no page because of its age (buf0flu.cc, af_get_pct_for_lsn). At the largest age, transactions wait until
the page is written (log0log.cc, log_calc_max_ages).

With `innodb_max_dirty_pages_pct_lwm` the cleaner also writes some pages each second while many pages are dirty. A
slower load then writes more pages per transaction, so the end with more writes assumes a slow load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bufferlab.models.access_rules import KnownRedo, redo_of
from bufferlab.models.limits import MOST_HISTORY, MOST_HISTORY_GROWTH
from bufferlab.models.managers.declaration import BufferManager, Pool, Server, Settings, Traced
from bufferlab.models.managers.flushing import (
    DIRTY_LIMIT,
    EARLIEST_SHARE,
    OF_CLEANER,
    ONLY_WRITES,
    Limit,
    capacity_settings,
    flushing,
    most_dirty,
)
from bufferlab.models.managers.untraced import CLOCK_PER_S, AgeWriting, uncalibrated
from bufferlab.results.page_traces import Verdict
from bufferlab.results.window import Window
from bufferlab.units import format_bytes
from bufferlab.versions import SERVERS

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


_CAPACITY, _FILE_BYTES = "redo_log_capacity", "log_file_size"
_OWN_CAPACITY = (("mysql >= 8.0.30", 100 << 20), ("mysql", 2 * (48 << 20)))
"""The default total bytes of all redo log files: innodb_redo_log_capacity, or two files of innodb_log_file_size
(ha_innodb.cc, srv0srv.cc)."""
_FILES = 2
_HEADER_BYTES = 2048
"""The bytes of a redo log file's header (log0log.h, LOG_FILE_HDR_SIZE)."""
_LATEST = 15 / 16
"""The largest age as a share of the log's usable bytes (log0types.h, LOG_POOL_PREFLUSH_RATIO_SYNC)."""
_USABLE_OF_9 = 0.8859
"""The usable share of the log's capacity from 8.0.30 on (log0files_capacity.cc).

It follows from the metric log_max_modified_age_sync of MySQL 9.7.4: 87,086,592 of 104,857,600 bytes.
"""
_SLOWER = 2
"""A safety margin: the slow load, at the end with more writes, is slower than the generator's clock by this factor."""
_DOUBLEWRITE, _COMMIT = "doublewrite", "flush_log_at_trx_commit"
SETTINGS = (_CAPACITY, _FILE_BYTES, *OF_CLEANER, _DOUBLEWRITE, _COMMIT)
"""The settings that change the writes of a generated run."""
_COPIES = {None: 1.0, "on": 1.0, "off": 0.0, "detect_only": 0.0}
"""Value of doublewrite (None is the default, on) -> the copies of each page written to the doublewrite buffer."""
_ONCE_A_SECOND = "0"
_MOST_CHANGES = (1 << 32) - 1


def untraced_flushing(seen: Traced) -> AgeWriting | str:
    """Return how the server writes dirty pages in a generated run, or why that is unknown."""
    redo = redo_of(seen.server.engine, seen.server.version)
    if redo is None:
        return uncalibrated(f"{SERVERS[seen.server.engine]} {seen.server.version}")
    usable_bytes = _usable_bytes(seen.server, _capacity_bytes(seen), seen.ran["page_size"])
    cleaner, most = capacity_settings(seen), most_dirty(seen)
    early = _limit(
        redo, round(EARLIEST_SHARE * usable_bytes), most, "from which on the cleaner writes the oldest pages"
    )
    late = _limit(redo, round(_LATEST * usable_bytes), most, "from which on changes wait for flushing")
    if cleaner:
        early = _of_slow_load(early, cleaner)
    return AgeWriting(
        ends=(early, late),
        times=(_SLOWER if cleaner else 1.0, 1.0),
        copies_per_page=_COPIES.get(seen.words.get(_DOUBLEWRITE)),
        log_bytes=redo.written if seen.words.get(_COMMIT) == _ONCE_A_SECOND else None,
        depends_on="how long pages stay dirty, and so on the device",
        notes=(_SLOW_NOTE,) if cleaner else (),
    )


_SLOW_NOTE = (
    f"The larger ends of writes are those of {CLOCK_PER_S // _SLOWER} transactions a second: while more pages are "
    "dirty than max_dirty_pages_pct_lwm allows, a slower load writes more pages a transaction."
)


def _limit(redo: KnownRedo, age_bytes: int, most: int, why: str) -> Limit:
    settings = {"flush_age": [(0, min(round(age_bytes / redo.bytes_per_change), _MOST_CHANGES))], DIRTY_LIMIT: most}
    return Limit(settings, f"an age of {format_bytes(age_bytes)}, {why}", age_bytes)


def _of_slow_load(early: Limit, cleaner: Mapping[str, float]) -> Limit:
    why = f"{early.why}, and {CLOCK_PER_S // _SLOWER} transactions a second"
    return Limit({**early.settings, "io_capacity": {**cleaner, "speed": 1.0}}, why, early.age_bytes)


def _capacity_bytes(seen: Traced) -> int:
    own = next(value for servers, value in _OWN_CAPACITY if seen.server.is_in(servers))
    files = seen.ran.get(_FILE_BYTES)
    return seen.ran.get(_CAPACITY, own if files is None else _FILES * files)


def _usable_bytes(server: Server, capacity_bytes: int, page_bytes: int) -> int:
    """Return the bytes of the log from which the largest ages follow (log0log.cc, log0chkp.cc: log_calc_max_ages)."""
    if server.is_in("mysql >= 8.0.30"):
        return round(_USABLE_OF_9 * capacity_bytes)
    real = capacity_bytes - _FILES * _HEADER_BYTES
    if server.is_in("mysql >= 8.0"):
        # Subtract two margins: the one that the server never uses, and the one for many threads that write at once.
        writer = real - min(real // 10, 256 * 4 * page_bytes)
        return writer - writer // 20
    # The server reserves four pages for each of ten threads, and eight more. It subtracts 10 % before and after this.
    rest = real - real // 10 - (4 * 10 + 8) * page_bytes
    return rest - rest // 10


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
