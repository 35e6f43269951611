"""Makes rows of results from a table: each row's setting, and its numbers by role. Turns tables on their side."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bufferlab.audit.parsers.tables import Table, role_of
from bufferlab.audit.parsers.text import Place

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
    if upright is not None:
        return upright
    return _results(table.place, *_turned(table))


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
