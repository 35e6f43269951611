"""Finds NG lines of tpcc-mysql's response-time check that come from comparing its limits in milliseconds.

Source: src/main.c, `rt_limit[5] = {5, 5, 5, 80, 20}`, and src/driver.c, which compares them with a time in ms; TPC-C
5.2.5.4 sets 5, 5, 5, 80 and 20 seconds. The options -0 to -4 give other limits, which the raw results then show.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.tpcc_mysql import TYPES, Check, TpccLog

NAME = "response-limits"
#: Seconds as the specification means them, milliseconds as tpcc-mysql compares them.
LIMITS = (5, 5, 5, 80, 20)
_NEEDED = 90.0


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each closing block with NG lines that would pass in seconds, or cannot be judged."""
    for run in case.runs:
        for log in run.logs:
            refused = {
                at: log.response[name]
                for at, name in enumerate(TYPES)
                if name in log.response and not log.response[name].ok and _default_limit(log, at)
            }
            judged = {at: _share_within(log, at) for at in refused}
            wrong = {at: found for at, found in refused.items() if judged[at] is None or (judged[at] or 0) >= _NEEDED}
            if wrong:
                yield _finding(log, wrong, judged)


def _default_limit(log: TpccLog, at: int) -> bool:
    """Return whether the limit is tpcc-mysql's own; a log that does not print it has no other."""
    shown = [counts.limit for counts in (log.raw.get(at), log.summed.get(at)) if counts and counts.limit is not None]
    return all(limit == LIMITS[at] for limit in shown)


def _share_within(log: TpccLog, at: int) -> float | None:
    """Return the least share (per cent) answered within the limit in seconds; None when no interval line tells it."""
    if not log.intervals:
        return None
    limit_ms = 1000 * LIMITS[at]
    total = sum(interval.counts[at] for interval in log.intervals)
    within = 0.0
    for interval in log.intervals:
        if interval.max_ms[at] < limit_ms:
            within += interval.counts[at]
        elif at == 0 and interval.p99_ms is not None and interval.p99_ms < limit_ms:
            within += 0.99 * interval.counts[at]
        elif at == 0 and interval.p95_ms is not None and interval.p95_ms < limit_ms:
            within += 0.95 * interval.counts[at]
    return 100 * within / total if total else None


def _finding(log: TpccLog, wrong: dict[int, Check], judged: dict[int, float | None]) -> Finding:
    said = ", ".join(f"{TYPES[at]} {found.percent:g} %" for at, found in wrong.items())
    limits = "/".join(str(LIMITS[at]) for at in wrong)
    n = len(log.intervals)
    if n:
        parts = [_within(log, at, judged[at]) for at in wrong]
        corrected = f"[OK]: within {limits} s at least: {', '.join(parts)}, by the {n} interval lines given"
    else:
        corrected = f"not known here: no interval line tells the slowest; run it again with limits of {limits} s in ms"
    return Finding(
        NAME,
        next(iter(wrong.values())).place,
        f"[NG] for {said}: the limits {limits} were compared in milliseconds, and are meant in seconds",
        "the check says nothing about whether the system was slow",
        corrected,
        {
            "percent_said": {TYPES[at]: found.percent for at, found in wrong.items()},
            "percent_within_seconds": {TYPES[at]: judged[at] for at in wrong},
            "slowest_ms": {TYPES[at]: max((i.max_ms[at] for i in log.intervals), default=None) for at in wrong},
        },
    )


def _within(log: TpccLog, at: int, share: float | None) -> str:
    """Return what the interval lines tell of one type; there may be lines that count none of it."""
    if share is None:
        return f"{TYPES[at]} not known, the lines count none"
    return f"{TYPES[at]} {share:.4g} % (slowest {max(i.max_ms[at] for i in log.intervals):.0f} ms)"


RULE = Rule(NAME, "Do the response-time limits mean what they say?", check)
