"""Holds page accesses in their order: one array per column, pages numbered densely. Reads no file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Accesses:
    """Accesses to pages, in their order; all arrays are of one length."""

    page: NDArray[np.uint32]
    """Pages, numbered from 0 without a gap."""
    counted: NDArray[np.uint8]
    """1 for a get. 0 for a creation: the page is in the pool afterwards, and nothing was read."""
    time_s: NDArray[np.float64]
    """Seconds since some moment; they never run backwards."""
    page_size_bytes: int | None
    """Bytes of a page, where the file tells."""

    @property
    def pages(self) -> int:
        """Return the number of pages touched."""
        return int(self.page.max()) + 1 if len(self.page) else 0

    @property
    def gets(self) -> int:
        """Return the number of accesses whose miss is a read."""
        return int(self.counted.sum(dtype=np.int64))
