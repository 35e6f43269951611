"""The page changes in page traces: attaches PostgreSQL's changes to gets, and counts the changes of a trace.

A session pins a page from its get until after its change, so the change may be recorded as a mark of the get. A change
stays a separate access only if its get is not among the given accesses.

On other servers a change is an access under a latch that allows the thread to change the page. The traced server's
position in the redo log is estimated from the counted changes, as if all wrote equally many bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from bufferlab.results.window import MEASURE
from bufferlab.traces.page_trace import RunTrace, number_of

CHANGED, HINTED = 32, 64
"""The bits of the column latch for a changed page and for hint bits (crates/bufferlab-model/src/trace.rs)."""
BY_CHANGE = 1
"""The value of the column latch for a change that is a separate access."""
_Records = np.ndarray[Any, Any]


def changes_joined(records: _Records) -> _Records:
    """Return the records; each change becomes a mark of the last get or creation of the page by the same thread."""
    kind = records["kind"]
    is_dirty = kind == number_of("dirty")
    if not is_dirty.any():
        return records
    is_get = np.isin(kind, [number_of("get"), number_of("create")])
    rows = np.flatnonzero(is_dirty | is_get)
    some = records[rows]
    key = _key(some)
    order = np.argsort(key, kind="stable")
    rows, some, key = rows[order], some[order], key[order]
    places = np.arange(len(rows))
    is_new = np.append(True, key[1:] != key[:-1])
    begins = np.maximum.accumulate(np.where(is_new, places, 0))
    gets = np.maximum.accumulate(np.where(is_get[rows], places, -1))
    joined = is_dirty[rows] & (gets >= begins)
    marked = records.copy()
    by_change = some["latch"] == BY_CHANGE
    for mark, which in ((CHANGED, joined & by_change), (HINTED, joined & ~by_change)):
        marked["latch"][rows[gets[which]]] |= mark
    return np.delete(marked, rows[joined])


def _key(records: _Records) -> NDArray[np.uint64]:
    """Return numbers that are equal for accesses of one page by one thread, and differ otherwise."""
    page, objects, threads = (records[name].astype(np.uint64) for name in ("page", "object", "thread"))
    bits = int(objects.max()).bit_length()
    if 32 + bits + int(threads.max()).bit_length() > 64:
        _, objects = np.unique(objects << np.uint64(32) | threads, return_inverse=True)
        objects = np.asarray(objects, np.uint64)
        return np.asarray(objects << np.uint64(32) | page, np.uint64)
    return np.asarray((threads << np.uint64(bits) | objects) << np.uint64(32) | page, np.uint64)


def changes_in(columns: Mapping[str, NDArray[Any]], first: int, end: int) -> int:
    """Return how many changes these rows of a page trace hold, as marks or separate accesses, without hint bits."""
    kind, latch = (columns[name][first:end] for name in ("kind", "latch"))
    alone = (kind == number_of("dirty")) & (latch == BY_CHANGE)
    gets = np.isin(kind, [number_of("get"), number_of("create")])
    return int(np.count_nonzero(alone) + np.count_nonzero(gets & (latch & CHANGED != 0)))


@dataclass(frozen=True)
class Changes:
    """The page changes in a page trace."""

    trace: RunTrace
    so_far: npt.NDArray[np.uint32]
    """Row of the trace -> number of changes up to and including it."""
    unknown_share: float
    """The share of the window's gets whose latch the trace does not show."""

    @property
    def window(self) -> tuple[int, int]:
        """Return the number of changes before the measured window, and the number up to its end."""
        before, up_to_end = (int(self.so_far[row - 1]) if row else 0 for row in self.trace.window)
        return before, up_to_end

    @property
    def in_window(self) -> int:
        """Return the number of changes in the measured window."""
        before, up_to_end = self.window
        return up_to_end - before

    def course(self, gauge: str) -> list[tuple[float, int, float]]:
        """Return a gauge's samples as (seconds since the trace's first access, number of changes so far, value)."""
        import polars as pl

        samples = self.trace.samples
        starts = samples.filter((pl.col("phase") == MEASURE) & (pl.col("edge") == "start"))["t_s"]
        if starts.is_empty() or not len(self.so_far):
            return []
        # Convert sample times to the trace's clock by the window's start, whose time is known on both clocks.
        rows = samples.filter((pl.col("metric") == gauge) & pl.col("value").is_not_null()).sort("t_s")
        times_s = rows["t_s"].to_numpy() - float(starts[0]) + self.trace.window_s[0]
        ends_us = self.trace.table["delta_us"].to_numpy().cumsum(dtype=np.uint64)
        places = np.searchsorted(ends_us, np.maximum(times_s, 0.0) * 1e6, side="right")
        counts = [int(self.so_far[place - 1]) if place else 0 for place in places.tolist()]
        return list(zip(times_s.tolist(), counts, rows["value"].to_list(), strict=True))


def changes_of(trace: RunTrace, latches: AbstractSet[int]) -> Changes:
    """Return the changes of a trace: new pages, and gets under one of `latches` (the engine's numbers for them)."""
    columns = trace.columns
    kind = columns["kind"]
    gets = np.isin(kind, [number_of("get"), number_of("get_if_in_pool")])
    is_change = (gets & np.isin(columns["latch"], sorted(latches))) | (kind == number_of("create"))
    window = slice(*trace.window)
    of_window, latches_of_window = kind[window] == number_of("get"), columns["latch"][window]
    unknown, all_gets = int((of_window & (latches_of_window == 0)).sum()), int(of_window.sum())
    return Changes(trace, np.cumsum(is_change, dtype=np.uint32), unknown / max(1, all_gets))
