"""InnoDB's part of the results of MySQL and MariaDB: metrics, formulas and checks."""

from __future__ import annotations

from bufferlab.engines.innodb import checks
from bufferlab.engines.innodb.metrics import DERIVED, RAW
from bufferlab.results.check import EngineResults, MeasuredRun, SettingWords


def _reads_directly(run: MeasuredRun) -> bool:
    return str(run.knob("flush_method")).upper().startswith("O_DIRECT")


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
    checks=checks.CHECKS,
    reads_directly=_reads_directly,
    is_server=True,
    log="redo_bytes",
    own_work=("com_commit", "com_rollback"),
    waits=("row_lock_waits", "row_lock_ms"),
    knob_words={"lru_scan_depth": SettingWords("the LRU scan depth", "LRU scan depth (pages)", "LRU scan depth")},
    same_work=checks.SAME_WORK,
    page_gets_vary=checks.page_gets_vary,
    asked_for=checks.asked_for,
    reads_beside=checks.redo_read_bytes,
    reads_beside_are="pages of MySQL 8.0's redo log, which the kernel reads before a part of one is written",
)
