"""Attaches page changes in PostgreSQL's page traces to the get after which the session made them.

A session pins a page from its get until after its change, so the change may be recorded as a mark of the get. A change
stays a separate access only if its get is not among the given accesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bufferlab.results.trace_words import page_trace_words

CHANGED, HINTED = 32, 64
"""The bits of the column latch for a changed page and for hint bits (crates/bufferlab-model/src/trace.rs)."""
BY_CHANGE = 1
"""The value of the column latch for a change that is a separate access."""
_Records = np.ndarray[Any, Any]


def _number_of(kind: str) -> int:
    return page_trace_words().kinds.index(kind)


def changes_joined(records: _Records) -> _Records:
    """Return the records; each change becomes a mark of the last get or creation of the page by the same thread."""
    kind = records["kind"]
    is_dirty = kind == _number_of("dirty")
    if not is_dirty.any():
        return records
    is_get = np.isin(kind, [_number_of("get"), _number_of("create")])
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
    alone = (kind == _number_of("dirty")) & (latch == BY_CHANGE)
    gets = np.isin(kind, [_number_of("get"), _number_of("create")])
    return int(np.count_nonzero(alone) + np.count_nonzero(gets & (latch & CHANGED != 0)))
