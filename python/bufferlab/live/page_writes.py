"""Bounds the page writes of larger and smaller pools, from the calls that the tier `misses` followed.

A larger pool saves at most the writes of pages that it would not have evicted: pages that the server wrote, evicted and
read again, at a depth in the list of evicted pages (eviction_depths.py) within the added frames. Pages that came back
without a read have no depth, and count as if any larger pool had kept them. So a larger pool writes at most as many
pages as the present pool, and at least that number minus the saved writes. Between the two, the server's checkpoints
decide: a page that stays in the pool and is changed again is written when the change is old. A smaller pool evicts a
page for each further read, and each of these evictions may need a write. Writes of the log and of copies (doublewrite
buffer) are not counted. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bufferlab.live import constants
from bufferlab.live.bounds import Counted, Floats, PoolFacts, SizeEstimate, scatter
from bufferlab.live.eviction_depths import Distances
from bufferlab.live.live_trace import Recorded
from bufferlab.traces.page_trace import Columns, number_of


def written_before(columns: Columns) -> NDArray[np.int64]:
    """Return, for each row in which a page enters the pool, how often the page was written in its previous stay; 0 for
    other rows.

    A page enters by a read or a creation. A stay begins when the page enters (or the record begins), and ends with its
    eviction. The number is 0 if no eviction was recorded.
    """
    order = np.argsort(columns["page"], kind="stable")
    page, kind = columns["page"][order], columns["kind"][order]
    row = np.arange(len(page))
    written = np.concatenate(([0], np.cumsum(kind == number_of("write"))))

    def last(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return, for each row, the last marked row up to it; -1 if there is none."""
        found: NDArray[np.int64] = np.maximum.accumulate(np.where(which, row, -1))
        return found

    first = last(np.diff(page.astype(np.int64), prepend=-1) != 0)
    # A stay begins after the row in which the page entered. If it entered before the record began, use the page's first
    # row.
    comes = (kind == number_of("read")) | (kind == number_of("create"))
    came, left = last(comes), last(kind == number_of("evict"))
    begin = np.where(came >= first, came + 1, first)
    rows = row[comes]
    evicted = left[rows]
    writes = written[evicted] - written[begin[evicted]]
    found = np.zeros(len(page), np.int64)
    found[order[rows]] = np.where(evicted >= first[rows], writes, 0)
    return found


@dataclass(frozen=True)
class Stays:
    """The writes of pages that were evicted and came back to the pool, over all windows of the tier `misses`."""

    found: Distances
    before_read: NDArray[np.int64]
    """For each read, the number of writes of its page in the page's previous stay in the pool."""
    before_creation: int
    """The number of writes in the previous stays of all pages that came back without a read."""
    writes: int
    """The number of all recorded write calls of pages."""
    seconds: float

    @classmethod
    def of(cls, windows: Sequence[Recorded], found: Distances) -> Stays:
        """Return the writes in these windows; `found` has the depths of their reads."""
        before = [written_before(one.columns) for one in windows]
        kinds = [one.columns["kind"] for one in windows]

        def of_kind(name: str) -> NDArray[np.int64]:
            return np.concatenate([one[kind == number_of(name)] for one, kind in zip(before, kinds, strict=True)])

        return cls(
            found, of_kind("read"), int(of_kind("create").sum()), len(of_kind("write")), sum(w.seconds for w in windows)
        )

    def spared_per_s(self, more: int, reads_per_s: float) -> float | None:
        """Return an upper bound (97.5 %) of the writes per second that `more` added frames save; None if the windows
        are too short."""
        found = self.found
        if not 0 < more <= found.longest:
            return None
        slices = len(found.cut.seconds)
        # Use only the reads at which the list was long enough to show depths up to `more`.
        is_known = found.length >= more
        is_spared = is_known & (found.depth > 0) & (found.depth <= more * (1 + constants.FRAMES_ERROR))
        spared = np.bincount(found.slice[is_spared], self.before_read[is_spared], slices)
        known = np.bincount(found.slice[is_known], minlength=slices)

        def per_s(weights: Floats) -> Floats:
            return reads_per_s * np.asarray((weights @ spared) / np.maximum(weights @ known, 1e-9))

        by_reads = float(per_s(np.ones((1, slices)))[0]) + scatter(slices, per_s)
        return by_reads + self.before_creation / self.seconds


def with_writes(
    estimates: Sequence[SizeEstimate], stays: Stays | None, pool: PoolFacts, counted: Counted
) -> tuple[SizeEstimate, ...]:
    """Return the estimates with bounds of their writes. `counted` must have a time and the server's writes.

    Without `stays` larger pools have no bounds. Smaller pools have none if evicting a page may also write its
    neighbours.
    """
    assert counted.writes is not None
    present, reads_per_s = counted.writes / counted.seconds, counted.reads / counted.seconds

    def bounded(one: SizeEstimate) -> SizeEstimate:
        more = pool.frames(one.pool_size_bytes) - pool.pool_pages
        if one.cannot_say is not None or one.high is None:
            return one
        if more < 0:
            if pool.engine != "postgres" and pool.settings.get("flush_neighbors") != 0:
                return one
            added = max(0.0, one.high - reads_per_s)
            return replace(one, writes_low_per_s=present, writes_high_per_s=present + added)
        if stays is None or (spared := stays.spared_per_s(more, reads_per_s)) is None:
            return one
        # Assume that a larger pool would save all writes that the calls did not show.
        unseen = max(0.0, present - stays.writes / stays.seconds)
        return replace(one, writes_low_per_s=max(0.0, present - spared - unseen), writes_high_per_s=present)

    return tuple(map(bounded, estimates))
