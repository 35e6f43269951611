"""Reads page accesses from text that others made: CSV with or without names, MSR Cambridge's, and lists of pages.

libCacheSim's CSV has `timestamp,obj_id,size,op` and often no first line of names. MSR Cambridge's block traces have
`Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in units of 100 ns and offsets in bytes (README of
the traces, SNIA IOTTA 388). Every row is a get, whatever its operation.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bufferlab.errors import DataFileError, SpecError
from bufferlab.traces.page_trace import Accesses, number_of
from bufferlab.traces.unpacked import all_bytes, first_bytes, most_accesses, too_many

DEFAULT_BLOCK_BYTES = 4096
_FIRST_LINE_BYTES = 4096
_MSR = ("timestamp", "hostname", "disknumber", "type", "offset", "size", "responsetime")
_MSR_TICKS_PER_S = 10_000_000
_ROLES = ("time", "page", "size")
_NAMES = {
    "time": ("time", "timestamp", "clock_time", "ts", "time_s"),
    "page": ("page", "obj_id", "object_id", "obj", "object", "id", "key", "page_id", "block", "block_id"),
    "size": ("size", "obj_size", "object_size", "bytes"),
}
_UNNAMED = {"time": 1, "page": 2, "size": 3}
_NUMBER = re.compile(r"\s*[-+]?\d+(?:\.\d*)?\s*")
_SEPARATORS = (",", "\t", ";")
#: polars takes 2.5 KB for a column, however short it is. The first line that is not empty has them all.
_MOST_COLUMNS = 1000
_LINE = re.compile(rb"[^\r\n][^\n]*")
#: Larger disks and requests are no real ones, and their sum must fit 64 bits.
_MOST_OFFSET, _MOST_SIZE, _MOST_DISKS = 1 << 62, 1 << 40, 1 << 10
_HINT = "name its columns: --columns time=NAME,page=NAME, or their numbers: time=1,page=2"


@dataclass(frozen=True)
class _Layout:
    """How a text is to be read: its separator, whether it begins with names, and the number of each column from 0."""

    separator: str
    has_names: bool
    columns: dict[str, int]
    is_msr: bool = False


def parse_columns(text: str | None) -> dict[str, str]:
    """Return the columns that an option names, by role. Raise SpecError where it cannot be understood.

    >>> parse_columns("time=ts,page=3")
    {'time': 'ts', 'page': '3'}
    """
    found = {}
    for part in text.split(",") if text else ():
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if role not in _ROLES or not equals or not name or role in found:
            raise SpecError(f'"{part.strip()}" names no column', "--columns", "write --columns time=NAME,page=NAME")
        found[role] = name
    if found and "page" not in found:
        raise SpecError("no column of pages is named", "--columns", "add page=NAME")
    return found


def read_table(path: Path, columns: dict[str, str], block_bytes: int | None) -> Accesses:
    """Return the accesses of a table with commas, tabs or semicolons; `columns` has names or numbers, by role.

    A block trace of MSR Cambridge becomes pages of `block_bytes`. Raise DataFileError with file and line, or OSError.
    """
    layout = _layout(path, columns)
    table = _parsed(all_bytes(path), path, separator=layout.separator, has_header=layout.has_names)
    first_line = 2 if layout.has_names else 1
    if layout.is_msr:
        return _msr(table, path, first_line, block_bytes or DEFAULT_BLOCK_BYTES)
    found = {role: table.to_series(at) for role, at in layout.columns.items()}
    page = found["page"].str.strip_chars()
    require_none((page.is_null() | (page == "")).to_numpy(), "no page is named", path, first_line, _HINT)
    time_s = np.arange(len(page), dtype=np.float64)
    if "time" in found:
        time = found["time"].str.strip_chars().cast(pl.Float64, strict=False)
        require_none(
            ~time.is_finite().fill_null(value=False).to_numpy(), "the time is no number", path, first_line, _HINT
        )
        time_s = time.to_numpy()
        backwards = np.diff(time_s, prepend=time_s[:1]) < 0
        require_none(backwards, "time runs backwards", path, first_line, "sort the accesses by time")
    sizes = found["size"].str.strip_chars().cast(pl.Int64, strict=False) if "size" in found else pl.Series([None])
    one = sizes.n_unique() == 1 and (sizes[0] or 0) > 1
    return _gets(_numbered(page), time_s, int(sizes[0]) if one else None)


def read_list(path: Path) -> Accesses:
    """Return the accesses of a list with a page's number on each line, the n-th at n seconds.

    Numbers are hexadecimal when one of them begins with 0x or has a letter. Raise DataFileError or OSError.
    """
    table = _parsed(all_bytes(path), path, separator="\x1f", has_header=False)
    page = table.to_series(0).str.strip_chars().str.to_lowercase()
    number = page.str.strip_prefix("0x")
    bad = ~number.str.contains(r"^[0-9a-f]{1,32}$").fill_null(value=False)
    require_none(bad.to_numpy(), "not one number of a page", path, 1, "give a decimal or hexadecimal number a line")
    plain = number.str.strip_chars_start("0")
    return _gets(_numbered(plain), np.arange(len(plain), dtype=np.float64), None)


def require_none(bad: NDArray[np.bool_], what: str, path: Path, first_line: int, hint: str) -> None:
    """Raise DataFileError with the first line that is bad, if one is."""
    if bad.any():
        raise DataFileError(what, f"{path}:{int(bad.argmax()) + first_line}", hint)


def _layout(path: Path, asked: dict[str, str]) -> _Layout:
    line = first_bytes(path, _FIRST_LINE_BYTES).decode("utf-8", errors="replace").split("\n", 1)[0].strip("\r\ufeff")
    separator = max(_SEPARATORS, key=line.count)
    cells = [cell.strip() for cell in line.split(separator)]
    names = [cell.lower() for cell in cells]
    if asked:
        return _asked(path, separator, cells, asked)
    if tuple(names) == _MSR or (len(cells) == len(_MSR) and names[3] in ("read", "write")):
        return _Layout(separator, tuple(names) == _MSR, {}, is_msr=True)
    if len(cells) in (3, 4) and all(_NUMBER.fullmatch(cells[at]) for at in (0, 2)):
        return _Layout(separator, False, {role: at - 1 for role, at in _UNNAMED.items()})
    found = {role: next((names.index(one) for one in known if one in names), None) for role, known in _NAMES.items()}
    if found["page"] is None or found["time"] is None:
        raise DataFileError("the first line does not name the columns", f"{path}:1", _HINT)
    return _Layout(separator, True, {role: at for role, at in found.items() if at is not None})


def _asked(path: Path, separator: str, cells: list[str], asked: dict[str, str]) -> _Layout:
    columns, named = {}, False
    for role, name in asked.items():
        if name in cells:
            columns[role], named = cells.index(name), True
        elif name.isascii() and name.isdigit() and 0 < int(name[:9]) <= len(cells):
            columns[role] = int(name) - 1
        else:
            what = f'there is no column "{name}" among {len(cells)}'
            raise DataFileError(what, f"{path}:1", f"its first line has {', '.join(cells)[:200]}")
    named = named or ("time" in columns and not _NUMBER.fullmatch(cells[columns["time"]]))
    return _Layout(separator, named, columns)


def _parsed(data: bytes, path: Path, *, separator: str, has_header: bool) -> pl.DataFrame:
    if data.count(b"\n") > most_accesses():
        raise too_many(path)
    _require_few_columns(data, path, separator.encode())
    try:
        table = pl.read_csv(data, infer_schema=False, quote_char=None, separator=separator, has_header=has_header)
    except pl.exceptions.NoDataError:
        table = pl.DataFrame({"page": []}, schema={"page": pl.String})
    except pl.exceptions.PolarsError as error:
        raise DataFileError(f"not a table: {str(error).splitlines()[0]}", str(path), _HINT) from error
    if not len(table):
        raise DataFileError("there is no get: no pool misses anything", str(path), "give a trace with gets")
    return table


def _require_few_columns(data: bytes, path: Path, separator: bytes) -> None:
    line = _LINE.search(data, len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
    if line and data.count(separator, line.start(), line.end()) >= _MOST_COLUMNS:
        number = data.count(b"\n", 0, line.start()) + 1
        hint = "leave out the columns that name neither time nor page, such as with cut"
        raise DataFileError(f"the line has more than {_MOST_COLUMNS:,} columns", f"{path}:{number}", hint)


def _msr(table: pl.DataFrame, path: Path, first_line: int, block_bytes: int) -> Accesses:
    """Return the pages that the requests of a block trace touch, in the order of their times."""
    numbers = {}
    for at, most in ((0, _MOST_OFFSET), (4, _MOST_OFFSET), (5, _MOST_SIZE)):
        column = table.to_series(at).str.strip_chars().cast(pl.UInt64, strict=False)
        bad = ~(column < most).fill_null(value=False).to_numpy()
        require_none(
            bad, f"{_MSR[at]} is no number, or too large", path, first_line, "is this a trace of MSR Cambridge?"
        )
        numbers[_MSR[at]] = column.fill_null(0).to_numpy()
    disk = _numbered(table.select(pl.concat_str(table.columns[1:3], separator="\x1f", ignore_nulls=True)).to_series())
    if disk.max() >= _MOST_DISKS:
        raise DataFileError(f"it has more than {_MOST_DISKS} disks", str(path), "give the trace of one disk")
    order = np.argsort(numbers["timestamp"], kind="stable")
    first = numbers["offset"] // np.uint64(block_bytes)
    last = (numbers["offset"] + np.maximum(numbers["size"], 1) - np.uint64(1)) // np.uint64(block_bytes)
    touched = (last - first + np.uint64(1))[order]
    if int(touched.max()) > most_accesses() or float(touched.sum(dtype=np.float64)) > most_accesses():
        raise too_many(path)
    request = np.repeat(order, touched.astype(np.int64))
    begins = np.cumsum(touched, dtype=np.uint64) - touched
    inside = np.arange(len(request), dtype=np.uint64) - np.repeat(begins, touched.astype(np.int64))
    block = first[request] + inside
    # A disk has fewer than 2^62 bytes, and a page has one at least: blocks of each disk in a row of their own.
    key = pl.DataFrame({"disk": disk[request], "block": block}).select(pl.struct("disk", "block").rank("dense"))
    page = key.to_series().to_numpy().astype(np.uint32) - np.uint32(1)
    ticks = numbers["timestamp"][request]
    return _gets(page, (ticks - ticks[0]).astype(np.float64) / _MSR_TICKS_PER_S, block_bytes)


def _numbered(names: pl.Series) -> NDArray[np.uint32]:
    return names.rank("dense").to_numpy().astype(np.uint32) - np.uint32(1)


def _gets(page: NDArray[np.uint32], time_s: NDArray[np.float64], page_size_bytes: int | None) -> Accesses:
    return Accesses(page, np.full(len(page), number_of("get"), np.uint8), time_s, page_size_bytes)
