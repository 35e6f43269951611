"""Finds lists of throughputs that repeat Payment's counts, the first pair of the interval lines, not New-Order's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bufferlab.audit.case import Case, Finding
from bufferlab.audit.parsers.tables import Table, TableRow
from bufferlab.audit.parsers.text import Place
from bufferlab.audit.parsers.tpcc_mysql import Interval

_ENOUGH = 3
_COUNT = re.compile(r"\d{1,9}")
_TIME = re.compile(r"(\d{1,7})\s*s(?:ec(?:onds)?)?\.?")


def payment_quoted(case: Case) -> Iterator[Finding]:
    """Yield one finding for each row of a table that repeats Payment's counts."""
    logs = _Logs(case)
    for evidence in case.files:
        for table in evidence.tables:
            if "payment" in " ".join(table.header).lower():
                continue
            for row in table.rows:
                yield from _of_row(logs, table, row)


def _of_row(logs: _Logs, table: Table, row: TableRow) -> Iterator[Finding]:
    quoted = [(at, int(cell)) for at, cell in enumerate(row.cells) if at and _COUNT.fullmatch(cell)]
    if len(quoted) < _ENOUGH or "payment" in row.cells[0].lower():
        return
    numbers = [number for _, number in quoted]
    for intervals in logs.quoted(_times(table, [at for at, _ in quoted]), numbers):
        payments, new_orders = ([interval.counts[kind] for interval in intervals] for kind in (1, 0))
        if numbers == payments and numbers != new_orders:
            yield _finding(table, row, numbers, new_orders, intervals)
            return


def _times(table: Table, columns: list[int]) -> list[int] | None:
    """Return the times in a header, or None when a column has none."""
    found = [_TIME.fullmatch(table.header[at].split(" ")[-1]) if at < len(table.header) else None for at in columns]
    return [int(time[1]) for time in found if time] if all(found) else None


class _Logs:
    """An index of a case's logs by the Payments of their lines, so that a row is not compared with every log."""

    def __init__(self, case: Case) -> None:
        self._first: dict[int, list[dict[int, Interval]]] = {}
        self._at: dict[tuple[int, int], list[dict[int, Interval]]] = {}
        seen: set[tuple[tuple[int, ...], ...]] = set()
        for run in case.runs:
            for log in run.logs:
                lines = {interval.elapsed_s: interval for interval in log.intervals}
                same = tuple((interval.elapsed_s, *interval.counts) for interval in log.intervals)
                if same in seen or not lines:
                    continue
                seen.add(same)
                self._first.setdefault(log.intervals[0].counts[1], []).append(lines)
                for at, interval in lines.items():
                    self._at.setdefault((at, interval.counts[1]), []).append(lines)

    def quoted(self, times: list[int] | None, payments: list[int]) -> Iterator[list[Interval]]:
        """Yield the interval lines that a row may quote: at its header's times, or all of a log in order."""
        if times is not None:
            for lines in self._at.get((times[0], payments[0]), ()):
                if all(at in lines for at in times):
                    yield [lines[at] for at in times]
        else:
            for lines in self._first.get(payments[0], ()):
                if len(lines) == len(payments):
                    yield list(lines.values())


def _finding(
    table: Table, row: TableRow, quoted: list[int], new_orders: list[int], intervals: list[Interval]
) -> Finding:
    name = " ".join(cell for cell in row.cells if cell and not _COUNT.fullmatch(cell))
    wrong = " ".join(map(str, quoted))
    right = " ".join(map(str, new_orders))
    return Finding(
        Place(table.place.file, row.line, name),
        f"the throughputs {wrong} are the Payment counts of the interval lines at"
        f" {', '.join(str(interval.elapsed_s) for interval in intervals)} s, not New-Order's",
        "throughput (TpmC) counts New-Orders; the two differ by chance only, so nobody notices",
        f"New-Order (the field trx): {right}",
        {"quoted": quoted, "new_orders": new_orders, "at_s": [interval.elapsed_s for interval in intervals]},
    )
