"""The report for a terminal: the answer, the points, the steps, the checks. Words wrap; numbers do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bufferlab.report.model import Report, Table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

#: What fits a terminal 100 columns wide; the page has the rest.
_COLUMNS = ("Point", "n", "Reads (pages)", "Misses (gets)", "Writes (pages)", "Hit ratio", "New-Orders per second")


def terminal_table(report: Report) -> Group:
    """The report as something rich can print."""
    from rich.console import Group
    from rich.text import Text

    lines: list[Text | RichTable] = []
    for banner in report.banners:
        style = "bold red" if banner.kind == "danger" else "yellow"
        lines.append(Text(f"{'!!' if banner.kind == 'danger' else '!'} {banner.text}", style=style))
    lines += [Text(report.question, style="dim"), Text(report.answer, style="bold"), Text("")]
    numbers = next((block for section in report.sections for block in section.blocks if _is_main(block)), None)
    if isinstance(numbers, Table):
        lines += [_rich(numbers, _COLUMNS), Text("")]
    if report.steps:
        lines += [_rich(report.steps), Text("")]
    lines.append(_checks(report))
    return Group(*lines)


def _is_main(block: object) -> bool:
    return isinstance(block, Table) and block.id == "per-new-order"


def _rich(table: Table, only: tuple[str, ...] | None = None) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = [place for place, column in enumerate(table.columns) if only is None or column.title in only]
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title=table.title, title_justify="left", title_style="")
    for place in shown:
        column = table.columns[place]
        drawn.add_column(Text(column.title), justify="right" if column.numeric else "left")
    for row in table.rows:
        style = "red" if row.mark == "failed" else None
        drawn.add_row(*(Text(row.cells[place]) for place in shown), style=style)
    return drawn


def _checks(report: Report) -> Text:
    from rich.text import Text

    failed = [check for check in report.checks if check.status == "failed"]
    passed = sum(check.status == "passed" for check in report.checks)
    rest = len(report.checks) - passed - len(failed)
    summary = Text(f"Checks: {passed} passed, {len(failed)} failed, {rest} not applicable.")
    for check in failed:
        summary.append(f"\n  failed: {check.title} ({check.detail})", style="red")
    return summary
