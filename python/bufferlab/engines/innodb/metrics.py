"""InnoDB's metrics: which engine counter each is, its unit and what it means. Tables only.

Meanings follow storage/innobase: srv_export_innodb_status (srv/srv0srv.cc) fills the status variables,
innodb_counter_info (srv/srv0mon.cc) names the INNODB_METRICS, and the file in brackets is where a counter is
incremented (MySQL 5.7's files).
"""

from __future__ import annotations

from bufferlab.results.metrics import counts_per_work, derived, raw

_STATUS_SOURCE = "SHOW GLOBAL STATUS (srv0srv.cc: srv_export_innodb_status)"
_METRICS_SOURCE = "information_schema.INNODB_METRICS (srv0mon.cc: innodb_counter_info)"
#: The prefix under which this project stores a row of INNODB_METRICS, before the engine's name in lower case.
METRIC_PREFIX = "innodb_metric_"

#: Rows in the format of `raw`: name | unit | which way is better | meaning.
_STATUS_COUNTERS = """
innodb_buffer_pool_wait_free | loops | lower | times a thread that found no free frame went on to a single-page flush; from MariaDB 10.5 on, waited for the page cleaner (buf0lru.cc: buf_LRU_get_free_block)
innodb_buffer_pool_read_ahead | pages | neither | pages read by linear read-ahead (buf0rea.cc: buf_read_ahead_linear)
innodb_buffer_pool_read_ahead_rnd | pages | neither | pages read by random read-ahead (buf0rea.cc: buf_read_ahead_random)
innodb_buffer_pool_read_ahead_evicted | pages | lower | pages read ahead and evicted before anyone asked for them (buf0lru.cc: buf_LRU_free_from_common_LRU_list)
innodb_buffer_pool_write_requests | writes | neither | changes made to pages in the pool (buf0flu.ic: buf_flush_note_modification)
innodb_buffer_pool_pages_flushed | pages | lower | pages asked to be flushed (buf0flu.cc: buf_flush_stats)
innodb_data_reads | reads | lower | read calls of the data files (os0file.cc)
innodb_data_writes | writes | lower | write calls of data files, doublewrite buffer and redo log together (os0file.cc, buf0dblwr.cc, log0log.cc)
innodb_data_fsyncs | syncs | lower | fsync calls of every file (os0file.cc: os_file_flush)
innodb_os_log_written | bytes | lower | bytes written to the redo log, padding of its blocks included (log0log.cc: log_write_up_to)
innodb_log_waits | waits | lower | times the log buffer was too small and had to be flushed first (log0log.cc: log_buffer_extend)
innodb_dblwr_pages_written | pages | lower | pages written to the doublewrite buffer (buf0dblwr.cc)
innodb_dblwr_writes | writes | lower | batches, and single pages, written to the doublewrite buffer (buf0dblwr.cc)
innodb_row_lock_waits | waits | lower | times a row lock had to be waited for (lock0wait.cc: lock_wait_suspend_thread)
innodb_row_lock_time | ms | lower | time spent waiting for row locks (lock0wait.cc: lock_wait_suspend_thread)
innodb_rows_read | rows | neither | rows read by the server from InnoDB (row0sel.cc)
innodb_rows_inserted | rows | neither | rows inserted (row0mysql.cc)
innodb_rows_updated | rows | neither | rows updated (row0mysql.cc)
innodb_rows_deleted | rows | neither | rows deleted (row0mysql.cc)
com_commit | statements | neither | COMMIT statements, of every connection of the server (sql_parse.cc)
com_rollback | statements | neither | ROLLBACK statements, of every connection of the server (sql_parse.cc)
questions | statements | neither | statements that clients sent, of every connection of the server (sql_parse.cc)
"""  # noqa: E501  (a table reads best in one line per row)

_STATUS_GAUGES = """
innodb_buffer_pool_pages_total | pages | neither | frames of the pool
innodb_buffer_pool_pages_free | pages | neither | frames on the free lists (UT_LIST_GET_LEN(buf_pool->free))
innodb_buffer_pool_pages_data | pages | neither | frames that hold a page of a table, an index or undo: the length of the LRU lists
innodb_buffer_pool_pages_dirty | pages | neither | pages changed and not yet written: the length of the flush lists
innodb_buffer_pool_pages_misc | pages | neither | frames used for other things (adaptive hash index, row locks): total - data - free
innodb_buffer_pool_bytes_data | bytes | neither | bytes of the frames that hold a page, by their own sizes (the LRU lists' bytes)
innodb_lsn_age_bytes | bytes | neither | redo written since the last checkpoint (Log sequence number - Last checkpoint at)
"""  # noqa: E501

#: Rows: engine's own name | unit | which way is better | meaning.
_METRICS_COUNTERS = """
buffer_LRU_get_free_search | frames | neither | times a free frame was looked for (buf0lru.cc: buf_LRU_get_free_block)
buffer_LRU_get_free_loops | loops | lower | passes of that search that found the free list empty (buf0lru.cc: buf_LRU_get_free_block)
buffer_LRU_get_free_waits | waits | lower | passes that slept because two rounds had freed nothing (buf0lru.cc: buf_LRU_get_free_block)
buffer_LRU_search_scanned | pages | lower | pages that user threads looked at from the LRU tail (buf0lru.cc: buf_LRU_free_from_common_LRU_list)
buffer_LRU_search_num_scan | scans | lower | such scans, failed ones and retries included (buf0lru.cc: buf_LRU_free_from_common_LRU_list)
buffer_LRU_single_flush_num_scan | scans | lower | single-page flushes that looked at more than their first page (buf0flu.cc: buf_flush_single_page_from_LRU)
buffer_LRU_single_flush_scanned | pages | lower | pages they looked at (buf0flu.cc: buf_flush_single_page_from_LRU)
buffer_LRU_single_flush_failure_count | loops | lower | single-page flushes that freed nothing (buf0lru.cc: buf_LRU_get_free_block)
buffer_LRU_batch_scanned | pages | lower | pages that the page cleaner's LRU batches looked at (buf0flu.cc: buf_flush_LRU_list_batch)
buffer_LRU_batch_num_scan | batches | neither | LRU batches that looked at a page (buf0flu.cc: buf_flush_LRU_list_batch)
buffer_LRU_batch_flush_total_pages | pages | lower | dirty pages that LRU batches wrote; stays 0 on MariaDB 10.2 (buf0flu.cc: buf_flush_LRU_list_batch)
buffer_LRU_batch_flush_count | batches | neither | LRU batches that wrote a page (buf0flu.cc: buf_flush_LRU_list_batch)
buffer_LRU_batch_evict_total_pages | pages | neither | clean pages that LRU batches evicted (buf0flu.cc: buf_flush_LRU_list_batch)
buffer_LRU_batch_evict_count | batches | neither | LRU batches that evicted a clean page (buf0flu.cc: buf_flush_LRU_list_batch)
buffer_flush_batch_total_pages | pages | lower | pages that flush-list batches wrote, neighbours included (buf0flu.cc: buf_do_flush_list_batch)
buffer_flush_batch_num_scan | batches | neither | flush-list batches that looked at a page (buf0flu.cc: buf_do_flush_list_batch)
buffer_flush_adaptive_total_pages | pages | lower | pages of flush-list batches asked for by adaptive flushing (buf0flu.cc: buf_flush_page_cleaner_coordinator)
buffer_flush_background_total_pages | pages | lower | pages of flush-list batches of an idle server (buf0flu.cc: buf_flush_page_cleaner_coordinator)
buffer_flush_neighbor_total_pages | pages | lower | dirty neighbours written beside a page, in either kind of batch (buf0flu.cc: buf_flush_try_neighbors)
buffer_flush_sync_total_pages | pages | lower | pages of flush-list batches that user threads waited for, the log being nearly full (buf0flu.cc: buf_flush_page_cleaner_coordinator)
buffer_pages_created | pages | neither | pages created in the pool (buf0buf.cc: buf_page_create)
buffer_pages_read | pages | lower | pages read, read-ahead included (buf0buf.cc: buf_page_io_complete)
buffer_pages_written | pages | lower | data pages written, the doublewrite buffer's copies not counted (buf0buf.cc: buf_page_io_complete)
index_page_splits | splits | neither | index pages split (btr0btr.cc: btr_page_split_and_insert)
ibuf_merges | merges | neither | merges of buffered changes into secondary index pages (ibuf0ibuf.cc)
adaptive_hash_searches | searches | neither | searches answered by the adaptive hash index (btr0cur.cc: btr_cur_search_to_nth_level)
adaptive_hash_searches_btree | searches | neither | searches that went down a B-tree (btr0cur.cc: btr_cur_search_to_nth_level)
"""  # noqa: E501

#: The server overwrites this each time: a level, which may fall.
_METRICS_GAUGES = """
trx_rseg_history_len | transactions | lower | undo logs of committed transactions that purge has not removed yet (trx0purge.cc: trx_purge)
buffer_flush_n_to_flush_requested | pages | neither | pages that the page cleaner asked of its last batch (buf0flu.cc: page_cleaner_flush_pages_recommendation)
"""  # noqa: E501


def _stored_rows(table: str) -> str:
    """Return rows of INNODB_METRICS under the names by which this project stores them."""
    rows = (line.split("|", 1) for line in table.strip().splitlines())
    return "\n".join(f"{METRIC_PREFIX}{name.strip().lower()} |{rest}" for name, rest in rows)


#: Rows in the format of `counts_per_work`: count | unit | which way is better | title | meaning [| = formula].
_PER_WORK = """
frame_requests      | frames | neither | Free-frame requests | searches for a free frame (S)
free_list_hits      | frames | neither | Frames from the free list | S - L + F
lru_scan_hits       | frames | lower   | Frames by LRU scan  | L - W
single_page_flushes | frames | lower   | Frames by single-page flush | W - F
redo_bytes          | bytes  | lower   | Redo bytes          | bytes written to the redo log | = innodb_os_log_written
page_splits         | splits | neither | Page splits         | index pages split | = innodb_metric_index_page_splits
fsyncs              | syncs  | lower   | Fsyncs              | fsync calls of every file | = innodb_data_fsyncs
row_lock_waits      | waits  | lower   | Row-lock waits      | times a row lock had to be waited for | = innodb_row_lock_waits
"""  # noqa: E501

#: Rows in the format of `derived`: name | unit | kind | which way is better | title | meaning | = formula.
_DERIVED = """
free_list_share      | 1 | share | higher | Free-list share | share of free-frame searches that the free list served: (S - L + F) / S | = free_list_hits / frame_requests
lru_scan_share       | 1 | share | lower  | LRU-scan share  | share served by scanning the LRU tail: (L - W) / S | log scale | = lru_scan_hits / frame_requests
single_page_share    | 1 | share | lower  | Single-page share | share served by a single-page flush: (W - F) / S | log scale | = single_page_flushes / frame_requests
frames_given_back_share | 1 | share | lower | Frames given back | share of searches whose frame held no page in the end: (S - pages read - pages created) / S | = (frame_requests - frames_held) / frame_requests
effective_cache_pages | pages | gauge | higher | Effective cache | mean over the window of the frames that hold a page | = mean(innodb_buffer_pool_pages_data)
effective_cache_bytes | bytes | gauge | higher | Effective cache in bytes | the same in bytes, which pools of other page sizes can be compared by | = mean(innodb_buffer_pool_bytes_data)
effective_cache_start_pages | pages | gauge | neither | Effective cache at the start | at the window's first edge | = first(innodb_buffer_pool_pages_data)
effective_cache_end_pages | pages | gauge | neither | Effective cache at the end | at the window's last edge | = last(innodb_buffer_pool_pages_data)
pool_less_free_and_misc_pages | pages | gauge | neither | Pool less free and other frames | mean over the window of total - free - misc | = mean(innodb_buffer_pool_pages_total) - mean(innodb_buffer_pool_pages_free) - mean(innodb_buffer_pool_pages_misc)
effective_cache_share | 1 | share | higher | Effective share of the pool | effective cache over the pool's frames | = mean(innodb_buffer_pool_pages_data) / mean(innodb_buffer_pool_pages_total)
free_list_pages      | pages | gauge | neither | Free list | mean length over the window | = mean(innodb_buffer_pool_pages_free)
free_list_min_pages  | pages | gauge | neither | Shortest free list | smallest sample of the window | = lowest(innodb_buffer_pool_pages_free)
misc_pages           | pages | gauge | lower | Other frames | mean over the window of frames that hold no page | = mean(innodb_buffer_pool_pages_misc)
dirty_pages          | pages | gauge | neither | Dirty pages | mean over the window | = mean(innodb_buffer_pool_pages_dirty)
dirty_share          | 1 | share | neither | Dirty share | dirty pages over pages in the pool, means over the window | = mean(innodb_buffer_pool_pages_dirty) / mean(innodb_buffer_pool_pages_data)
read_ahead_share     | 1 | share | neither | Read-ahead share | share of pages read that read-ahead asked for | = (innodb_buffer_pool_read_ahead + innodb_buffer_pool_read_ahead_rnd) / pages_read
read_ahead_evicted_share | 1 | share | lower | Wasted read-ahead | share of pages read ahead that were evicted unused | = innodb_buffer_pool_read_ahead_evicted / (innodb_buffer_pool_read_ahead + innodb_buffer_pool_read_ahead_rnd)
lru_batch_writes_per_s | pages/s | ratio | lower | LRU-batch writes per second | dirty pages written by LRU batches; where their counter is dead, written - flush list - single page | = lru_batch_writes / seconds
lru_batch_evictions_per_s | pages/s | ratio | neither | LRU-batch evictions per second | clean pages evicted by LRU batches | = innodb_metric_buffer_lru_batch_evict_total_pages / seconds
lru_batches_per_s    | batches/s | ratio | neither | LRU batches per second | that looked at a page | = innodb_metric_buffer_lru_batch_num_scan / seconds
flush_list_writes_per_s | pages/s | ratio | lower | Flush-list writes per second | pages written by flush-list batches | = innodb_metric_buffer_flush_batch_total_pages / seconds
adaptive_writes_per_s | pages/s | ratio | lower | Adaptive flushing per second | of them, asked for by adaptive flushing | = innodb_metric_buffer_flush_adaptive_total_pages / seconds
background_writes_per_s | pages/s | ratio | lower | Background flushing per second | of them, by an idle server | = innodb_metric_buffer_flush_background_total_pages / seconds
sync_writes_per_s    | pages/s | ratio | lower | Sync flushing per second | of them, waited for by user threads | = innodb_metric_buffer_flush_sync_total_pages / seconds
neighbour_writes_per_s | pages/s | ratio | lower | Neighbours per second | written beside another page, in either kind of batch | = innodb_metric_buffer_flush_neighbor_total_pages / seconds
single_page_flushes_per_s | frames/s | ratio | lower | Single-page flushes per second | W - F; some evict a clean page and write nothing | = single_page_flushes / seconds
frame_requests_per_s | frames/s | ratio | neither | Free-frame requests per second | searches for a free frame | = frame_requests / seconds
doublewrite_share | 1 | share | lower | Doublewritten share | pages written to the doublewrite buffer over data pages written | = innodb_dblwr_pages_written / pages_written
doublewrite_pages_per_s | pages/s | ratio | lower | Doublewrite pages per second | pages written to the doublewrite buffer | = innodb_dblwr_pages_written / seconds
redo_bytes_per_s     | bytes/s | ratio | lower | Redo bytes per second | bytes written to the redo log | = innodb_os_log_written / seconds
log_age_bytes        | bytes | gauge | neither | Log age | mean over the window of redo since the last checkpoint | = mean(innodb_lsn_age_bytes)
log_waits_per_s      | waits/s | ratio | lower | Log-buffer waits per second | the log buffer was too small | = innodb_log_waits / seconds
"""  # noqa: E501

RAW = (
    *raw("engine", _STATUS_SOURCE, "counter", _STATUS_COUNTERS),
    *raw("engine", _STATUS_SOURCE, "gauge", _STATUS_GAUGES),
    *raw("engine", _METRICS_SOURCE, "counter", _stored_rows(_METRICS_COUNTERS)),
    *raw("engine", _METRICS_SOURCE, "gauge", _stored_rows(_METRICS_GAUGES)),
)
DERIVED = (*counts_per_work(_PER_WORK), *derived(_DERIVED))
_NAMES = frozenset(metric.name for metric in RAW)
#: Counts told per unit of work, each the growth of one counter of the server; a report shows them in this order.
OWN_COUNTS = tuple(dict.fromkeys(metric.count for metric in DERIVED if metric.work and metric.formula in _NAMES))
