"""Computes an LRU pool's misses at every size in one pass, that curve's knee and step, and the working set over time.

The knee and the step follow from the lower convex hull of the curve between the pool of one page and the pool of all
pages. A cache whose curve is its hull would have no step (Beckmann and Sanchez, "Talus: A simple way to remove cliffs
in cache performance", HPCA 2015); LRU has a step where its curve lies far above the hull. The knee is the corner
farthest below the chord, as in Satopää, Albrecht, Irwin and Raghavan, "Finding a Kneedle in a Haystack", 2011, but
without smoothing: the curve is exact. `_KNEE_SHARE` and `_STEP_SHARE` are bufferlab's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines.native import native
from bufferlab.traces.page_trace import Accesses, rows_within

if TYPE_CHECKING:
    from bufferlab.results.page_traces import PagesOfObject

#: The number of accesses between two reports of progress; they take a tenth of a second.
_CHUNK = 1 << 21
_PARTS = 50
#: The least depth of a knee, and the least height of a step, as fractions of the curve's total fall in misses.
_KNEE_SHARE, _STEP_SHARE = 0.05, 0.5


@dataclass(frozen=True)
class CurveStep:
    """A pool size at which the misses drop abruptly: a slightly smaller pool misses about as often as a tiny one."""

    pages: int
    misses_below: int
    """The misses of a pool that is one page smaller."""
    misses: int


@dataclass(frozen=True)
class MissCurve:
    """Misses of LRU pools, from the accesses inside a window; the accesses before it only warm the pool."""

    PRINTED: ClassVar = ("accesses", "pages", "knee_pages", "step")

    misses: NDArray[np.uint64]
    """The misses by pool size: `misses[n]` is for a pool of n pages, from 0 to all touched pages."""

    @property
    def accesses(self) -> int:
        """Return the number of counted gets, which a pool of no pages misses all."""
        return int(self.misses[0])

    @property
    def pages(self) -> int:
        """Return the number of distinct pages touched before the window or in it."""
        return len(self.misses) - 1

    @cached_property
    def knee_pages(self) -> int | None:
        """The corner of the hull that is farthest below the chord of its ends; None if no corner is far below.

        "Far" means at least 5 % of the curve's total fall: the gets that miss with one page and hit with all pages.
        """
        if self.pages < 3 or not self._fall:
            return None
        below = -_above_chord(self.misses[1:])
        at = int(below.argmax())
        return at + 1 if below[at] >= _KNEE_SHARE * self._fall * (self.pages - 1) else None

    @cached_property
    def step(self) -> CurveStep | None:
        """The size at which the curve falls abruptly by at least half of its total fall; None without such a size.

        There the curve lies above one edge of its hull by at least that much.
        """
        least, edges = _STEP_SHARE * self._fall, [(1, self.pages)] if self._fall else []
        while edges:
            left, right = edges.pop()
            if right - left < 2 or int(self.misses[left]) - int(self.misses[right]) < least:
                continue
            above = _above_chord(self.misses[left : right + 1])
            corner = left + int(above.argmin())
            if left < corner < right:
                edges += [(left, corner), (corner, right)]
            elif above.max() >= least * (right - left):
                return CurveStep(right, int(self.misses[right - 1]), int(self.misses[right]))
        return None

    @property
    def _fall(self) -> int:
        """Return the curve's total fall: the gets that miss in a pool of one page and hit in one of all pages."""
        return int(self.misses[min(1, self.pages)]) - int(self.misses[-1])


def _above_chord(misses: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return each miss count's height above the line between the first and the last, times the line's length.

    These are whole numbers, below 2^61: 2^32 accesses of 2^29 pages.
    """
    counts, length = misses.astype(np.int64), len(misses) - 1
    above: NDArray[np.int64] = (counts - counts[0]) * length + (counts[0] - counts[-1]) * np.arange(length + 1)
    return above


def curve(
    accesses: Accesses,
    window_s: tuple[float, float] | None,
    progress: Callable[[float], None],
    one: PagesOfObject | None = None,
) -> MissCurve:
    """Return the curve of the accesses; `progress` gets the completed fraction, from 0 to 1.

    Only misses between the two seconds in `window_s` count. If `one` is given, only the gets of this table or index
    count; pages of the others still occupy the pool.
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
    """Return for each table or index its gets, and its misses in shared LRU pools of `sizes` pages.

    Makes one pass for each table or index.
    """
    found = {}

    def so_far(place: int, done: float) -> None:
        progress((place + done) / len(accesses.objects))

    for place, one in enumerate(accesses.objects):
        misses = curve(accesses, window_s, partial(so_far, place), one).misses
        found[one.name] = [int(misses[size]) for size in (0, *sizes)]
    return found


def working_set(accesses: Accesses) -> tuple[NDArray[np.float64], NDArray[np.uint32]]:
    """Divide the trace into equal time intervals; return their ends in seconds, and the pages touched in each."""
    page, time_s = accesses.touches.page, accesses.touches.time_s
    ends = np.linspace(time_s[0], time_s[-1], _PARTS + 1)[1:]
    edges = [0, *np.searchsorted(time_s, ends[:-1], "right").tolist(), len(page)]
    # Process one interval after another, because the counts of each interval need an array entry for every page.
    there = [np.count_nonzero(np.bincount(page[first:last])) for first, last in pairwise(edges)]
    return ends, np.array(there, np.uint32)
