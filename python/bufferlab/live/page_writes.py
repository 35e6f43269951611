"""Bounds the page writes of larger and smaller pools, from the calls that the tier `misses` followed.

A larger pool spares at most the writes of pages that it would not have evicted: the server wrote a page, evicted it
and read it again, and the list of evicted pages (eviction_depths.py) has it within the added frames. So a larger pool
writes at least the present number less these, and at most the present number. Between the two, the server's
checkpoints decide: a page that stays in the pool and is changed again is written when the change is old. A smaller pool
evicts a page for each further read, and each of these evictions may need a write. Writes of the log, of copies
(doublewrite buffer) and of temporary files are not counted. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bufferlab.live import constants
from bufferlab.live.bounds import Counted, Floats, PoolFacts, SizeEstimate, scatter
from bufferlab.live.eviction_depths import Distances
from bufferlab.live.live_trace import Recorded
from bufferlab.traces.page_trace import Columns, number_of


def written_before(columns: Columns) -> NDArray[np.int64]:
    """Return for each read the number of writes of its page in the page's last stay in the pool.

    A stay begins when the page comes (or the record begins), and ends with its eviction. 0 if no eviction was seen.
    """
    order = np.argsort(columns["page"], kind="stable")
    page, kind = columns["page"][order], columns["kind"][order]
    row = np.arange(len(page))
    written = np.concatenate(([0], np.cumsum(kind == number_of("write"))))

    def last(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the last row up to each row that has the mark; -1 for none."""
        found: NDArray[np.int64] = np.maximum.accumulate(np.where(which, row, -1))
        return found

    first = last(np.diff(page.astype(np.int64), prepend=-1) != 0)
    # A stay begins after the row with which the page came; if it came before the record, with the page's first row.
    came = last((kind == number_of("read")) | (kind == number_of("create")))
    begin = np.where(came >= first, came + 1, first)
    is_read, left = kind == number_of("read"), last(kind == number_of("evict"))
    reads = row[is_read]
    evicted = left[reads]
    writes = written[evicted] - written[begin[evicted]]
    found = np.zeros(len(page), np.int64)
    found[order[reads]] = np.where(evicted >= first[reads], writes, 0)
    in_time: NDArray[np.int64] = found[columns["kind"] == number_of("read")]
    return in_time


def spared_per_s(windows: Sequence[Recorded], found: Distances, more: int, counted: Counted) -> float | None:
    """Return the most writes a second that `more` frames spare, at 97.5 %; None if the windows are too short to say."""
    if not 0 < more <= found.longest:
        return None
    slices = len(found.cut.seconds)
    # Only these reads show a page that left `more` frames ago.
    is_known = found.length >= more
    is_spared = is_known & (found.depth > 0) & (found.depth <= more * (1 + constants.FRAMES_ERROR))
    writes = np.concatenate([written_before(one.columns) for one in windows])
    spared = np.bincount(found.slice[is_spared], writes[is_spared], slices)
    known = np.bincount(found.slice[is_known], minlength=slices)
    reads_per_s = counted.reads / counted.seconds

    def per_s(weights: Floats) -> Floats:
        return reads_per_s * np.asarray((weights @ spared) / np.maximum(weights @ known, 1e-9))

    return float(per_s(np.ones((1, slices)))[0]) + scatter(slices, per_s)


def with_writes(
    estimates: Sequence[SizeEstimate],
    windows: Sequence[Recorded],
    found: Distances | None,
    pool: PoolFacts,
    counted: Counted,
) -> tuple[SizeEstimate, ...]:
    """Return the estimates with bounds of their writes, where the server counts its writes.

    `windows` are those of the tier `misses`, and `found` has the depths of their reads; None without such a window.
    """
    if counted.writes is None or counted.seconds <= 0:
        return tuple(estimates)
    present = counted.writes / counted.seconds

    def bounded(one: SizeEstimate) -> SizeEstimate:
        more = pool.frames(one.pool_size_bytes) - pool.pool_pages
        if one.cannot_say is not None or one.high is None:
            return one
        if more < 0:
            added = max(0.0, one.high - counted.reads / counted.seconds)
            return replace(one, writes_low_per_s=present, writes_high_per_s=present + added)
        if found is None or (spared := spared_per_s(windows, found, more, counted)) is None:
            return one
        # All writes that the calls did not show may be of pages that a larger pool would keep.
        unseen = max(0.0, present - _written_per_s(windows))
        return replace(one, writes_low_per_s=max(0.0, present - spared - unseen), writes_high_per_s=present)

    return tuple(map(bounded, estimates))


def _written_per_s(windows: Sequence[Recorded]) -> float:
    """Return the writes a second that the calls showed."""
    written = sum(int(np.count_nonzero(one.columns["kind"] == number_of("write"))) for one in windows)
    return written / sum(one.seconds for one in windows)
