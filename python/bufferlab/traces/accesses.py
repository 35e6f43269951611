"""Holds page accesses in their order: one array per column, pages numbered densely. Reads no file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bufferlab.results.schema import PagesOfObject


@dataclass(frozen=True)
class MeasuredPool:
    """The pool of a run, and the misses that its engine counted in the measured window."""

    pages: int
    misses: int


@dataclass(frozen=True)
class Accesses:
    """Accesses to pages, in their order; all arrays are of one length."""

    page: NDArray[np.uint32]
    """Pages, numbered from 0 without a gap."""
    counted: NDArray[np.uint8]
    """1 for a get. 0 for a creation: the page is in the pool afterwards, and nothing was read.

    2 for a get that every pool misses: its page had to leave them all, because a transaction was rolled back.
    """
    time_s: NDArray[np.float64]
    """Seconds since some moment; they never run backwards."""
    page_size_bytes: int | None
    """Bytes of a page, where the file tells."""
    window_s: tuple[float, float] | None = None
    """The first and the last second of a run's measured window."""
    objects: tuple[PagesOfObject, ...] = ()
    """The tables and indexes of a run's database."""
    measured: MeasuredPool | None = None
    """The pool from which a run's accesses come."""

    @property
    def pages(self) -> int:
        """Return the number of pages touched."""
        return int(self.page.max()) + 1 if len(self.page) else 0

    @property
    def gets(self) -> int:
        """Return the number of accesses whose miss is a read."""
        return int(np.count_nonzero(self.counted))
