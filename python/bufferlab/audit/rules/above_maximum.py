"""Finds percentiles above the maximum of their line, or above a higher percentile.

Source: tpcc-mysql, src/sb_percentile.c: bins 0.03 % wide from 1 ms on, the nearest one is printed.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.tpcc_mysql import Interval, TpccLog

NAME = "above-maximum"
_BIN = 0.0005
#: Everything faster is printed as this.
_LEAST_MS = 1.001

_Above = tuple[Interval, str, float, str, float]


def check(case: Case) -> Iterator[Finding]:
    """Yield a finding for each log with such lines."""
    for run in case.runs:
        for log in run.logs:
            found = [one for interval in log.intervals for one in _above(interval)]
            if found:
                yield _finding(log, found)


def _above(interval: Interval) -> Iterator[_Above]:
    p95, p99 = interval.p95_ms, interval.p99_ms
    if p95 is None or p99 is None:
        return
    most = interval.max_ms[0]
    for lower, low, higher, high in (
        ("95 %", p95, "max", most),
        ("99 %", p99, "max", most),
        ("95 %", p95, "99 %", p99),
    ):
        if low > max(high * (1 + _BIN), _LEAST_MS):
            yield interval, lower, low, higher, high
            return


def _finding(log: TpccLog, found: list[_Above]) -> Finding:
    interval, lower, low, higher, high = found[0]
    lines = len(found)
    more = f", and in {lines - 1} more of {len(log.intervals)} lines" if lines > 1 else ""
    return Finding(
        NAME,
        interval.place,
        f"at {interval.elapsed_s} s {lower} of the New-Orders took up to {low:g} ms, and {higher} is {high:g} ms{more}",
        "no percentile can be above the maximum, or above a higher one: one of the two is wrong",
        f"{lower}: at most {high:g} ms, if {higher} is right",
        {
            "at_s": interval.elapsed_s,
            "lower": lower,
            "lower_ms": low,
            "higher": higher,
            "higher_ms": high,
            "lines": lines,
        },
    )


RULE = Rule(NAME, "Are percentiles below the maximum?", check)
