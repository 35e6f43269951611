"""The report for a terminal: the answer, the points, the steps, the checks. Words wrap; numbers do not.

`text` gives a short report as plain lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bufferlab.chapter.blocks import Table
from bufferlab.report.document import Report

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

#: The most rows of a table: longer tables scroll the answer out of sight.
_MOST_ROWS = 24
_MAIN_TABLES = ("per-new-order", "per-transaction")


def terminal_table(report: Report) -> Group:
    """Return the report as an object that rich can print."""
    from rich.console import Group
    from rich.text import Text

    lines: list[Text | RichTable] = []
    for banner in report.banners:
        style = "bold red" if banner.kind == "danger" else "yellow"
        lines.append(Text(f"{'!!' if banner.kind == 'danger' else '!'} {banner.text}", style=style))
    lines += [Text(report.question, style="dim"), Text(report.answer, style="bold"), Text("")]
    brief = [
        block for section in report.sections for block in section.blocks if isinstance(block, Table) and block.brief
    ]
    first = [found for found in brief if found.id == report.lead]
    main = [found for found in brief if found.id in _MAIN_TABLES]
    for table in (*first, *main):
        lines += [_rich(table, table.brief), Text("")]
    if report.steps:
        lines += [_rich(report.steps), Text("")]
    for table in (found for found in brief if found not in first + main):
        lines += [_rich(table, table.brief), Text("")]
    lines.append(_checks(report))
    return Group(*lines)


def _rich(whole: Table, only: tuple[str, ...] | None = None) -> RichTable | Text:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = whole.filled
    if len(table.rows) > _MOST_ROWS:
        return Text(f"{table.title}: {len(table.rows)} rows, in the report.", style="dim")
    shown = [place for place, column in enumerate(table.columns) if only is None or column.title in only]
    heading = Text(table.title)  # As a str it would be read as markup.
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title=heading, title_justify="left", title_style="")
    for place in shown:
        column = table.columns[place]
        # A number is never cut, nor parted from its per cent: words give way.
        widest = max((len(part) for row in table.rows for part in _shown(row.cells[place]).split()), default=1)
        title = Text(column.title)
        if column.numeric:
            drawn.add_column(title, justify="right", min_width=widest)
        else:
            drawn.add_column(title)
    for row in table.rows:
        style = "red" if row.mark == "failed" else None
        drawn.add_row(*(Text(_shown(row.cells[place])) for place in shown), style=style)
    return drawn


def _shown(cell: str) -> str:
    """Return a cell as it may be broken into lines. Alone on the next line a "%" would be read as an empty value."""
    return cell.replace(") %", ")%")


def _checks(report: Report) -> Text:
    from rich.text import Text

    failed = [check for check in report.checks if check.status == "failed"]
    passed = sum(check.status == "passed" for check in report.checks)
    rest = len(report.checks) - passed - len(failed)
    if not passed and not failed:
        return Text("Checks: no run could be checked.")
    summary = Text(f"Checks: {passed} passed, {len(failed)} failed, {rest} not applicable.")
    for check in failed:
        summary.append(f"\n  failed: {check.title} ({check.detail})", style="red")
    return summary


def text(report: Report) -> str:
    """Return the report's lines, with the tables that a terminal shows."""
    blocks = [report.steps, *(block for section in report.sections for block in section.blocks)]
    tables = [block for block in blocks if isinstance(block, Table) and block.brief]
    shown = [line for table in tables for line in ("", *_aligned(table))]
    return "\n".join([report.answer, " · ".join(report.facts), *shown, "", *report.limits])


def _aligned(whole: Table) -> list[str]:
    """Return a table as lines of columns that end in line."""
    table = whole.filled
    rows = [[column.title for column in table.columns], *(row.cells for row in table.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["   ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
