"""Reads accesses from files in the format that their names imply; writes accesses as libCacheSim's oracleGeneral.

text.py reads text, records.py reads binary records, and unpacked.py unpacks both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from bufferlab.errors import DataFileError
from bufferlab.traces import records, unpacked
from bufferlab.traces.options import WantedColumns
from bufferlab.traces.page_trace import Accesses

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
            found = records.read_oracle_general(path)
        elif kind == ".lcs":
            found = records.read_lcs(path)
        elif kind in _RECORDS:
            found = records.read_vscsi(path, page_bytes)
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
    written = np.empty(len(accesses.page), records.ORACLE_GENERAL)
    written["time"] = (accesses.time_s - accesses.time_s[0]).astype(np.uint32)
    written["page"] = accesses.page
    written["bytes"] = accesses.page_size_bytes or 1
    written["next"] = follows["number"].to_numpy()
    file.write(written.view(np.uint8).data)
