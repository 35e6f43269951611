"""Reads page accesses from text files of other programs: tables with or without a header, block traces, lists of pages.

`layout.py` decides which columns a table has and their units; this module reads them. Every row is a get, except rows
whose column op says create.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bufferlab.errors import DataFileError
from bufferlab.traces import numbering
from bufferlab.traces.column_names import SECONDS_OF
from bufferlab.traces.layout import (
    SAMPLED_ROWS,
    Layout,
    TraceColumn,
    choices,
    clean,
    counts_rows,
    decide,
    hint,
    is_constant,
)
from bufferlab.traces.options import WantedColumns
from bufferlab.traces.page_trace import Accesses, TakenColumn, TraceReading, number_of
from bufferlab.traces.requests import (
    DEFAULT_PAGE_BYTES,
    MOST_OFFSET_BYTES,
    MOST_SIZE_BYTES,
    SECTOR_BYTES,
    Requests,
    touched,
)
from bufferlab.traces.unpacked import most_accesses, too_many
from bufferlab.units import format_bytes

_SEPARATORS = (",", "\t", ";")
#: The maximum number of columns, checked on the first line that is not empty: polars takes 2.5 KB for each column.
_MOST_COLUMNS = 1000
_LINE = re.compile(rb"[^\r\n][^\n]*")
_NUMBERS = re.compile(r"\s*[0-9]+(?:\.[0-9]+)?(?:\s+[0-9]+(?:\.[0-9]+)?)*\s*")
_HINT = "name its columns: --columns time=NAME,page=NAME, or their numbers: time=1,page=2"
_NOT_A_TABLE = "leave out lines that are no rows, such as comments, and save it as UTF-8"
_NO_TIME = (
    "write times as seconds with a point, or leave time out (--columns page=NAME): the n-th access is then at n s"
)
_NO_GET = "there is no get: no pool misses anything"
#: The largest time that may be in Unix seconds: larger ones would be later than the year 5138.
_HARDLY_SECONDS = 1e11
_BYTES_OF = {"bytes": 1, "sectors": SECTOR_BYTES}


@dataclass(frozen=True)
class _Table:
    """The rows of a table as text, without its header, and the facts needed to read them."""

    rows: pl.DataFrame
    layout: Layout
    is_plain: bool
    """Whether no cell has blanks or quotes around it."""
    path: Path
    first_line: int
    notes: tuple[str, ...] = ()
    """Sentences on the lines that were skipped."""

    def cells(self, at: int) -> pl.Series:
        """Return the cells of a column, without blanks and quotes around them."""
        cells = self.rows.to_series(at)
        return cells if self.is_plain else cells.str.strip_chars().str.strip_chars("\"'").str.strip_chars()

    def require_none(self, bad: pl.Series | NDArray[np.bool_], what: str, help_: str = _HINT) -> None:
        """Raise DataFileError, with the line of the first row that `bad` marks, if it marks a row."""
        require_none(bad if isinstance(bad, np.ndarray) else bad.to_numpy(), what, self.path, self.first_line, help_)

    def taken(self, role: str, at: int, unit: str | None = None) -> TakenColumn:
        """Return the description of the column at `at` for `TraceReading`."""
        return TakenColumn(role, self.layout.names[at], unit)


def read_table(data: bytes, path: Path, columns: Mapping[str, WantedColumns], page_bytes: int | None) -> Accesses:
    """Return the accesses of a table whose columns are separated by commas, tabs, semicolons or blanks.

    `columns` are the columns that the user named, by role. Offsets become pages of `page_bytes`. Raises DataFileError,
    with the line number, for a fault.
    """
    table = _parsed_table(data, path, columns)
    layout = table.layout
    time_s, times = _times(table)
    kind = _kinds(table)
    pages_in = _pages_in(table)
    file = _files(table)
    doubt = table.notes
    if layout.time and not layout.time.unit and time_s.max() >= _HARDLY_SECONDS:
        name = layout.written(layout.time.at)
        doubt += (f"Times so large are hardly seconds: say time={name}:ms, time={name}:us or time={name}:ns.",)
    how = TraceReading(
        layout.format.name if layout.format else "a table",
        (
            *times,
            table.taken("page", layout.page.at, pages_in),
            *((table.taken("size", layout.size.at, _size_unit(table)),) if layout.size else ()),
            *(table.taken("file", at) for at in layout.files),
            *((table.taken("op", layout.op),) if layout.op is not None else ()),
        ),
        layout.has_head,
        doubt,
    )
    if pages_in in _BYTES_OF:
        return _cut(table, Requests(_bytes(table, layout.page), None, time_s, file, kind), page_bytes, how)
    backwards = np.diff(time_s, prepend=time_s[:1]) < 0
    table.require_none(backwards, "time runs backwards", "sort the accesses by time")
    return _accesses(table, time_s, kind, file, how)


def is_table(data: bytes) -> bool:
    """Return whether a text is a table: its first line that is not empty has several cells."""
    line = _first_line(data).strip()
    return any(separator in line for separator in (*_SEPARATORS, " "))


def read_list(data: bytes, path: Path) -> Accesses:
    """Return the accesses of a list with one page number on each line; the n-th access happens at n seconds.

    Page numbers are hexadecimal if one of them begins with 0x or has a letter. Raises DataFileError for a bad line.
    """
    data, skipped = _from_first_line(data)
    page = _parsed(data, path, "\x1f").to_series(0).str.strip_chars().str.to_lowercase()
    number = page.str.strip_prefix("0x")
    bad = ~number.str.contains(r"^[0-9a-f]{1,32}$").fill_null(value=False)
    require_none(
        bad.to_numpy(), "not one number of a page", path, skipped + 1, "give a decimal or hexadecimal number a line"
    )
    plain = number.str.strip_chars_start("0")
    return Accesses(
        numbering.of_names(plain),
        _gets(len(plain)),
        _row_numbers(len(plain)),
        reading=TraceReading("a list, a page a line"),
    )


def require_none(bad: NDArray[np.bool_], what: str, path: Path, first_line: int, hint: str) -> None:
    """Raise DataFileError, with the line of the first row that `bad` marks, if it marks a row; row 0 is
    `first_line`."""
    if bad.any():
        raise DataFileError(what, f"{path}:{int(bad.argmax()) + first_line}", hint)


def _parsed_table(data: bytes, path: Path, columns: Mapping[str, WantedColumns]) -> _Table:
    is_endless = not data.endswith(b"\n")
    data, skipped = _from_first_line(data)
    line = _first_line(data)
    separator = max(_SEPARATORS, key=line.count)
    # A title of several words may precede a single column of numbers.
    by_blanks = separator not in line and all(" " in one.strip() for one in _first_lines(data))
    if by_blanks or (separator == "\t" and _is_of_numbers(_first_lines(data))):
        data, separator = _single_blanks(data), " "
    notes: tuple[str, ...] = ()
    if is_endless:
        data, notes = _without_cut_line(data, separator, skipped)
    rows = _parsed(data, path, separator)
    layout = decide(rows, separator, columns, str(path))
    body = rows.slice(1) if layout.has_head else rows
    if not len(body):
        raise DataFileError(_NO_GET, str(path), "give a trace with gets")
    around = (b" ", b'"', b"'") if separator == "\t" else (b" ", b"\t", b'"', b"'")
    is_plain = separator != " " and not any(sign in data for sign in around)
    found = _Table(body, layout, is_plain, path, skipped + (2 if layout.has_head else 1), notes)
    if not layout.format:
        _require_time_and_page(found)
    _require_whole(found)
    return found


def _require_whole(table: _Table) -> None:
    """Raise DataFileError if a later line repeats the column names, or if the last line is incomplete."""
    layout = table.layout
    last = [clean(cell) for cell in table.rows.row(len(table.rows) - 1)]
    if layout.format and layout.format.form and not layout.has_head and not layout.format.fits(last):
        where = f"{table.path}:{table.first_line + len(table.rows) - 1}"
        raise DataFileError(f"the last line is none of {layout.format.name}", where, "is the file cut?")
    if layout.has_head:
        again = (table.cells(layout.page.at) == layout.names[layout.page.at]).fill_null(value=False)
        table.require_none(again, "the names of columns come again", "give one file at a time, or take the line out")


def _require_time_and_page(table: _Table) -> None:
    """Raise DataFileError if a time column has one constant value.

    Also raise it if a guessed page column has one constant value or only numbers the rows.
    """
    layout, where = table.layout, f"{table.path}:1"
    if layout.time and is_constant(table.rows.to_series(layout.time.at)):
        sample = [[clean(cell) for cell in row] for row in table.rows.head(SAMPLED_ROWS).iter_rows()]
        help_ = hint(sample) if layout.is_guess else "leave time out: the n-th access is then at n s"
        raise DataFileError(f"{layout.names[layout.time.at]} has one value and is no time", where, help_)
    if layout.is_guess:
        page = table.rows.to_series(layout.page.at)
        if not (is_constant(page) or counts_rows(page)):
            return
        what = f"{layout.names[layout.page.at]} " + ("only counts the rows" if counts_rows(page) else "has one value")
        raise DataFileError(what, where, f"if these are pages: {layout.asked()}")


def _parsed(data: bytes, path: Path, separator: str) -> pl.DataFrame:
    if data.count(b"\n") > most_accesses():
        raise too_many(path)
    _require_few_columns(data, path, separator.encode())
    quote = '"' if b'"' in data and separator != "\x1f" else None
    try:
        table = pl.read_csv(data, infer_schema=False, quote_char=quote, separator=separator, has_header=False)
    except pl.exceptions.NoDataError:
        table = pl.DataFrame({"page": []}, schema={"page": pl.String})
    except pl.exceptions.PolarsError as error:
        raise DataFileError(f"not a table: {str(error).splitlines()[0]}", str(path), _NOT_A_TABLE) from error
    if not len(table):
        raise DataFileError(_NO_GET, str(path), "give a trace with gets")
    if quote and len(table) != data.count(b"\n") + (not data.endswith(b"\n")):
        raise DataFileError("a quote is not closed in its line", str(path), "put both quotes around the cell")
    return table


def _from_first_line(data: bytes) -> tuple[bytes, int]:
    """Return a text without the empty lines before and after it, and the number of empty lines before it."""
    line = _LINE.search(data, len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
    if not line:
        return b"", 0
    skipped = data.count(b"\n", 0, line.start())
    data = data[line.start() :] if line.start() else data
    return data.rstrip(b"\r\n") if data.endswith((b"\n\n", b"\n\r\n")) else data, skipped


def _first_lines(data: bytes) -> list[str]:
    """Return the first two lines of a text that are not empty, without their line ends."""
    return [line[0].decode("utf-8", errors="replace").rstrip("\r") for line in islice(_LINE.finditer(data), 2)]


def _first_line(data: bytes) -> str:
    return next(iter(_first_lines(data)), "")


def _is_of_numbers(lines: Sequence[str]) -> bool:
    """Return whether all lines contain only numbers, and in some line blanks, not only tabs, separate them."""
    return all(map(_NUMBERS.fullmatch, lines)) and any(re.search(r"\d +\d", line) for line in lines)


def _without_cut_line(data: bytes, separator: str, skipped: int) -> tuple[bytes, tuple[str, ...]]:
    """Return a text without an incomplete last line, and a sentence if there was one.

    A line is incomplete if it has too few cells and no line end.
    """
    begin = data.rfind(b"\n") + 1
    before = data.rfind(b"\n", 0, max(0, begin - 1)) + 1
    if not before:
        return data, ()
    lines = (data[: data.find(b"\n")], data[before:begin], data[begin:])
    try:
        first, other, last = (
            len(next(csv.reader([line.decode("utf-8", errors="replace").strip("\r\n")], delimiter=separator), []))
            for line in lines
        )
    except csv.Error:  # A cell above 128 KiB is not a page number.
        return data, ()
    if last >= min(first, other):
        return data, ()
    number = skipped + data.count(b"\n") + 1
    what = f"The last line, {number:,}, has {last} of {min(first, other)} cells and no line's end"
    return data[:begin], (f"{what}: it is cut, and left out.",)


def _single_blanks(data: bytes) -> bytes:
    """Return a text whose cells are separated by one blank each, without blanks at the ends of lines."""
    data = data.replace(b"\t", b" ").replace(b"\r\n", b"\n")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data.replace(b"\n ", b"\n").replace(b" \n", b"\n").strip(b" ")


def _require_few_columns(data: bytes, path: Path, separator: bytes) -> None:
    line = _LINE.search(data, len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
    if line and data.count(separator, line.start(), line.end()) >= _MOST_COLUMNS:
        number = data.count(b"\n", 0, line.start()) + 1
        hint = "leave out the columns that name neither time nor page, such as with cut"
        raise DataFileError(f"the line has more than {_MOST_COLUMNS:,} columns", f"{path}:{number}", hint)


def _times(table: _Table) -> tuple[NDArray[np.float64], tuple[TakenColumn, ...]]:
    """Return the times in seconds, and their column if there is one. In a known format, the first time becomes 0 s."""
    layout = table.layout
    if not layout.time:
        return _row_numbers(len(table.rows)), ()
    cells, unit = table.cells(layout.time.at), layout.time.unit or "s"
    whole = cells.cast(pl.UInt64, strict=False) if layout.format else None
    if whole is not None and whole.null_count() == 0:
        # Integers of this size, such as counts of 100 ns since 1601, do not fit into a float.
        table.require_none(whole >= 1 << 62, "the time is too large")
        first = whole.min()
        assert isinstance(first, int)
        time_s = (whole - first).cast(pl.Float64).to_numpy() * SECONDS_OF[unit]
    else:
        time = cells.cast(pl.Float64, strict=False)
        help_ = _HINT if layout.is_guess else _help(layout) if layout.format else _NO_TIME
        table.require_none(~time.is_finite().fill_null(value=False), "the time is no number", help_)
        time_s = time.to_numpy()
        if layout.format:
            time_s = time_s - time_s.min()
            if (decimals := _decimals(cells)) is not None:
                time_s = np.round(time_s, decimals)
        time_s = time_s * SECONDS_OF[unit]
    return time_s, (table.taken("time", layout.time.at, unit),)


def _decimals(cells: pl.Series) -> int | None:
    """Return the largest number of decimals; None if a cell has more than 9 or an exponent, or if no cell has a point.

    A difference of long numbers must be rounded to these decimals: further digits are floating-point errors.
    """
    behind = (cells.str.len_bytes().cast(pl.Int64) - 1 - cells.str.find(".", literal=True)).max()
    return behind if isinstance(behind, int) and behind <= 9 and not cells.str.contains("[eE]").any() else None


def _kinds(table: _Table) -> NDArray[np.uint8] | None:
    """Return the kind of each row by its column op; None without such a column, which means that all rows are gets.

    Raises DataFileError for a row without an operation.
    """
    if table.layout.op is None:
        return None
    op = table.cells(table.layout.op)
    table.require_none(op.is_null() | (op == ""), "no operation is named", "it is get or create; other words are gets")
    is_create = op == "create"
    if not (is_create | (op == "get")).all():
        is_create = op.str.to_lowercase() == "create"
    return np.where(is_create.to_numpy(), number_of("create"), number_of("get")).astype(np.uint8)


def _files(table: _Table) -> NDArray[np.uint32] | None:
    """Return the number of each row's file; None without a file column, or if the column is empty.

    Raises DataFileError for a row without a file.
    """
    if not table.layout.files:
        return None
    cells = [table.cells(at).alias(str(at)) for at in table.layout.files]
    # A column may be empty in all rows: hosts, for example, may be removed before publication.
    cells = [one for one in cells if one.null_count() < len(one)]
    for one in cells:
        table.require_none(one.is_null(), "no file is named", "is the line cut?")
    if len(cells) < 2:
        return numbering.of_names(cells[0]) if cells else None
    return numbering.of_names(pl.select(pl.concat_str(cells, separator="\x1f")).to_series())


def _pages_in(table: _Table) -> str:
    """Return the unit of the page column.

    Raise DataFileError if the unit cannot be derived, so that the user must name it.
    """
    layout = table.layout
    if layout.page.unit or not layout.size:
        return layout.page.unit or "pages"
    sizes = table.cells(layout.size.at)
    has_one = is_constant(sizes) or len(sizes) == 1
    if layout.is_guess:
        # The numbers may be libCacheSim's object numbers. Offsets look similar, but all are multiples of a sector's
        # bytes.
        number = table.cells(layout.page.at).cast(pl.UInt64, strict=False)
        size = sizes.cast(pl.UInt64, strict=False)
        of_objects = number.null_count() or size.null_count() or not _divides(SECTOR_BYTES, number) or not number.max()
        if of_objects or (has_one and size[0] and _divides(size[0], number)):
            return "pages"
        what = "every number in column 2 is a multiple of 512: it may count bytes, sectors or pages"
    elif has_one:
        return "pages"
    else:
        what = f"requests have more than one size, and nothing tells what {layout.names[layout.page.at]} counts"
    raise DataFileError(what, f"{table.path}:1", choices(layout))


def _size_unit(table: _Table) -> str:
    """Return the unit of the column of sizes.

    Raise DataFileError if it cannot be derived, so that the user must name it.
    """
    layout = table.layout
    assert layout.size
    if layout.size.unit or layout.page.unit != "sectors":
        return layout.size.unit or "bytes"
    size = table.cells(layout.size.at).cast(pl.UInt64, strict=False)
    if size.null_count() or not _divides(SECTOR_BYTES, size):
        return "sectors"
    asked = [replace(layout, size=TraceColumn(layout.size.at, unit)).asked("sectors") for unit in ("bytes", "sectors")]
    name = layout.names[layout.size.at]
    raise DataFileError(
        f"{name} may be in bytes or sectors", f"{table.path}:1", f"say which: {asked[0]}, or {asked[1]}"
    )


def _divides(size: int, numbers: pl.Series) -> bool:
    return bool((numbers % size == 0).all())


def _accesses(
    table: _Table,
    time_s: NDArray[np.float64],
    kind: NDArray[np.uint8] | None,
    file: NDArray[np.uint32] | None,
    how: TraceReading,
) -> Accesses:
    """Return the accesses of a table whose rows name pages, with the page size if all rows have one size."""
    layout = table.layout
    names = table.cells(layout.page.at)
    table.require_none(names.is_null() | (names == ""), "no page is named")
    page = numbering.of_names(names)
    if file is not None:
        page = numbering.in_files(page.astype(np.uint64), file)
    found = Accesses(page, _gets(len(page)) if kind is None else kind, time_s, reading=how)
    if not layout.size:
        return found
    if _size_unit(table) == "pages":
        first, count = _whole(table, layout.page, MOST_OFFSET_BYTES), _whole(table, layout.size, MOST_SIZE_BYTES)
        return touched(Requests(first, count, time_s, file, kind), 1, table.path, None, how)
    factor = _BYTES_OF[_size_unit(table)]
    sizes = table.cells(layout.size.at)
    if sizes.null_count() < len(sizes):
        table.require_none(sizes.is_null(), "no size is named", "is the line cut?")
    size_bytes = sizes.cast(pl.Int64, strict=False) * factor
    return found if size_bytes.null_count() else found.with_sizes(size_bytes.min(), size_bytes.max())


def _cut(table: _Table, requests: Requests, page_bytes: int | None, how: TraceReading) -> Accesses:
    """Return the pages that a table's requests in bytes or sectors touch; without sizes, one page for each request."""
    size = table.layout.size
    asked = page_bytes or DEFAULT_PAGE_BYTES
    if size:
        size_bytes = _bytes(table, TraceColumn(size.at, _size_unit(table)), MOST_SIZE_BYTES)
        requests = replace(requests, size_bytes=size_bytes)
    notes = [*how.notes, f"Requests are cut into pages of {format_bytes(asked)}."]
    if (requests.time_s[1:] < requests.time_s[:-1]).any():
        notes.append("Requests are put in the order of their times.")
    return touched(requests, asked, table.path, asked, replace(how, notes=tuple(notes)))


def _bytes(table: _Table, column: TraceColumn, most: int = MOST_OFFSET_BYTES) -> NDArray[np.uint64]:
    """Return a column converted to bytes.

    Raise DataFileError for a value that is not a number, or is not below `most`.
    """
    factor = _BYTES_OF.get(column.unit or "bytes", 1)
    return _whole(table, column, most // factor) * np.uint64(factor)


def _whole(table: _Table, column: TraceColumn, most: int) -> NDArray[np.uint64]:
    """Return a column as integers. Raise DataFileError for any other cell, and for a number not below `most`.

    If one cell begins with 0x, all are hexadecimal, except in a known format.
    """
    layout = table.layout
    cells = table.cells(column.at)
    number = cells.cast(pl.UInt64, strict=False)
    if number.null_count() and not layout.format:
        lower = cells.str.to_lowercase()
        if lower.str.starts_with("0x").any():
            number = lower.str.strip_prefix("0x").str.to_integer(base=16, dtype=pl.UInt64, strict=False)
    bad = ~(number < most).fill_null(value=False)
    what = "the offset" if column.at == layout.page.at else "the size"
    table.require_none(bad, f"{what} is no number, or too large: {layout.names[column.at]}", _help(layout))
    return number.to_numpy()


def _help(layout: Layout) -> str:
    return f"is this a trace of {layout.format.name}?" if layout.format else _HINT


def _row_numbers(count: int) -> NDArray[np.float64]:
    return np.arange(count, dtype=np.float64)


def _gets(count: int) -> NDArray[np.uint8]:
    return np.full(count, number_of("get"), np.uint8)
