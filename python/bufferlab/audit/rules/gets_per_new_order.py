"""Finds rows whose hit ratio, reads per second and TpmC give different page gets of one New-Order.

gets = (r/s * 60 / TpmC) / (1 - hit) does not depend on the pool's size. Where rows disagree, one of the three was taken
at another time, or has a wrong name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.result_rows import ResultRow, ResultTable

NAME = "gets-per-new-order"
#: Rounding of the other two, and a little: intervals this near each other still agree.
_SLACK = 0.05


@dataclass(frozen=True)
class Gets:
    """The page gets per New-Order that a row implies: as read, and the interval by its hit ratio's last digit."""

    setting: str
    value: float | None
    low: float
    high: float | None


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each table whose rows cannot have the same gets per New-Order."""
    for _, table in case.results():
        rows = [found for row in table.rows if (found := gets_of(row))]
        highs = [row.high for row in rows if row.high is not None]
        if len(rows) > 1 and highs and max(row.low for row in rows) > (1 + _SLACK) * min(highs):
            yield _finding(table, rows)


def gets_of(row: ResultRow) -> Gets | None:
    """Return the page gets of one New-Order, by a row's own numbers."""
    tpmc, reads, hits = row.first("tpmc"), row.first("reads_per_s"), row.values.get("hit", ())
    if tpmc is None or reads is None or not hits or not tpmc.value or not all(1 < hit.value <= 100 for hit in hits):
        return None
    per_new_order = 60 * reads.value / tpmc.value
    miss = 1 - mean(hit.value for hit in hits) / 100
    # The status text cuts the misses off, by up to one digit. A ratio rounded by hand may be half a digit off.
    digit = max(hit.last_digit for hit in hits) / 100 if max(hit.decimals for hit in hits) <= 1 else 0.0
    digit = min(digit, 0.001) or max(hit.last_digit for hit in hits) / 100
    least = miss - digit / 2
    return Gets(
        row.setting,
        per_new_order / miss if miss > 1e-9 else None,
        per_new_order / (miss + digit),
        per_new_order / least if least > 1e-9 else None,
    )


def _finding(table: ResultTable, rows: list[Gets]) -> Finding:
    known = [row for row in rows if row.value is not None]
    listed = ", ".join(f"{row.setting} {row.value:.0f}" for row in known)
    low = min(rows, key=lambda row: row.high or float("inf"))
    high = max(rows, key=lambda row: row.low)
    return Finding(
        NAME,
        table.place,
        f"hit ratio, r/s and TpmC imply these page gets per New-Order: {listed}; they should be equal",
        f"{high.setting} needs at least {high.low:.0f} and {low.setting} at most {low.high:.0f}: hit ratio, reads and"
        " throughput are not of the same stretch of time, or device requests are not page reads",
        "compare reads per New-Order (r/s * 60 / TpmC), which need no hit ratio",
        {
            "settings": [row.setting for row in rows],
            "gets_per_new_order": [row.value for row in rows],
            "low": [row.low for row in rows],
            "high": [row.high for row in rows],
        },
    )


RULE = Rule(NAME, "Do hit ratio, reads and throughput agree with each other?", check)
