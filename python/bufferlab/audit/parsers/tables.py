"""Finds tables in text: Markdown, tabs, CSV, or columns separated by spaces; joins the header's cells of several rows.

A row with an empty first cell continues the row above if it only has parts of cells ("(26.35%)"). Otherwise it shares
the first cell of the row above. A column's header decides its role: throughput, requests per second, hit ratio, path to
a free page. A table with such columns becomes a table of results, which has each row's setting and its numbers by role.
Tables with settings as columns are transposed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean

from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.numbers import Number as Number
from bufferlab.audit.parsers.numbers import UnclearColumn, column_numbers, has_decimal_comma, head_power
from bufferlab.errors import Problem

_CUT_HINT = "give the whole file; a file of whole lines ends with a line's end"
MAX_TABLES, MAX_ROWS, MAX_CELLS = 2000, 10_000, 64
_PART = re.compile(r"\(.*\)|±.*|\+/-.*|\d+(?:[.,]\d+)?\s*%")
_PLAIN = re.compile(r"[-+~≈]?\$?\d[\d,.]*(?:[eE][+-]?\d+)?%?")
_NUMERIC = re.compile(
    r"[-+~≈]?\$?(?:\d{1,3}(?: \d{3})+(?:[.,]\d+)?|\d[\d,.'’]*|\.\d+)(?:[eE][+-]?\d+)?"
    r"\s*(?:[A-Za-z%]{0,8}|/\s?[a-z]{1,6})(?:\s*\(.*\)|\s*\[.*\]|\s*(?:±|\+/?-).*)?"
)
_UNIT = re.compile(r"(?:[KMGT]i?B?|kB|B|bytes|pages|%|ms|s|sec|min)", re.IGNORECASE)
#: Matches non-breaking spaces between digits, which separate thousands, not columns.
_NO_BREAKS = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d)")
_RULE = re.compile(r"[|+:=\-\s]+")
_ROLES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (role, re.compile(pattern, re.IGNORECASE))
    for role, pattern in (
        ("reads_per_tx", r"\b(?:reads?|r)\s*(?:per|/)\s*(?:new[- ]?orders?|tx|trx|transactions?|NO)\b"),
        ("writes_per_tx", r"\b(?:writes?|w)\s*(?:per|/)\s*(?:new[- ]?orders?|tx|trx|transactions?|NO)\b"),
        ("tps", r"\b[kM]?tps\b|\btransactions?\s?(?:/|per)\s?s(?:ec(?:ond)?)?\b"),
        ("tpmc", r"\b[kMG]?tpm-?c\b|\b[kMG]?NOPM\b"),
        ("reads_per_s", r"\b[kM]?r\s?/\s?s\b|\b[kM]?reads?\s?(?:/|per)\s?s(?:ec)?\b"),
        ("writes_per_s", r"\b[kM]?w\s?/\s?s\b|\b[kM]?writes?\s?(?:/|per)\s?s(?:ec)?\b"),
        ("iops", r"\b[kM]?IOPS\b"),
        ("mb_per_s", r"\bMBPS\b|\bMB/s\b"),
        ("hit", r"\bhit\b"),
        ("free_list", r"\bfree[\s_-]*list\b|\bstep\s*1\b"),
        ("lru_scan", r"\blru[\s_-]*scan\b(?![\s_-]*depth)|\bstep\s*2\b"),
        ("single_page", r"\bsingle[\s_-]*page\b|\bstep\s*3\b"),
        ("spread", r"±|\b(?:sd|std|stdev|stddev|ci|cv|95\s?%|interval|min|max)\b"),
        ("n", r"\b(?:n|runs|reps|repetitions)\b$"),
    )
)
#: Roles that rules use only together with other roles. A table that has no other roles gives no results.
MEANINGLESS = {None, "mb_per_s", "spread", "n"}
_ANY = re.compile("|".join(pattern.pattern for role, pattern in _ROLES if role not in MEANINGLESS), re.IGNORECASE)
#: Every text that _ANY matches contains one of these words, in upper or lower case. Looking for them first is quick.
_WORDS = (
    "read",
    "write",
    "tps",
    "transaction",
    "tpm",
    "nopm",
    "iops",
    "hit",
    "free",
    "lru",
    "single",
    "step",
    "/",
    "per",
)


@dataclass(frozen=True)
class TableRow:
    """A row of a table: its cells, and the number of its line in the file."""

    line: int
    cells: tuple[str, ...]


@dataclass
class TextTable:
    """A table as found in a text: its place, header and rows."""

    place: Place
    header: tuple[str, ...]
    rows: list[TableRow] = field(default_factory=list)
    lines: int = 0
    """The number of the table's lines, including lines that only draw rules."""


class TableParser:
    """A parser of the lines that no other parser takes. After `close`, `tables` has all tables found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._rulers = 0
        self.tables: list[TextTable] = []
        self.unread: list[Problem] = []
        """Rows that belong to a table and cannot be read."""
        self._endless = 0
        """The number of the current line if it has no newline, so that it may be cut; else 0."""
        self._is_framed = self._is_unframed = False
        """Whether the table's first row ends with a |, and whether the last row of such a table does not."""
        self._kind = ""
        self._block: list[tuple[int, list[str]]] = []
        self._label = ""
        self._above = (0, "")
        """The number and text of the line before, which may be the head of a transposed table."""

    def take(self, number: int, text: str, label: str, *, is_endless: bool = False) -> None:
        """Parse a line under a caption's label. A blank line ends the table. `is_endless`: the line has no newline."""
        self._endless = number if is_endless else 0
        if not text.isascii():
            text = _NO_BREAKS.sub("", text)
        above, self._above = self._above, (number, text)
        if not self._block and "|" not in text and "\t" not in text and not may_be_header(text):
            return
        split = _split(text, self._kind, len(self._block[0][1]) if self._block else 0)
        if split is None and self._block:
            self.close()
            split = _split(text, "", 0)
        if split is None:
            if (head := self._head_above(above, number, text)) is None:
                return
            split, self._kind = head, head[0]
        kind, cells = split
        if not cells:
            self._rulers += 1
            return
        if kind != self._kind:
            self.close()
        self._kind, self._label = kind, label
        is_framed = text.rstrip().endswith("|")
        self._is_framed = is_framed if not self._block else self._is_framed
        self._is_unframed = self._is_framed and not is_framed
        if len(self._block) < MAX_ROWS:
            self._block.append((number, cells[:MAX_CELLS]))

    def _head_above(self, above: tuple[int, str], number: int, text: str) -> tuple[str, list[str]] | None:
        """Begin a transposed table if this line and the line above form one; return this line's kind and cells.

        The result is None if they form none.
        """
        if above[0] != number - 1 or not above[1].strip() or not may_be_header(text):
            return None
        for kind in ("csv", "semicolons", "spaces"):
            head, cells = _cells_of(above[1], kind), _cells_of(text, kind)
            # The table's corner cell may be empty. In columns separated by spaces it is then missing.
            if kind == "spaces" and len(head) == len(cells) - 1:
                head = ["", *head]
            if len(cells) < 2 or len(head) != len(cells) or role_of(cells[0]) in MEANINGLESS:
                continue
            if all(map(_NUMERIC.fullmatch, cells[1:])):
                self._block = [(above[0], head[:MAX_CELLS])]
                return kind, cells
        return None

    def close(self) -> None:
        """End the table that is being read, and keep it in `tables` if it really is a table."""
        block, kind, self._block, self._kind = self._block, self._kind, [], ""
        rulers, self._rulers = self._rulers, 0
        if len(block) < 2 or len(self.tables) >= MAX_TABLES:
            return
        cut = block[-1] if block[-1][0] == self._endless and (_is_short(block) or self._is_unframed) else None
        table, odd = _table(block[:-1] if cut else block, kind, self.file, self._label)
        if table is not None:
            table.lines = len(block) + rulers - len(odd) - bool(cut)
            self.tables.append(table)
            if cut and results_of(table):
                what = f"the last row is cut, in cell {len(cut[1])} of {len(block[0][1])}, and is not read"
                self.unread.append(Problem(what, f"{self.file}:{cut[0]}", _CUT_HINT))
        if odd and any(role_of(cell) not in MEANINGLESS for cell in block[0][1]):
            line, cells = odd[0]
            more = f", and {len(odd) - 1} more like it" if odd[1:] else ""
            what = f"a row of {len(cells)} cells below a head of {len(block[0][1])} is not read{more}"
            self.unread.append(Problem(what, f"{self.file}:{line}", "give each row as many cells as the head"))


def _is_short(block: list[_Row]) -> bool:
    """Return whether the last row has fewer cells than every other row."""
    return len(block[-1][1]) < min(len(cells) for _, cells in block[:-1])


def may_be_header(line: str) -> bool:
    """Return whether a line may be a header with a column of a known role. It must be quick: every line is tested."""
    lowered = line.lower()
    return any(word in lowered for word in _WORDS) and _ANY.search(line) is not None


@lru_cache(maxsize=4096)
def role_of(header: str) -> str | None:
    """Return the role of a header cell; None when it has none.

    >>> role_of("I/O r/s"), role_of("Hit Ratio Start"), role_of("Buffer Size")
    ('reads_per_s', 'hit', None)
    """
    if len(header) > 80:
        return None
    return next((role for role, pattern in _ROLES if pattern.search(header)), None)


def _unquoted(cell: str) -> str:
    return cell[1:-1].strip() if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _split(text: str, kind: str, width: int) -> tuple[str, list[str]] | None:
    """Return the kind of a line's separators, and its cells (none if it only draws a rule); None for other lines.

    `kind` and `width` describe the table being read: its separators and its number of columns.
    """
    bare = text.strip()
    if not bare:
        return None
    if "|" in bare and (bare.startswith("|") or kind == "pipe"):
        if _RULE.fullmatch(bare):
            return "pipe", []
        return "pipe", [cell.strip().strip("*` ") for cell in bare.removeprefix("|").removesuffix("|").split("|")]
    if kind == "pipe" and _RULE.fullmatch(bare):
        return "pipe", []
    if "\t" in text.rstrip():
        return "tab", [_unquoted(cell.strip()) for cell in text.rstrip("\r\n").split("\t")]
    if not width and not may_be_header(bare):
        return None
    for separated in ("semicolons", "csv"):
        if _SEPARATORS[separated] in bare and len(bare) < 2000 and kind in ("", separated):
            cells = _cells_of(bare, separated)
            # In a row separated by semicolons, commas are decimal.
            is_head = _is_head(cells) if separated == "semicolons" or ";" not in bare else _known(cells) > 1
            if len(cells) > 1 and (width or is_head):
                return separated, cells
    return _spaced(bare, width if kind == "spaces" else 0)


_SEPARATORS = {"csv": ",", "semicolons": ";"}


def _cells_of(text: str, kind: str) -> list[str]:
    if kind == "spaces":
        return re.split(r" {2,}", text.strip())
    return [cell.strip() for cell in next(csv.reader([text.replace("\r", " ")], delimiter=_SEPARATORS[kind]), [])]


def _is_head(cells: list[str]) -> bool:
    """Return whether cells are a header: several have known roles, or one of them has, and all cells have few words."""
    others = [cell for cell in cells if role_of(cell) is None]
    if len(cells) - len(others) != 1:
        return len(others) < len(cells)
    in_few_words = all(len(cell) <= 40 and len(cell.split()) <= 4 for cell in cells)
    return in_few_words and not all(map(_NUMERIC.fullmatch, others))


def _spaced(bare: str, width: int) -> tuple[str, list[str]] | None:
    wide = re.split(r"\s{2,}", bare)
    if width:
        if _RULE.fullmatch(bare):
            return "spaces", []
        words = bare.split()
        if len(words) > 1 and sum(bool(_NUMERIC.fullmatch(cell)) for cell in words) >= len(words) / 2:
            found = (cells for cells in (words, wide, _with_units(words, width)) if len(cells) == width)
            return "spaces", next(found, words)
        return ("spaces", wide) if len(wide) > 2 else None
    for cells in (wide, bare.split()):
        if len(cells) > 2 and _known(cells) >= 2 and len(bare) < 400:
            return "spaces", cells
    return None


def _with_units(words: list[str], width: int) -> list[str]:
    """Return the words of a row as cells. Units are joined to the numbers before them until `width` cells remain."""
    found: list[str] = []
    for at, word in enumerate(words):
        too_many = len(found) + len(words) - at > width
        if found and too_many and _UNIT.fullmatch(word) and _NUMERIC.fullmatch(found[-1]):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _known(cells: list[str]) -> int:
    return sum(role_of(cell) is not None for cell in cells)


_Row = tuple[int, list[str]]


def _table(block: list[_Row], kind: str, file: str, label: str) -> tuple[TextTable | None, list[_Row]]:
    """Return the table of a block, and the rows whose cells do not fit its columns."""
    heads = 1
    while heads < len(block) and _is_header(block[heads][1]):
        heads += 1
    is_sideways = any(role_of(cells[0]) not in MEANINGLESS for _, cells in block[heads:] if cells)
    if heads == len(block) or (not is_sideways and all(_PLAIN.fullmatch(cell) for cell in block[0][1] if cell)):
        return None, []
    wanted, odd = max(len(cells) for _, cells in block[:heads]), []
    width = max(len(cells) for _, cells in block)
    table = TextTable(Place(file, block[0][0], label), _joined([cells for _, cells in block[:heads]], width))
    for number, cells in block[heads:]:
        if cells and not cells[0] and table.rows:
            above = table.rows[-1]
            if all(_PART.fullmatch(cell) for cell in cells if cell):
                table.rows[-1] = TableRow(above.line, _appended(above.cells, cells))
                continue
            cells = [above.cells[0] if above.cells else "", *cells[1:]]
        if any(cells[wanted:]) or (kind == "spaces" and len(cells) < wanted):
            odd.append((number, cells))
        else:
            table.rows.append(TableRow(number, tuple(cells)))
    return (table if table.rows else None), odd


def _is_header(cells: list[str]) -> bool:
    filled = [cell for cell in cells if cell]
    numbers = sum(bool(_NUMERIC.fullmatch(cell) or _PART.fullmatch(cell)) for cell in filled)
    first_is_number = bool(cells and _NUMERIC.fullmatch(cells[0]))
    # "50%" between "Start" and "End" belongs to a header. So does a row with only words.
    known = sum(role_of(cell) is not None for cell in filled[1:])
    return bool(filled) and not first_is_number and (numbers == 0 or (numbers < len(filled) / 2 and known > 0))


def _joined(rows: list[list[str]], width: int) -> tuple[str, ...]:
    """Return the header rows joined into one. A cell that spans columns is added to each that has words below it."""
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


@dataclass(frozen=True)
class ResultRow:
    """The results of one setting: by role, the numbers of all columns of that role, in order."""

    place: Place
    setting: str
    values: dict[str, tuple[Number, ...]]
    runs: dict[str, tuple[Number, ...]] = field(default_factory=dict)
    """The number of each run, by role, if the table has a column for each run; `values` then has the runs' mean."""

    def first(self, role: str) -> Number | None:
        """Return the first number of a role; None when the row has none."""
        found = self.values.get(role, ())
        return found[0] if found else None

    def each(self, role: str) -> tuple[Number, ...]:
        """Return a role's numbers, one for each run; only the first number if the table has no column for each run."""
        return self.runs.get(role) or self.values.get(role, ())[:1]


@dataclass(frozen=True)
class ResultTable:
    """A table of results: the name of the varied setting, and a row for each of its values."""

    place: Place
    setting_name: str
    rows: tuple[ResultRow, ...]
    unread: tuple[str, ...] = ()
    """The messages about columns that cannot be read."""

    @property
    def roles(self) -> set[str]:
        """Return the roles of all columns that have numbers."""
        return {role for row in self.rows for role in row.values}


def results_of(table: TextTable) -> ResultTable | None:
    """Return the results in a table; None if it has no column of a known role."""
    upright = _results(table.place, table.header, [(row.line, row.cells) for row in table.rows])
    return upright or _results(table.place, *_turned(table))


def _turned(table: TextTable) -> tuple[tuple[str, ...], list[tuple[int, tuple[str, ...]]]]:
    rows = table.rows
    header = (table.header[0] if table.header else "", *(row.cells[0] if row.cells else "" for row in rows))
    columns = [
        (table.place.line, (name, *(row.cells[at] if at < len(row.cells) else "" for row in rows)))
        for at, name in enumerate(table.header)
        if at > 0
    ]
    return header, columns


def _results(place: Place, header: tuple[str, ...], rows: list[tuple[int, tuple[str, ...]]]) -> ResultTable | None:
    roles = [role_of(name) for name in header]
    if _is_measured(header, rows):
        # No column has the setting, so the row's number is used in place of it.
        header, roles = ("", *header), [None, *roles]
        rows = [(line, (f"row {at}", *cells)) for at, (line, cells) in enumerate(rows, start=1)]
    else:
        roles[:1] = [None]
    if not {*roles} - MEANINGLESS:
        return None
    columns = {
        at: tuple(cells[at] if at < len(cells) else "" for _, cells in rows) for at, one in enumerate(roles) if one
    }
    numbers, unread = _read_columns(header, roles, columns)
    of_runs = _columns_of_runs(header, roles, numbers)
    found = []
    for row, (line, cells) in enumerate(rows):
        values: dict[str, tuple[Number, ...]] = {}
        for at, column in numbers.items():
            if column[row] and (role := roles[at]):
                values[role] = values.get(role, ()) + column[row]
        runs = {role: tuple(numbers[at][row][0] for at in ats if numbers[at][row]) for role, ats in of_runs.items()}
        values |= {role: (_mean(each),) for role, each in runs.items() if each}
        if values and cells and cells[0]:
            found.append(ResultRow(Place(place.file, line, place.label), cells[0], values, runs))
    if not found and not unread:
        return None
    return ResultTable(place, header[0].strip(), tuple(found), tuple(unread))


_RUN = re.compile(r"(?:\b(?:runs?|reps?|repetition|repeat|trial|iteration|try)\b\s*#?|#)\s*\d{1,3}\b", re.IGNORECASE)


def _columns_of_runs(header: tuple[str, ...], roles: list[str | None], columns: Iterable[int]) -> dict[str, list[int]]:
    """Return role -> columns whose heads differ only in the number of a run: "Run 1 TpmC", "Run 2 TpmC"."""
    found: dict[str, list[int]] = {}
    for at in columns:
        if role := roles[at]:
            found.setdefault(role, []).append(at)
    return {
        role: ats
        for role, ats in found.items()
        if len(ats) > 1
        and all(_RUN.search(header[at]) for at in ats)
        and len({_RUN.sub("", header[at]) for at in ats}) == 1
    }


def _mean(numbers: tuple[Number, ...]) -> Number:
    return Number(fmean(one.value for one in numbers), max(one.decimals for one in numbers) + 2, numbers[0].percent)


def _is_measured(header: tuple[str, ...], rows: list[tuple[int, tuple[str, ...]]]) -> bool:
    """Return whether the first column, which usually has settings, has results."""
    if not header or role_of(header[0]) in MEANINGLESS or not {*map(role_of, header[1:])} - MEANINGLESS:
        return False
    return all(cells and _NUMERIC.fullmatch(cells[0]) for _, cells in rows)


def _read_columns(
    header: tuple[str, ...], roles: list[str | None], columns: dict[int, tuple[str, ...]]
) -> tuple[dict[int, list[tuple[Number, ...]]], list[str]]:
    """Return the numbers of each column, and messages about columns that cannot be read."""
    commas = {at for at, cells in columns.items() if has_decimal_comma(cells)}
    found, unread = {}, []
    for at, cells in columns.items():
        try:
            numbers = column_numbers(cells, beside_commas=bool(commas - {at}), power=head_power(header[at]))
        except UnclearColumn as error:
            unread.append(f"column {header[at]!r} is not read: {error}")
            continue
        found[at] = (
            [tuple(map(_percent, row)) for row in numbers] if _is_fraction(roles[at], header[at], numbers) else numbers
        )
    return found, unread


def _is_fraction(role: str | None, head: str, numbers: list[tuple[Number, ...]]) -> bool:
    """Return whether a column of hit ratios has fractions of 1, not percentages."""
    every = [number for row in numbers for number in row]
    return role == "hit" and "%" not in head and all(one.value <= 1 and not one.percent for one in every)


def _percent(fraction: Number) -> Number:
    return Number(round(100 * fraction.value, 12), fraction.decimals - 2)
