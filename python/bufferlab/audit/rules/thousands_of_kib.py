"""Finds sizes in blkparse's "MiB", which are a thousand KiB: sizes per request made from them are 2.4 % off.

Its K is a thousand requests. `size_cnv` in blkparse.c divides by 1,000 when a number exceeds a million, in any unit.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case
from bufferlab.audit.device_counts import DeviceCounts, device_counts, device_name
from bufferlab.audit.finding import Finding, Rule
from bufferlab.units import MIB

NAME = "thousands-of-kib"


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each trace with such a size."""
    for counts in device_counts(case.files):
        if counts.trace.shortened and not counts.is_counted and counts.requests.low > 0:
            yield _finding(counts)


def _finding(counts: DeviceCounts) -> Finding:
    size = counts.bytes.low / MIB
    least, most = counts.request_bytes or (0.0, 0.0)
    naive = counts.bytes.low / 1024 / 1000 * MIB / max(1, (counts.requests.low + counts.requests.high) // 2)
    return Finding(
        NAME,
        counts.trace.place,
        f'"{counts.trace.shortened}" of {device_name(counts)} are thousands of KiB',
        f"read as MiB they make {naive / 1024:.2f} KiB of a request",
        f"{size:,.0f} MiB; {_kib(least, most)} a request",
        {"bytes": counts.bytes.low, "request_bytes_low": least, "request_bytes_high": most, "as_printed_bytes": naive},
    )


def _kib(least: float, most: float) -> str:
    low, high = f"{least / 1024:.2f}", f"{most / 1024:.2f}"
    return f"{low} KiB" if low == high else f"{low} to {high} KiB"


RULE = Rule(NAME, "Are blkparse's sizes in the unit behind them?", check)
