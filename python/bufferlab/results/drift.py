"""Compares counts per transaction in the first and the last third of the measured window.

Before the window, a gate decides that the pool is warm. This module tests afterwards whether the pool was warm. If a
count drifts, its mean depends on the length of the warm-up, not only on the point's settings. All functions are pure:
they take samples and return numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bufferlab.results.window import Window

if TYPE_CHECKING:
    import polars as pl

    from bufferlab.results.timeline import Instant

#: The least number of misses, or of pages read from the device, in a third of a window. Fewer scatter too much to be
#: compared.
MIN_MISSES = 1000
DEVICE_PAGE_BYTES = 8192
_THIRD = 1 / 3
LATE_FITS = 5
"""The least length of a third, as a multiple of the maximum delay with which an engine publishes its counts."""
#: The engine's own counters of transactions are used if they have at least this share of the drivers' count. They can
#: have less, because a script need not commit.
_ALL = 0.99
#: The drivers' counters of transactions, by type.
WORK = ("transactions_committed", "transactions_rolled_back")


def drift(samples: pl.DataFrame, own_work: Sequence[str] = (), late_s: float = 0.0) -> float | None:
    """Return misses per transaction in the window's last third, divided by those in its first third.

    The result is None if a third has fewer than MIN_MISSES, or samples are too sparse. `own_work` are the engine's
    counters of transactions, read at the same moment as its misses. A driver reports its count later, when its
    transaction has ended. At the edges drivers are stopped, so their counts are exact there. Inside the window drivers
    report about one transaction too many for each connection. On MySQL 5.7 with 8 connections, that made the ratio 1.7
    % too large in 15 windows of 3,000 transactions, and 0.7 % in 20 windows of 8,000.

    An engine publishes its counts up to `late_s` seconds late, except at the edges. If a third is shorter than
    LATE_FITS times that, the result is None: windows of 2 s without drift had a ratio of 2.3 (PostgreSQL 18.0).
    """
    return _drift(samples, "demand_misses", 1, own_work, late_s)


def device_drift(samples: pl.DataFrame) -> float | None:
    """Return the ratio of `drift` for pages that a server read from storage. The kernel counts these without delay.

    A page counts as 8 KiB.
    """
    return _drift(samples, "server_read_bytes", DEVICE_PAGE_BYTES, ())


def _drift(samples: pl.DataFrame, metric: str, unit: int, own_work: Sequence[str], late_s: float = 0.0) -> float | None:
    import polars as pl

    from bufferlab.results.timeline import measured_instants, part

    if not (samples["metric"] == metric).any():  # Skip a missing metric: most engines lack one of the two.
        return None
    points = measured_instants(samples.filter(pl.col("metric").is_in([metric, *own_work, *WORK])))
    if len(points) < 3 or (points[-1].t_s - points[0].t_s) * _THIRD < LATE_FITS * late_s:
        return None
    whole = part(points, 0.0, 1.0)
    work = own_work if own_work and _total(whole, own_work) >= _ALL * _total(whole, WORK) else WORK
    first, last = (_per_transaction(points, start, metric, unit, work) for start in (0.0, 1 - _THIRD))
    return None if first is None or last is None else last / first


def _per_transaction(
    points: Sequence[Instant], start: float, metric: str, unit: int, work: Sequence[str]
) -> float | None:
    from bufferlab.results.timeline import part

    window = part(points, start, start + _THIRD)
    count = window.change(metric).value
    done = _total(window, work)
    return count / unit / done if count is not None and count / unit >= MIN_MISSES and done else None


def _total(window: Window, metrics: Sequence[str]) -> float:
    return sum(window.change(metric).value or 0.0 for metric in metrics)
