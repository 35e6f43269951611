"""A list of throughputs that repeats Payment's counts, the first pair of the interval lines, not New-Order's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bufferlab.audit.case import Case, Run
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.tables import Table, TableRow
from bufferlab.importers.text import Place
from bufferlab.importers.tpcc_mysql import Interval

NAME = "payment-quoted"
_ENOUGH = 3
_COUNT = re.compile(r"\d{1,9}")
_TIME = re.compile(r"(\d{1,7})\s*s(?:ec(?:onds)?)?\.?")


def check(case: Case) -> Iterator[Finding]:
    """One finding for each row of a table that repeats Payment's counts."""
    for evidence in case.files:
        for table in evidence.tables:
            if "payment" in " ".join(table.header).lower():
                continue
            for row in table.rows:
                yield from _of_row(case, table, row)


def _of_row(case: Case, table: Table, row: TableRow) -> Iterator[Finding]:
    quoted = [(at, int(cell)) for at, cell in enumerate(row.cells) if at and _COUNT.fullmatch(cell)]
    if len(quoted) < _ENOUGH or "payment" in row.cells[0].lower():
        return
    for run in case.runs:
        for intervals in _candidates(run, table, [at for at, _ in quoted]):
            numbers = [number for _, number in quoted]
            payments, new_orders = ([interval.counts[kind] for interval in intervals] for kind in (1, 0))
            if numbers == payments and numbers != new_orders:
                yield _finding(table, row, numbers, new_orders, intervals)
                return


def _candidates(run: Run, table: Table, columns: list[int]) -> Iterator[list[Interval]]:
    """The interval lines a row may quote: at the times of its header, or all of a log in order."""
    times = [_TIME.fullmatch(table.header[at].split(" ")[-1]) if at < len(table.header) else None for at in columns]
    for log in run.logs:
        if all(times):
            at_time = {interval.elapsed_s: interval for interval in log.intervals}
            found = [at_time.get(int(time[1])) for time in times if time]
            if all(found):
                yield [interval for interval in found if interval]
        elif len(log.intervals) == len(columns):
            yield log.intervals


def _finding(
    table: Table, row: TableRow, quoted: list[int], new_orders: list[int], intervals: list[Interval]
) -> Finding:
    name = " ".join(cell for cell in row.cells if cell and not _COUNT.fullmatch(cell))
    wrong = " ".join(map(str, quoted))
    right = " ".join(map(str, new_orders))
    return Finding(
        NAME,
        Place(table.place.file, row.line, name),
        f"the throughputs {wrong} are the Payment counts of the interval lines at"
        f" {', '.join(str(interval.elapsed_s) for interval in intervals)} s, not New-Order's",
        "throughput (TpmC) counts New-Orders; the two differ by chance only, so nobody notices",
        f"New-Order (the field trx): {right}",
        {"quoted": quoted, "new_orders": new_orders, "at_s": [interval.elapsed_s for interval in intervals]},
    )


RULE = Rule(NAME, "Are quoted throughputs New-Order's?", check)
