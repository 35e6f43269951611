"""Writes the tables of a report as CSV files: tables/<id>.csv, and figures/<id>.csv for the numbers of each figure.

Cells have the text of the HTML page, but a mean and the two ends of its interval have separate columns.
tables/summary.csv has every mean unrounded, as in summary.parquet.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bufferlab.chapter.elements import Figure, Table
from bufferlab.chapter.words import NOTHING
from bufferlab.report.document import Report
from bufferlab.texts import printable

if TYPE_CHECKING:
    from bufferlab.results.store import SweepFolder

#: Matches a mean with its interval: "9.70 (9.51–9.89)", "41.2 (40.1–42.3) %", "126 KiB (125–127 KiB)".
_INTERVAL = re.compile(
    r"(?P<mean>[−-]?[\d.,]+)(?P<unit> [KMGT]?i?B)? \((?P<low>[−-]?[\d.,]+)(?P<low_unit> [KMGT]?i?B)?–"
    r"(?P<high>[−-]?[\d.,]+)(?P<high_unit> [KMGT]?i?B)?\)(?P<share> %)?"
)
_NUMBER = re.compile(r"[+−-]?\d[\d,]*(\.\d+)?( %)?")
#: Matches a cell that a spreadsheet would treat as a formula. A change in per cent, such as "+5 %", does not match.
_FORMULA = re.compile(r"[=@]|[+-].*(\w\(|[|!])", re.DOTALL)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SUMMARY = ("point_index", "point_label", "metric", "statistic", "value", "ci_low", "ci_high", "n", "unit")


def write_csv(report: Report, sweep: SweepFolder) -> list[Path]:
    """Write each table, the numbers of each figure and the summary as CSV into the sweep folder; return the paths."""
    first: list[Figure | Table] = [block for block in (report.headline, report.steps) if block is not None]
    written = []
    for block in [*first, *report.blocks]:
        if isinstance(block, Figure):
            written.append(sweep.write_derived(f"figures/{block.id}.csv", figure_csv(block)))
        else:
            written.append(sweep.write_derived(f"tables/{_UNSAFE.sub('-', block.id)}.csv", table_csv(block)))
    return [*written, sweep.write_derived("tables/summary.csv", _summary_csv(report))]


def figure_csv(figure: Figure) -> str:
    """Return the data of a figure as CSV; a missing number is an empty cell.

    Comments at the beginning have the figure's title, its caption and the source of its numbers.
    """
    data = figure.data
    rows = [[column.title for column in data.columns], *(map(_plain, row.cells) for row in data.rows)]
    return _text((figure.title, data.caption, figure.source), rows)


def table_csv(table: Table) -> str:
    """Return a table as CSV, with title and caption as comments. Intervals take two more columns, for their ends."""
    columns = []
    for place, column in enumerate(table.columns):
        cells = [row.cells[place] for row in table.rows]
        columns += _columns(column.title, cells)
    return _text((table.title, table.caption), zip(*columns, strict=True))


def _columns(title: str, cells: Sequence[str]) -> list[list[str]]:
    """Return a column of a table as CSV columns: one, or three if cells have intervals (value, lower, upper end)."""
    split = [_INTERVAL.fullmatch(cell) for cell in cells]
    if not any(split):
        return [[title, *map(_plain, cells)]]
    means, lows, highs = [title], [f"{title}: 95 % from"], ["to"]
    for cell, found in zip(cells, split, strict=True):
        share = (found["share"] or "") if found else ""
        unit = (found["unit"] or "") if found else ""
        means.append(_plain(f"{found['mean']}{unit}{share}" if found else cell))
        high_unit = (found["high_unit"] or "") if found else ""
        lows.append(_plain(f"{found['low']}{found['low_unit'] or high_unit}{share}") if found else "")
        highs.append(_plain(f"{found['high']}{high_unit}{share}") if found else "")
    return [means, lows, highs]


def _plain(cell: str) -> str:
    """Return a cell for programs: "" for a dash, numbers without commas and with an ASCII minus."""
    if cell == NOTHING:
        return ""
    return cell.replace(",", "").replace("−", "-") if _NUMBER.fullmatch(cell) else cell


def _summary_csv(report: Report) -> str:
    rows = (
        ["" if (value := getattr(one, name)) is None else str(value) for name in _SUMMARY]
        for point in report.data.points
        for one in point.statistics
    )
    return _text((), [list(_SUMMARY), *rows])


def _text(comments: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    for line in filter(None, comments):
        text.write(f"# {printable(' '.join(line.split()))}\n")
    csv.writer(text, lineterminator="\n").writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(cell: str) -> str:
    """Return a cell without control characters, and with a quote before it if a spreadsheet would treat it as a
    formula.

    Labels and reasons may contain text from untrusted sources.
    """
    cell = printable(cell)
    return f"'{cell}" if _FORMULA.match(cell) else cell
