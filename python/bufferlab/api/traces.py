"""Gives the page accesses of a traced run, and the misses of LRU pools of every size, as polars frames."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from bufferlab.errors import SpecError
from bufferlab.traces import files, page_trace
from bufferlab.traces.curve import MissCurve
from bufferlab.traces.curve import curve as misses_of
from bufferlab.traces.options import parse_columns, parse_page_size

_NEEDED = ("page", "kind", "in_window", "t_s")


def trace(run: Path | str) -> pl.DataFrame:
    """Return a row for each access to a page of the pool, in the order of time.

    `run` is the folder of a run with a page trace, or of a sweep. If a sweep has several traced runs, the function
    reads the one from which the sweep's report predicts other pools, and a warning names it. `object` is the page's
    table or index, or null if it is not known. `in_window` marks the rows of the measured window. Raises a
    BufferlabError for a run without a good trace.
    """
    return _read(run).named()


def curve(
    accesses: pl.DataFrame | Path | str, *, columns: str | None = None, page_size: str | int | None = None
) -> pl.DataFrame:
    """Return a row for each size of an LRU pool, from no page to all pages: its misses in the measured window.

    `accesses` has one of three forms. A frame has all or some rows of `trace`; rows before the window only fill the
    pool. If it has only the column `page`, each row is a get in the window. The folder of a run or a sweep is taken as
    in `trace`; then misses are also given per unit of work. A file may have any format of `bufferlab curve`, with
    `columns` and `page_size` like its options; all gets of a file count. Raises a BufferlabError for a run or file that
    cannot be read, for rows that lack a column, and for rows without a get in the window.
    """
    if isinstance(accesses, pl.DataFrame):
        return _frame(_curve(_gets(accesses) if accesses.columns == ["page"] else accesses))
    if Path(accesses).is_file():
        read = files.read(Path(accesses), parse_columns(columns), parse_page_size(page_size))
        return _frame(misses_of(read, None, lambda _done: None))
    found = _read(accesses)
    return _frame(_curve(found.named())).with_columns(
        (pl.col("misses") / count).alias(f"misses_per_{work}") for work, count in found.work.items()
    )


def _read(folder: Path | str) -> page_trace.RunTrace:
    found = page_trace.read(Path(folder))
    if found.choice:
        warnings.warn(found.choice, stacklevel=3)
    return found


def _gets(pages: pl.DataFrame) -> pl.DataFrame:
    """Return the frame, which has only pages, as rows of a trace: each row is a get, one second after the row before
    it."""
    return pages.with_columns(
        kind=pl.lit(page_trace.number_of("get"), dtype=pl.UInt8),
        in_window=pl.lit(value=True),
        t_s=pl.int_range(pl.len()).cast(pl.Float64),
    )


def _curve(rows: pl.DataFrame) -> MissCurve:
    if lacking := [name for name in _NEEDED if name not in rows.columns]:
        what = f"these are no page accesses: there is no column {lacking[0]}"
        hint = "give rows of bl.trace(run), or a frame with the column page alone: each row is then a get"
        raise SpecError(what, "bl.curve", hint)
    inside = page_trace.accesses_of(rows.filter("in_window"))
    if not inside.gets:
        raise SpecError("no get lies in the window: no pool misses anything", "bl.curve", "give more rows of the trace")
    found = page_trace.accesses_of(rows)
    page = pl.Series(found.page).rank("dense").to_numpy().astype(np.uint32) - np.uint32(1)
    window = (float(inside.touches.time_s[0]), float(inside.touches.time_s[-1]))
    return misses_of(replace(found, page=page), window, lambda _done: None)


def _frame(found: MissCurve) -> pl.DataFrame:
    misses = pl.Series("misses", found.misses)
    return pl.DataFrame({"pool_pages": np.arange(len(misses), dtype=np.uint32), "misses": misses}).with_columns(
        (pl.col("misses") / found.accesses).alias("misses_per_get")
    )
