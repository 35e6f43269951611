"""Computes an LRU pool's misses at every size, in one pass of the core; its knee; the working set over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines.native import native
from bufferlab.results.page_traces import PagesOfObject
from bufferlab.traces.page_trace import Accesses, rows_within

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


def curve(
    accesses: Accesses,
    window_s: tuple[float, float] | None,
    progress: Callable[[float], None],
    one: PagesOfObject | None = None,
) -> MissCurve:
    """Return the curve of the accesses; `progress` hears the share that is done, from 0 to 1.

    `window_s` has the first and the last second whose misses count. With `one`, a table or index, only its own gets
    count; pages of the others warm the pool.
    """
    first, end = rows_within(accesses.time_s, window_s) if window_s else (0, len(accesses.page))
    pages = (one.first_page, one.first_page + one.pages) if one else (0, accesses.pages)
    done = native().Curve(accesses.pages, *pages)
    for start in range(0, end, _CHUNK):
        chunk = slice(start, min(start + _CHUNK, end))
        done.feed(accesses.page[chunk], accesses.kind[chunk], max(0, first - start))
        progress(min(1.0, (start + _CHUNK) / end))
    return MissCurve(np.frombuffer(done.misses(), np.uint64))


def misses_of_objects(
    accesses: Accesses,
    window_s: tuple[float, float] | None,
    sizes: Sequence[int],
    progress: Callable[[float], None],
) -> dict[str, list[int]]:
    """Return the gets of each table or index, and its misses in LRU pools of `sizes` pages that all share.

    One pass for each object.
    """
    found = {}

    def so_far(place: int, done: float) -> None:
        progress((place + done) / len(accesses.objects))

    for place, one in enumerate(accesses.objects):
        misses = curve(accesses, window_s, partial(so_far, place), one).misses
        found[one.name] = [int(misses[size]) for size in (0, *sizes)]
    return found


def working_set(accesses: Accesses) -> tuple[NDArray[np.float64], NDArray[np.uint32]]:
    """Return the ends of equal parts of the trace, in seconds, and the number of pages touched in each part."""
    page, time_s = accesses.touches.page, accesses.touches.time_s
    ends = np.linspace(time_s[0], time_s[-1], _PARTS + 1)[1:]
    edges = [0, *np.searchsorted(time_s, ends[:-1], "right").tolist(), len(page)]
    # The counts of one part at a time: they are as long as all pages.
    there = [np.count_nonzero(np.bincount(page[first:last])) for first, last in pairwise(edges)]
    return ends, np.array(there, np.uint32)
