"""Computes latency values from stored histogram buckets, per transaction type and kind of time: n, mean, percentiles,
maximum.

The buckets of a point's runs are added. So a percentile is that of all their transactions, not a mean of percentiles.
Within a bucket the times are assumed to be spread evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bufferlab.results.metrics import OF_LATENCIES
from bufferlab.results.window import Value

if TYPE_CHECKING:
    import polars as pl

PERCENTILES = (0.5, 0.95, 0.99, 0.999)


@dataclass(frozen=True)
class LatencyValues:
    """The latency values of one transaction type and one kind of time ("service", "queue" or "response")."""

    transaction_type: str
    time: str
    n: int
    mean_us: float
    percentiles_us: dict[float, float]
    max_us: float


def latency_values(frames: Sequence[pl.DataFrame]) -> list[LatencyValues]:
    """Return the values of all runs' buckets together, per type and time, in the order of their first rows."""
    buckets: dict[tuple[str, str], dict[float, tuple[float, int]]] = {}
    for frame in frames:
        for kind, time, low, high, count in frame.iter_rows():
            at = buckets.setdefault((kind, time), {})
            # The top bucket of each run ends at that run's maximum. So buckets are merged by their start, not by their
            # end.
            widest, n = at.get(low, (high, 0))
            at[low] = (max(widest, high), n + count)
    return [
        _values(kind, time, [((low, high), count) for low, (high, count) in sorted(at.items())])
        for (kind, time), at in buckets.items()
    ]


def of_window(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the buckets of the measured window; transaction types of later phases have a dot in their names."""
    import polars as pl

    return frame.filter(~pl.col("transaction_type").str.contains(".", literal=True))


def percentiles(frame: pl.DataFrame) -> dict[str, Value]:
    """Return the percentiles of the times of all transactions of a run, or the reason why they are missing.

    In an open loop a time counts from the transaction's intended start.
    """
    import polars as pl

    for time in ("response", "service"):
        rows = frame.filter(pl.col("time") == time)
        if n := int(rows["count"].sum()):
            merged = rows.lazy().group_by("low_us").agg(pl.col("high_us").max(), pl.col("count").sum()).sort("low_us")
            buckets = [((low, high), count) for low, high, count in merged.collect().iter_rows()]
            return {name: Value(_percentile(buckets, n, share)) for name, share in OF_LATENCIES.items()}
    return dict.fromkeys(OF_LATENCIES, Value(None, "no transaction was timed"))


def total_us(frame: pl.DataFrame) -> dict[str, float]:
    """Return the sum of all transactions' times, in microseconds, per kind of time ("service", "queue")."""
    totals: dict[str, float] = {}
    for _, time, low, high, count in frame.iter_rows():
        totals[time] = totals.get(time, 0.0) + (low + high) / 2 * count
    return totals


def _values(kind: str, time: str, buckets: list[tuple[tuple[float, float], int]]) -> LatencyValues:
    n = sum(count for _, count in buckets)
    total = sum((low + high) / 2 * count for (low, high), count in buckets)
    return LatencyValues(
        kind,
        time,
        n,
        total / n if n else 0.0,
        {share: _percentile(buckets, n, share) for share in PERCENTILES},
        max((high for (_, high), count in buckets if count), default=0.0),
    )


def _percentile(buckets: list[tuple[tuple[float, float], int]], n: int, share: float) -> float:
    wanted, seen = share * n, 0
    for (low, high), count in buckets:
        if count and seen + count >= wanted:
            return low + (high - low) * (wanted - seen) / count
        seen += count
    return 0.0
