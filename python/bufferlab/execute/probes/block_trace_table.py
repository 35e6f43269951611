"""Turns the core's records of a block trace (`Event::record` in crates/bufferlab-probe) into block-trace.parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bufferlab.results.schema import BLOCK_TRACE_COLUMNS

if TYPE_CHECKING:
    import polars as pl

_CHUNK_EVENTS = 500_000
_RECORD = np.dtype(
    [
        ("t_ns", "<u8"),
        ("sector", "<u8"),
        ("other_sector", "<u8"),
        ("device", "<u4"),
        ("from_device", "<u4"),
        ("sectors", "<u4"),
        ("requests", "<u4"),
        ("pid", "<i4"),
        ("error", "<i4"),
        ("cpu", "<u2"),
        ("action", "u1"),
        ("unused", "u1"),
        ("flags", "S10"),
        ("unused_too", "S2"),
        ("comm", "S16"),
    ]
)


def frames(records: Path, start_ns: int) -> Iterator[pl.DataFrame]:
    """Yield the records of a decoded trace as rows of block-trace.parquet, at most 500,000 at a time.

    Times count from `start_ns`, the start of the measured window.
    """
    with records.open("rb") as file:
        while len(chunk := np.fromfile(file, dtype=_RECORD, count=_CHUNK_EVENTS)):
            yield _frame(chunk, start_ns)


def _frame(chunk: np.ndarray[Any, Any], start_ns: int) -> pl.DataFrame:
    import polars as pl

    def numbers(name: str) -> pl.Series:
        values = chunk[name]
        return pl.Series(name, values.astype(np.int64) if values.dtype.kind == "u" else values)

    def words(name: str) -> pl.Series:
        """Return a column of many rows with few distinct texts. Each distinct text is decoded only once."""
        texts, places = np.unique(chunk[name], return_inverse=True)
        return pl.Series(name, [text.decode("utf-8", "replace") or None for text in texts], dtype=pl.String)[places]

    def devices(name: str) -> pl.Series:
        found, places = np.unique(chunk[name], return_inverse=True)
        texts = [f"{number >> 20}:{number & 0xFFFFF}" for number in found.tolist()]
        return pl.Series(name, texts, dtype=pl.String)[places]

    action = pl.Series("action", [chr(code) for code in range(128)])[chunk["action"].astype(np.int64) & 127]
    is_plug, is_remap = action.is_in(["P", "U"]), action == "A"

    def where(mask: pl.Series, series: pl.Series) -> pl.Series:
        return series.to_frame().select(pl.when(mask).then(pl.col(series.name))).to_series()

    columns = {
        "t_ns": pl.Series(chunk["t_ns"].astype(np.int64) - start_ns),
        "cpu": numbers("cpu"),
        "action": action,
        "device": devices("device"),
        # A flush has no sector: the kernel reports the largest 64-bit number, which is -1 here and becomes 0.
        "sector": where(~is_plug, numbers("sector").clip(0)),
        "sectors": where(~is_plug & (action != "X"), numbers("sectors")),
        "flags": words("flags"),
        "pid": numbers("pid"),
        "comm": words("comm"),
        "error": where(action == "C", numbers("error")),
        "requests": where(action == "U", numbers("requests")),
        "from_device": where(is_remap, devices("from_device")),
        "from_sector": where(is_remap, numbers("other_sector")),
        "split_sector": where(action == "X", numbers("other_sector")),
    }
    types = {"i64": pl.Int64, "i32": pl.Int32, "str": pl.String}
    return pl.DataFrame([series.alias(name).cast(types[BLOCK_TRACE_COLUMNS[name]]) for name, series in columns.items()])
