"""InnoDB's chapters of a report, and how InnoDB's settings limit what the report's answer is valid for.

The chapter `inside` shows which component wrote pages, how full the pool and its free list were, and whether the server
ran with the requested pool and settings. The chapter `victim_path` shows where frames came from: the free list, scans
of the LRU tail, or single-page flushes. If this version does not count that, the chapter says why (the source is in
`engines.innodb.metrics`). The other chapters have separate files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Column, Figure, Row, Section, StackedPlot, Table
from bufferlab.chapter.engine_chapters import EngineChapters
from bufferlab.chapter.point_table import claims_blocked, means_over_runs, point_table
from bufferlab.chapter.points_figure import Axis
from bufferlab.chapter.time_series import course_figures
from bufferlab.engines.innodb.declaration import INNODB_KNOBS
from bufferlab.engines.innodb.metrics import OWN_COUNTS
from bufferlab.engines.innodb.scan_depth_chapter import answer, scan_depth
from bufferlab.engines.innodb.storage_engines_chapter import best, compared
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.units import readable

_COURSE = {
    "lru_batch_writes_per_s": "LRU batches (pages per second)",
    "flush_list_writes_per_s": "Flush list (pages per second)",
    "free_list_pages": "Free list (pages)",
    "dirty_share": "Dirty share of the cache (%)",
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


_SHARES = ("free_list_share", "lru_scan_share", "single_page_share")
_PARTS = ("free list", "LRU scan by the user thread", "single-page flush by the user thread")
_COUNTS = ("frame_requests", "free_list_hits", "lru_scan_hits", "single_page_flushes")


def victim_path(analysis: Analysis) -> Section:
    """Return the section with the victim path's shares and counts per point, or the reason why they are missing."""
    told = [point for point in analysis.points if point.ok and all(point.values(name) for name in _SHARES)]
    reasons = {run.values["lru_scan_share"].reason for run in analysis.runs} - {None}
    missing = f" Not measurable in some runs: {'; '.join(sorted(map(str, reasons)))}." if reasons else ""
    if not told:
        return Section("victim-path", "Where frames came from", missing.strip(), ())
    intro = (
        "A thread that needs a frame takes it from the free list, which the page cleaner fills. Where that is empty, "
        "it scans the LRU tail for a clean page, and failing that writes one page itself and waits for it. "
        "Identical runs differ in these shares more than in reads: look at the intervals."
    )
    return Section(
        "victim-path", "Where frames came from", intro + missing, (_figure(analysis, told), _table(analysis))
    )


def _figure(analysis: Analysis, told: list[PointRuns]) -> Figure:
    # Use arithmetic means: means of logarithms would not add up to one.
    shares = tuple(tuple(_plain_mean(point, name) for name in _SHARES) for point in told)
    # The axis shows the pool size in bytes, not the percentage.
    named = ((analysis.tick(point), analysis.rest_label(point)) for point in told)
    bars = tuple("\n".join(filter(None, names)).replace(", ", "\n") for names in named)
    axis = Axis.of(analysis, told).label
    title = "How searches for a frame ended"
    plot = StackedPlot(axis, "Searches for a frame (%)", bars, _PARTS, shares)
    rows = tuple(
        Row((bar.replace("\n", ", "), *(f"{share:.6g}" for share in parts)))
        for bar, parts in zip(bars, shares, strict=True)
    )
    columns = (Column("Point", numeric=False), *(Column(part) for part in _PARTS))
    data = Table("victim-path-figure-data", f"Data: {title}", columns, rows, "Shares, means over runs.", folded=True)
    ends = []
    for place in (0, -1):
        parts = (f"{words.share(share, 2)} {part}" for part, share in zip(_PARTS, shares[place], strict=True))
        ends.append(f"{bars[place]}: {', '.join(parts)}")
    alt = f"{title}. {'; '.join(ends)}.".replace("\n", ", ")
    caption = (
        "Shares of the searches for a frame, means over runs; each bar adds to 100 %. Thin parts are in the table."
    )
    return Figure("victim-path-figure", title, alt, caption, plot, data)


def _plain_mean(point: PointRuns, name: str) -> float:
    values = [value for _, _, value in point.values(name)]
    return sum(values) / len(values)


def _table(analysis: Analysis) -> Table:
    heads = {
        "Free list": "free_list_share",
        "LRU scan": "lru_scan_share",
        "Single page": "single_page_share",
        "Given back": "frames_given_back_share",
        **{words.heading(analysis.metric(metric)): metric for metric in map(analysis.per_work, _COUNTS)},
        "Single-page flushes per second": "single_page_flushes_per_s",
    }
    caption = (
        f"{means_over_runs(analysis)}; counts per {analysis.work_noun}. S searches, L passes that found the free list "
        "empty, W waits for a free frame, F failed flushes: free list S − L + F, LRU scan L − W, single page W − F, "
        "which add to S by construction. A single-page flush may also find a clean page and write nothing. Given "
        "back: of all searches, those for a page that was in the pool already, mostly undo."
    )
    return point_table(analysis, "victim-path-table", "Victim path", heads, caption, folded=True)


def inside(analysis: Analysis) -> Section:
    """Return the section with flush rates, the pool's levels, and settings that differ from the requested ones."""
    courses = course_figures(analysis, _COURSE, "innodb-over-time")
    said = rounding(analysis)
    blocks: tuple[Table | Figure, ...] = (
        _levels(analysis),
        _writers(analysis),
        *courses,
        _work(analysis),
    )
    shown = tuple(block for block in blocks if not isinstance(block, Table) or block.rows)
    return Section("innodb", "Inside the server", " ".join(said), shown, folded=True)


def rounding(analysis: Analysis) -> list[str]:
    """Return sentences on settings that differ from the requested ones, or that differ between points although none was
    requested."""
    rounded = [
        f"{readable(setting.asked or '')} asked is {words.setting_value(setting)} run: {setting.note}."
        for point in analysis.points
        for setting in point.settings.values()
        if setting.differs and setting.note
    ]
    told = list(dict.fromkeys(rounded))
    swept = {name for point in analysis.points for name in point.swept}
    for knob in INNODB_KNOBS:
        found = [point.settings[knob.name] for point in analysis.points if point.ok and knob.name in point.settings]
        values = {words.setting_value(setting): setting.value for setting in found if setting.value is not None}
        is_pool = knob.name == "buffer_pool_chunk_size" and all(map(_has_one_chunk, analysis.points))
        if knob.confounds and len(values) > 1 and knob.name not in swept and not is_pool:
            values_told = words.listing(sorted(values, key=lambda told: str(values[told]).rjust(20)))
            told.append(f"Confounded: {knob.spelling} is {values_told} at different points ({knob.confounds}).")
    return told


def _has_one_chunk(point: PointRuns) -> bool:
    """Return whether each instance of the point's pool is a single chunk, so that no rounding to chunks happens."""
    names = ("buffer_pool_chunk_size", "buffer_pool_instances", "pool_size")
    chunk, instances, pool = map(point.number, names)
    return chunk is None or pool is None or chunk * (instances or 1) == pool


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
        f"Means over the measured window. {means_over_runs(analysis)}. Other frames hold row locks and the adaptive "
        "hash index. Log age: redo since the last checkpoint."
    )
    return point_table(analysis, "pool-levels", "What the pool held", heads, caption, known_only=True)


def _writers(analysis: Analysis) -> Table:
    caption = (
        "Pages per second of the measured window. Flush-list batches write the oldest changes, LRU batches dirty pages "
        "at the LRU tail. Single-page flushes count frames, some without a write. The doublewrite buffer's copies are "
        "not counted."
    )
    caption += claims_blocked(analysis, "writes_per_s")
    return point_table(analysis, "flush-rates", "Who wrote pages", _WRITERS, caption, known_only=True)


def _work(analysis: Analysis) -> Table:
    counts = map(analysis.per_work, ("pages_created", *OWN_COUNTS))
    heads = {
        **{words.heading(analysis.metric(name)): name for name in counts},
        "Doublewritten pages / pages written": "doublewrite_share",
        "Read-ahead of all reads": "read_ahead_share",
        "Server CPU per transaction (µs)": "server_cpu_us_per_transaction",
    }
    caption = f"Counts per {analysis.work_noun}. {means_over_runs(analysis)}."
    return point_table(analysis, "server-work", "What else a transaction costs", heads, caption, known_only=True)


_COMMIT = "flush_log_at_trx_commit"


def _limits(runs: Sequence[MeasuredRun]) -> list[str]:
    """Return a sentence for each way in which the settings of these runs limit what the report's answer is valid
    for."""
    found = []
    commits = {str(run.knob(_COMMIT)) for run in runs if run.knob(_COMMIT) is not None}
    if commits - {"1"}:
        found.append(
            f"Commits did not wait for the device (innodb_{_COMMIT} = {words.listing(sorted(commits))}): "
            "commit latency is not measured."
        )
    if {str(run.knob("adaptive_hash_index")).lower() for run in runs} & {"off", "0"}:
        found.append("Adaptive hash index off: with it, page gets per transaction depend on the pool and are fewer.")
    return [*found, *_never_young(runs)]


_OLD_BLOCKS = {"old_blocks_time": 1000, "old_blocks_pct": 37}
"""The server's defaults of innodb_old_blocks_time, in ms, and innodb_old_blocks_pct, in per cent (ha_innodb.cc)."""


def _never_young(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    """Yield a sentence if pages leave the old sublist before innodb_old_blocks_time lets them become young.

    They leave it after as many reads as it has frames (buf0lru.cc, buf_LRU_add_block_low; buf0buf.ic,
    buf_page_peek_if_too_old).
    """
    short: list[tuple[float, int, str]] = []
    for run in runs:
        if run.run.source != "measured" or "old_blocks_time" not in run.settings or is_url(run.knob("server")):
            continue
        wait_ms, percent = (run.knob(name) or own for name, own in _OLD_BLOCKS.items())
        if (asked := run.settings["old_blocks_time"].asked) is not None and asked.isdigit():
            wait_ms = int(asked)
        frames, read = run.window.level("pool_frames").value, run.window.change("pages_read").value
        if frames and read and (stay_ms := 10 * frames * percent * (run.window.seconds or 0.0) / read) < wait_ms:
            short.append((stay_ms, wait_ms, run.run.point.label))
    if short:
        stay_ms, wait_ms, label = min(short)
        yield (
            f"Pages leave the old sublist after about {words.number(stay_ms)} ms ({label}), and innodb_old_blocks_time "
            f"lets hardly any become young before {wait_ms:,} ms. So the young sublist keeps the pages that it had "
            "before, such as those of the server's start. Reads depend on these pages and on the load's speed, and "
            "servers may differ by them alone: --set old_blocks_time=0 is without this effect."
        )


def _bytes_written(runs: Sequence[MeasuredRun]) -> list[str]:
    """Return a sentence on which files the count of bytes written includes.

    MariaDB 10.5 and later leaves out the redo log.
    """
    without_redo = any(run.run.engine == "mariadb" and run.version >= (10, 5) for run in runs)
    return ["data files", "doublewrite buffer", *([] if without_redo else ["redo log"])]


CHAPTERS = EngineChapters(
    answering=(scan_depth, compared),
    inside=(victim_path, inside),
    answer=lambda analysis: answer(analysis) or best(analysis),
    answers_in=lambda analysis: "storage-engines" if best(analysis) else "scan-depth",
    limits=_limits,
    bytes_written=_bytes_written,
)
