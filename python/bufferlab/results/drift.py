"""Tests whether values stood still while measured: counts per transaction in the window's first and last third.

A gate decides before the window that a pool is warm; this looks afterwards whether it was right. A value that moves
here is a property of the warm-up's length, not of the point. Pure: samples in, numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bufferlab.results.timeline import Instant, measured_instants, part

if TYPE_CHECKING:
    import polars as pl

#: A third with fewer misses than this, or fewer pages from the device, scatters too much to be compared.
MIN_MISSES = 1000
DEVICE_PAGE_BYTES = 8192
_THIRD = 1 / 3
_WORK = ("transactions_committed", "transactions_rolled_back")


def drift(samples: pl.DataFrame, late_work: Sequence[str] = ()) -> float | None:
    """Return misses per transaction in the last third of the window over those in the first; None where too few to say.

    `late_work` counts the transactions where the engine publishes misses late: then it publishes those at once.
    """
    return _drift(samples, "demand_misses", 1, late_work or _WORK)


def device_drift(samples: pl.DataFrame) -> float | None:
    """Return the same ratio for pages that a server had read from storage, which the kernel counts at once."""
    return _drift(samples, "server_read_bytes", DEVICE_PAGE_BYTES, _WORK)


def _drift(samples: pl.DataFrame, metric: str, unit: int, work: Sequence[str]) -> float | None:
    points = measured_instants(samples.filter(samples["metric"].is_in([metric, *work])))
    if len(points) < 3:
        return None
    first, last = (_per_transaction(points, start, metric, unit, work) for start in (0.0, 1 - _THIRD))
    return None if first is None or last is None else last / first


def _per_transaction(
    points: Sequence[Instant], start: float, metric: str, unit: int, work: Sequence[str]
) -> float | None:
    window = part(points, start, start + _THIRD)
    count = window.change(metric).value
    done = sum(window.change(metric).value or 0 for metric in work)
    return count / unit / done if count is not None and count / unit >= MIN_MISSES and done else None
