"""The chapter on a PostgreSQL server's own work: its pages' origins, the processes that wrote pages, and its log."""

from __future__ import annotations

from collections.abc import Sequence

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Section, Table
from bufferlab.chapter.engine_chapters import EngineChapters
from bufferlab.chapter.point_table import claims_blocked, means_over_runs, point_table
from bufferlab.engines.postgres.metrics import Views
from bufferlab.results.check_parts import MeasuredRun

_CACHES = {
    "Page gets": "page_gets",
    "Shared buffers": "shared_buffer_hits",
    "Page cache": "page_cache_pages",
    "Device": "device_pages",
}
_READS = {"Heap pages read": "heap_pages_read", "Index pages read": "index_pages_read"}
_WRITERS = {
    "Checkpoints": "checkpoint_writes_per_s",
    "Background writer": "cleaner_writes_per_s",
    "Connections": "backend_writes_per_s",
    "Checkpoints begun": "checkpoints_in_window",
}
_LOG = {"Log bytes": "wal_log_bytes", "Whole pages logged": "full_page_images", "Buffers taken": "buffers_taken"}


def inside(analysis: Analysis) -> Section:
    """Return the section with tables of the pages' origins, of the processes that wrote pages, and of the log (WAL)."""
    tables = (_caches(analysis), _writers(analysis), _log(analysis))
    return Section("postgres", "Inside the server", "", tuple(table for table in tables if table.rows))


def _caches(analysis: Analysis) -> Table:
    heads = {
        **{head: analysis.per_work(count) for head, count in _CACHES.items()},
        "Page cache, of all reads": "page_cache_share",
        **{head: analysis.per_work(count) for head, count in _READS.items()},
    }
    caption = (
        f"Pages per {analysis.work_noun}. A get that shared buffers do not serve is a read of the server; of these "
        "the device served as many as the bytes hold that were read from storage for the server's processes, and the "
        "page cache the rest. What the kernel read ahead is among those bytes: where they are more than the server "
        "asked for, the split is not told."
    )
    return point_table(analysis, "page-sources", "Where pages came from", heads, caption, known_only=True)


def _writers(analysis: Analysis) -> Table:
    caption = (
        "Pages per second of the measured window. The background writer writes pages just ahead of the clock hand; a "
        "connection writes one itself when the hand stops at a dirty page. All are written to the page cache, and "
        "reach the device when the kernel says so."
    )
    caption += claims_blocked(analysis, "writes_per_s")
    return point_table(analysis, "page-writers", "Who wrote pages", _WRITERS, caption, known_only=True)


def _log(analysis: Analysis) -> Table:
    heads = {
        **{head: analysis.per_work(count) for head, count in _LOG.items()},
        "Server CPU per transaction (µs)": "server_cpu_us_per_transaction",
    }
    caption = f"Counts per {analysis.work_noun}. {means_over_runs(analysis)}."
    return point_table(analysis, "server-log", "What else a transaction costs", heads, caption, known_only=True)


def _limits(runs: Sequence[MeasuredRun]) -> list[str]:
    """Return a sentence for each way in which the settings of these runs limit what the report's answer is valid
    for."""
    found = []
    if any(run.knob("synchronous_commit") == "off" for run in runs):
        found.append("Commits did not wait for the device (synchronous_commit = off): commit latency is not measured.")
    if not all(run.direct for run in runs):
        found.append(
            "PostgreSQL reads through the page cache: its reads are pages that were not in shared buffers; the table "
            '"Where pages came from" tells how many of them the device saw.'
        )
    if any(_moves_rows_of_unknown_number(run) for run in runs):
        found.append(
            "This script updates rows. PostgreSQL writes an updated row to another place, often on another page, so "
            "hot rows move, and reads may go on changing long after the pool is warm. How long is not known of this "
            "script; --warm-up-min N measures later."
        )
    return found


def _moves_rows_of_unknown_number(run: MeasuredRun) -> bool:
    """Return whether a script's updates moved rows for an unknown number of transactions (plan/warm_up.py)."""
    updated = run.window.change(Views.postgres_database_tup_updated.name).value
    detail = run.run.warm_up.detail if run.run.warm_up else None
    is_known = isinstance(detail, dict) and "settle_transactions" in detail
    return run.run.workload.get("name") == "script" and bool(updated) and not is_known


CHAPTERS = EngineChapters(inside=(inside,), limits=_limits)
