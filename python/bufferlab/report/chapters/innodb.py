"""What an InnoDB server did beside reading: who wrote pages and how many, how full the pool and its free list were, and
whether it ran with the pool and the settings asked for.
"""

from __future__ import annotations

from bufferlab.report import words
from bufferlab.report.analysis import Analysis, PointRuns, spaced
from bufferlab.report.chapters.time_series import course_figure
from bufferlab.report.model import Column, Row, Section, Table
from bufferlab.report.points_tables import point_table
from bufferlab.results.check import INNODB_ENGINES
from bufferlab.units import UnitError, format_bytes, parse_size

_COURSE = {
    "lru_batch_writes_per_s": "LRU batches\n(pages/s)",
    "flush_list_writes_per_s": "Flush list\n(pages/s)",
    "free_list_pages": "Free list\n(pages)",
    "dirty_share": "Dirty share\nof the cache",
}
_WRITERS = {
    "Flush list": "flush_list_writes_per_s",
    "of them adaptive": "adaptive_writes_per_s",
    "background": "background_writes_per_s",
    "sync": "sync_writes_per_s",
    "LRU batches": "lru_batch_writes_per_s",
    "Neighbours, of both": "neighbour_writes_per_s",
    "Single-page flushes": "single_page_flushes_per_s",
    "Evicted clean": "lru_batch_evictions_per_s",
    "LRU batches per s": "lru_batches_per_s",
}
_COUNTS = ("redo_bytes", "page_splits", "pages_created", "fsyncs", "row_lock_waits")
#: Settings whose difference between points would be another experiment than the one asked for.
_CONFOUNDS = {
    "innodb_buffer_pool_instances": "instances: lists, scan depth and locks are per instance",
    "innodb_page_cleaners": "page cleaner threads",
    "innodb_buffer_pool_chunk_size": "chunk size, of which the pool is a multiple",
    "innodb_adaptive_hash_index": "adaptive hash index, which changes page gets",
    "innodb_flush_method": "flush method",
    "innodb_doublewrite": "doublewrite buffer",
}


def innodb(analysis: Analysis) -> Section | None:
    """Flush rates, levels of the pool, and the pool asked for against the one that ran; nothing for other engines."""
    if not any(run.run["engine"] in INNODB_ENGINES for run in analysis.runs):
        return None
    course = course_figure(analysis, _COURSE, "innodb-over-time", "Flushing, free list and dirty pages")
    said = rounding(analysis)
    blocks = (
        asked_table(analysis),
        _levels(analysis),
        _writers(analysis),
        *((course,) if course else ()),
        _work(analysis),
    )
    shown = tuple(block for block in blocks if not isinstance(block, Table) or block.rows)
    return Section("innodb", "Inside the server", " ".join(said), shown)


def rounding(analysis: Analysis) -> list[str]:
    """Sentences on pools that are not what was asked, and on settings that differ between points unasked."""
    rounded = [
        f"{spaced(asked)} asked is {format_bytes(actual)} run"
        for point in analysis.points
        if (sizes := _pool(point)) is not None and (asked := sizes[0]) and (actual := sizes[1]) and _is_rounded(point)
    ]
    told = []
    if rounded:
        rule = "a pool is rounded up to a multiple of chunk size × instances"
        told.append(f"{words.listing(list(dict.fromkeys(rounded)))}: {rule}.")
    swept = {f"innodb_{name}" for point in analysis.points for name in point.swept}
    for name, meaning in _CONFOUNDS.items():
        values = {str(point.actual[name]) for point in analysis.points if name in point.actual}
        if len(values) > 1 and name not in swept:
            told.append(f"Confounded: {name} is {words.listing(sorted(values))} at different points ({meaning}).")
    return told


def _pool(point: PointRuns) -> tuple[str, int] | None:
    """The pool as asked and as run."""
    actual = point.actual.get("pool_size_bytes")
    asked = point.swept.get("pool_size") or (point.ok[0].run["knobs_asked"].get("pool_size") if point.ok else None)
    return (str(asked), actual) if asked and isinstance(actual, int) else None


def _asked_bytes(point: PointRuns) -> int | None:
    """What was asked, in bytes: a share is one of the database, as planned."""
    planned = point.planned.get("pool_size_bytes")
    if isinstance(planned, int):
        return planned
    pool = _pool(point)
    try:
        return parse_size(pool[0]).size_bytes if pool else None
    except UnitError:
        return None


def _is_rounded(point: PointRuns) -> bool:
    asked, pool = _asked_bytes(point), _pool(point)
    page = point.actual.get("page_size_bytes") or 1
    return asked is not None and pool is not None and abs(pool[1] - asked) >= page


def asked_table(analysis: Analysis) -> Table:
    """The pool as asked and as run, with what it was rounded by."""
    rows = []
    for point in analysis.points:
        pool, asked = _pool(point), _asked_bytes(point)
        if pool is None:
            continue
        instances = point.actual.get("innodb_buffer_pool_instances")
        chunk = point.actual.get("innodb_buffer_pool_chunk_size")
        whole = _is_rounded(point)
        rows.append(
            Row(
                (
                    analysis.name_of(point),
                    spaced(pool[0]),
                    format_bytes(asked) if asked is not None else words.NOTHING,
                    format_bytes(pool[1]),
                    f"{pool[1] / asked:.3f}" if asked else words.NOTHING,
                    _frames(point),
                    words.NOTHING if instances is None else str(instances),
                    format_bytes(chunk) if isinstance(chunk, int) else words.NOTHING,
                ),
                "differs" if whole else "",
            )
        )
    heads = ("Asked in bytes", "Run", "Run / asked", "Frames", "Instances", "Chunk")
    columns = (Column("Point", numeric=False), Column("Pool asked", numeric=False), *(Column(head) for head in heads))
    caption = (
        "As the server says itself. Shares of the database and reads belong to the pool that ran, not to the one asked."
    )
    return Table("pool-asked", "The pool asked and the pool run", columns, tuple(rows), caption)


def _frames(point: PointRuns) -> str:
    """As the servers of all runs told them: where a chunk holds a page less, it does so by chance."""
    told = sorted({run.window.level("pool_frames").value or 0 for run in point.ok})
    if not told or not told[0]:
        return words.NOTHING
    return f"{told[0]:,.0f}" if len(told) == 1 else f"{told[0]:,.0f} to {told[-1]:,.0f}"


def _levels(analysis: Analysis) -> Table:
    heads = {
        "Effective cache (pages)": "effective_cache_pages",
        "in bytes": "effective_cache_bytes",
        "of the pool": "effective_cache_share",
        "Free list (pages)": "free_list_pages",
        "least": "free_list_min_pages",
        "Other frames": "misc_pages",
        "Dirty": "dirty_share",
        "Log age": "log_age_bytes",
    }
    caption = (
        "Means over the measured window, then over runs with 95 % intervals. Other frames hold row locks and the "
        "adaptive hash index. Log age: redo since the last checkpoint."
    )
    return point_table(analysis, "pool-levels", "What the pool held", heads, caption, known_only=True)


def _writers(analysis: Analysis) -> Table:
    caption = (
        "Pages per second of the measured window. Flush-list batches write the oldest changes, LRU batches dirty pages "
        "at the LRU tail. Single-page flushes count frames, some without a write. The doublewrite buffer's copies are "
        "not counted."
    )
    if blocked := analysis.claim_blocked("writes_per_s"):
        caption += f" Differences are not resolved ({blocked})."
    return point_table(analysis, "flush-rates", "Who wrote pages", _WRITERS, caption, known_only=True)


def _work(analysis: Analysis) -> Table:
    heads = {
        **{words.heading(metric): metric for metric in map(analysis.per_work, _COUNTS)},
        "Doublewritten pages / pages written": "doublewrite_share",
        "Read-ahead of all reads": "read_ahead_share",
        "Server CPU per transaction (µs)": "server_cpu_us_per_transaction",
    }
    caption = f"Counts per {analysis.work_noun}, means over runs with 95 % intervals for another run."
    return point_table(analysis, "server-work", "What else a transaction costs", heads, caption, known_only=True)
