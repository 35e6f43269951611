"""Advice from one window of a real MySQL 5.7.22, compared with its reads in other pools, three measured runs each.

The window is that of the traced run in `tests/fixtures/prediction`, TPC-C with a pool of 30 %; the runs are in the same
folder.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bufferlab.live.bounds import Counted, PoolFacts, SizeEstimate
from bufferlab.live.live_trace import Recorded
from bufferlab.live.size_estimates import answer
from bufferlab.models import source
from bufferlab.models.source import Source
from bufferlab.registry import open_sweep
from bufferlab.results.window import Window
from bufferlab.traces.page_trace import number_of

FIXTURES = Path(__file__).parents[1] / "fixtures/prediction"
OF_MISSES = [number_of(kind) for kind in ("create", "read", "evict")]
SETTINGS = {"lru_scan_depth": 100, "old_blocks_time": 0}
"""The settings of all these runs that differ from the server's defaults."""


@pytest.fixture(scope="module")
def traced() -> Source:
    return source.read(FIXTURES / "traced")


@pytest.fixture(scope="module")
def measured() -> dict[int, list[float]]:
    """Return the reads a transaction of each run, by frames."""
    found: dict[int, list[float]] = {}
    for record in open_sweep(FIXTURES / "measured").runs():
        edges, transactions = Window.of(record.samples()), record.run.measured
        frames, reads = edges.level("pool_frames").value, edges.change("pages_read").value
        assert frames
        assert reads
        assert transactions
        found.setdefault(int(frames), []).append(reads / transactions.transactions)
    return found


def _advised(traced: Source, tier: str, frames: list[int]) -> list[tuple[float, float, float] | None]:
    """Return the advised reads a transaction with their bounds for each size; None for a size without an answer."""
    first, end = traced.trace.window
    columns = {name: np.ascontiguousarray(column[first:end]) for name, column in traced.trace.columns.items()}
    if tier == "misses":
        kept = np.isin(columns["kind"], OF_MISSES)
        at_us = np.cumsum(columns["delta_us"], dtype=np.int64)[kept]
        columns = {name: column[kept] for name, column in columns.items()}
        columns["delta_us"] = np.diff(at_us, prepend=0).astype(np.uint32)
    first_ns, end_ns = traced.trace.window_ns
    seconds, transactions = (end_ns - first_ns) / 1e9, traced.trace.work["transaction"]
    pages = np.arange(traced.trace.columns["page"].max() + 1, dtype=np.uint32)
    window = Recorded(tier, columns, np.zeros_like(pages), pages, seconds, "whole")  # type: ignore[arg-type]
    version = traced.server.version
    pool = PoolFacts("mysql", "innodb57", SETTINGS, traced.page_size_bytes, traced.frames, version=version)
    counted = Counted(seconds, traced.trace.counted("read")[0], 0, transactions, "transaction")
    told = answer([window], pool, counted, [size * traced.page_size_bytes for size in frames], None)
    times = seconds / transactions
    return [_of(one, times) for one in told]


def _of(one: SizeEstimate, times: float) -> tuple[float, float, float] | None:
    if one.reads_per_s is None:
        return None
    assert one.low is not None
    assert one.high is not None
    return one.reads_per_s * times, one.low * times, one.high * times


@pytest.mark.parametrize(("tier", "frames"), [("misses", [2240, 2816]), ("full", [512, 1088, 2240])])
def test_bounds_hold_what_the_server_read_in_other_pools(
    traced: Source, measured: dict[int, list[float]], tier: str, frames: list[int]
) -> None:
    for size, told in zip(frames, _advised(traced, tier, frames), strict=True):
        assert told is not None, size
        value, low, high = told
        runs = measured[size]
        assert all(low <= one <= high for one in runs), (size, told, runs)
        assert value == pytest.approx(np.mean(runs), rel=0.06), size


def test_misses_tell_nothing_of_smaller_pools_nor_of_one_beyond_what_the_window_saw(traced: Source) -> None:
    assert _advised(traced, "misses", [512, 6000]) == [None, None]
