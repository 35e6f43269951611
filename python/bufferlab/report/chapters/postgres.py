"""Inside a PostgreSQL server: where its pages came from, who wrote pages, and what went into its log."""

from __future__ import annotations

from bufferlab.report import words
from bufferlab.report.analysis import Analysis
from bufferlab.report.model import Column, Row, Section, Table
from bufferlab.results.check import POSTGRES

_SHARES = frozenset({"page_cache_share", "hit_ratio"})
_CACHES = (
    ("page_gets", "Page gets"),
    ("shared_buffer_hits", "Shared buffers"),
    ("page_cache_pages", "Page cache"),
    ("device_pages", "Device"),
)
_READS = (("heap_pages_read", "Heap pages read"), ("index_pages_read", "Index pages read"))
_WRITERS = (
    ("checkpoint_writes_per_s", "Checkpoints"),
    ("cleaner_writes_per_s", "Background writer"),
    ("backend_writes_per_s", "Connections"),
    ("checkpoints_in_window", "Checkpoints begun"),
)
_LOG = (
    ("wal_log_bytes", "Log bytes"),
    ("full_page_images", "Whole pages logged"),
    ("buffers_taken", "Buffers taken"),
)


def postgres(analysis: Analysis) -> Section | None:
    """Where pages came from, who wrote them, and the log; nothing for other engines."""
    if not any(run.run["engine"] == POSTGRES for run in analysis.runs):
        return None
    tables = (_caches(analysis), _writers(analysis), _log(analysis))
    return Section("postgres", "Inside the server", "", tuple(table for table in tables if table.rows))


def _caches(analysis: Analysis) -> Table:
    heads = [(analysis.per_work(name), head) for name, head in _CACHES]
    heads.append(("page_cache_share", "Page cache, of all reads"))
    heads += [(analysis.per_work(name), head) for name, head in _READS]
    noun = {"new_order": "New-Order", "transaction": "transaction"}[analysis.unit_of_work]
    caption = (
        f"Pages per {noun}. A get that shared buffers do not serve is a read of the server; of these the device served "
        "as many as the bytes hold that were read from storage for the server's processes, and the page cache the "
        "rest. What the kernel read ahead is among those bytes: where they are more than the server asked for, the "
        "split is not told."
    )
    return _of_points(analysis, "page-sources", "Where pages came from", tuple(heads), caption)


def _writers(analysis: Analysis) -> Table:
    caption = (
        "Pages per second of the measured window. The background writer writes pages just ahead of the clock hand; a "
        "connection writes one itself when the hand stops at a dirty page. All are written to the page cache, and "
        "reach the device when the kernel says so."
    )
    if blocked := analysis.claim_blocked("writes_per_s"):
        caption += f" Differences are not resolved ({blocked})."
    return _of_points(analysis, "page-writers", "Who wrote pages", _WRITERS, caption)


def _log(analysis: Analysis) -> Table:
    heads = (
        *((analysis.per_work(name), head) for name, head in _LOG),
        ("server_cpu_us_per_transaction", "Server CPU per transaction (µs)"),
    )
    noun = {"new_order": "New-Order", "transaction": "transaction"}[analysis.unit_of_work]
    caption = f"Counts per {noun}, means over runs with 95 % intervals for another run."
    return _of_points(analysis, "server-log", "What else a transaction costs", heads, caption)


def _of_points(analysis: Analysis, id: str, title: str, heads: tuple[tuple[str, str], ...], caption: str) -> Table:
    """One row per point; columns of metrics that no run has are left out."""
    present = [(metric, head) for metric, head in heads if analysis.fit(metric) is not None]
    rows = []
    for point in (point for point in analysis.points if point.ok and present):
        cells = [analysis.name_of(point), str(len(point.ok))]
        for metric, _ in present:
            fit = analysis.fit(metric)
            if fit is None or point.index not in fit.points:
                cells.append(words.NOTHING)
                continue
            mean = fit.mean(point.index)
            cells.append(
                words.share_interval(mean) if metric in _SHARES else words.interval(mean, words.unit_of(metric))
            )
        rows.append(Row(tuple(cells)))
    columns = (Column("Point", numeric=False), Column("n"), *(Column(head) for _, head in present))
    return Table(id, title, columns, tuple(rows), caption)
