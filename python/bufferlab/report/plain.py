"""The report as plain lines, for the terminal: the answer first, then its tables in columns, then what to doubt."""

from __future__ import annotations

from bufferlab.chapter.blocks import Table
from bufferlab.report.document import Report


def text(report: Report) -> str:
    """Return the report's lines, with the tables that a terminal shows."""
    blocks = [report.steps, *(block for section in report.sections for block in section.blocks)]
    tables = [block for block in blocks if isinstance(block, Table) and block.brief]
    shown = [line for table in tables for line in ("", *_aligned(table))]
    return "\n".join([report.answer, " · ".join(report.facts), *shown, "", *report.limits])


def _aligned(table: Table) -> list[str]:
    """Return a table as lines of columns that end in line."""
    rows = [[column.title for column in table.columns], *(row.cells for row in table.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["   ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
