"""PostgreSQL's part of its results: metrics, formulas and checks."""

from __future__ import annotations

from bufferlab.engines.postgres import checks
from bufferlab.engines.postgres.metrics import DERIVED, RAW
from bufferlab.engines.read_ahead_knob import READ_AHEAD_WORDS
from bufferlab.results.check import EngineResults, MeasuredRun, SettingWords


def _reads_directly(run: MeasuredRun) -> bool:
    return "data" in str(run.knob("debug_io_direct")).split(",")


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
    checks=checks.CHECKS,
    reads_directly=_reads_directly,
    is_server=True,
    log="wal_log_bytes",
    device_reads="device_pages",
    knob_words={"memory_limit": SettingWords("the memory limit", "Memory limit"), "read_ahead": READ_AHEAD_WORDS},
    same_work=checks.SAME_WORK,
    page_gets_limit=checks.PAGE_GETS_LIMIT,
    # The server's processes publish their counters up to a second late: misses and transactions at once.
    own_work=("postgres_database_xact_commit", "postgres_database_xact_rollback"),
    waits=("lock_wait_ms", "lwlock_wait_ms", "io_wait_ms"),
)
