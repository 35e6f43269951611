"""The chapter on an InnoDB server's own work: who wrote pages, and how full the pool and its free list were.

It also tells whether the server ran with the pool and the settings asked for.
"""

from __future__ import annotations

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.blocks import Figure, Section, Table
from bufferlab.chapter.point_table import claims_blocked, means_over_runs, point_table
from bufferlab.chapter.time_series import course_figures
from bufferlab.engines.innodb.knobs import INNODB_KNOBS
from bufferlab.engines.innodb.metrics import OWN_COUNTS
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


def inside(analysis: Analysis) -> Section:
    """Return flush rates, levels of the pool, and the pool asked for against the one that ran."""
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
    """Return sentences on settings that differ from what was asked, and on those that differ between points unasked."""
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
        if knob.confounds and len(values) > 1 and knob.name not in swept:
            values_told = words.listing(sorted(values, key=lambda told: str(values[told]).rjust(20)))
            told.append(f"Confounded: {knob.spelling} is {values_told} at different points ({knob.confounds}).")
    return told


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
