"""Counts gets and distinct pages in a traced run's measured window, by table and index.

A trace does not record where a transaction ends, so equal numbers of accesses stand for equal numbers of transactions.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bufferlab.results.page_traces import STRETCHES, ObjectTouches, Touches
from bufferlab.traces.page_trace import TOUCHES, RunTrace, number_of


def touches(trace: RunTrace) -> list[ObjectTouches]:
    """Return the touches of each object of the run's database, in the order of their pages."""
    transactions, objects = trace.work["transaction"], sorted(trace.stored.objects, key=lambda one: one.first_page)
    rows = trace.table[slice(*trace.window)]
    kinds = rows["kind"].to_physical().to_numpy()
    pages = rows["page"].to_numpy()[np.isin(kinds, [number_of(name) for name in TOUCHES])].astype(np.int64)
    # The pages above the leaves of each object come first, then its other pages.
    starts = np.array([one.first_page + below for one in objects for below in (0, one.interior or 0)])
    gets = _by_object(pages, starts) / transactions
    distinct = {
        stretch: _distinct(pages, starts, stretch / transactions) for stretch in STRETCHES if stretch <= transactions
    }

    def of(places: slice) -> Touches:
        counted = {stretch: float(mean[places].sum()) for stretch, mean in distinct.items()}
        return Touches(gets=float(gets[places].sum()), pages=counted)

    return [
        ObjectTouches(
            name=one.name,
            **dict(of(slice(2 * place, 2 * place + 2))),
            interior=None if one.interior is None else of(slice(2 * place, 2 * place + 1)),
        )
        for place, one in enumerate(objects)
    ]


def _by_object(pages: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many of the pages belong to each object; pages before the first one's belong to none."""
    return np.bincount(np.searchsorted(starts, pages, side="right"), minlength=len(starts) + 1)[1:]


def _distinct(pages: NDArray[np.int64], starts: NDArray[np.int64], share: float) -> NDArray[np.float64]:
    """Return the mean number of distinct pages of each object in stretches, each this `share` of the accesses."""
    count = int(1 / share + 1e-9)
    edges = np.round(np.arange(count + 1) * share * len(pages)).astype(int)
    found = np.zeros(len(starts))
    for first, end in pairwise(edges):
        found += _by_object(np.unique(pages[first:end]), starts)
    return found / count
