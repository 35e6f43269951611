"""The chapter on hit ratio, I/O and latency: the figures that a reader of a buffer pool's report expects first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Section, Table
from bufferlab.chapter.point_table import claims_blocked, point_table
from bufferlab.results.metrics import OF_LATENCIES

_OF_DEVICE = ("device_reads_per_s", "device_writes_per_s", "device_read_await_ms", "device_write_await_ms")


def io_latency(analysis: Analysis) -> Section | None:
    """Return the chapter on hit ratio, requests of the device and latency; None if no run ended well."""
    if not analysis.runs:
        return None
    return Section("io", "Hit ratio, I/O and latency", "", (_table(analysis),))


def _table(analysis: Analysis) -> Table:
    """Return the table of the device's requests, the transactions' latency, and TpmC if the window allows it."""
    shown = [name for name in (*_OF_DEVICE, *OF_LATENCIES) if analysis.fit(name) is not None]
    columns: dict[str, str | Callable[[PointRuns], str]] = {
        words.with_column(analysis.metric(name)): name for name in shown
    }
    caption = "The whole disk that holds the data. Times of all transaction types together."
    blocked = claims_blocked(analysis, "latency_p50_us", " of latency")
    if analysis.unit_of_work == "new_order" and analysis.fit("new_orders_per_s") is not None:
        if analysis.claim_blocked("new_orders_per_s"):
            blocked = claims_blocked(analysis, "new_orders_per_s", " of latency and writes")
            caption += " TpmC is left out, because the window is too short for it."
        else:
            columns["TpmC"] = lambda point: _per_minute(analysis, point)
    return point_table(analysis, "io-latency", "Device and latency", columns, caption + blocked)


def _per_minute(analysis: Analysis, point: PointRuns) -> str:
    """Return the New-Orders per minute at a point, with their interval."""
    found = analysis.mean("new_orders_per_s", point)
    if found is None:
        return words.NOTHING
    low, high = (None if end is None else 60 * end for end in (found.ci_low, found.ci_high))
    return words.interval(replace(found, value=60 * found.value, ci_low=low, ci_high=high))
