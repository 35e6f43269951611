"""Finds tables in text: Markdown, tabs, CSV, or columns separated by spaces; joins the cells of several header rows.

A row whose first cell is empty continues the row above it when it only adds parts ("(26.35%)"), and repeats the first
cell otherwise. A column's header tells its role: throughput, requests per second, hit ratio, victim path. Tables with
such columns become results: each row's setting, and its numbers by role. Tables on their side are turned.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from functools import lru_cache

from bufferlab.audit.parsers.text import Place

MAX_TABLES, MAX_ROWS, MAX_CELLS = 2000, 10_000, 64
_PART = re.compile(r"\(.*\)|±.*|\+/-.*|\d+(?:\.\d+)?\s*%")
_PLAIN = re.compile(r"[-+~≈]?\$?\d[\d,]*(?:\.\d+)?%?")
_WITH_UNIT = re.compile(r"\d[\d,.]*\s*[A-Za-z%]{0,8}(?:\s*\(.*\))?")
_RULE = re.compile(r"[|+:=\-\s]+")
_ROLES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (role, re.compile(pattern, re.IGNORECASE))
    for role, pattern in (
        ("reads_per_tx", r"\b(?:reads?|r)\s*(?:per|/)\s*(?:new[- ]?orders?|tx|trx|transactions?|NO)\b"),
        ("writes_per_tx", r"\b(?:writes?|w)\s*(?:per|/)\s*(?:new[- ]?orders?|tx|trx|transactions?|NO)\b"),
        ("tpmc", r"\btpm-?c\b|\bNOPM\b"),
        ("reads_per_s", r"\br\s?/\s?s\b|\breads?\s?(?:/|per)\s?s(?:ec)?\b"),
        ("writes_per_s", r"\bw\s?/\s?s\b|\bwrites?\s?(?:/|per)\s?s(?:ec)?\b"),
        ("iops", r"\bIOPS\b"),
        ("mb_per_s", r"\bMBPS\b|\bMB/s\b"),
        ("hit", r"\bhit\b"),
        ("free_list", r"\bfree[\s_-]*list\b|\bstep\s*1\b"),
        ("lru_scan", r"\blru[\s_-]*scan\b(?![\s_-]*depth)|\bstep\s*2\b"),
        ("single_page", r"\bsingle[\s_-]*page\b|\bstep\s*3\b"),
        ("spread", r"±|\b(?:sd|std|stdev|stddev|ci|cv|95\s?%|interval|min|max)\b"),
        ("n", r"\b(?:n|runs|reps|repetitions)\b$"),
    )
)
_ANY = re.compile("|".join(pattern.pattern for _, pattern in _ROLES), re.IGNORECASE)


@dataclass(frozen=True)
class TableRow:
    """The cells of a row, and the number of its line."""

    line: int
    cells: tuple[str, ...]


@dataclass
class Table:
    """A table: a header and rows."""

    place: Place
    header: tuple[str, ...]
    rows: list[TableRow] = field(default_factory=list)


class TableParser:
    """A parser of the lines that no other parser takes; `tables` has all that were found, after `close`."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.tables: list[Table] = []
        self._kind = ""
        self._block: list[tuple[int, list[str]]] = []
        self._label = ""

    def take(self, number: int, text: str, label: str) -> None:
        """Parse a line under a caption's label; a blank one ends the table."""
        split = _split(text, self._kind, bool(self._block))
        if split is None and self._block:
            self.close()
            split = _split(text, "", False)
        if split is None:
            return
        kind, cells = split
        if not cells:
            return
        if kind != self._kind:
            self.close()
        self._kind, self._label = kind, label
        if len(self._block) < MAX_ROWS:
            self._block.append((number, cells[:MAX_CELLS]))

    def close(self) -> None:
        """End the table that is being read."""
        block, self._block, self._kind = self._block, [], ""
        if len(block) < 2 or len(self.tables) >= MAX_TABLES:
            return
        table = _table(block, self.file, self._label)
        if table is not None:
            self.tables.append(table)


def may_be_header(line: str) -> bool:
    """Return whether some column of a line could have a role. Called for every line, so it must be quick."""
    return _ANY.search(line) is not None


@lru_cache(maxsize=4096)
def role_of(header: str) -> str | None:
    """Return the role of a header cell; None when it has none.

    >>> role_of("I/O r/s"), role_of("Hit Ratio Start"), role_of("Buffer Size")
    ('reads_per_s', 'hit', None)
    """
    if len(header) > 80:
        return None
    return next((role for role, pattern in _ROLES if pattern.search(header)), None)


def _split(text: str, kind: str, begun: bool) -> tuple[str, list[str]] | None:
    """Return how a line is split into cells, and the cells (none in a ruler); None when it belongs to no table."""
    bare = text.strip()
    if not bare:
        return None
    if "|" in bare and (bare.startswith("|") or kind == "pipe"):
        if _RULE.fullmatch(bare):
            return "pipe", []
        return "pipe", [cell.strip().strip("*` ") for cell in bare.strip("|").split("|")]
    if kind == "pipe" and _RULE.fullmatch(bare):
        return "pipe", []
    if "\t" in text.rstrip():
        return "tab", [cell.strip() for cell in text.rstrip("\r\n").split("\t")]
    if not begun and not may_be_header(bare):
        return None
    if "," in bare and len(bare) < 2000:
        cells = [cell.strip() for cell in next(csv.reader([bare.replace("\r", " ")]))]
        if (kind == "csv" and begun and len(cells) > 1) or _known(cells) >= 2:
            return "csv", cells
    return _spaced(bare, begun and kind == "spaces")


def _spaced(bare: str, begun: bool) -> tuple[str, list[str]] | None:
    wide = [cell.strip() for cell in re.split(r"\s{2,}", bare)]
    if begun:
        if _RULE.fullmatch(bare):
            return "spaces", []
        numbers = bare.split()
        if len(numbers) > 1 and sum(bool(_WITH_UNIT.fullmatch(cell)) for cell in numbers) >= len(numbers) - 1:
            return "spaces", numbers
        return ("spaces", wide) if len(wide) > 2 else None
    for cells in (wide, bare.split()):
        if len(cells) > 2 and _known(cells) >= 2 and len(bare) < 400:
            return "spaces", cells
    return None


def _known(cells: list[str]) -> int:
    return sum(role_of(cell) is not None for cell in cells)


def _table(block: list[tuple[int, list[str]]], file: str, label: str) -> Table | None:
    heads = 1
    while heads < len(block) and _is_header(block[heads][1]):
        heads += 1
    if heads == len(block) or all(_PLAIN.fullmatch(cell) for cell in block[0][1] if cell):
        return None
    width = max(len(cells) for _, cells in block)
    table = Table(Place(file, block[0][0], label), _joined([cells for _, cells in block[:heads]], width))
    for number, cells in block[heads:]:
        if cells and not cells[0] and table.rows:
            above = table.rows[-1]
            if all(_PART.fullmatch(cell) for cell in cells if cell):
                table.rows[-1] = TableRow(above.line, _appended(above.cells, cells))
                continue
            cells = [above.cells[0] if above.cells else "", *cells[1:]]
        table.rows.append(TableRow(number, tuple(cells)))
    return table if table.rows else None


def _is_header(cells: list[str]) -> bool:
    filled = [cell for cell in cells if cell]
    numbers = sum(bool(_WITH_UNIT.fullmatch(cell) or _PART.fullmatch(cell)) for cell in filled)
    first_is_number = bool(cells and _WITH_UNIT.fullmatch(cells[0]))
    # "50%" between "Start" and "End" belongs to a header; so does a row of words alone, such as one badly read.
    known = sum(role_of(cell) is not None for cell in filled[1:])
    return bool(filled) and not first_is_number and (numbers == 0 or (numbers < len(filled) / 2 and known > 0))


def _joined(rows: list[list[str]], width: int) -> tuple[str, ...]:
    """Join the header rows; a cell that spans columns counts for each of them where the next row has words."""
    names = [""] * width
    for place, row in enumerate(rows):
        last = place == len(rows) - 1
        carried = ""
        for column in range(width):
            own = row[column] if column < len(row) else ""
            below = "" if last else (rows[place + 1][column] if column < len(rows[place + 1]) else "")
            carried = own or (carried if below else "")
            if carried and carried not in names[column]:
                names[column] = f"{names[column]} {carried}".strip()
    return tuple(names)


def _appended(above: tuple[str, ...], cells: list[str]) -> tuple[str, ...]:
    width = max(len(above), len(cells))
    both = [((above[i] if i < len(above) else ""), (cells[i] if i < len(cells) else "")) for i in range(width)]
    return tuple(f"{old} {more}".strip() for old, more in both)


_NUMBER = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s*(%?)")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written: its value, its decimals, and whether a per cent sign follows."""

    value: float
    decimals: int
    percent: bool = False

    def __str__(self) -> str:
        return f"{self.value:.{self.decimals}f}"

    @property
    def last_digit(self) -> float:
        """The value of one unit of its last digit."""
        return float(10**-self.decimals)


@dataclass(frozen=True)
class ResultRow:
    """The results of one setting: by role, the numbers of all columns of that role, in order."""

    place: Place
    setting: str
    values: dict[str, tuple[Number, ...]]

    def first(self, role: str) -> Number | None:
        """Return the first number of a role; None when the row has none."""
        found = self.values.get(role, ())
        return found[0] if found else None


@dataclass(frozen=True)
class ResultTable:
    """A table of results: the name of the varied setting, and a row for each of its values."""

    place: Place
    setting_name: str
    rows: tuple[ResultRow, ...]

    @property
    def roles(self) -> set[str]:
        """Every role that some column has."""
        return {role for row in self.rows for role in row.values}


def numbers_in(cell: str) -> tuple[Number, ...]:
    """Return the numbers of a cell: "1539671 (26.35%)" has two.

    >>> numbers_in("1539671 (26.35%)")
    (Number(value=1539671.0, decimals=0, percent=False), Number(value=26.35, decimals=2, percent=True))
    """
    found = []
    for text, percent in _NUMBER.findall(cell[:200]):
        plain = text.replace(",", "")
        if len(plain) <= 24:
            found.append(Number(float(plain), len(plain.partition(".")[2]), percent == "%"))
    return tuple(found)


def results_of(table: Table) -> ResultTable | None:
    """Return the results in a table; None when it has no column that we know."""
    upright = _results(table.place, table.header, [(row.line, row.cells) for row in table.rows])
    return upright or _results(table.place, *_turned(table))


def _turned(table: Table) -> tuple[tuple[str, ...], list[tuple[int, tuple[str, ...]]]]:
    rows = table.rows
    header = (table.header[0] if table.header else "", *(row.cells[0] if row.cells else "" for row in rows))
    columns = [
        (table.place.line, (name, *(row.cells[at] if at < len(row.cells) else "" for row in rows)))
        for at, name in enumerate(table.header)
        if at > 0
    ]
    return header, columns


def _results(place: Place, header: tuple[str, ...], rows: list[tuple[int, tuple[str, ...]]]) -> ResultTable | None:
    roles = [role_of(name) if at > 0 else None for at, name in enumerate(header)]
    if not any(roles):
        return None
    found = []
    for line, cells in rows:
        values: dict[str, tuple[Number, ...]] = {}
        for role, cell in zip(roles, cells, strict=False):
            numbers = numbers_in(cell) if role else ()
            if role and numbers:
                values[role] = values.get(role, ()) + numbers
        if values and cells and cells[0]:
            found.append(ResultRow(Place(place.file, line, place.label), cells[0], values))
    return ResultTable(place, header[0].strip(), tuple(found)) if found else None
