"""Finds counters since the start of the server in a column of rates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from bufferlab.audit.case import Case, RunEvidence, name_of
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.innodb_status import StatusDump
from bufferlab.importers.result_rows import Number, ResultRow, ResultTable

NAME = "counters-as-rates"
_COUNTERS = {
    "pages_read": "Pages read",
    "pages_written": "written",
    "pages_created": "created",
    "os_reads": "OS file reads",
    "os_writes": "OS file writes",
}
_ROLES = ("reads_per_s", "writes_per_s", "iops")
#: A smaller number agrees with a counter by chance.
_BY_CHANCE = 10_000
_ENOUGH_ROWS = 3
#: A New-Order and the 1.3 other transactions for each touch 600 to 900 pages.
_MOST_READS_PER_NEW_ORDER = 2_000
#: Steps of a counter at a level rate are alike.
_ALIKE = 2.0
_TIME = re.compile(r"(\d{1,7})\s*(s|secs?|seconds?)?\.?", re.IGNORECASE)
_TIME_NAME = re.compile(r"\b(time|seconds?|secs?|elapsed|progress|s)\b", re.IGNORECASE)

_Match = tuple[ResultRow, Number, RunEvidence, StatusDump, str]


def check(case: Case) -> Iterator[Finding]:
    """Yield a finding for each table with a printout's counter, a number that grows with time, or impossible reads."""
    counters = _counters(case)
    for _, table in case.results():
        beside = list(_beside(table, counters))
        if beside:
            yield _copied(table, beside)
        elif found := _growing(table) or _beyond(table):
            yield found


def _counters(case: Case) -> dict[float, tuple[RunEvidence, StatusDump, str]]:
    """Return the large values of cumulative counters, each with its run, printout and field."""
    return {
        value: (run, dump, field)
        for run in case.runs
        for dump in run.dumps
        for field in _COUNTERS
        if (value := dump.fields.get(field, 0.0)) >= _BY_CHANCE
    }


def _numbers(table: ResultTable) -> Iterator[tuple[ResultRow, Number]]:
    for row in table.rows:
        for role in _ROLES:
            for number in row.values.get(role, ()):
                yield row, number


def _beside(table: ResultTable, counters: dict[float, tuple[RunEvidence, StatusDump, str]]) -> Iterator[_Match]:
    for row, number in _numbers(table):
        if number.decimals == 0 and number.value in counters:
            yield row, number, *counters[number.value]


def _copied(table: ResultTable, found: list[_Match]) -> Finding:
    row, number, run, dump, field = found[0]
    others = f", and {len(found) - 1} more" if len(found) > 1 else ""
    rates = run.rates()
    change = None
    if rates is not None:
        change = (rates.end.fields.get(field, 0.0) - rates.start.fields.get(field, 0.0)) / rates.seconds
    corrected = (
        f"{change:.1f} per second of {_COUNTERS[field]}, between the printouts of {name_of(run)}"
        if change is not None
        else "the change between two printouts, divided by the seconds between them"
    )
    return Finding(
        NAME,
        row.place,
        f'{number} of {row.setting} stands in a column of rates per second, and is the counter "{_COUNTERS[field]}" of'
        f" the status text at {dump.place}{others}",
        "a counter since the start of the server is no rate: it grows with the length of the run",
        corrected,
        {
            "values": [one.value for _, one, *_ in found],
            "counter": _COUNTERS[field],
            "per_s": change,
        },
    )


def _growing(table: ResultTable) -> Finding | None:
    """Return a finding for whole numbers that grow by like steps from one time to the next."""
    for role in _ROLES:
        rows = [(_seconds(table, row), number) for row in table.rows if (number := row.first(role)) is not None]
        known = [(at, number) for at, number in rows if at is not None]
        if len(known) < _ENOUGH_ROWS or len(known) < len(rows) or any(number.decimals for _, number in known):
            continue
        if any(b <= a for (a, _), (b, _) in pairwise(known)) or known[-1][1].value < _BY_CHANCE:
            continue
        steps = [(y.value - x.value) / (b - a) for (a, x), (b, y) in pairwise(known)]
        if max(steps) > _ALIKE * min(steps) or known[-1][1].value < _ALIKE * known[0][1].value:
            continue
        values = " ".join(str(number) for _, number in known)
        rate = (known[-1][1].value - known[0][1].value) / (known[-1][0] - known[0][0])
        return Finding(
            NAME,
            table.place,
            f"{values} grow by {min(steps):.1f} to {max(steps):.1f} in every second, row by row, in a column of rates",
            "a counter since a start grows so; a rate does not follow the time",
            f"{rate:.1f} per second from {known[0][0]} s to {known[-1][0]} s",
            {"values": [number.value for _, number in known], "per_s": rate, "steps_per_s": steps},
        )
    return None


def _seconds(table: ResultTable, row: ResultRow) -> int | None:
    match = _TIME.fullmatch(row.setting.strip())
    return int(match[1]) if match and (match[2] or _TIME_NAME.search(table.setting_name)) else None


def _beyond(table: ResultTable) -> Finding | None:
    """Return a finding for the first row with more reads per New-Order than it touches pages."""
    for row in table.rows:
        tpmc, reads = row.first("tpmc"), row.first("reads_per_s")
        if tpmc is None or reads is None or not tpmc.value:
            continue
        per_new_order = 60 * reads.value / tpmc.value
        if per_new_order > _MOST_READS_PER_NEW_ORDER:
            return Finding(
                NAME,
                row.place,
                f"{reads} reads per second at {tpmc} TpmC ({row.setting}) are {per_new_order:,.0f} reads per New-Order;"
                " with the transactions beside it, it touches 600 to 900 pages",
                "this is no rate per second: a counter of the whole run, or requests of another load",
                "the change of the counter, divided by the seconds it was counted in",
                {"values": [reads.value], "reads_per_new_order": per_new_order, "per_s": None},
            )
    return None


RULE = Rule(NAME, "Are rates per second rates?", check)
