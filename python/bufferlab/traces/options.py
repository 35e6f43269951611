"""Reads the options `--columns` and `--page-size` of `bufferlab curve`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bufferlab.errors import SpecError
from bufferlab.traces.column_names import PAGE_UNITS, SECONDS_OF
from bufferlab.units import GIB, UnitError, parse_bytes

_ROLES = ("time", "page", "size", "file")
_PART = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,"'])+""")
_QUOTED = re.compile(r"""(["'])(.*)\1(?::(\w+))?""")
_HINT = "write --columns time=NAME,page=NAME; further ones are size=NAME and file=NAME"


@dataclass(frozen=True)
class WantedColumns:
    """A column that an option names, by its name or its number from 1."""

    name: str
    position: int | None
    unit: str | None

    def __str__(self) -> str:
        is_plain = self.position is not None or not (self.name.isdigit() or set(self.name) & set(",:"))
        name = self.name if is_plain else f'"{self.name}"'
        return name + (f":{self.unit}" if self.unit else "")


def parse_columns(text: str | None) -> dict[str, WantedColumns]:
    """Return the columns that an option names, by role; {} without it. Raise SpecError if it names no page column.

    Also raise SpecError if the option cannot be parsed. Digits are a column number from 1; a column name that consists
    of digits must be in quotes.

    >>> {role: str(column) for role, column in parse_columns('time=ts:ms,page=3,file="7"').items()}
    {'time': 'ts:ms', 'page': '3', 'file': '"7"'}
    """
    found: dict[str, WantedColumns] = {}
    for part in _PART.findall(text) if text else ():
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if role not in _ROLES or not equals or not name or role in found:
            raise SpecError(f'"{part.strip()}" names no column', "--columns", _HINT)
        found[role] = _wanted(role, name)
    if text and "page" not in found:
        raise SpecError("no column of pages is named", "--columns", "add page=NAME")
    return found


def parse_page_size(asked: str | int | None) -> int | None:
    """Return the page size in bytes that an option gives, or None. Raise SpecError for 0, and for more than 1 GiB."""
    if asked is None:
        return None
    try:
        size_bytes = parse_bytes(asked)
    except UnitError as error:
        raise SpecError(error.what, "--page-size", error.hint) from error
    if not 0 < size_bytes <= GIB:
        raise SpecError(f'"{asked}" is no size of a page', "--page-size", 'write a size such as "16KiB"')
    return size_bytes


def _wanted(role: str, text: str) -> WantedColumns:
    units = {"time": tuple(SECONDS_OF), "file": ()}.get(role, PAGE_UNITS)
    if quoted := _QUOTED.fullmatch(text):
        name, unit = quoted[2], quoted[3]
        if not name or (unit and unit not in units):
            raise SpecError(f"{text} names no column", "--columns", _HINT)
        return WantedColumns(name, None, unit)
    name, colon, unit = text.rpartition(":")
    if not colon or unit not in units:
        if colon and name.isdigit():
            known = ", ".join(units) or "none"
            raise SpecError(f'"{unit}" is no unit of a {role}', "--columns", f"its units: {known}")
        name, unit = text, ""
    is_position = name.isascii() and name.isdigit()
    return WantedColumns(name, int(name[:9]) if is_position else None, unit or None)
