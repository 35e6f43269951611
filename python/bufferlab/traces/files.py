"""Reads and writes accesses as CSV (`time,page,op`) and as oracleGeneral, the binary format of libCacheSim.

oracleGeneral is a sequence of records of 24 bytes, little-endian: u32 seconds, u64 object, u32 bytes, i64 number of
the record that accesses the object next, -1 for none (libCacheSim, FAQ.md and oracleGeneralBin.h).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bufferlab.errors import DataFileError
from bufferlab.traces.page_trace import Accesses, number_of

_HEADER = ("time", "page", "op")
_OPS = ("get", "create")
_RECORD = np.dtype([("time", "<u4"), ("page", "<u8"), ("bytes", "<u4"), ("next", "<i8")])
_CSV_HINT = 'its first line is "time,page,op"; time is in seconds, op is get or create'
_FORMATS = "name it FILE.csv (time,page,op) or FILE.oracleGeneral"


def read(path: Path) -> Accesses:
    """Return the accesses of a file, whose name tells its format. Raises DataFileError with file and line."""
    try:
        if path.suffix == ".csv":
            return _read_csv(path)
        if path.suffix == ".oracleGeneral":
            return _read_oracle_general(path)
    except OSError as error:
        raise DataFileError(f"the file cannot be read: {error.strerror}", str(path), "give a readable file") from error
    raise DataFileError("not a file of page accesses in a known format", str(path), _FORMATS)


def _read_csv(path: Path) -> Accesses:
    with path.open("rb") as file:
        first = file.readline(200)
    if first.rstrip(b"\r\n") != b",".join(name.encode() for name in _HEADER):
        raise DataFileError("the first line does not name the columns", f"{path}:1", _CSV_HINT)
    try:
        table = pl.read_csv(path, infer_schema=False, quote_char=None)
    except pl.exceptions.PolarsError as error:
        raise DataFileError(f"not a table: {str(error).splitlines()[0]}", str(path), _CSV_HINT) from error
    time = table["time"].cast(pl.Float64, strict=False)
    bad = {
        "the time is no number": (time.is_finite().fill_null(value=False)).not_(),
        "no page is named": table["page"].is_null(),
        f"op is neither {' nor '.join(_OPS)}": table["op"].is_in(_OPS).fill_null(value=False).not_(),
    }
    for what, rows in bad.items():
        _require_none(rows.to_numpy(), what, path)
    page = table["page"].rank("dense").to_numpy().astype(np.uint32) - np.uint32(1)
    kind = np.where((table["op"] == "get").to_numpy(), number_of("get"), number_of("create")).astype(np.uint8)
    return _ordered(Accesses(page, kind, time.to_numpy()), path, 2)


def _read_oracle_general(path: Path) -> Accesses:
    size_bytes = path.stat().st_size
    if size_bytes % _RECORD.itemsize:
        where = f"{path}, record {size_bytes // _RECORD.itemsize + 1:,}"
        raise DataFileError("the file ends inside a record of 24 bytes", where, "copy the whole file")
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


def _require_none(bad: NDArray[np.bool_], what: str, path: Path) -> None:
    if bad.any():
        raise DataFileError(what, f"{path}:{int(bad.argmax()) + 2}", _CSV_HINT)


def _ordered(accesses: Accesses, path: Path, first_line: int) -> Accesses:
    """Return the accesses. Raises DataFileError where there is no get, or time runs backwards."""
    backwards = accesses.time_s[1:] < accesses.time_s[:-1]
    if backwards.any():
        where = f"{path}:{int(backwards.argmax()) + 1 + first_line}"
        raise DataFileError("time runs backwards", where, "sort the accesses by time; is this a file of the format?")
    if not accesses.gets:
        raise DataFileError("there is no get: no pool misses anything", str(path), "give a trace with gets")
    return accesses


def write_oracle_general(accesses: Accesses, path: Path) -> None:
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
    records.tofile(path)
