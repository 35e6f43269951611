"""InnoDB's part of the results of MySQL and MariaDB: metrics, formulas and checks.

A check tests whether numbers agree that the server counts in different places. Each check says on which versions it
does not apply and why. Sources are files in storage/innobase of MySQL 5.7, unless another version is named; S, L, W and
F are those of `metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bufferlab.engines.innodb.metrics import BLOCKS_FROM_STORAGE, DERIVED, LRU_SCAN, METRIC_PREFIX, RAW, SEARCHES
from bufferlab.engines.innodb.storage_engines import KNOB, StorageEngine
from bufferlab.engines.innodb.storage_engines import of as storage_engine_of
from bufferlab.results.check_parts import (
    Check,
    EngineResults,
    Made,
    MeasuredRun,
    Off,
    SettingWords,
    not_applicable,
    outcome,
    ratio_off,
    touching,
    worst_of,
)
from bufferlab.results.window import Value

FRAMES_LIMIT = 0.02
FRAMES_MIN = 2000
#: How much the fill of the leaves may change the number of frames given back, as a fraction: twice the difference
#: measured between points.
GIVEN_BACK_LIMIT = 0.10
#: The fraction of counts that may be lost: MONITOR_INC is not an atomic increment (srv0mon.h), so of two threads that
#: count at the same time one count may be lost.
COUNTING_LIMIT = 0.005
POOL_PAGES_LIMIT = 0.01
READ_CALLS_LIMIT = 0.02
#: The least bytes read for which `_read_calls` compares: below them, other reads of the server (its tables of settings,
#: /proc) would distort the comparison.
READ_CALLS_MIN_BYTES = 4 << 20
WHOLE_PAGES_LIMIT = 0.01

#: Settings that change where pages are and when they are written, but not which pages are requested.
SAME_WORK = frozenset(
    """lru_scan_depth buffer_pool_instances buffer_pool_chunk_size flush_method flush_log_at_trx_commit flush_neighbors
    io_capacity io_capacity_max max_dirty_pages_pct max_dirty_pages_pct_lwm doublewrite log_file_size redo_log_capacity
    old_blocks_pct old_blocks_time read_ahead_threshold random_read_ahead page_cleaners""".split()  # noqa: SIM905
)

_LRU = f"{METRIC_PREFIX}buffer_lru_"


def a_read_is_a_get(run: MeasuredRun) -> bool:
    """Return whether reading a leaf page costs one more get, so that the same work has more gets in a smaller pool.

    When the read ends, InnoDB looks up the page's bits in the change buffer's bitmap, whether or not changes wait for
    it (buf0buf.cc: buf_page_io_complete, ibuf0ibuf.cc: ibuf_merge_or_delete_for_page). On MySQL 5.7.22 gets minus reads
    were 440, 445, 444 and 443 per New-Order in pools of 10 to 80 % of the data; gets fell from 482 to 443. Point reads
    of cached and of evicted rows showed exactly one more get on MySQL 5.6.24, 5.7.22, 8.0.15 and MariaDB 10.2.11, and
    none on MariaDB 10.11.19 and 11.4.5 (docs/innodb-metrics.md).
    """
    return not (run.run.engine == "mariadb" and run.version >= (10, 5))


def asked_for(run: MeasuredRun) -> Value:
    """Return a run's page gets per transaction, without those that the reads themselves cause (`a_read_is_a_get`)."""
    gets, reads = run.values["page_gets_per_transaction"], run.values["reads_per_transaction"]
    if gets.value is None or reads.value is None or not a_read_is_a_get(run):
        return gets
    return replace(gets, value=gets.value - reads.value)


def redo_read_bytes(run: MeasuredRun) -> float:
    """Return the most bytes that the kernel may have read in the window because MySQL 8.0 wrote to its redo log.

    MySQL's log writer writes each part of the redo log as soon as it is filled (log0write.cc: log_writer). strace
    showed pwrite64 of 512 to 4,096 bytes on 8.0.15. The redo log is in the page cache, and the kernel reads a page that
    is not cached before a part of it is written. /proc/PID/task/TID/io showed 0.8 to 1.0 bytes read for each byte
    written, by the one thread that writes the log and calls no read. The reads end when the log has been written around
    once. 8.0.30 has a new redo log; 9.7.4 reads nothing. 5.6, 5.7 and MariaDB write larger blocks, less often.
    """
    if run.run.engine != "mysql" or not (8, 0) <= run.version < (8, 0, 30):
        return 0.0
    return run.window.change("innodb_os_log_written").value or 0.0


def page_gets_vary(run: MeasuredRun) -> str | None:
    """Return why page gets depend on the pool's size; None if they do not."""
    if str(run.knob("adaptive_hash_index")).lower() not in ("on", "1"):
        return None
    return "the adaptive hash index is on: a hit in it asks for one page, not for a path"


@touching("inside")
def _frames(runs: Sequence[MeasuredRun]) -> Check:
    """Check that every frame searched for got a page read or created, went to another use, or was given back.

    The server takes some frames before it knows whether the page is already in the pool. If it is, the server gives the
    frame back, and counts that nowhere. It takes such frames for the siblings of a leaf that is too full for a change
    (btr0cur.cc: btr_cur_prefetch_siblings, twice for each such change). It also takes frames for undo pages used again
    (buf_page_create), and to reorganize a page (btr_page_reorganize_low). Of 401 searches in a warm pool under TPC-C on
    5.7.22 a debugger saw 365 for siblings, 23 for reorganizing, 5 in buf_page_create and 8 for reads.

    If rows are only read, no frame is given back. If rows are changed, the number depends on the work and on how full
    its leaves are, which warm-ups of other lengths change. It was 9.6 to 10.4 frames per transaction of TPC-C in pools
    of 5 to 80 % (16 KiB pages, windows of 10,000 transactions). In windows of 1,500 it was 9.7 to 10.5. So the check
    requires three things. The frames given back must never be below zero. If nothing is changed, they must be zero.
    Otherwise runs of the same work must have the same number per transaction, within the effect of the leaves' fill.
    """
    title = "Free frames looked for = pages read + created + other uses + as many given back per transaction"
    surplus = {id(run): _given_back(run) for run in runs}
    usual: dict[tuple[object, ...], list[float]] = {}
    for run in runs:
        if (value := surplus[id(run)].value) is not None:
            usual.setdefault(_work(run), []).append(value)

    def off(run: MeasuredRun) -> Off:
        searches, transactions = run.window.change(SEARCHES).value, run.values["transactions"].value
        found = surplus[id(run)]
        if found.value is None or not searches or not transactions:
            return Off(run, None, found.reason)
        mean = sum(usual[_work(run)]) / len(usual[_work(run)])
        expected = mean if _rows_changed(run) else 0.0
        apart = found.value - expected
        beyond = max(0.0, abs(apart) - GIVEN_BACK_LIMIT * max(0.0, expected)) * transactions / searches
        below = -found.value * transactions / searches
        return Off(run, max(below, beyond), "less" if below > beyond or apart < 0 else "more")

    return worst_of("innodb_frames", title, FRAMES_LIMIT, map(off, runs))


def _given_back(run: MeasuredRun) -> Value:
    """Return the frames searched for per transaction, minus those that a page or another use kept."""
    parts = [run.window.change(name) for name in (SEARCHES, "pages_read", "pages_created")]
    missing = next((part.reason for part in parts if part.value is None), None)
    transactions = run.values["transactions"]
    if missing or not transactions.value:
        return Value(None, missing or transactions.reason or "no transaction ended in the window")
    searches, read, created = (part.value or 0.0 for part in parts)
    if searches < FRAMES_MIN:
        return Value(None, f"fewer than {FRAMES_MIN:,} frames were looked for")
    return Value((searches - read - created - max(0.0, _misc_growth(run))) / transactions.value)


def _rows_changed(run: MeasuredRun) -> bool:
    counts = [run.window.change(f"innodb_rows_{kind}").value for kind in ("inserted", "updated", "deleted")]
    return any(count is None or count > 0 for count in counts)


def _work(run: MeasuredRun) -> tuple[object, ...]:
    """Return a key that is equal for runs of one block that request the same pages."""
    swept = run.run.point.swept.items()
    return run.run.block, *((name, value) for name, value in sorted(swept) if name not in {*SAME_WORK, "pool_size"})


def _misc_growth(run: MeasuredRun) -> float:
    name = "innodb_buffer_pool_pages_misc"
    return (run.window.level(name).value or 0.0) - (run.window.first_level(name).value or 0.0)


@touching("inside")
def _shares(runs: Sequence[MeasuredRun]) -> Check:
    """Check that no source of frames has a negative share.

    Shares add to 1 by construction; a negative one shows misread counters.
    """
    title = "Free list, LRU scan and single-page flush: shares within 0 and 1 that add to 1"
    names = ("free_list_share", "lru_scan_share", "single_page_share")

    def off(run: MeasuredRun) -> Off:
        values = [run.values[name] for name in names]
        missing = next((value.reason for value in values if value.value is None), None)
        if missing:
            return Off(run, None, missing)
        shares = [value.value or 0.0 for value in values]
        worst = max(shares, key=lambda share: max(-share, share - 1))
        outside = max(0.0, -worst, worst - 1)
        return Off(run, max(abs(sum(shares) - 1), outside), "outside")

    return worst_of("innodb_shares", title, COUNTING_LIMIT, map(off, runs))


@touching("inside")
def _lru_scans(runs: Sequence[MeasuredRun]) -> Check:
    """Check that at most one LRU scan for each ended flush batch freed nothing, apart from retries.

    buf0lru.cc: a failed first scan clears try_LRU_scan, and the end of a batch of either kind sets it again. A repeated
    pass of one search scans regardless of the flag.
    """
    name, title = "innodb_lru_scans", "LRU scans that freed nothing: none below zero, no more than batches and retries"
    told, whys = [], []
    for run in runs:
        why = _no_scan_count(run)
        found = None if why else _failed_scans(run)
        if found is None:
            whys.append(why or "a counter of it was not sampled")
        else:
            told.append((run, *found))
    if not told:
        return not_applicable(name, title, whys[0])
    bad = [
        f"{failed:,.0f} of {scans:,.0f} scans, allowed 0 to {most:,.0f} ({run.label})"
        for run, failed, most, scans in told
        if not -COUNTING_LIMIT * scans <= failed <= most + COUNTING_LIMIT * scans
    ]
    left = f"; {len(whys)} runs not checked" if whys else ""
    if bad:
        return outcome(name, title, False, f"{len(bad)} of {len(told)} runs: {bad[0]}{left}")
    run, failed, most, scans = max(told, key=lambda row: row[1] / max(1.0, row[2]))
    detail = f"at most {failed:,.0f} of {scans:,.0f} scans failed, allowed {most:,.0f} ({run.label})"
    return outcome(name, title, True, f"{detail}; {len(told)} runs{left}")


def _no_scan_count(run: MeasuredRun) -> str | None:
    if run.run.engine == "mysql" and run.version >= (8,):
        return "MySQL 8.0 may not count a scan that frees the first page it looks at (buffer_LRU_search_num_scan)"
    return LRU_SCAN.evaluate(run.window).reason


def _failed_scans(run: MeasuredRun) -> tuple[float, float, float] | None:
    """Return how many LRU scans freed nothing, the most that may have freed nothing, and the number of all scans.

    Return None if the run lacks one of the counters.
    """
    names = ("search_num_scan", "batch_num_scan", "get_free_waits", "single_flush_failure_count")
    counts = [run.window.change(f"{_LRU}{name}").value for name in names]
    listed = run.window.change(f"{METRIC_PREFIX}buffer_flush_batch_num_scan").value
    hits = LRU_SCAN.evaluate(run.window).value
    if hits is None or listed is None or any(count is None for count in counts):
        return None
    scans, batches, waits, failures = (count or 0.0 for count in counts)
    # Threads that already scan when the flag is cleared may fail as well: at most one for each connection.
    return scans - hits, batches + listed + waits + failures + run.connections, scans


@touching("inside")
def _pool_pages(runs: Sequence[MeasuredRun]) -> Check:
    """Check that the pool's pages of data, free and other frames add up to the pool's frames.

    srv_export_innodb_status computes misc as the remainder, so a miscount shows as an impossible sum.
    """
    title = "Pages of data + free + other frames = frames of the pool, at both edges"
    kinds = ("data", "free", "misc")

    def off(run: MeasuredRun) -> Off:
        shares = []
        for level in (run.window.first_level, run.window.level):
            total, parts = level(_pages("total")), [level(_pages(kind)) for kind in kinds]
            missing = next((one.reason for one in (total, *parts) if one.value is None), None)
            if missing or not total.value:
                return Off(run, None, missing or "the pool has no frames")
            shares.append(abs(sum(part.value or 0.0 for part in parts) / total.value - 1))
        return Off(run, max(shares))

    return worst_of("innodb_pool_pages", title, POOL_PAGES_LIMIT, map(off, runs))


def _pages(kind: str) -> str:
    return f"innodb_buffer_pool_pages_{kind}"


@touching("reads")
def _whole_pages(runs: Sequence[MeasuredRun]) -> Check:
    """Check that the server reads whole pages from its files; reads of other sizes would not be the buffer pool's."""
    title = "Bytes read from data files = pages read × page size"

    def off(run: MeasuredRun) -> Off:
        page, reads = run.knob("page_size"), run.window.change("pages_read")
        if not isinstance(page, int) or reads.value is None:
            return Off(run, None, reads.reason or "the page size was not read back")
        return ratio_off(run, run.window.change("db_read_bytes"), Value(reads.value * page))

    return worst_of("innodb_whole_pages", title, WHOLE_PAGES_LIMIT, map(off, runs))


def _storage_engine(run: MeasuredRun) -> StorageEngine | None:
    """Return the storage engine of a run's tables; None for InnoDB."""
    return storage_engine_of({KNOB: str(run.knob(KNOB))})


def _reads_directly(run: MeasuredRun) -> bool:
    if engine := _storage_engine(run):
        return engine.reads_directly
    return str(run.knob("flush_method")).upper().startswith("O_DIRECT")


@touching("reads")
def _read_calls(runs: Sequence[MeasuredRun]) -> Check:
    """Check that the blocks that a storage engine read through the page cache add up to the bytes of its read calls."""
    name, title = "read_calls", "Bytes of blocks read through the page cache = bytes of the server's read calls"

    def off(run: MeasuredRun) -> Off:
        engine = _storage_engine(run)
        if engine is None or engine.reads_directly:
            return Off(run, None, "reads go past the page cache")
        if not engine.caches_rows:
            return Off(run, None, f"{engine.sql_name} counts no reads of rows: the kernel's count alone is known")
        read = run.window.change("db_read_bytes")
        if read.value is not None and read.value < READ_CALLS_MIN_BYTES:
            return Off(run, None, "too few blocks were read")
        return ratio_off(run, run.window.change("server_call_read_bytes"), read)

    return worst_of(name, title, READ_CALLS_LIMIT, map(off, runs))


CHECKS: tuple[Made, ...] = (
    _read_calls,
    _frames,
    _shares,
    _lru_scans,
    _pool_pages,
    _whole_pages,
)


RESULTS = EngineResults(
    pool="pool_size",
    raw=RAW,
    derived=DERIVED,
    source="InnoDB's status variables (docs/innodb-metrics.md)",
    words={
        "page_gets": "InnoDB's buffer_pool_read_requests",
        "demand_misses": "InnoDB's buffer_pool_reads",
        "pages_read": "InnoDB: pages_read, read-ahead included",
        "pages_written": "InnoDB: pages_written, doublewrite not counted",
        "pages_created": "InnoDB: pages_created in the pool",
        "db_read_bytes": "InnoDB: data_read",
        "db_write_bytes": "InnoDB: data_written, with the doublewrite buffer and, on MySQL, the redo log",
    },
    checks=CHECKS,
    reads_directly=_reads_directly,
    is_server=True,
    log="redo_bytes",
    own_work=("com_commit", "com_rollback"),
    waits=("row_lock_waits", "row_lock_ms"),
    device_reads=BLOCKS_FROM_STORAGE,
    knob_words={
        "lru_scan_depth": SettingWords("the LRU scan depth", "LRU scan depth (pages)", "LRU scan depth"),
        "redo_log_capacity": SettingWords("the redo log capacity", "Redo log capacity", count="writes"),
    },
    same_work=SAME_WORK,
    page_gets_vary=page_gets_vary,
    asked_for=asked_for,
    reads_beside=redo_read_bytes,
    reads_beside_are="pages of MySQL 8.0's redo log, which the kernel reads before a part of one is written",
)
