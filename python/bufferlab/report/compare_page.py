"""A comparison as a report: for the terminal, as a page and as Markdown, by the writers that sweeps have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from bufferlab.report import words
from bufferlab.report.answer import banners
from bufferlab.report.compare import SidesCompared
from bufferlab.report.compare_guard import differing_settings
from bufferlab.report.compare_words import answer, limits, table, unmatched
from bufferlab.report.model import Banner, Column, Report, Row, Section, Table

if TYPE_CHECKING:
    from rich.console import Group

#: The narrowest that these columns are shown.
_NARROWEST = {"Figure": 12, "Verdict": 15}


def as_report(compared: SidesCompared) -> Report:
    """The comparison in the shape every writer of reports takes."""
    sides = compared.sides
    figures = table(compared)
    return Report(
        title="compare",
        question=_question(compared),
        answer=answer(compared),
        facts=_facts(compared),
        banners=tuple(_banners(compared)),
        headline=None,
        steps=None,
        limits=tuple(limits(compared)),
        sections=(
            Section("figures", "The figures", "", (figures,)),
            Section("sides", "The two sides", "", tuple(filter(None, [_what_differs(compared), _left_out(compared)]))),
        ),
        checks=tuple(
            replace(check, title=check.title if sides.one_sweep else f"{name}: {check.title}")
            for name, analysis in ((sides.name_a, sides.a), (sides.name_b, sides.b))[: 1 if sides.one_sweep else 2]
            for check in analysis.checks
        ),
        status="ok",
    )


def terminal(compared: SidesCompared) -> Group:
    """The comparison as something rich can print: the answer first."""
    from rich import box
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    report, figures = as_report(compared), table(compared)
    lines: list[Text | RichTable] = [Text(report.answer, style="bold"), Text("")]
    for banner in report.banners:
        style = "bold red" if banner.kind == "danger" else "yellow"
        lines.append(Text(f"{'!!' if banner.kind == 'danger' else '!'} {banner.text}", style=style))
    lines.append(Text(" · ".join(report.facts), style="dim"))
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in figures.columns:
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        drawn.add_column(Text(column.title), justify=justify, min_width=_NARROWEST.get(column.title))
    for row in figures.rows:
        drawn.add_row(*(Text(cell) for cell in row.cells), style="bold" if row.mark == "differs" else None)
    lines += [drawn, Text(figures.caption, style="dim")]
    lines += [Text(f"  {line}") for line in unmatched(compared)]
    return Group(*lines)


def _question(compared: SidesCompared) -> str:
    sides = compared.sides
    if sides.one_sweep:
        return f"{sides.a.sweep.path.name}: does {sides.name_b} differ from {sides.name_a}?"
    return f"Does {sides.b.sweep.path.name} (B) differ from {sides.a.sweep.path.name} (A)?"


def _facts(compared: SidesCompared) -> tuple[str, ...]:
    sides = compared.sides
    count = words.plural(len(sides.matched), "matched setting")
    left = len(sides.only_a) + len(sides.only_b)
    where: tuple[str, ...] = (
        (f"sweep {sides.a.sweep.path}",) if sides.one_sweep else (f"A {sides.a.sweep.path}", f"B {sides.b.sweep.path}")
    )
    return (*where, count, *((f"{left} without a partner",) if left else ()))


def _banners(compared: SidesCompared) -> list[Banner]:
    sides = compared.sides
    found = [Banner("danger", f"Compared by --force although {problem.what}.") for problem in compared.forced]
    found += [Banner("warning", text) for text in compared.warnings]
    if sides.one_sweep:
        return found + banners(sides.a)
    for name, analysis in ((sides.name_a, sides.a), (sides.name_b, sides.b)):
        found += [replace(banner, text=f"{name}: {banner.text}") for banner in banners(analysis)]
    return found


def _what_differs(compared: SidesCompared) -> Table:
    rows = tuple(Row((name, a, b)) for name, (a, b) in differing_settings(compared.sides).items())
    columns = tuple(Column(head, numeric=False) for head in ("Setting", compared.sides.name_a, compared.sides.name_b))
    caption = "As asked; the first matched setting at which they differ." if rows else "Nothing was asked differently."
    return Table("differs", "Settings that differ", columns, rows, caption)


def _left_out(compared: SidesCompared) -> Table | None:
    rows = tuple(Row((line,)) for line in unmatched(compared))
    return Table("unmatched", "Without a partner", (Column("Point", numeric=False),), rows) if rows else None
