"""Windows cut from recorded runs without drift pass the check, and drifts planted in them fail it.

`tests/fixtures/steady-misses.csv` has six runs of TPC-C on MySQL 9.7.4 (1 warehouse, pool 10 MiB of 4 KiB pages,
innodb_lru_scan_depth 128, 1024 and 4096, 8 connections, a sample each 100 ms): demand misses over transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import polars as pl
import pytest

from bufferlab.results.check_parts import MeasuredRun, stood_still
from bufferlab.results.drift import drift

RECORDED = pl.read_csv(Path(__file__).parents[1] / "fixtures/steady-misses.csv")
#: Transactions in a window of `scan-depth --quick`, and in a second on an idle host.
WINDOW, A_SECOND = 1_500, 750
LEVEL, FALLS, RISES = (1.0, 1.0, 1.0), (1.5, 1.2, 1.0), (1.0, 1.25, 1.5)


def windows(
    transactions: int, step: int, rates: tuple[float, float, float] = LEVEL, late: int = 0
) -> Iterator[tuple[float, float]]:
    """Yield drift and misses of windows that begin `step` transactions apart, with their misses scaled by thirds.

    Samples inside the window count `late` transactions too many.
    """
    for _, rows in RECORDED.group_by("run", maintain_order=True):
        done, misses = rows["transactions"].to_numpy(), rows["misses"].to_numpy()
        for first in range(0, int(done[-1]) - transactions, step):
            grid = np.linspace(0, transactions, 301)
            rising = np.diff(np.interp(first + grid, done, misses)) * np.repeat(rates, 100)
            counted = np.concatenate([[0.0], np.cumsum(rising)])
            at = np.array([0, *range(first * 7 % A_SECOND + 1, transactions, A_SECOND), transactions])
            ratio = drift(sampled(at, np.interp(at, grid, counted), late))
            assert ratio is not None
            yield ratio, float(counted[-1])


def sampled(transactions: np.ndarray, misses: np.ndarray, late: int) -> pl.DataFrame:
    """Return the samples of a window at these counts."""
    last, rows = len(transactions) - 1, []
    for place, (done, missed) in enumerate(zip(transactions.tolist(), misses.tolist(), strict=True)):
        edge = {0: "start", last: "end"}.get(place)
        for metric, count in (("demand_misses", missed), ("transactions_committed", done if edge else done + late)):
            rows.append((done / A_SECOND, "measure", edge, metric, "", int(count), None, None, "engine"))
    names = ("t_s", "phase", "edge", "metric", "subject", "count", "value", "reason", "probe")
    return pl.DataFrame(rows, schema=list(names), orient="row", infer_schema_length=None)


def failed(transactions: int, ratio: float, misses: float) -> bool:
    """Return whether the check fails a run with this drift."""
    point = SimpleNamespace(index=0, label="x")
    run = cast("MeasuredRun", SimpleNamespace(run=SimpleNamespace(point=point, database=None)))
    found = stood_still("x", "x", "misses", [(run, ratio, misses / 3)], mixed=lambda _: transactions / 3)
    return found.status == "failed"


@pytest.mark.parametrize("transactions", [WINDOW, 3_000])
def test_one_recorded_window_in_a_hundred_at_most_is_taken_for_one_that_drifts(transactions: int) -> None:
    found = list(windows(transactions, 150))
    assert len(found) > 150
    assert sum(failed(transactions, *window) for window in found) <= 0.01 * len(found)


def test_without_the_mix_and_with_late_counts_one_short_window_in_fifteen_would_be_accused() -> None:
    """Drivers of eight connections count about eight transactions too many: alone, that looks like a rise of 3 %."""
    found = list(windows(WINDOW, 150, late=8))
    assert np.mean([ratio for ratio, _ in found]) == pytest.approx(1.03, abs=0.01)
    assert sum(failed(0, *window) for window in found) > len(found) / 15


@pytest.mark.parametrize("transactions", [WINDOW, 3_000])
@pytest.mark.parametrize("rates", [FALLS, RISES])
def test_misses_that_fall_by_a_third_or_rise_by_half_are_found_in_nearly_every_window(
    transactions: int, rates: tuple[float, float, float]
) -> None:
    found = list(windows(transactions, 300, rates))
    assert sum(failed(transactions, *window) for window in found) >= 0.98 * len(found)
