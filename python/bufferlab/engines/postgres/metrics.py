"""PostgreSQL's metrics: which column of which view each is, its unit and what it means. Tables only.

A counter is called postgres_<view>_<column>, the view without pg_stat_. Meanings follow the manual's chapter "The
Cumulative Statistics System" and src/backend/utils/activity; where a column moved to another view with a version, the
newer view names it: pg_stat_checkpointer (17) holds what pg_stat_bgwriter did before.
"""

from __future__ import annotations

from bufferlab.results.metrics import counts_per_work, derived, raw

_SOURCE = "PostgreSQL's statistics views, forced out at the window's edges (docs/postgres-metrics.md)"

#: The two contexts of pg_stat_io in which a workload's own connections read and write.
IO_CONTEXTS = ("normal", "bulkread")
_IO_COLUMNS = """
reads     | operations | lower   | reads by connections' own processes and parallel workers; before 18 of one page each
writes    | operations | lower   | writes by the same, to free a buffer they need
extends   | operations | neither | times they made a table or an index longer
hits      | hits       | higher  | times they found the page in shared buffers
evictions | evictions  | lower   | pages they put out of shared buffers, by the clock, to take their place
reuses    | reuses     | neither | buffers of a scan's own ring that they used again
"""

#: Rows in the format of `raw`: name | unit | which way is better | meaning.
_COUNTERS = """
postgres_bgwriter_buffers_checkpoint | pages | lower | pages that checkpoints wrote (17: pg_stat_checkpointer.buffers_written)
postgres_bgwriter_buffers_clean | pages | lower | pages that the background writer wrote ahead of the clock hand
postgres_bgwriter_maxwritten_clean | rounds | lower | rounds of the background writer that ended at bgwriter_lru_maxpages
postgres_bgwriter_buffers_backend | pages | lower | pages that connections' own processes wrote, longer files included; until 16 (from 17 on: pg_stat_io)
postgres_bgwriter_buffers_backend_fsync | syncs | lower | syncs that connections made themselves because the checkpointer's queue was full; until 16
postgres_bgwriter_buffers_alloc | frames | neither | buffers taken by the clock, for pages read and for new ones; a ring's own are not counted
postgres_checkpointer_num_timed | checkpoints | neither | checkpoints begun because checkpoint_timeout had passed, those skipped included
postgres_checkpointer_num_requested | checkpoints | lower | checkpoints asked for: by max_wal_size, or by a command
postgres_wal_records | records | neither | records of the write-ahead log
postgres_wal_fpi | pages | lower | whole pages in the write-ahead log: first changes after a checkpoint
postgres_wal_bytes | bytes | lower | bytes of the write-ahead log
postgres_database_xact_commit | transactions | neither | transactions committed in the database, those of bufferlab's watching connection included
postgres_database_blks_read | pages | lower | pages that were not in shared buffers; until 15 pages by which tables and indexes grew are among them
postgres_database_blks_hit | gets | higher | pages that were in shared buffers
postgres_growth_pages | pages | neither | pages of growth that postgres_database_blks_read counts: tables and indexes by their sizes until 15, none from 16 on
postgres_growth_heap_pages | pages | neither | the same of postgres_statio_heap_blks_read
postgres_growth_idx_pages | pages | neither | the same of postgres_statio_idx_blks_read
postgres_database_xact_rollback | transactions | neither | transactions rolled back in the database
postgres_database_tup_returned | rows | neither | rows that scans of tables read, and entries that scans of indexes returned
postgres_database_tup_fetched | rows | neither | rows that were fetched through an index
postgres_database_tup_inserted | rows | neither | rows inserted
postgres_database_tup_updated | rows | neither | rows updated
postgres_database_tup_deleted | rows | neither | rows deleted
postgres_database_deadlocks | deadlocks | lower | deadlocks found
postgres_database_temp_bytes | bytes | lower | bytes written to temporary files by sorts and hashes larger than work_mem
postgres_io_pages_read | pages | lower | pages that connections' own processes and their parallel workers read (pg_stat_io, all contexts); from 16 on
postgres_statio_heap_blks_read | pages | lower | pages of the workload's tables that were not in shared buffers, until 15 with growth
postgres_statio_heap_blks_hit | gets | higher | pages of the workload's tables that were
postgres_statio_idx_blks_read | pages | lower | pages of its indexes that were not in shared buffers, until 15 with growth
postgres_statio_idx_blks_hit | gets | higher | pages of its indexes that were
"""  # noqa: E501  (a table reads best in one line per row)


def _counters() -> str:
    """Return the rows of every counter, those of pg_stat_io by context."""
    rows = [line.split("|", 1) for line in _IO_COLUMNS.strip().splitlines()]
    of_io = [
        f"postgres_io_{context}_{name.strip()} |{rest}, context {context}; from 16 on"
        for context in IO_CONTEXTS
        for name, rest in rows
    ]
    return "\n".join((*_COUNTERS.strip().splitlines(), *of_io))


#: Rows in the format of `counts_per_work`: count | unit | which way is better | title | meaning [| = formula].
_PER_WORK = """
shared_buffer_hits | gets   | higher  | Shared-buffer hits | page gets that found their page in shared buffers
page_cache_pages   | pages  | neither | Pages from the page cache | pages the server read less those the device did
device_pages       | pages  | lower   | Pages from the device | bytes read from storage for the server, in pages of 8 KiB; the kernel's read-ahead is among them
heap_pages_read    | pages  | lower   | Heap pages read   | pages of tables read into shared buffers
index_pages_read   | pages  | lower   | Index pages read  | pages of indexes read into shared buffers
buffers_taken      | frames | lower   | Buffers taken     | buffers taken by the clock | = postgres_bgwriter_buffers_alloc
wal_log_bytes      | bytes  | lower   | Log bytes         | bytes of the write-ahead log
full_page_images   | pages  | lower   | Whole pages logged | first changes of a page after a checkpoint | = postgres_wal_fpi
backend_writes     | pages  | lower   | Pages written by connections | dirty pages a connection wrote to take their place
"""  # noqa: E501

#: Rows in the format of `derived`: name | unit | kind | which way is better | title | meaning [| = formula].
_DERIVED = """
page_cache_share  | 1 | share | neither | Page-cache share of reads | of the pages that were not in shared buffers, those that the page cache had
checkpoint_writes_per_s | pages/s | ratio | lower | Checkpoint writes per second | pages written by checkpoints | = postgres_bgwriter_buffers_checkpoint / seconds
cleaner_writes_per_s | pages/s | ratio | lower | Background writer's writes per second | pages written ahead of the clock hand | = postgres_bgwriter_buffers_clean / seconds
backend_writes_per_s | pages/s | ratio | lower | Connections' writes per second | pages written by connections' own processes | = backend_writes / seconds
wal_log_bytes_per_s | bytes/s | ratio | lower | Log bytes per second | bytes of the write-ahead log | = wal_log_bytes / seconds
checkpoints_in_window | checkpoints | counter | neither | Checkpoints | begun in the window, by time or on request | = postgres_checkpointer_num_timed + postgres_checkpointer_num_requested
"""  # noqa: E501

RAW = tuple(raw("engine", _SOURCE, "counter", _counters()))
DERIVED = (*counts_per_work(_PER_WORK), *derived(_DERIVED))
