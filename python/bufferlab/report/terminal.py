"""Draws an answer on a terminal, in the parts that the answer lists (`Report.parts`).

Lines wrap between words, never inside a number or a column's head. A table that is too wide for the terminal is drawn
as several tables, each with the first columns, which name the rows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from bufferlab.chapter.elements import Table
from bufferlab.report.document import Part, Report

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, Group, RenderableType
    from rich.table import Table as RichTable

#: The most rows of a sweep's table on a terminal. Longer tables would scroll the answer out of view; the HTML page has
#: all rows.
_MOST_ROWS = 24
_MAIN_TABLES = ("per-new-order", "per-transaction")
#: The number of characters that rich puts between two columns, and in total at the two edges of a table.
_GAP, _EDGES = 3, 2
_UNBOUNDED = 10_000
#: Matches a word, with its unit if it has one: they stay on one line, because a "%" on the next line would look like an
#: empty value.
_WHOLE = re.compile(r"\S*\d\)?(?: (?:%|[KMGT]i?B|bytes|ms|µs|s)(?=\W|$)\S*)?(?=\s|$)|\S+")
_STYLES = {"": "", "good": "green", "bad": "bold red", "doubt": "yellow", "found": "bold yellow", "quiet": "dim"}
_ROW_STYLES = {"failed": "red", "differs": "bold"}


def drawn(report: Report) -> Group:
    """Return the answer as an object that rich can print."""
    from rich.console import Group

    return Group(*(line for part in report.parts for line in _PARTS[part](report)))


def text(report: Report, width: int | None = None) -> str:
    """Return the answer as plain text in lines of at most `width` characters.

    The default width is that of the terminal. If standard output is not a terminal, no line wraps.
    """
    from rich.console import Console

    wide = None if sys.stdout.isatty() else _UNBOUNDED
    console = Console(width=width or wide, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(drawn(report))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _text(style: str, *sentences: str) -> Iterator[RenderableType]:
    yield from (_Lines(sentence, style) for sentence in sentences)


def _banners(report: Report) -> Iterator[RenderableType]:
    for banner in report.banners:
        is_danger = banner.kind == "danger"
        yield from _text("bold red" if is_danger else "yellow", f"{'!!' if is_danger else '!'} {banner.text}")


def _facts(report: Report) -> Iterator[RenderableType]:
    noted = {note.lead for note in report.notes}
    if facts := [fact for fact in report.facts if fact not in noted]:
        yield from _text("dim", " · ".join(facts))


def _notes(report: Report) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    for note in report.notes:
        line = Text.assemble((note.lead, _STYLES[note.look]), note.text)
        yield Padding(line, (0, 0, 0, note.indent), expand=False) if note.indent else line


def _checks(report: Report) -> Iterator[RenderableType]:
    passed, failed, rest = (report.check_counts[status] for status in ("passed", "failed", "not_applicable"))
    if not passed and not failed:
        yield from _text("", "Checks: no run could be checked.")
        return
    yield from _text("", f"Checks: {passed} passed, {failed} failed, {rest} not applicable.")
    yield from _text(
        "red", *(f"  failed: {one.title} ({one.detail})" for one in report.checks if one.status == "failed")
    )


def tables_of(report: Report) -> list[Table]:
    """Return the tables for a terminal, cut to their brief columns; the table that answers the question comes first."""
    blocks = [block for block in report.blocks if isinstance(block, Table)]
    lead = [block for block in blocks if block.id == report.lead]
    main = [block for block in blocks if block.id in _MAIN_TABLES]
    steps = [report.steps] if report.steps else []
    rest = [block for block in blocks if block not in lead + main]
    return [table.shortened for table in (*lead, *main, *steps, *rest) if table.brief and table.rows]


def _tables(report: Report) -> Iterator[RenderableType]:
    for table in tables_of(report):
        if report.is_stored and len(table.rows) > _MOST_ROWS:
            yield from _text("dim", f"{table.title}: {len(table.rows)} rows, in the report.")
        else:
            yield from (*_text("", table.title), _Drawn(table))
        yield from _text("", "")


def _untitled(report: Report) -> Iterator[RenderableType]:
    yield from map(_Drawn, tables_of(report))


def _captions(report: Report) -> Iterator[RenderableType]:
    yield from _text("dim", *dict.fromkeys(table.caption for table in tables_of(report) if table.caption))


_PARTS: dict[Part, Callable[[Report], Iterable[RenderableType]]] = {
    "": lambda report: _text("", ""),
    "question": lambda report: _text("dim", report.question),
    "answer": lambda report: _text("bold", report.answer),
    "differs": lambda report: _text("", *filter(None, [report.differs])),
    "facts": _facts,
    "limits": lambda report: _text("", *report.limits),
    "banners": _banners,
    "notes": _notes,
    "tables": _tables,
    "untitled": _untitled,
    "captions": _captions,
    "checks": _checks,
}


class _Lines:
    """A text in lines that end between words, and never between a number and its unit."""

    def __init__(self, text: str, style: str) -> None:
        self._text, self._style = text, style

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        # rich would parse a plain str as markup.
        yield Text("\n".join(_wrapped(line, options.max_width) for line in self._text.split("\n")), style=self._style)


class _Drawn:
    """A table that rich draws in as many parts as the terminal's width needs."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        table = self._table
        cells = [
            [column.title, *(row.cells[place] for row in table.rows)] for place, column in enumerate(table.columns)
        ]
        # Column heads, and numbers with their per cent sign, stay on one line. Other words may wrap.
        least = [
            max([len(column[0]), *(len(part) for cell in column[1:] for part in _WHOLE.findall(cell))])
            for column in cells
        ]
        room = options.max_width - _EDGES
        named = next((place for place, column in enumerate(table.columns) if column.numeric), len(least))
        for places in _parts(least, room, max(1, named)):
            widths = _widths([least[place] for place in places],
                             [max(map(len, cells[place])) for place in places], room)  # fmt: skip
            yield self._part([(place, cells[place], width) for place, width in zip(places, widths, strict=True)])

    def _part(self, columns: Sequence[tuple[int, list[str], int]]) -> RichTable:
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        part = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for place, (head, *_), width in columns:
            justify = "right" if self._table.columns[place].numeric else "left"
            part.add_column(Text(head), justify=justify, width=width, overflow="fold")  # type: ignore[arg-type]
        for nth, row in enumerate(self._table.rows, start=1):
            cells = (Text(_wrapped(column[nth], width)) for _, column, width in columns)
            part.add_row(*cells, style=_ROW_STYLES.get(row.mark))
        return part


def _wrapped(cell: str, width: int) -> str:
    """Return a cell in lines of at most `width` characters, unless a word is longer."""
    lines = [""]
    for part in _WHOLE.findall(cell):
        joined = f"{lines[-1]} {part}".lstrip()
        lines = [*lines[:-1], joined] if len(joined) <= width or not lines[-1] else [*lines, part]
    return "\n".join(lines)


def _parts(least: Sequence[int], room: int, named: int) -> list[list[int]]:
    """Return the columns of each part of a table, as many as fit into `room` characters.

    Each part begins with the `named` first columns, which name the rows. If these take more than half of the room, only
    the first column is repeated.
    """
    first = [*range(named if sum(least[:named]) + _GAP * (named - 1) <= room / 2 else 1)]
    parts, taken = [first], sum(least[place] + _GAP for place in first)
    for place in range(len(first), len(least)):
        if taken + least[place] > room and parts[-1] != first:
            parts.append(first)
            taken = sum(least[place] + _GAP for place in first)
        parts[-1] = [*parts[-1], place]
        taken += least[place] + _GAP
    return parts


def _widths(least: Sequence[int], whole: Sequence[int], room: int) -> list[int]:
    """Return the width of each column: that of its longest cell, if all fit into `room` characters.

    Otherwise the widest columns are narrowed step by step. The first column, which has names, is narrowed last.
    """
    widths = [max(pair) for pair in zip(least, whole, strict=True)]
    room -= _GAP * (len(widths) - 1)
    while sum(widths) > room and max(widths) > 1:
        # If no column can be narrowed between words, words are broken.
        wide = [place for place in range(len(widths)) if widths[place] > least[place]] or range(len(widths))
        widths[max(wide, key=lambda place: widths[place] * (1.0 if place else 0.8))] -= 1
    return widths
