"""Decides the columns of a table of page accesses, their units, and whether it has a header. Reads no whole column.

The unit of the page column comes from the option, a known format or the column's name, in this order. docs/curve.md has
these rules for users.

`FORMATS` has the published formats of block traces that are tables. Sources: MSR Cambridge: README of SNIA IOTTA 388
(times in 100 ns, offsets in bytes). SYSTOR '17: README of the traces at SNIA (seconds, bytes; the response may be
empty). Alibaba: README of the block traces (bytes, us). Tencent: README of SNIA IOTTA 28064 (Unix seconds, sectors of
512 bytes). SPC: "SPC Trace File Format Specification" 1.0.1, 2002 (seconds, bytes of size; blocks are of 512 bytes in
the traces of UMass). MQSim: its README (sectors; another file gives the unit of times, and its own traces have ns).
CloudPhysics: its trace in libCacheSim's repository, as CSV and as vscsi.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from bufferlab.errors import DataFileError
from bufferlab.traces import column_names
from bufferlab.traces.column_names import plain
from bufferlab.traces.options import WantedColumns
from bufferlab.traces.requests import SECTOR_BYTES

#: The bytes of a sector. Sizes that are all multiples of it are assumed to be in bytes.
_SECTOR = 512
_DIGITS, _TIME_NUMBER = "[0-9]{1,20}", r"[0-9]{1,20}(\.[0-9]*)?"
_FLAG, _LETTER = "[01]", "[rw]|read|write"


@dataclass(frozen=True)
class TableFormat:
    """A published format of block traces that are tables; columns are numbered from 0."""

    name: str
    columns: Mapping[str, int]
    """The column numbers of time, page and size."""
    units: Mapping[str, str]
    """The units of the columns time, page and size."""
    files: tuple[int, ...]
    """The column numbers that together identify the disk."""
    heads: tuple[str, ...] = ()
    """The header lines of this format; none if published files have no header line."""
    form: tuple[str, ...] = ()
    """A regular expression for each cell of a row in a file without a header line, in lower case."""
    in_sectors: bool = False
    """Whether a table with offsets in bytes may look the same.

    If so, some size must not be a multiple of a sector's bytes.
    """
    in_order: bool = False
    """Whether a table with other columns may look the same. If so, times must not run backwards."""
    separators: str = ","
    has_further: bool = False
    """Whether more columns may follow."""

    def has_head(self, names: Sequence[str]) -> bool:
        """Return whether these column names are a header line of the format, ignoring case, blanks and punctuation."""
        return [plain(name) for name in names] in [[plain(name) for name in head.split(",")] for head in self.heads]

    def fits(self, row: Sequence[str]) -> bool:
        """Return whether the cells of a row match the format's patterns."""
        if len(row) < len(self.form) or (len(row) > len(self.form) and not self.has_further):
            return False
        return all(re.fullmatch(form, cell.lower()) for form, cell in zip(self.form, row, strict=False))

    def has_form(self, rows: Sequence[Sequence[str]], separator: str) -> bool:
        """Return whether rows look like this format.

        A damaged row after the first is not checked here: it is reported later.
        """
        if not self.form or not rows or separator not in self.separators or not self.fits(rows[0]):
            return False
        times, sizes = ([row[self.columns[role]] for row in rows] for role in ("time", "size"))
        if self.in_order:
            numbers = [float(time) for time in times if re.fullmatch(_TIME_NUMBER, time)]
            if any(later < earlier for earlier, later in pairwise(numbers)):
                return False
        return not (
            self.in_sectors and all(int(size) % _SECTOR == 0 for size in sizes if size.isascii() and size.isdecimal())
        )


_MSR = "Timestamp,Hostname,DiskNumber,Type,Offset,Size"
_MSR_FORM = ("[0-9]*", ".*", "[0-9]*", "read|write", ".*", ".*")
_BYTES = {"page": "bytes", "size": "bytes"}
_SECTORS = {"page": "sectors", "size": "sectors"}

FORMATS = (
    TableFormat(
        "MSR Cambridge",
        {"time": 0, "page": 4, "size": 5},
        {"time": "100ns", **_BYTES},
        (1, 2),
        (_MSR, f"{_MSR},ResponseTime"),
        _MSR_FORM,
    ),
    TableFormat(
        "MSR Cambridge",
        {"time": 0, "page": 4, "size": 5},
        {"time": "100ns", **_BYTES},
        (1, 2),
        form=(*_MSR_FORM, ".*"),
    ),
    TableFormat(
        "SYSTOR '17",
        {"time": 0, "page": 4, "size": 5},
        {"time": "s", **_BYTES},
        (3,),
        ("Timestamp,Response,IOType,LUN,Offset,Size",),
        (r"[0-9]+\.[0-9]+", r"([0-9]+\.[0-9]+)?", _LETTER, _DIGITS, _DIGITS, _DIGITS),
    ),
    TableFormat(
        "Alibaba",
        {"time": 4, "page": 2, "size": 3},
        {"time": "us", **_BYTES},
        (0,),
        ("device_id,opcode,offset,length,timestamp",),
        (_DIGITS, _LETTER, _DIGITS, _DIGITS, "[0-9]{16}"),
    ),
    TableFormat(
        "Tencent",
        {"time": 0, "page": 1, "size": 2},
        {"time": "s", **_SECTORS},
        (4,),
        ("Timestamp,Offset,Size,IOType,VolumeID",),
        ("[0-9]{9,10}", _DIGITS, _DIGITS, _FLAG, _DIGITS),
        in_sectors=True,
    ),
    TableFormat(
        "SPC",
        {"time": 4, "page": 1, "size": 2},
        {"time": "s", "page": "sectors", "size": "bytes"},
        (0,),
        form=(_DIGITS, _DIGITS, _DIGITS, _LETTER, _TIME_NUMBER),
        in_order=True,
        has_further=True,
    ),
    TableFormat(
        "CloudPhysics",
        {"time": 1, "page": 4, "size": 3},
        {"time": "s", "page": "sectors", "size": "bytes"},
        (),
        ("version,time,op,size,lbn",),
    ),
    TableFormat(
        "MQSim",
        {"time": 0, "page": 2, "size": 3},
        {"time": "ns", **_SECTORS},
        (1,),
        form=(_DIGITS, _DIGITS, _DIGITS, _DIGITS, _FLAG),
        in_sectors=True,
        in_order=True,
        separators=" \t",
    ),
)
"""The formats. Each is recognised by its header line or by the patterns of its rows."""


SAMPLED_ROWS = 100
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|0x[0-9a-f]+", re.IGNORECASE)
_UNNAMED = {"time": 0, "page": 1, "size": 2}
_HINT = "name its columns: --columns time=NAME,page=NAME, or their numbers: time=1,page=2"
_NOT_NAMED = "the first line does not name the columns"


@dataclass(frozen=True)
class TraceColumn:
    """A column of a table: its index from 0, and the unit of its numbers."""

    at: int
    unit: str | None = None


@dataclass(frozen=True)
class Layout:
    """How to read a table: its columns by their roles, with the units of their numbers."""

    names: tuple[str, ...]
    """The name of each column, or its number if the table has no header, for messages."""
    has_head: bool
    page: TraceColumn
    time: TraceColumn | None
    size: TraceColumn | None
    files: tuple[int, ...]
    op: int | None
    format: TableFormat | None = None
    is_guess: bool = False
    """Whether the roles are only guessed, from three or four columns of numbers."""

    def asked(self, unit: str | None = None) -> str:
        """Return the `--columns` option that selects these columns, with `unit` as the unit of pages."""
        found = {"time": self.time, "page": TraceColumn(self.page.at, unit), "size": self.size}
        parts = [
            f"{role}={self.written(one.at)}" + (f":{one.unit}" if one.unit else "")
            for role, one in found.items()
            if one
        ]
        return "--columns " + ",".join([*parts, *(f"file={self.written(at)}" for at in self.files[:1])])

    def written(self, at: int) -> str:
        """Return column number `at` as --columns names it: by its name, or without a header by its number from 1."""
        return str(WantedColumns(self.names[at], None, None)) if self.has_head else str(at + 1)


def decide(table: pl.DataFrame, separator: str, asked: Mapping[str, WantedColumns], where: str) -> Layout:
    """Return how to read a table, whose cells are text and whose first row may be a header.

    Raises DataFileError if the columns or their units cannot be determined.
    """
    first, *rows = ([clean(cell) for cell in row] for row in table.head(SAMPLED_ROWS + 1).iter_rows())
    known = next((one for one in FORMATS if one.has_head(first)), None)
    has_head = known is not None or _has_head(first, rows, asked)
    if not has_head:
        known = next((one for one in FORMATS if one.has_form([first, *rows], separator)), None)
    names = tuple(first) if has_head else tuple(f"column {at + 1}" for at in range(len(first)))
    if asked:
        found = {role: _place(one, first, has_head, where) for role, one in asked.items()}
    elif known:
        found = {}
    elif has_head:
        found = _named(first, table.slice(1), where)
    elif _is_of_objects(first):
        found = dict(_UNNAMED)
    else:
        # The first column is often a device or a file, which has one constant value.
        constant = len(rows) > 1 and len({row[0] for row in [first, *rows]}) == 1
        what = "column 1 has one value and is no time" if constant and _NUMBER.fullmatch(first[0]) else _NOT_NAMED
        raise DataFileError(what, f"{where}:1", hint([first, *rows]))
    if known:
        found = {**known.columns, **found}
    units = {role: _unit(role, at, asked, known, names, where) for role, at in found.items() if role != "file"}
    if has_head and "size" not in found and units["page"] in ("bytes", "sectors"):
        # Without the column of sizes, a request of several pages would count as one.
        at = next(
            (at for at, name in enumerate(first) if column_names.is_size(name) and at not in found.values()), None
        )
        if at is not None:
            found["size"], units["size"] = at, _unit("size", at, asked, known, names, where)
    taken = {role: TraceColumn(at, units.get(role)) for role, at in found.items()}
    free = [at for at, _ in enumerate(first) if has_head and at not in found.values()]
    if "file" in found:
        files: tuple[int, ...] = (found["file"],)
    else:
        files = known.files if known else tuple(at for at in free if column_names.is_file(first[at]))
    op = None if known else next((at for at in free if column_names.plain(first[at]) == "op"), None)
    page, time, size = (taken.get(role) for role in ("page", "time", "size"))
    assert page
    is_guess = not asked and not known and not has_head
    layout = Layout(names, has_head, page, time, size, files, op, known, is_guess)
    if page.unit == column_names.ASKED:
        what = f'"{names[page.at]}" may count sectors or pages'
        raise DataFileError(what, where, choices(layout, ("pages", "sectors")))
    return layout


def choices(layout: Layout, units: Sequence[str] = column_names.PAGE_UNITS) -> str:
    """Return a hint to name the unit of the page column by --columns, with these units to choose from."""
    return "say what it counts: " + ", or ".join(layout.asked(unit) for unit in units)


def clean(cell: str | None) -> str:
    """Return the text of a cell without surrounding blanks and quotes; "" for an empty cell."""
    return (cell or "").strip().strip("\"'").strip()


def hint(rows: Sequence[Sequence[str]]) -> str:
    """Return a hint that names the likely columns of time, page, size and file, judged by the first rows."""
    cells = [[row[at] for row in rows] for at in range(len(rows[0]))]
    # Columns cannot be recognised from a single row.
    if len(rows) < 2:
        return _HINT
    numbers = {
        at: [float(cell) for cell in column]
        for at, column in enumerate(cells)
        if all(_NUMBER.fullmatch(cell) and "x" not in cell.lower() for cell in column)
    }
    rising = [at for at, column in numbers.items() if column == sorted(column) and len(set(column)) > 1]
    time = rising[0] if rising else None
    rest = sorted((at for at in numbers if at != time), key=lambda at: len(set(numbers[at])))
    flags = [at for at in rest if max(numbers[at]) <= 1 and len(rest) > 3]
    rest = [at for at in rest if at not in flags]
    if time is None or not rest:
        return _HINT
    found = {"page": rest.pop(), "time": time}
    unit = ""
    if rest:
        by_size = sorted(rest, key=lambda at: max(numbers[at]))
        found["size"] = by_size.pop()
        if by_size:
            found["file"] = by_size[0]
        in_sectors = all(value % SECTOR_BYTES == 0 for role in ("page", "size") for value in numbers[found[role]])
        unit = ":bytes" if in_sectors else ""
    order = [
        f"{role}={found[role] + 1}{unit if role == 'page' else ''}" for role in sorted(found, key=found.__getitem__)
    ]
    return f"name its columns (a page is in bytes, sectors or pages), such as --columns {','.join(order)}"


def _has_head(first: Sequence[str], rows: Sequence[Sequence[str]], asked: Mapping[str, WantedColumns]) -> bool:
    for at, cell in enumerate(first):
        if rows and _is_word(cell) and all(_NUMBER.fullmatch(row[at]) for row in rows):
            return True
    if asked:
        # If the option names a column, the first line must contain the name. If it gives a number, the cell must fit
        # the role.
        is_known = {"time": column_names.time_rank, "page": column_names.page_rank}
        return any(
            one.name in first
            if one.position is None
            else role in is_known and one.position <= len(first) and is_known[role](first[one.position - 1]) is not None
            for role, one in asked.items()
        )
    return any(map(_is_page, first)) and any(column_names.time_rank(cell) is not None for cell in first)


def _is_of_objects(first: Sequence[str]) -> bool:
    """Return whether a line without names is libCacheSim's: time, object, size, and the name of an operation."""
    is_long = len(first) in (3, 4) and all(_NUMBER.fullmatch(first[at]) for at in (0, 2))
    # If a cell has several numbers, the file has another separator.
    return is_long and " " not in first[1] and not any(map(_NUMBER.fullmatch, first[3:]))


def _is_word(cell: str) -> bool:
    """Return whether a cell may be a column's name: it is neither a number nor a mark for a missing one."""
    is_number = _NUMBER.fullmatch(cell) or cell.lower() in ("nan", "null", "none", "na", "n/a", "inf", "\\n")
    return not is_number and any(sign.isalpha() for sign in cell)


def _is_page(name: str) -> bool:
    return column_names.page_rank(name) is not None


def _place(one: WantedColumns, first: Sequence[str], has_head: bool, where: str) -> int:
    if one.position is not None:
        if 0 < one.position <= len(first):
            return one.position - 1
    elif has_head and first.count(one.name) > 1:
        what = f"{first.count(one.name)} columns have the name {one.name}"
        raise DataFileError(what, f"{where}:1", f"number the one: {first.index(one.name) + 1}")
    elif has_head and one.name in first:
        return first.index(one.name)
    what = f'there is no column "{one.name}" among {len(first)}'
    raise DataFileError(what, f"{where}:1", f"its first line has {', '.join(first)[:200]}")


def _named(head: Sequence[str], rows: pl.DataFrame, where: str) -> dict[str, int]:
    """Return the columns of time, page and size that the header names.

    Raises DataFileError without a page column, or without a time column in a table of several columns.
    """
    times = [at for at, name in enumerate(head) if column_names.time_rank(name) is not None]
    pages = [at for at, name in enumerate(head) if _is_page(name)]
    # A table with one column lists pages in order. A table with several needs a time column.
    if not pages or (not times and len(head) > 1):
        raise DataFileError(_NOT_NAMED, f"{where}:1", _HINT)
    pages.sort(key=lambda at: column_names.page_rank(head[at]) or 0)
    times.sort(key=lambda at: column_names.time_rank(head[at]) or 0)
    page = next((at for at in pages if not counts_rows(rows.to_series(at))), pages[0])
    if column_names.plain(head[page]) in column_names.COUNTERS and counts_rows(rows.to_series(page)):
        raise DataFileError(f'"{head[page]}" only counts the rows: it names no page', f"{where}:1", _HINT)
    found = {"page": page}
    # A column with one constant value is not a time.
    time = next((at for at in times if not is_constant(rows.to_series(at))), None)
    if time is not None:
        found["time"] = time
    size = next((at for at, name in enumerate(head) if column_names.is_size(name)), None)
    if size is not None:
        found["size"] = size
    return found


def counts_rows(cells: pl.Series) -> bool:
    """Return whether a column only numbers the rows; False for fewer than three rows, which are too few to decide."""

    def counts(some: pl.Series) -> bool:
        number = some.str.strip_chars(" \t\"'").cast(pl.Int64, strict=False)
        return number.null_count() == 0 and bool((number.diff().drop_nulls() == 1).all())

    return len(cells) > 2 and counts(cells.head(SAMPLED_ROWS)) and counts(cells)


def is_constant(cells: pl.Series) -> bool:
    """Return whether a column of several rows has a single value."""
    return len(cells) > 1 and cells[0] is not None and bool((cells == cells[0]).all())


def _unit(
    role: str, at: int, asked: Mapping[str, WantedColumns], known: TableFormat | None, names: Sequence[str], where: str
) -> str | None:
    if role in asked and asked[role].unit:
        return asked[role].unit
    if known:
        return known.units[role]
    if role != "time" and column_names.is_in_kib(names[at]):
        what = f'"{names[at]}" is neither in bytes nor in sectors'
        raise DataFileError(what, where, f"multiply it, or say {role}={names[at]}:pages")
    of_name = {"time": column_names.time_unit, "page": column_names.page_unit, "size": column_names.size_unit}[role]
    return of_name(names[at])
