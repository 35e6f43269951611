# ruff: noqa: E501  (a table reads best in one line per row)
"""PostgreSQL's metrics: which column of which view each is, its unit and meaning; and the values derived from them.

A counter is called postgres_<view>_<column>, the view without pg_stat_. Meanings follow the manual's chapter "The
Cumulative Statistics System" and src/backend/utils/activity; where a column moved to another view with a version, the
newer view names it: pg_stat_checkpointer (17) holds what pg_stat_bgwriter did before.

A page get is served by shared buffers, by the kernel's page cache, or by the device. The server counts gets from shared
buffers (pg_stat_database: blks_hit), and all other gets together (blks_read): it reads files through the page cache,
and does not see the device. The kernel counts the bytes read from storage for each of the server's processes
(read_bytes in /proc/PID/io). If the kernel does not, the device's count of all programs' reads is used. So the pages
that came from the page cache are the server's reads minus those reads from storage. If the kernel reads ahead, the
device may read more than the server requests, and the split is unknown.

The server counts no waits. pg_stat_activity shows the present wait of each connection (wait_event_type), so every
sample counts the waiting connections. Their mean over the samples, times the window's seconds, is the time waited. At a
window's start and end the connections are idle, so these two samples are left out of that mean.
"""

from __future__ import annotations

from bufferlab.results.metrics import (
    SECONDS,
    Better,
    Device,
    Engine,
    Metric,
    MetricTable,
    ServerMetrics,
    counted,
    counter,
    derived,
    gauge,
    named,
)
from bufferlab.results.quantity import Quantity, Unit
from bufferlab.results.window import Value, Window

_SOURCE = "PostgreSQL's statistics views, forced out at the window's edges (docs/postgres-metrics.md)"


# fmt: off
class Views(MetricTable, probe="engine", source=_SOURCE):
    """Columns of PostgreSQL's statistics views, as counters and gauges of a run."""

    postgres_bgwriter_buffers_checkpoint = counter("pages", "lower", "pages that checkpoints wrote (17: pg_stat_checkpointer.buffers_written)")
    postgres_bgwriter_buffers_clean = counter("pages", "lower", "pages that the background writer wrote ahead of the clock hand")
    postgres_bgwriter_maxwritten_clean = counter("rounds", "lower", "rounds of the background writer that ended at bgwriter_lru_maxpages")
    postgres_bgwriter_buffers_backend = counter("pages", "lower", "pages that connections' own processes wrote, longer files included; until 16 (from 16 on pg_stat_io counts writes alone)")
    postgres_bgwriter_buffers_backend_fsync = counter("syncs", "lower", "syncs that connections made themselves because the checkpointer's queue was full; until 16")
    postgres_bgwriter_buffers_alloc = counter("frames", "neither", "buffers taken by the clock, for pages read and for new ones; a ring's own are not counted")
    postgres_checkpointer_num_timed = counter("checkpoints", "neither", "checkpoints begun because checkpoint_timeout had passed, those skipped included")
    postgres_checkpointer_num_requested = counter("checkpoints", "lower", "checkpoints asked for: by max_wal_size, or by a command")
    postgres_wal_records = counter("records", "neither", "records of the write-ahead log")
    postgres_wal_fpi = counter("pages", "lower", "whole pages in the write-ahead log: first changes after a checkpoint")
    postgres_wal_bytes = counter("bytes", "lower", "bytes of the write-ahead log")
    postgres_database_xact_commit = counter("transactions", "neither", "transactions committed in the database, those of bufferlab's watching connection included")
    postgres_database_blks_read = counter("pages", "lower", "pages that were not in shared buffers, and those of temporary tables; until 15 pages by which tables and indexes grew are among them, from 17 on some that another session read meanwhile")
    postgres_database_blks_hit = counter("gets", "higher", "pages that were in shared buffers")
    postgres_growth_pages = counter("pages", "neither", "pages of growth that postgres_database_blks_read counts: tables and indexes by their sizes until 15, none from 16 on")
    postgres_growth_heap_pages = counter("pages", "neither", "the same of postgres_statio_heap_blks_read")
    postgres_growth_idx_pages = counter("pages", "neither", "the same of postgres_statio_idx_blks_read")
    postgres_database_xact_rollback = counter("transactions", "neither", "transactions rolled back in the database")
    postgres_database_tup_returned = counter("rows", "neither", "rows that scans of tables read, and entries that scans of indexes returned")
    postgres_database_tup_fetched = counter("rows", "neither", "rows that were fetched through an index")
    postgres_database_tup_inserted = counter("rows", "neither", "rows inserted")
    postgres_database_tup_updated = counter("rows", "neither", "rows updated")
    postgres_database_tup_deleted = counter("rows", "neither", "rows deleted")
    postgres_database_deadlocks = counter("deadlocks", "lower", "deadlocks found")
    postgres_database_temp_bytes = counter("bytes", "lower", "bytes written to temporary files by sorts and hashes larger than work_mem")
    postgres_io_pages_read = counter("pages", "lower", "pages that connections' own processes and their parallel workers read (pg_stat_io, all contexts); from 16 on")
    postgres_statio_heap_blks_read = counter("pages", "lower", "pages of the workload's tables that were not in shared buffers, until 15 with growth")
    postgres_statio_heap_blks_hit = counter("gets", "higher", "pages of the workload's tables that were")
    postgres_statio_idx_blks_read = counter("pages", "lower", "pages of its indexes that were not in shared buffers, until 15 with growth")
    postgres_statio_idx_blks_hit = counter("gets", "higher", "pages of its indexes that were")
    postgres_activity_lock = gauge("connections", "lower", "connections that wait at this moment with wait_event_type Lock: for a row, or another lock of the manual's chapter Explicit Locking")
    postgres_activity_lwlock = gauge("connections", "lower", "the same of LWLock: for a part of shared memory, such as a buffer's content (from 19 on of type Buffer), or for another connection that writes the log (WALWrite)")
    postgres_activity_io = gauge("connections", "lower", "the same of IO: for a read, a write or a sync of a file, the log's too")


#: The two contexts of pg_stat_io in which a workload's own connections read and write.
IO_CONTEXTS = ("normal", "bulkread")
_IO_COLUMNS: dict[str, tuple[str, Better, str]] = {
    "reads": ("operations", "lower", "reads by connections' own processes and parallel workers; before 18 of one page each"),
    "writes": ("operations", "lower", "writes by the same, to free a buffer they need"),
    "extends": ("operations", "neither", "times they made a table or an index longer"),
    "hits": ("hits", "higher", "times they found the page in shared buffers"),
    "evictions": ("evictions", "lower", "pages they put out of shared buffers, by the clock, to take their place"),
    "reuses": ("reuses", "neither", "buffers of a scan's own ring that they used again"),
}
_IO = {
    f"postgres_io_{context}_{name}": counter(unit, better, f"{meaning}, context {context}; from 16 on")
    for context in IO_CONTEXTS
    for name, (unit, better, meaning) in _IO_COLUMNS.items()
}
RAW = (*Views.rows, *named(_IO, "engine", _SOURCE))
# fmt: on

PAGE_BYTES = 8192
#: A metric that every run on PostgreSQL has, and no run on another engine.
MARK = Views.postgres_database_xact_commit.name
NOT_POSTGRES = "the engine is not PostgreSQL"
NO_SAMPLE_BETWEEN = "no sample lies between the edges of this window"
NO_SPLIT = (
    "more was read from the device than the server asked for: by the kernel's read-ahead, or for other programs; "
    "what the page cache served cannot be told"
)
#: If the device read more than the server requested, by more than both this number of pages and this fraction, the
#: split between page cache and device is unknown.
_STRAY_PAGES, _STRAY_SHARE = 256, 0.02
_WRITES = (
    Engine.pages_written.name,
    Views.postgres_bgwriter_buffers_checkpoint.name,
    Views.postgres_bgwriter_buffers_clean.name,
)
"""The metrics of all pages written, of those of checkpoints, and of those of the background writer."""


def _of_postgres(unit: str, name: str, *counters: Metric) -> Quantity:
    """Return the formula for the growth of the first counter minus that of the others; null for another engine."""

    def evaluate(window: Window) -> Value:
        if MARK not in window.end:
            return Value(None, NOT_POSTGRES)
        found = [window.change(counter.name) for counter in counters]
        missing = next((value.reason for value in found if value.value is None), None)
        if missing:
            return Value(None, missing)
        first, *others = (value.value or 0.0 for value in found)
        return Value(first - sum(others))

    return Quantity(Unit.parse(unit), evaluate, name, frozenset({MARK, *(counter.name for counter in counters)}))


def _device_pages(window: Window) -> Value:
    if MARK not in window.end:
        return Value(None, NOT_POSTGRES)
    read = window.change(ServerMetrics.server_read_bytes.name)
    if read.value is None:
        read = window.change(Device.device_read_bytes.name)
    return read if read.value is None else Value(read.value / PAGE_BYTES)


def _page_cache_pages(window: Window) -> Value:
    device, read = _device_pages(window), window.change(Engine.pages_read.name)
    if device.value is None or read.value is None:
        return Value(None, device.reason or read.reason)
    left = read.value - device.value
    if left < -max(_STRAY_PAGES, _STRAY_SHARE * read.value):
        return Value(None, NO_SPLIT)
    return Value(max(0.0, left))


def _page_cache_share(window: Window) -> Value:
    cached, read = _page_cache_pages(window), window.change(Engine.pages_read.name)
    if cached.value is None or not read.value:
        return Value(None, cached.reason or read.reason or "nothing was read in the measured window")
    return Value(cached.value / read.value)


def _backend_writes(window: Window) -> Value:
    """Return the pages that backends wrote: those written neither by a checkpoint nor by the background writer.

    On 15 they include the pages by which files grow (docs/postgres-metrics.md).
    """
    if MARK not in window.end:
        return Value(None, NOT_POSTGRES)
    written, *by_others = (window.change(metric) for metric in _WRITES)
    missing = next((one.reason for one in (written, *by_others) if one.value is None), None)
    return (
        Value(None, missing) if missing else Value((written.value or 0.0) - sum(one.value or 0.0 for one in by_others))
    )


def _waited(of: Metric) -> Quantity:
    """Return the formula for the milliseconds that connections waited.

    It is the mean number of waiting connections in the samples inside the window, times the window's length.
    """

    def evaluate(window: Window) -> Value:
        if MARK not in window.end:
            return Value(None, NOT_POSTGRES)
        if of.name not in window.end:
            return Value(None, f"{of.name} was not sampled")
        seen = [count for _, count in window.course.get(of.name, ())[1:-1]]
        if not seen or window.seconds is None:
            return Value(None, NO_SAMPLE_BETWEEN)
        return Value(1000 * window.seconds * sum(seen) / len(seen))

    return Quantity(Unit.parse("ms"), evaluate, of.name, frozenset({MARK, of.name}), is_timed=True)


SHARED_BUFFER_HITS = _of_postgres("gets", "shared-buffer hits", Engine.page_gets, Engine.demand_misses)
_PAGES = Unit.parse("pages")
_DEVICE = frozenset({MARK, ServerMetrics.server_read_bytes.name, Device.device_read_bytes.name})
_CACHE = _DEVICE | {Engine.pages_read.name}
DEVICE_PAGES = Quantity(_PAGES, _device_pages, "pages from the device", _DEVICE)
PAGE_CACHE_PAGES = Quantity(_PAGES, _page_cache_pages, "pages from the page cache", _CACHE)
BACKEND_WRITES = Quantity(_PAGES, _backend_writes, "pages written by connections", frozenset({MARK, *_WRITES}))
PAGE_CACHE_SHARE = Quantity(Unit.parse("1"), _page_cache_share, "page-cache share", _CACHE)
HEAP_PAGES_READ = Views.postgres_statio_heap_blks_read - Views.postgres_growth_heap_pages
INDEX_PAGES_READ = Views.postgres_statio_idx_blks_read - Views.postgres_growth_idx_pages
TABLES_GETS = (
    (HEAP_PAGES_READ + INDEX_PAGES_READ).counted_as("gets")
    + Views.postgres_statio_heap_blks_hit
    + Views.postgres_statio_idx_blks_hit
)
WAL_LOG_BYTES = _of_postgres("bytes", "log bytes", Views.postgres_wal_bytes)


# fmt: off
class PostgresPerWork(MetricTable):
    """Counts of a PostgreSQL server's work, for each unit of work such as a transaction."""

    shared_buffer_hits = counted("gets", "higher", "Shared-buffer hits", "page gets that found their page in shared buffers", SHARED_BUFFER_HITS)
    page_cache_pages = counted("pages", "neither", "Pages from the page cache", "pages the server read less those the device did", PAGE_CACHE_PAGES)
    device_pages = counted("pages", "lower", "Pages from the device", "bytes read from storage for the server, in pages of 8 KiB; the kernel's read-ahead is among them", DEVICE_PAGES)
    heap_pages_read = counted("pages", "lower", "Heap pages read", "pages of tables read into shared buffers", HEAP_PAGES_READ)
    index_pages_read = counted("pages", "lower", "Index pages read", "pages of indexes read into shared buffers", INDEX_PAGES_READ)
    buffers_taken = counted("frames", "lower", "Buffers taken", "buffers taken by the clock", Views.postgres_bgwriter_buffers_alloc)
    wal_log_bytes = counted("bytes", "lower", "Log bytes", "bytes of the write-ahead log", WAL_LOG_BYTES)
    full_page_images = counted("pages", "lower", "Whole pages logged", "first changes of a page after a checkpoint", Views.postgres_wal_fpi)
    backend_writes = counted("pages", "lower", "Pages written by connections", "dirty pages a connection wrote to take their place", BACKEND_WRITES)
    lock_wait_ms = counted("ms", "lower", "Lock waits", "time in wait_event_type Lock (rows and other locks), of all connections together, by samples of pg_stat_activity", _waited(Views.postgres_activity_lock))
    lwlock_wait_ms = counted("ms", "lower", "LWLock waits", "the same of LWLock and Buffer: parts of shared memory, and another connection that writes the log", _waited(Views.postgres_activity_lwlock))
    io_wait_ms = counted("ms", "lower", "IO waits", "the same of IO: reads, writes and syncs of files, the log's too", _waited(Views.postgres_activity_io))


class PostgresRates(MetricTable):
    """Rates and shares of a run, from a PostgreSQL server's counts and the device's."""

    page_cache_share = derived("1", "share", "neither", "Page-cache share of reads", "of the pages that were not in shared buffers, those that the page cache had", PAGE_CACHE_SHARE)
    checkpoint_writes_per_s = derived("pages/s", "ratio", "lower", "Checkpoint writes per second", "pages written by checkpoints", Views.postgres_bgwriter_buffers_checkpoint / SECONDS)
    cleaner_writes_per_s = derived("pages/s", "ratio", "lower", "Background writer's writes per second", "pages written ahead of the clock hand", Views.postgres_bgwriter_buffers_clean / SECONDS)
    backend_writes_per_s = derived("pages/s", "ratio", "lower", "Connections' writes per second", "pages written by connections' own processes", BACKEND_WRITES / SECONDS)
    wal_log_bytes_per_s = derived("bytes/s", "ratio", "lower", "Log bytes per second", "bytes of the write-ahead log", WAL_LOG_BYTES / SECONDS)
    checkpoints_in_window = derived("checkpoints", "counter", "neither", "Checkpoints", "begun in the window, by time or on request", Views.postgres_checkpointer_num_timed + Views.postgres_checkpointer_num_requested)


DERIVED = (*PostgresPerWork.rows, *PostgresRates.rows)
# fmt: on
