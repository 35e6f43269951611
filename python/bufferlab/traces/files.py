"""Reads accesses from files by their names, and writes them: CSV (`time,page,op`), and oracleGeneral of libCacheSim.

Text that others made is read by text.py, and .zst unpacked by unpacked.py.

oracleGeneral is a sequence of records of 24 bytes, little-endian: u32 seconds, u64 object, u32 bytes, i64 number of
the record that accesses the object next, -1 for none (libCacheSim, FAQ.md and oracleGeneralBin.h).
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bufferlab.errors import DataFileError
from bufferlab.traces import text, unpacked
from bufferlab.traces.page_trace import Accesses, number_of

_FIRST_LINE = b"time,page,op"
_OPS = ("get", "create")
_RECORD = np.dtype([("time", "<u4"), ("page", "<u8"), ("bytes", "<u4"), ("next", "<i8")])
_CSV_HINT = 'its first line is "time,page,op"; time is in seconds, op is get or create'
_FORMATS = "name it FILE.csv, FILE.txt (a page a line), FILE.oracleGeneral or FILE.bin; any of them with .zst behind it"


def read(path: Path, columns: dict[str, str] | None = None, block_bytes: int | None = None) -> Accesses:
    """Return the accesses of a file, whose name tells its format.

    `columns` has the names or numbers of a table's columns, by role; `block_bytes` the size of pages that a block trace
    is cut into. Raises DataFileError with file and line.
    """
    kind = Path(path.stem if unpacked.is_packed(path) else path.name).suffix.lower()
    try:
        if kind in (".csv", ".txt", ".bin", ".oraclegeneral"):
            unpacked.require_regular(path)
        if kind == ".csv" or (kind == ".txt" and columns):
            if not columns and unpacked.first_bytes(path, 200).split(b"\n")[0].rstrip(b"\r") == _FIRST_LINE:
                return _read_csv(path)
            return _ordered(text.read_table(path, columns or {}, block_bytes), path, 2)
        if kind == ".txt":
            return text.read_list(path)
        if kind in (".bin", ".oraclegeneral"):
            return _read_oracle_general(path)
    except OSError as error:
        raise DataFileError(f"the file cannot be read: {error.strerror}", str(path), "give a readable file") from error
    raise DataFileError("not a file of page accesses in a known format", str(path), _FORMATS)


def _read_csv(path: Path) -> Accesses:
    data = unpacked.all_bytes(path)
    if data.count(b"\n") > unpacked.most_accesses():
        raise unpacked.too_many(path)
    try:
        table = pl.read_csv(data, infer_schema=False, quote_char=None)
    except pl.exceptions.PolarsError as error:
        raise DataFileError(f"not a table: {str(error).splitlines()[0]}", str(path), _CSV_HINT) from error
    time = table["time"].cast(pl.Float64, strict=False)
    bad = {
        "the time is no number": (time.is_finite().fill_null(value=False)).not_(),
        "no page is named": table["page"].is_null(),
        f"op is neither {' nor '.join(_OPS)}": table["op"].is_in(_OPS).fill_null(value=False).not_(),
    }
    for what, rows in bad.items():
        text.require_none(rows.to_numpy(), what, path, 2, _CSV_HINT)
    page = table["page"].rank("dense").to_numpy().astype(np.uint32) - np.uint32(1)
    kind = np.where((table["op"] == "get").to_numpy(), number_of("get"), number_of("create")).astype(np.uint8)
    return _ordered(Accesses(page, kind, time.to_numpy()), path, 2)


def _read_oracle_general(path: Path) -> Accesses:
    data = unpacked.all_bytes(path) if unpacked.is_packed(path) else None
    size_bytes = path.stat().st_size if data is None else len(data)
    if size_bytes // _RECORD.itemsize > unpacked.most_accesses():
        raise unpacked.too_many(path)
    if size_bytes % _RECORD.itemsize:
        where = f"{path}, record {size_bytes // _RECORD.itemsize + 1:,}"
        raise DataFileError("the file ends inside a record of 24 bytes", where, "copy the whole file")
    if data is not None:
        records = np.frombuffer(data, _RECORD)
    else:
        records = np.memmap(path, _RECORD, "r") if size_bytes else np.empty(0, _RECORD)
    page = _dense(np.ascontiguousarray(records["page"]))
    sizes = records["bytes"]
    page_size_bytes = int(sizes[0]) if len(sizes) and sizes[0] > 1 and (sizes == sizes[0]).all() else None
    kind = np.full(len(records), number_of("get"), np.uint8)
    return _ordered(Accesses(page, kind, records["time"].astype(np.float64), page_size_bytes), path, 1)


def _dense(pages: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the place of each page among all, by number. Numbers without wide gaps need no sort."""
    if len(pages) and pages.max() < 4 * len(pages):
        there = np.zeros(int(pages.max()) + 1, np.uint32)
        there[pages] = 1
        numbers: NDArray[np.uint32] = np.cumsum(there, dtype=np.uint32)[pages] - np.uint32(1)
        return numbers
    return pl.Series(pages).rank("dense").to_numpy().astype(np.uint32) - np.uint32(1)


def _ordered(accesses: Accesses, path: Path, first_line: int) -> Accesses:
    """Return the accesses. Raises DataFileError where there is no get, or time runs backwards."""
    backwards = accesses.time_s[1:] < accesses.time_s[:-1]
    if backwards.any():
        where = f"{path}:{int(backwards.argmax()) + 1 + first_line}"
        raise DataFileError("time runs backwards", where, "sort the accesses by time; is this a file of the format?")
    if not accesses.gets:
        raise DataFileError("there is no get: no pool misses anything", str(path), "give a trace with gets")
    return accesses


def write_oracle_general(accesses: Accesses, file: BinaryIO) -> None:
    """Write the touches as records whose object is the page's number. Raises OSError."""
    accesses = accesses.touches
    number = pl.Series("number", np.arange(len(accesses.page), dtype=np.int64))
    follows = pl.DataFrame({"page": accesses.page, "number": number}).select(
        pl.col("number").shift(-1).over("page").fill_null(-1)
    )
    records = np.empty(len(accesses.page), _RECORD)
    records["time"] = (accesses.time_s - accesses.time_s[0]).astype(np.uint32)
    records["page"] = accesses.page
    records["bytes"] = accesses.page_size_bytes or 1
    records["next"] = follows["number"].to_numpy()
    file.write(records.view(np.uint8).data)
