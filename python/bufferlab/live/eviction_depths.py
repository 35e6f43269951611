"""Computes the depth of each read in the list of evicted pages: the number of added frames with which the page would
still be in the pool.

The list is implemented in crates/bufferlab-sim, ghost_list.rs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines.native import native
from bufferlab.live import constants
from bufferlab.live.bounds import Cut, Floats, cut
from bufferlab.live.live_trace import Recorded
from bufferlab.traces.page_trace import number_of

BY_RING = np.iinfo(np.uint32).max


@dataclass(frozen=True)
class Distances:
    """The depth of each read in the list of evicted pages, in time order."""

    depth: NDArray[np.int64]
    """For each read, its page's depth in the list; 0 if the list lacks it, `BY_RING` if a ring evicted it."""
    length: NDArray[np.int64]
    """For each read, the length of the list before it."""
    slice: NDArray[np.int64]
    """For each read, the number of the time slice that contains it."""
    cut: Cut
    second: Floats
    """For each read, its time in seconds since its window began."""
    moved: NDArray[np.bool_]
    """For each read, whether its page's eviction was not recorded.

    The page then counts as evicted just before the read.
    """

    @property
    def cold(self) -> NDArray[np.bool_]:
        """Return, for each read, whether its page was not in the list."""
        return np.equal(self.depth, 0)

    @cached_property
    def longest(self) -> int:
        """Return the largest number of added frames that can be judged: the list was this long at enough reads."""
        least = max(constants.LEAST_READS, int(np.ceil(constants.LONGEST_SHARE * len(self.length))))
        return int(np.sort(self.length)[-least]) if len(self.length) >= least else 0


def distances(windows: Sequence[Recorded], ring_reads: int) -> Distances:
    """Return the depths of all reads; each window begins with an empty list."""
    found, first = cut(windows), 0
    depth, length, number, second, moved = [], [], [], [], []
    for window, ends in zip(windows, found.ends, strict=True):
        told, lengths_told = native().ghost_depths(ring_reads, **window.columns)
        rows = np.flatnonzero(window.columns["kind"] == number_of("read"))
        depth.append(np.frombuffer(told, np.uint32)[rows])
        length.append(np.frombuffer(lengths_told, np.uint32)[rows])
        number.append(first + np.searchsorted(ends, rows, "right"))
        second.append(np.cumsum(window.columns["delta_us"], dtype=np.float64)[rows] / 1e6)
        moved.append(np.zeros(len(rows), bool) if window.moved is None else window.moved[rows])
        first += len(ends)
    depths, lengths, numbers = (np.concatenate(one).astype(np.int64) for one in (depth, length, number))
    return Distances(depths, lengths, numbers, found, np.concatenate(second), np.concatenate(moved))
