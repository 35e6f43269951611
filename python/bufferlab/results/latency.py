"""Computes latency values from stored histogram buckets: n, mean, percentiles, maximum, per transaction type and time.

Runs of a point are added bucket by bucket, so a percentile is of all their transactions, never a mean of percentiles.
Within a bucket the times are taken to be spread evenly.
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
    """The times of one transaction type: in service, or waiting in the queue."""

    transaction_type: str
    time: str
    n: int
    mean_us: float
    percentiles_us: dict[float, float]
    max_us: float


def latency_values(frames: Sequence[pl.DataFrame]) -> list[LatencyValues]:
    """Return the values of all runs together, ordered by type and time as first stored."""
    buckets: dict[tuple[str, str], dict[float, tuple[float, int]]] = {}
    for frame in frames:
        for kind, time, low, high, count in frame.iter_rows():
            at = buckets.setdefault((kind, time), {})
            # The top bucket of each run ends at that run's maximum. Buckets with the same start are one bucket.
            widest, n = at.get(low, (high, 0))
            at[low] = (max(widest, high), n + count)
    return [
        _values(kind, time, [((low, high), count) for low, (high, count) in sorted(at.items())])
        for (kind, time), at in buckets.items()
    ]


def of_window(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the buckets of the measured window: a phase's types have its name and a dot before their own."""
    import polars as pl

    return frame.filter(~pl.col("transaction_type").str.contains(".", literal=True))


def percentiles(frame: pl.DataFrame) -> dict[str, Value]:
    """Return the percentiles of one run's times, all transaction types together, or the reason why they are missing.

    In open loop a time is counted from the moment at which the transaction should have begun.
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
    """Return all the time transactions spent, in microseconds, per kind of time (service, queue)."""
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
