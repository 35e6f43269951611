"""Computes an LRU pool's misses at every size, in one pass of the core; its knee; the working set over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines.native import native
from bufferlab.traces.accesses import Accesses

#: Accesses between two reports of progress: a tenth of a second's work.
_CHUNK = 1 << 21
_PARTS = 50


@dataclass(frozen=True)
class MissCurve:
    """Misses of LRU pools, from the accesses inside a window; those before it only warm the pool."""

    misses: NDArray[np.uint64]
    """[n]: misses of a pool of n pages, from 0 to all pages that were touched."""

    @property
    def accesses(self) -> int:
        """Return the gets that were counted: a pool of no pages misses them all."""
        return int(self.misses[0])

    @property
    def pages(self) -> int:
        """Return the pages touched, before or in the window."""
        return len(self.misses) - 1

    @property
    def knee_pages(self) -> int:
        """Return the size below which misses rise fastest: where the curve is farthest below its chord.

        The chord joins the pool of one page and the pool of all (Satopää, Albrecht, Irwin, Raghavan: "Finding a
        Kneedle in a Haystack", 2011, without smoothing: the curve is exact).
        """
        if self.pages < 2:
            return self.pages
        below = np.linspace(float(self.misses[1]), float(self.misses[-1]), self.pages) - self.misses[1:]
        return int(below.argmax()) + 1


def curve(accesses: Accesses, window_s: tuple[float, float] | None, progress: Callable[[float], None]) -> MissCurve:
    """Return the curve of the accesses; `progress` hears the share that is done, from 0 to 1.

    `window_s` has the first and the last second whose misses count.
    """
    pages, counted = accesses.page, accesses.counted
    if window_s:
        first = np.searchsorted(accesses.time_s, window_s[0])
        last = np.searchsorted(accesses.time_s, window_s[1], "right")
        pages, counted = pages[:last], counted[:last].copy()
        counted[:first] = 0
    done = native().Curve(accesses.pages)
    for start in range(0, len(pages), _CHUNK):
        done.feed(pages[start : start + _CHUNK], counted[start : start + _CHUNK])
        progress(min(1.0, (start + _CHUNK) / len(pages)))
    return MissCurve(np.frombuffer(done.misses(), np.uint64))


def misses_of_objects(
    accesses: Accesses,
    window_s: tuple[float, float] | None,
    sizes: Sequence[int],
    progress: Callable[[float], None],
) -> dict[str, list[int]]:
    """Return the gets of each table or index, and its misses in LRU pools of `sizes` pages that all share.

    One pass for each object: pages of the others warm the pool and do not count.
    """
    found = {}

    def so_far(place: int, done: float) -> None:
        progress((place + done) / len(accesses.objects))

    for place, one in enumerate(accesses.objects):
        inside = (accesses.page >= one.first_page) & (accesses.page < one.first_page + one.pages)
        alone = replace(accesses, counted=accesses.counted * inside)
        misses = curve(alone, window_s, partial(so_far, place)).misses
        found[one.name] = [int(misses[size]) for size in (0, *sizes)]
    return found


def working_set(accesses: Accesses) -> tuple[NDArray[np.float64], NDArray[np.uint32]]:
    """Return the ends of equal parts of the trace, in seconds, and the number of pages touched in each part."""
    start, end = accesses.time_s[0], accesses.time_s[-1]
    ends = np.linspace(start, end, _PARTS + 1)[1:]
    edges = [0, *np.searchsorted(accesses.time_s, ends[:-1], "right").tolist(), len(accesses.page)]
    there = [np.bincount(accesses.page[first:last]) for first, last in pairwise(edges)]
    return ends, np.array([np.count_nonzero(pages) for pages in there], np.uint32)
