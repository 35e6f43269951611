"""Reads accesses from files in the format that their names imply; writes accesses as libCacheSim's oracleGeneral.

text.py reads text, and unpacked.py unpacks files. This file reads binary records: oracleGeneral and lcs of libCacheSim,
and CloudPhysics's vscsi.

oracleGeneral is a sequence of records of 24 bytes, little-endian: u32 seconds, u64 object, u32 bytes, i64 number of the
record that accesses the object next, -1 for none (libCacheSim, FAQ.md and oracleGeneralBin.h).

lcs has a header of 8192 bytes, which begins with a magic number and a version and ends with the magic number. Version 1
has the records of oracleGeneral; 2 adds operation and tenant; from 3 on sizes have 64 bits (libCacheSim, lcs.h).

vscsi has a record for each request of a virtual disk, of one of two versions (libCacheSim, vscsi.h): sectors of 512
bytes, lengths in bytes, times in us.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from bufferlab.errors import DataFileError
from bufferlab.traces import numbering, unpacked
from bufferlab.traces.options import WantedColumns
from bufferlab.traces.page_trace import Accesses, TraceReading, number_of
from bufferlab.traces.requests import (
    DEFAULT_PAGE_BYTES,
    MOST_OFFSET_BYTES,
    MOST_SIZE_BYTES,
    SECTOR_BYTES,
    Requests,
    touched,
)
from bufferlab.units import format_bytes

_TABLES, _RECORDS = (".csv", ".txt", ".spc", ".trace"), (".bin", ".oraclegeneral", ".lcs", ".vscsi", ".vscsitrace")
_FORMATS = (
    "name it FILE.csv, FILE.txt (a page a line), FILE.spc, FILE.trace, FILE.oracleGeneral, FILE.bin, FILE.lcs or "
    f"FILE.vscsi; any of them with {unpacked.SUFFIXES} behind it"
)


def read(path: Path, columns: Mapping[str, WantedColumns] | None = None, page_bytes: int | None = None) -> Accesses:
    """Return the accesses of a file; its name decides the format.

    `columns` are the columns that the user named by an option, by role. `page_bytes` is the page size into which the
    requests of a block trace are divided. Raises DataFileError with file and line.
    """
    kind = Path(path.stem if unpacked.is_packed(path) else path.name).suffix.lower()
    if kind not in (*_TABLES, *_RECORDS):
        raise DataFileError("not a file of page accesses in a known format", str(path), _FORMATS)
    try:
        unpacked.require_regular(path)
        if kind in (".bin", ".oraclegeneral"):
            found = read_oracle_general(path)
        elif kind == ".lcs":
            found = read_lcs(path)
        elif kind in _RECORDS:
            found = read_vscsi(path, page_bytes)
        else:
            from bufferlab.traces import text  # Import late: only text tables need polars.

            data = unpacked.all_bytes(path)
            is_list = kind == ".txt" and not columns and not text.is_table(data)
            found = text.read_list(data, path) if is_list else text.read_table(data, path, columns or {}, page_bytes)
    except OSError as error:
        raise DataFileError(f"the file cannot be read: {error.strerror}", str(path), "give a readable file") from error
    except MemoryError as error:
        # The host may have free memory that this process may not use, because of ulimit -v or a container.
        what = "its accesses need more memory than this process may have"
        raise DataFileError(what, str(path), "cut the trace, or use a machine with more memory") from error
    backwards = found.time_s[1:] < found.time_s[:-1]
    if backwards.any():
        where = f"{path}:{int(backwards.argmax()) + 2}"
        raise DataFileError("time runs backwards", where, "sort the accesses by time; is this a file of the format?")
    if not found.gets:
        raise DataFileError("there is no get: no pool misses anything", str(path), "give a trace with gets")
    return found


def write_oracle_general(accesses: Accesses, file: BinaryIO) -> None:
    """Write the accesses, without drops, as records; a record's object is the page. Raises OSError if writing fails."""
    import polars as pl

    accesses = accesses.touches
    number = pl.Series("number", np.arange(len(accesses.page), dtype=np.int64))
    follows = pl.DataFrame({"page": accesses.page, "number": number}).select(
        pl.col("number").shift(-1).over("page").fill_null(-1)
    )
    written = np.empty(len(accesses.page), ORACLE_GENERAL)
    written["time"] = (accesses.time_s - accesses.time_s[0]).astype(np.uint32)
    written["page"] = accesses.page
    written["bytes"] = accesses.page_size_bytes or 1
    written["next"] = follows["number"].to_numpy()
    file.write(written.view(np.uint8).data)


ORACLE_GENERAL = np.dtype([("time", "<u4"), ("page", "<u8"), ("bytes", "<u4"), ("next", "<i8")])
_LCS_HEADER = np.dtype([("first", "<u8"), ("version", "<u8"), ("statistics", "<i8"), ("requests", "<i8"),
                        ("between", "V8152"), ("last", "<u8")])  # fmt: skip
_LCS_MAGIC = 0x123456789ABCDEF0
_LCS_WIDE = [("time", "<u4"), ("page", "<u8"), ("bytes", "<i8"), ("op", "<u4"), ("ttl", "<u4"), ("next", "<i8")]
_LCS = {
    1: ORACLE_GENERAL,
    2: np.dtype([("time", "<u4"), ("page", "<u8"), ("bytes", "<u4"), ("op", "<u4"), ("next", "<i8")]),
    3: np.dtype(_LCS_WIDE),
    **{3 + more: np.dtype([*_LCS_WIDE, ("features", f"V{2 << more}")]) for more in range(1, 6)},
}
"""The record layouts of lcs by the file's version. From version 4 on, 1, 2, 4, 8 or 16 more 32-bit numbers follow."""
_VSCSI = {
    2: np.dtype([("cmd", "<u2"), ("version", "<u2"), ("", "V4"), ("bytes", "<u4"), ("", "V4"), ("sector", "<u8"),
                 ("time", "<u8"), ("", "V8")]),
    1: np.dtype([("", "V4"), ("bytes", "<u4"), ("", "V4"), ("cmd", "<u2"), ("version", "<u2"), ("sector", "<u8"),
                 ("time", "<u8")]),
}  # fmt: skip


def read_oracle_general(path: Path) -> Accesses:
    """Return the accesses of a file in oracleGeneral. Raise DataFileError if it is damaged, OSError if unreadable."""
    return _objects(_records(path, ORACLE_GENERAL), "oracleGeneral")


def read_lcs(path: Path) -> Accesses:
    """Return the accesses of a file in libCacheSim's lcs. Raise DataFileError if damaged, OSError if unreadable."""
    header = np.frombuffer(unpacked.first_bytes(path, _LCS_HEADER.itemsize).ljust(_LCS_HEADER.itemsize), _LCS_HEADER)[0]
    version = int(header["version"])
    if not header["first"] == header["last"] == _LCS_MAGIC or version not in _LCS:
        what = "it has not the header of lcs in versions 1 to 8"
        raise DataFileError(what, str(path), "make it oracleGeneral with libCacheSim's traceConv")
    records = _records(path, _LCS[version], _LCS_HEADER.itemsize)
    said = int(header["requests"])  # The number is 0 if the writer did not fill in the statistics.
    if said > len(records):
        what = f"its header says {said:,} requests, and {len(records):,} are in the file"
        raise DataFileError(what, str(path), "copy the whole file")
    return _objects(records, f"lcs, version {version}")


def read_vscsi(path: Path, page_bytes: int | None) -> Accesses:
    """Return the pages of `page_bytes` that a virtual disk's requests touch. Raise as `read_lcs` does."""
    data = unpacked.all_bytes(path)
    for version, record in _VSCSI.items():
        whole = len(data) // record.itemsize * record.itemsize
        records = np.frombuffer(data[:whole] if whole < len(data) else data, record)
        if len(records) and (records["version"] >> 8 == version).all():
            break
    else:
        hint = "is this a trace of CloudPhysics, of records with 32 or 40 bytes?"
        raise DataFileError("its records have not the version of vscsi", str(path), hint)
    _require_whole(len(data), record.itemsize, path)
    sector, size = np.ascontiguousarray(records["sector"]), np.ascontiguousarray(records["bytes"]).astype(np.uint64)
    bad = (sector >= MOST_OFFSET_BYTES // SECTOR_BYTES) | (size >= MOST_SIZE_BYTES)
    if bad.any():
        raise DataFileError("its sector is too large", f"{path}, record {int(bad.argmax()) + 1:,}", "is it damaged?")
    time = np.ascontiguousarray(records["time"])
    time_s = (time - time.min()).astype(np.float64) / 1e6
    asked = page_bytes or DEFAULT_PAGE_BYTES
    notes = (f"Requests are cut into pages of {format_bytes(asked)}.",)
    how = TraceReading(f"vscsi, version {version}: sectors of 512 bytes, lengths in bytes, times in us", notes=notes)
    return touched(Requests(sector * np.uint64(SECTOR_BYTES), size, time_s), asked, path, asked, how)


def _objects(records: NDArray[np.void], format_: str) -> Accesses:
    page = numbering.of_numbers(np.ascontiguousarray(records["page"]))
    kind = np.full(len(records), number_of("get"), np.uint8)
    found = Accesses(page, kind, records["time"].astype(np.float64), reading=TraceReading(format_))
    sizes = records["bytes"]
    return found.with_sizes(int(sizes.min()), int(sizes.max())) if len(sizes) else found


def _records(path: Path, record: np.dtype[np.void], header_bytes: int = 0) -> NDArray[np.void]:
    """Return the records after the header. They are read into memory only if the file is compressed, else mapped.

    Raises DataFileError for a file that is cut short, or that has too many records for the free memory.
    """
    data = unpacked.all_bytes(path) if unpacked.is_packed(path) else None
    size_bytes = (path.stat().st_size if data is None else len(data)) - header_bytes
    if size_bytes // record.itemsize > unpacked.most_accesses():
        raise unpacked.too_many(path)
    _require_whole(size_bytes, record.itemsize, path)
    if data is not None:
        return np.frombuffer(data, record, offset=header_bytes)
    return np.memmap(path, record, "r", header_bytes) if size_bytes else np.empty(0, record)


def _require_whole(size_bytes: int, record_bytes: int, path: Path) -> None:
    if size_bytes % record_bytes:
        where = f"{path}, record {size_bytes // record_bytes + 1:,}"
        raise DataFileError(f"the file ends inside a record of {record_bytes} bytes", where, "copy the whole file")
