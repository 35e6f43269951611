"""PostgreSQL's part of the results: its metrics, formulas and checks.

A check tests whether numbers that the server counts in different places agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bufferlab.engines.postgres.metrics import DERIVED, RAW, TABLES_GETS, Views
from bufferlab.engines.read_ahead_words import READ_AHEAD_WORDS
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
    stood_still,
    touching,
    worst_of,
)
from bufferlab.results.drift import DEVICE_PAGE_BYTES

#: The fraction by which page gets of the same work may differ. The first update of a loaded row moves the row out of
#: its full page and adds it to every index. Later updates stay in their page (HOT). So the same work gets a few pages
#: less after a longer warm-up, and a larger pool is warmed up for longer. A New-Order got 373 pages after 30 s of
#: warm-up, 385 after 3 s (PostgreSQL 15.18).
PAGE_GETS_LIMIT = 0.05
COMMITS_LIMIT = 0.0
#: An upper bound on the queries per second of bufferlab's connection that reads counters. Each query is a separate
#: transaction.
WATCHING_PER_S = 40.0
IO_LIMIT = 0.02
#: The fraction of reads that pg_stat_database may count although they did not happen. From 17 on a session may find,
#: just before a read, that another session has read the page meanwhile. pg_stat_database has then already counted the
#: read (bufmgr.c, WaitReadBuffers). Such reads were 0.9 % of all for eight sessions that scanned one table on 17.2, and
#: 0.4 % for four with parallel workers; 1.7 % on 18.0, up to 5.3 % on 18.6 and up to 13 % on 19rc1.
COUNTED_AGAIN = 0.15
TABLES_LIMIT = 0.05
#: A session's gets of the catalogues when it first uses its tables: index-scan's sessions had 146 each on 17.2 and 129
#: each on 18.6.
CATALOGUE_GETS = 200
OF_CHECKPOINTS = frozenset(("max_wal_size", "checkpoint_timeout", "checkpoint_completion_target"))
LEAST_CHECKPOINTS = 3

#: Settings that change where pages are and when they are written, but not which pages are requested.
SAME_WORK = frozenset(
    """memory_limit effective_io_concurrency maintenance_io_concurrency bgwriter_delay bgwriter_lru_maxpages
    bgwriter_lru_multiplier bgwriter_flush_after backend_flush_after checkpoint_timeout checkpoint_completion_target
    checkpoint_flush_after max_wal_size min_wal_size wal_buffers full_page_writes fsync synchronous_commit
    wal_compression debug_io_direct io_combine_limit io_max_combine_limit io_method io_workers io_min_workers
    io_max_workers huge_pages""".split()  # noqa: SIM905
)


def _commits(runs: Sequence[MeasuredRun]) -> Check:
    """Check that the server committed exactly the transactions that the drivers saw committed.

    The server's count includes the queries of the connection that reads counters: a few for each sample.
    """
    title = "Transactions committed by the server = those the drivers saw, and few of the watching connection"

    def off(run: MeasuredRun) -> Off:
        server, ours = run.window.change("postgres_database_xact_commit"), run.window.change("transactions_committed")
        if server.value is None or ours.value is None:
            return Off(run, None, server.reason or ours.reason)
        if not ours.value:
            return Off(run, None, "no transaction was committed")
        if run.run.workload["name"] == "script":
            return Off(run, None, "a script's transaction may be several of the server's")
        more = server.value - ours.value
        # Each connection publishes its counters in a separate transaction, and the core subtracts these. So the count
        # may be too small by one for each connection.
        more = min(0.0, more + run.connections) if more < 0 else more
        beyond = max(0.0, more - WATCHING_PER_S * ((run.window.seconds or 0.0) + 2))
        return Off(run, max(-more, beyond) / ours.value if more < 0 or beyond else 0.0, "less" if more < 0 else "more")

    return worst_of("postgres_commits", title, COMMITS_LIMIT, map(off, runs))


@touching("reads", "inside")
def _io_reads(runs: Sequence[MeasuredRun]) -> Check:
    """Compare the page reads of pg_stat_io and pg_stat_database, which the server counts separately (bufmgr.c)."""
    title = "Pages read by pg_stat_io = by pg_stat_database, which counts some twice where sessions meet"

    def off(run: MeasuredRun) -> Off:
        change = run.window.change
        found = ratio_off(run, change("postgres_io_pages_read"), change("postgres_database_blks_read"))
        return replace(found, least=COUNTED_AGAIN) if found.why == "less" else found

    return worst_of("postgres_io_reads", title, IO_LIMIT, map(off, runs))


@touching("gets")
def _of_tables(runs: Sequence[MeasuredRun]) -> Check:
    """Check that the reads are of the workload's tables and indexes.

    Each session caches the catalogues separately after its first use of them.
    """
    title = "Page gets of the workload's tables and indexes = page gets of the database"

    def off(run: MeasuredRun) -> Off:
        of_tables, of_all = TABLES_GETS.evaluate(run.window), run.window.change("page_gets")
        found = ratio_off(run, of_tables, of_all)
        if found.why != "less" or not of_all.value:
            return found
        return replace(found, least=CATALOGUE_GETS * run.connections / of_all.value)

    return worst_of("postgres_tables", title, TABLES_LIMIT, map(off, runs))


@touching("device", "inside")
def _device_split(runs: Sequence[MeasuredRun]) -> Check:
    """Check that reads can be split into page cache and device.

    If not, the kernel reads ahead or other programs use the device.
    """
    name, title = "postgres_split", "The device read no more than the server asked for"
    if any(run.direct for run in runs):
        return not_applicable(name, title, "direct I/O: the page cache serves nothing")

    def off(run: MeasuredRun) -> Off:
        found = run.values["page_cache_pages_per_transaction"]
        read, device = run.window.change("pages_read"), run.values["device_pages_per_transaction"]
        if read.value is None or device.value is None:
            return Off(run, None, read.reason or device.reason)
        # The kernel reads ahead of scans in table order. That is not a fault, and the values say why they are missing.
        return Off(run, 0.0 if found.value is not None else None, found.reason)

    return worst_of(name, title, 0.0, map(off, runs))


@touching("device", "times", "inside")
def _device_steady(runs: Sequence[MeasuredRun]) -> Check:
    """Check that the page cache had become steady.

    This check is needed because the rule that ends a warm-up considers only shared buffers.
    """
    name = "steady_page_cache"
    title = "Pages from the device per transaction stood still in the measured window (last third over first)"
    bounded = [run for run in runs if run.divides_memory and not run.direct]
    if not bounded:
        return not_applicable(name, title, "no memory limit: the page cache takes what the host has free")
    pages = [(run.window.change("server_read_bytes").value or 0.0) / DEVICE_PAGE_BYTES for run in bounded]
    found = [(run, run.device_drift, counted / 3) for run, counted in zip(bounded, pages, strict=True)]
    return stood_still(name, title, "pages from the device", found, by_kernel=True)


@touching("writes")
def _checkpoints(runs: Sequence[MeasuredRun]) -> Check:
    """Check that each window has three checkpoints or more, if a sweep varies settings of checkpoints.

    Pages that wait for the next checkpoint are not yet written when a window ends.
    """
    name, title = "postgres_checkpoints", "Three checkpoints or more began in each window (if their settings are swept)"
    asked = [run for run in runs if not OF_CHECKPOINTS.isdisjoint(run.run.point.swept)]
    told = [(one.value, run) for run in asked if (one := run.values["checkpoints_in_window"]).value is not None]
    if not told:
        return not_applicable(name, title, "they are not counted" if asked else "no setting of checkpoints was swept")
    fewest, run = min(told, key=lambda one: one[0])
    detail = f"fewest of {len(told)} runs: {fewest:g} ({run.label})"
    more = "" if fewest >= LEAST_CHECKPOINTS else (
        "; pages that wait for the next checkpoint are missing from the writes: a longer window (--duration) has them"
    )  # fmt: skip
    return outcome(name, title, fewest >= LEAST_CHECKPOINTS, detail + more)


CHECKS: tuple[Made, ...] = (
    _commits,
    _io_reads,
    _of_tables,
    _device_split,
    _device_steady,
    _checkpoints,
)


RESULTS = EngineResults(
    pool="pool_size",
    raw=RAW,
    derived=DERIVED,
    source="PostgreSQL's statistics views (docs/postgres-metrics.md)",
    words={
        "page_gets": "PostgreSQL's blks_hit + blks_read, growth never among them",
        "demand_misses": "PostgreSQL's reads of pg_stat_io; until 15 blks_read without growth",
        "pages_read": "PostgreSQL: the same reads, of which the page cache may serve some",
        "pages_written": "PostgreSQL: by checkpoints, background writer and connections",
    },
    checks=CHECKS,
    reads_directly=lambda run: "data" in str(run.knob("debug_io_direct")).split(","),
    # Up to 19 only reads are asynchronous, not writes (storage/aio, README.md).
    writes_by_calls=True,
    is_server=True,
    log="wal_log_bytes",
    device_reads="device_pages",
    knob_words={
        "memory_limit": SettingWords("the memory limit", "Memory limit"),
        "read_ahead": READ_AHEAD_WORDS,
        "max_wal_size": SettingWords("max_wal_size", "max_wal_size", count="writes"),
        "checkpoint_timeout": SettingWords("checkpoint_timeout", "checkpoint_timeout (s)", count="writes"),
    },
    same_work=SAME_WORK,
    # The bytes of a full-page image in the log are derived from how these counters grow together
    # (models/managers/dirty_buffers.py).
    courses=frozenset(
        one.name for one in (Views.postgres_wal_bytes, Views.postgres_wal_records, Views.postgres_wal_fpi)
    ),
    page_gets_limit=PAGE_GETS_LIMIT,
    # The server's processes publish their counters up to a second late, misses and transactions together.
    own_work=("postgres_database_xact_commit", "postgres_database_xact_rollback"),
    # A session publishes its counts at most once a second (pgstat.c: PGSTAT_MIN_INTERVAL).
    counts_late_s=1.0,
    waits=("lock_wait_ms", "lwlock_wait_ms", "io_wait_ms"),
)
