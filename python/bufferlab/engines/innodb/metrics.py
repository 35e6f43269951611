# ruff: noqa: E501  (a table reads best in one line per row)
"""InnoDB's metrics: which engine counter each is, its unit and meaning; and the values derived from them.

Meanings follow storage/innobase: srv_export_innodb_status (srv/srv0srv.cc) fills the status variables,
innodb_counter_info (srv/srv0mon.cc) names the INNODB_METRICS, and the file in brackets is where a counter is
incremented (MySQL 5.7's files).

The victim path is how a thread gets a free frame (buf0lru.cc: buf_LRU_get_free_block, MySQL 5.7, 8.0 and MariaDB 10.2
to 10.4). Every search adds one to S = get_free_search. Each of its passes first looks at the free list. A pass that
finds it empty adds one to L = get_free_loops. Such a pass either frees a frame by scanning the LRU tail, or tries a
single-page flush and adds one to W = Innodb_buffer_pool_wait_free. In both cases the search then begins another pass. F
= single_flush_failure_count of these flushes freed nothing. So single-page flushes gave W - F frames, LRU scans L - W,
and the free list S - L + F. The three add up to S by construction; `checks` looks for errors elsewhere.

MySQL 5.6 does not count L. From MariaDB 10.5 on user threads wait for the page cleaner instead of flushing. On both the
values are null, with that reason.
"""

from __future__ import annotations

from collections.abc import Callable

from bufferlab.engines.servers.counts import Counts
from bufferlab.results.metrics import SECONDS, Engine, MetricTable, ServerMetrics, counted, counter, derived, gauge
from bufferlab.results.quantity import Quantity, Unit
from bufferlab.results.window import Value, Window

_STATUS_SOURCE = "SHOW GLOBAL STATUS (srv0srv.cc: srv_export_innodb_status)"
_METRICS_SOURCE = "information_schema.INNODB_METRICS (srv0mon.cc: innodb_counter_info)"
#: The prefix of the names under which bufferlab stores rows of INNODB_METRICS; the counter's name in lower case
#: follows.
METRIC_PREFIX = "innodb_metric_"


# fmt: off
class Status(MetricTable, probe="engine", source=_STATUS_SOURCE):
    """InnoDB's status variables, and two lines of SHOW ENGINE INNODB STATUS."""

    innodb_buffer_pool_wait_free = counter("loops", "lower", "times a thread that found no free frame went on to a single-page flush; from MariaDB 10.5 on, waited for the page cleaner (buf0lru.cc: buf_LRU_get_free_block)")
    innodb_buffer_pool_read_ahead = counter("pages", "neither", "pages read by linear read-ahead (buf0rea.cc: buf_read_ahead_linear)")
    innodb_buffer_pool_read_ahead_rnd = counter("pages", "neither", "pages read by random read-ahead (buf0rea.cc: buf_read_ahead_random)")
    innodb_buffer_pool_read_ahead_evicted = counter("pages", "lower", "pages read ahead and evicted before anyone asked for them (buf0lru.cc: buf_LRU_free_from_common_LRU_list)")
    innodb_buffer_pool_write_requests = counter("writes", "neither", "changes made to pages in the pool (buf0flu.ic: buf_flush_note_modification)")
    innodb_buffer_pool_pages_flushed = counter("pages", "lower", "pages asked to be flushed (buf0flu.cc: buf_flush_stats)")
    innodb_data_reads = counter("reads", "lower", "read calls of the data files (os0file.cc)")
    innodb_data_writes = counter("writes", "lower", "write calls of data files, doublewrite buffer and redo log together (os0file.cc, buf0dblwr.cc, log0log.cc)")
    innodb_data_fsyncs = counter("syncs", "lower", "fsync calls of every file (os0file.cc: os_file_flush)")
    innodb_os_log_written = counter("bytes", "lower", "bytes written to the redo log, padding of its blocks included (log0log.cc: log_write_up_to)")
    innodb_log_waits = counter("waits", "lower", "times the log buffer was too small and had to be flushed first (log0log.cc: log_buffer_extend)")
    innodb_dblwr_pages_written = counter("pages", "lower", "pages written to the doublewrite buffer (buf0dblwr.cc)")
    innodb_dblwr_writes = counter("writes", "lower", "batches, and single pages, written to the doublewrite buffer (buf0dblwr.cc)")
    innodb_row_lock_waits = counter("waits", "lower", "times a row lock had to be waited for (lock0wait.cc: lock_wait_suspend_thread)")
    innodb_row_lock_time = counter("ms", "lower", "time spent waiting for row locks (lock0wait.cc: lock_wait_suspend_thread)")
    innodb_rows_read = counter("rows", "neither", "rows read by the server from InnoDB (row0sel.cc)")
    innodb_rows_inserted = counter("rows", "neither", "rows inserted (row0mysql.cc)")
    innodb_rows_updated = counter("rows", "neither", "rows updated (row0mysql.cc)")
    innodb_rows_deleted = counter("rows", "neither", "rows deleted (row0mysql.cc)")
    com_commit = counter("statements", "neither", "COMMIT statements, of every connection of the server (sql_parse.cc)")
    com_rollback = counter("statements", "neither", "ROLLBACK statements, of every connection of the server (sql_parse.cc)")
    questions = counter("statements", "neither", "statements that clients sent, of every connection of the server (sql_parse.cc)")

    innodb_buffer_pool_pages_total = gauge("pages", "neither", "frames of the pool")
    innodb_buffer_pool_pages_free = gauge("pages", "neither", "frames on the free lists (UT_LIST_GET_LEN(buf_pool->free))")
    innodb_buffer_pool_pages_data = gauge("pages", "neither", "frames that hold a page of a table, an index or undo: the length of the LRU lists")
    innodb_buffer_pool_pages_dirty = gauge("pages", "neither", "pages changed and not yet written: the length of the flush lists")
    innodb_buffer_pool_pages_misc = gauge("pages", "neither", "frames used for other things (adaptive hash index, row locks): total - data - free")
    innodb_buffer_pool_bytes_data = gauge("bytes", "neither", "bytes of the frames that hold a page, by their own sizes (the LRU lists' bytes)")
    innodb_lsn_age_bytes = gauge("bytes", "neither", "redo written since the last checkpoint (Log sequence number - Last checkpoint at)")
    innodb_oldest_change_age_bytes = gauge("bytes", "neither", "redo written since the change that made the oldest dirty page dirty; 0 without a dirty page (log_lsn_current - log_lsn_buf_pool_oldest)")


class Metrics(MetricTable, probe="engine", source=_METRICS_SOURCE, prefix=METRIC_PREFIX):
    """Rows of INNODB_METRICS, under their names in lower case. Gauges may rise and fall; all others are counters."""

    buffer_lru_get_free_search = counter("frames", "neither", "times a free frame was looked for (buf0lru.cc: buf_LRU_get_free_block)")
    buffer_lru_get_free_loops = counter("loops", "lower", "passes of that search that found the free list empty (buf0lru.cc: buf_LRU_get_free_block)")
    buffer_lru_get_free_waits = counter("waits", "lower", "passes that slept because two rounds had freed nothing (buf0lru.cc: buf_LRU_get_free_block)")
    buffer_lru_search_scanned = counter("pages", "lower", "pages that user threads looked at from the LRU tail (buf0lru.cc: buf_LRU_free_from_common_LRU_list)")
    buffer_lru_search_num_scan = counter("scans", "lower", "such scans, failed ones and retries included (buf0lru.cc: buf_LRU_free_from_common_LRU_list)")
    buffer_lru_single_flush_num_scan = counter("scans", "lower", "single-page flushes that looked at more than their first page (buf0flu.cc: buf_flush_single_page_from_LRU)")
    buffer_lru_single_flush_scanned = counter("pages", "lower", "pages they looked at (buf0flu.cc: buf_flush_single_page_from_LRU)")
    buffer_lru_single_flush_failure_count = counter("loops", "lower", "single-page flushes that freed nothing (buf0lru.cc: buf_LRU_get_free_block)")
    buffer_lru_batch_scanned = counter("pages", "lower", "pages that the page cleaner's LRU batches looked at (buf0flu.cc: buf_flush_LRU_list_batch)")
    buffer_lru_batch_num_scan = counter("batches", "neither", "LRU batches that looked at a page (buf0flu.cc: buf_flush_LRU_list_batch)")
    buffer_lru_batch_flush_total_pages = counter("pages", "lower", "dirty pages that LRU batches wrote; stays 0 on MariaDB 10.2 (buf0flu.cc: buf_flush_LRU_list_batch)")
    buffer_lru_batch_flush_count = counter("batches", "neither", "LRU batches that wrote a page (buf0flu.cc: buf_flush_LRU_list_batch)")
    buffer_lru_batch_evict_total_pages = counter("pages", "neither", "clean pages that LRU batches evicted (buf0flu.cc: buf_flush_LRU_list_batch)")
    buffer_lru_batch_evict_count = counter("batches", "neither", "LRU batches that evicted a clean page (buf0flu.cc: buf_flush_LRU_list_batch)")
    buffer_flush_batch_total_pages = counter("pages", "lower", "pages that flush-list batches wrote, neighbours included (buf0flu.cc: buf_do_flush_list_batch)")
    buffer_flush_batch_num_scan = counter("batches", "neither", "flush-list batches that looked at a page (buf0flu.cc: buf_do_flush_list_batch)")
    buffer_flush_adaptive_total_pages = counter("pages", "lower", "pages of flush-list batches asked for by adaptive flushing (buf0flu.cc: buf_flush_page_cleaner_coordinator)")
    buffer_flush_background_total_pages = counter("pages", "lower", "pages of flush-list batches of an idle server (buf0flu.cc: buf_flush_page_cleaner_coordinator)")
    buffer_flush_neighbor_total_pages = counter("pages", "lower", "dirty neighbours written beside a page, in either kind of batch (buf0flu.cc: buf_flush_try_neighbors)")
    buffer_flush_sync_total_pages = counter("pages", "lower", "pages of flush-list batches that user threads waited for, the log being nearly full (buf0flu.cc: buf_flush_page_cleaner_coordinator)")
    buffer_pages_created = counter("pages", "neither", "pages created in the pool (buf0buf.cc: buf_page_create)")
    buffer_pages_read = counter("pages", "lower", "pages read, read-ahead included (buf0buf.cc: buf_page_io_complete)")
    buffer_pages_written = counter("pages", "lower", "data pages written, the doublewrite buffer's copies not counted (buf0buf.cc: buf_page_io_complete)")
    index_page_splits = counter("splits", "neither", "index pages split (btr0btr.cc: btr_page_split_and_insert)")
    ibuf_merges = counter("merges", "neither", "merges of buffered changes into secondary index pages (ibuf0ibuf.cc)")
    adaptive_hash_searches = counter("searches", "neither", "searches answered by the adaptive hash index (btr0cur.cc: btr_cur_search_to_nth_level)")
    adaptive_hash_searches_btree = counter("searches", "neither", "searches that went down a B-tree (btr0cur.cc: btr_cur_search_to_nth_level)")

    log_lsn_current = counter("bytes", "lower", "redo that changes made, written or not (log0log.h: log_get_lsn)")
    log_max_modified_age_async = gauge("bytes", "neither", "age of the oldest dirty page at which the server flushes in the background as fast as it can (log0log.cc: log_calc_max_ages)")
    log_max_modified_age_sync = gauge("bytes", "neither", "age of the oldest dirty page at which changes wait for flushing (log0log.cc: log_calc_max_ages)")

    trx_rseg_history_len = gauge("transactions", "lower", "undo logs of committed transactions that purge has not removed yet (trx0purge.cc: trx_purge)")
    buffer_flush_n_to_flush_requested = gauge("pages", "neither", "pages that the page cleaner asked of its last batch (buf0flu.cc: page_cleaner_flush_pages_recommendation)")
# fmt: on


#: The counters of the victim path S, L, W and F, as the module's docstring defines them.
SEARCHES = Metrics.buffer_lru_get_free_search.name
LOOPS = Metrics.buffer_lru_get_free_loops.name
WAIT_FREE = Status.innodb_buffer_pool_wait_free.name
FAILURES = Metrics.buffer_lru_single_flush_failure_count.name
NO_LOOPS = "this version does not count the passes of a search for a frame (buffer_LRU_get_free_loops)"
NO_SINGLE_PAGE = (
    "user threads of this version flush no single pages but wait for the page cleaner "
    "(it has no buffer_LRU_single_flush_failure_count)"
)
#: By counter, the reason for a null value if the server lacks the counter. A run that ended early, or that used another
#: engine, has another reason.
_MEANING = {LOOPS: NO_LOOPS, FAILURES: NO_SINGLE_PAGE}


def _victim(name: str, of: Callable[[float, float, float, float], float]) -> Quantity:
    """Return the formula for the frames that came from one source, computed from S, L, W and F (see the module).

    All four must be known: on versions without F, W has another meaning.
    """
    metrics = (FAILURES, LOOPS, SEARCHES, WAIT_FREE)

    def evaluate(window: Window) -> Value:
        counts = []
        for metric in metrics:
            found = window.change(metric)
            if found.value is None:
                sampled = metric in window.end and metric in window.start
                return Value(None, _MEANING.get(metric, found.reason) if sampled else found.reason)
            counts.append(found.value)
        failures, loops, searches, waits = counts
        return Value(of(searches, loops, waits, failures))

    return Quantity(Unit.parse("frames"), evaluate, name, frozenset(metrics))


FREE_LIST = _victim("free-list hits", lambda searches, loops, waits, failures: searches - loops + failures)
LRU_SCAN = _victim("LRU-scan hits", lambda searches, loops, waits, failures: loops - waits)
SINGLE_PAGE = _victim("single-page flushes", lambda searches, loops, waits, failures: waits - failures)
#: The frames that pages took and kept: one for each page read or created.
FRAMES_HELD = (Engine.pages_read + Engine.pages_created).counted_as("frames")
FRAME_REQUESTS = Metrics.buffer_lru_get_free_search.growth()


def _lru_writes() -> Quantity:
    """Return the formula for the dirty pages that LRU batches wrote in a window.

    MariaDB 10.2 leaves buffer_LRU_batch_flush_total_pages at zero. Its LRU batches wrote the pages that neither
    flush-list batches nor single-page flushes wrote. Each single-page flush counts as one page, the most it can write.
    """
    own, batches = Metrics.buffer_lru_batch_flush_total_pages.growth(), Metrics.buffer_lru_batch_flush_count.growth()
    written, listed = Engine.pages_written.growth(), Metrics.buffer_flush_batch_total_pages.growth()

    def evaluate(window: Window) -> Value:
        found, ended = own.evaluate(window), batches.evaluate(window)
        dead = found.value == 0 and not ended.value
        if not dead:
            return found
        rest = (written - listed).evaluate(window)
        single = SINGLE_PAGE.evaluate(window)
        if rest.value is None or single.value is None:
            return found
        return Value(max(0.0, rest.value - single.value))

    read = (own, batches, written, listed, SINGLE_PAGE)
    return Quantity(Unit.parse("pages"), evaluate, own.name, frozenset().union(*(each.reads for each in read)))


LRU_BATCH_WRITES = _lru_writes()


# fmt: off
class VictimPath(MetricTable):
    """The sources of free frames, counted for each unit of work."""

    frame_requests = counted("frames", "neither", "Free-frame requests", "searches for a free frame (S)", FRAME_REQUESTS)
    free_list_hits = counted("frames", "neither", "Frames from the free list", "S - L + F", FREE_LIST)
    lru_scan_hits = counted("frames", "lower", "Frames by LRU scan", "L - W", LRU_SCAN)
    single_page_flushes = counted("frames", "lower", "Frames by single-page flush", "W - F", SINGLE_PAGE)


BLOCK_BYTES = 4096
"""The unit in which reads from storage are compared between engines with different page sizes: a page of the page
cache."""


def _blocks_from_storage(window: Window) -> Value:
    read = window.change(ServerMetrics.server_read_bytes.name)
    return read if read.value is None else Value(read.value / BLOCK_BYTES)


_BLOCKS = Quantity(
    Unit.parse("blocks"), _blocks_from_storage, "blocks from storage", frozenset({ServerMetrics.server_read_bytes.name})
)
BLOCKS_FROM_STORAGE = "blocks_from_storage"


# fmt: off
class InnodbPerWork(MetricTable):
    """Metrics per unit of work, each from the growth of one server counter; a report shows them in this order."""

    blocks_from_storage = counted("blocks", "lower", "Blocks of 4 KiB from storage", "bytes that the kernel read from storage for the server, in blocks of 4 KiB", _BLOCKS)
    redo_bytes = counted("bytes", "lower", "Redo bytes", "bytes written to the redo log", Status.innodb_os_log_written)
    row_lock_ms = counted("ms", "lower", "Row-lock time", "time spent waiting for row locks, of all connections together", Status.innodb_row_lock_time)
    page_splits = counted("splits", "neither", "Page splits", "index pages split", Metrics.index_page_splits)
    fsyncs = counted("syncs", "lower", "Fsyncs", "fsync calls of every file", Status.innodb_data_fsyncs)
    row_lock_waits = counted("waits", "lower", "Row-lock waits", "times a row lock had to be waited for", Status.innodb_row_lock_waits)


class Inside(MetricTable):
    """Metrics of the pool's contents, and of page writes by cause."""

    free_list_share = derived("1", "share", "higher", "Free-list share", "share of free-frame searches that the free list served: (S - L + F) / S", FREE_LIST / FRAME_REQUESTS)
    lru_scan_share = derived("1", "share", "lower", "LRU-scan share", "share served by scanning the LRU tail: (L - W) / S", LRU_SCAN / FRAME_REQUESTS, scale="log")
    single_page_share = derived("1", "share", "lower", "Single-page share", "share served by a single-page flush: (W - F) / S", SINGLE_PAGE / FRAME_REQUESTS, scale="log")
    frames_given_back_share = derived("1", "share", "lower", "Frames given back", "share of searches whose frame held no page in the end: (S - pages read - pages created) / S", (FRAME_REQUESTS - FRAMES_HELD) / FRAME_REQUESTS)
    effective_cache_pages = derived("pages", "gauge", "higher", "Effective cache", "mean over the window of the frames that hold a page", Status.innodb_buffer_pool_pages_data.mean)
    effective_cache_bytes = derived("bytes", "gauge", "higher", "Effective cache in bytes", "the same in bytes, which pools of other page sizes can be compared by", Status.innodb_buffer_pool_bytes_data.mean)
    effective_cache_start_pages = derived("pages", "gauge", "neither", "Effective cache at the start", "at the window's first edge", Status.innodb_buffer_pool_pages_data.first)
    effective_cache_end_pages = derived("pages", "gauge", "neither", "Effective cache at the end", "at the window's last edge", Status.innodb_buffer_pool_pages_data.last)
    pool_less_free_and_misc_pages = derived("pages", "gauge", "neither", "Pool less free and other frames", "mean over the window of total - free - misc", Status.innodb_buffer_pool_pages_total.mean - Status.innodb_buffer_pool_pages_free.mean - Status.innodb_buffer_pool_pages_misc.mean)
    effective_cache_share = derived("1", "share", "higher", "Effective share of the pool", "effective cache over the pool's frames", Status.innodb_buffer_pool_pages_data.mean / Status.innodb_buffer_pool_pages_total.mean)
    free_list_pages = derived("pages", "gauge", "neither", "Free list", "mean length over the window", Status.innodb_buffer_pool_pages_free.mean)
    free_list_min_pages = derived("pages", "gauge", "neither", "Shortest free list", "smallest sample of the window", Status.innodb_buffer_pool_pages_free.lowest)
    misc_pages = derived("pages", "gauge", "lower", "Other frames", "mean over the window of frames that hold no page", Status.innodb_buffer_pool_pages_misc.mean)
    dirty_pages = derived("pages", "gauge", "neither", "Dirty pages", "mean over the window", Status.innodb_buffer_pool_pages_dirty.mean)
    dirty_share = derived("1", "share", "neither", "Dirty share", "dirty pages over pages in the pool, means over the window", Status.innodb_buffer_pool_pages_dirty.mean / Status.innodb_buffer_pool_pages_data.mean)
    read_ahead_share = derived("1", "share", "neither", "Read-ahead share", "share of pages read that read-ahead asked for", (Status.innodb_buffer_pool_read_ahead + Status.innodb_buffer_pool_read_ahead_rnd) / Engine.pages_read)
    read_ahead_evicted_share = derived("1", "share", "lower", "Wasted read-ahead", "share of pages read ahead that were evicted unused", Status.innodb_buffer_pool_read_ahead_evicted / (Status.innodb_buffer_pool_read_ahead + Status.innodb_buffer_pool_read_ahead_rnd))
    lru_batch_writes_per_s = derived("pages/s", "ratio", "lower", "LRU-batch writes per second", "dirty pages written by LRU batches; where their counter is dead, written - flush list - single page", LRU_BATCH_WRITES / SECONDS)
    lru_batch_evictions_per_s = derived("pages/s", "ratio", "neither", "LRU-batch evictions per second", "clean pages evicted by LRU batches", Metrics.buffer_lru_batch_evict_total_pages / SECONDS)
    lru_batches_per_s = derived("batches/s", "ratio", "neither", "LRU batches per second", "that looked at a page", Metrics.buffer_lru_batch_num_scan / SECONDS)
    flush_list_writes_per_s = derived("pages/s", "ratio", "lower", "Flush-list writes per second", "pages written by flush-list batches", Metrics.buffer_flush_batch_total_pages / SECONDS)
    adaptive_writes_per_s = derived("pages/s", "ratio", "lower", "Adaptive flushing per second", "of them, asked for by adaptive flushing", Metrics.buffer_flush_adaptive_total_pages / SECONDS)
    background_writes_per_s = derived("pages/s", "ratio", "lower", "Background flushing per second", "of them, by an idle server", Metrics.buffer_flush_background_total_pages / SECONDS)
    sync_writes_per_s = derived("pages/s", "ratio", "lower", "Sync flushing per second", "of them, waited for by user threads", Metrics.buffer_flush_sync_total_pages / SECONDS)
    neighbour_writes_per_s = derived("pages/s", "ratio", "lower", "Neighbours per second", "written beside another page, in either kind of batch", Metrics.buffer_flush_neighbor_total_pages / SECONDS)
    single_page_flushes_per_s = derived("frames/s", "ratio", "lower", "Single-page flushes per second", "W - F; some evict a clean page and write nothing", SINGLE_PAGE / SECONDS)
    frame_requests_per_s = derived("frames/s", "ratio", "neither", "Free-frame requests per second", "searches for a free frame", FRAME_REQUESTS / SECONDS)
    doublewrite_share = derived("1", "share", "lower", "Doublewritten share", "pages written to the doublewrite buffer over data pages written", Status.innodb_dblwr_pages_written / Engine.pages_written)
    doublewrite_pages_per_s = derived("pages/s", "ratio", "lower", "Doublewrite pages per second", "pages written to the doublewrite buffer", Status.innodb_dblwr_pages_written / SECONDS)
    redo_bytes_per_s = derived("bytes/s", "ratio", "lower", "Redo bytes per second", "bytes written to the redo log", Status.innodb_os_log_written / SECONDS)
    log_age_bytes = derived("bytes", "gauge", "neither", "Log age", "mean over the window of redo since the last checkpoint", Status.innodb_lsn_age_bytes.mean)
    log_waits_per_s = derived("waits/s", "ratio", "lower", "Log-buffer waits per second", "the log buffer was too small", Status.innodb_log_waits / SECONDS)


RAW = (*Status.rows, *Metrics.rows)
#: The derived metrics of InnoDB. Metrics per one unit of work are adjacent.
DERIVED = (*sorted((*VictimPath.rows, *InnodbPerWork.rows), key=lambda metric: metric.work or ""), *Inside.rows)
OWN_COUNTS = tuple(dict.fromkeys(metric.count for metric in InnodbPerWork.rows))
# fmt: on


LOOK_COUNTERS = {
    "innodb_buffer_pool_read_requests": Counts.page_gets.name,
    "innodb_buffer_pool_reads": "reads_told",
    Status.innodb_buffer_pool_read_ahead.name: Counts.read_ahead_pages.name,
    Status.innodb_buffer_pool_read_ahead_rnd.name: "random_read_ahead_pages",
    Status.innodb_buffer_pool_read_ahead_evicted.name: Counts.read_ahead_evicted_pages.name,
    "innodb_pages_read": Counts.pages_read.name,
    "innodb_pages_created": Counts.pages_created.name,
    "innodb_pages_written": Counts.pages_written.name,
    Status.innodb_buffer_pool_wait_free.name: Counts.free_frame_waits.name,
    Status.innodb_dblwr_pages_written.name: Counts.doublewrite_pages.name,
    Status.innodb_os_log_written.name: Counts.log_bytes.name,
    Status.innodb_log_waits.name: Counts.log_waits.name,
    Status.questions.name: Counts.statements.name,
    Status.com_commit.name: Counts.commits.name,
}
"""Maps status variables that only grow to their names in an observation.

`InnodbLook.derive` computes its counts from them.
"""
LOOK_LEVELS = {
    Status.innodb_buffer_pool_pages_total.name: "pool_pages",
    Status.innodb_buffer_pool_pages_free.name: "free_pages",
    Status.innodb_buffer_pool_pages_data.name: "data_pages",
    Status.innodb_buffer_pool_pages_dirty.name: "dirty_pages",
    Status.innodb_buffer_pool_pages_misc.name: "misc_pages",
    "innodb_buffer_pool_pages_old": "old_pages",
    "innodb_checkpoint_age": "log_age_bytes",
    "innodb_history_list_length": "history_list_length",
    "threads_connected": "connections",
}
"""Maps status variables that are levels, not counters, to their names in an observation."""
