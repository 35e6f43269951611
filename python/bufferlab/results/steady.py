"""Whether figures stood still while they were measured: misses per transaction in the window's first and last third.

A gate decides before the window that a pool is warm; this looks afterwards whether it was right. What moves here is
no property of the point, but of how long it was warmed up. Pure: samples in, numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bufferlab.results.timeline import Instant, measured_instants, part

if TYPE_CHECKING:
    import polars as pl

#: A third with fewer misses than this scatters too much to be compared.
MIN_MISSES = 1000
_THIRD = 1 / 3
_WORK = ("transactions_committed", "transactions_rolled_back")
#: PostgreSQL's processes publish what they count up to a second late: misses and transactions of theirs at once.
_LATE_WORK = ("postgres_database_xact_commit", "postgres_database_xact_rollback")


def drift(samples: pl.DataFrame) -> float | None:
    """Misses per transaction in the last third of the window over those in the first; None where too few to say."""
    points = measured_instants(samples)
    if len(points) < 3:
        return None
    first, last = (_misses_per_transaction(points, start) for start in (0.0, 1 - _THIRD))
    return None if first is None or last is None else last / first


def _misses_per_transaction(points: Sequence[Instant], start: float) -> float | None:
    window = part(points, start, start + _THIRD)
    misses = window.change("demand_misses").value
    work = _LATE_WORK if _LATE_WORK[0] in window.end else _WORK
    done = sum(window.change(metric).value or 0 for metric in work)
    return misses / done if misses is not None and misses >= MIN_MISSES and done else None
