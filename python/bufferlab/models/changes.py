"""Counts the page changes in a page trace: accesses under a latch that allows the thread to change the page.

The traced server's position in the redo log is estimated from them, as if all changes wrote equally many bytes.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bufferlab.results.window import MEASURE
from bufferlab.traces.page_trace import RunTrace, number_of


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
