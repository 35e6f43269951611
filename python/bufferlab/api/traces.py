"""Gives the page accesses of a traced run, and the misses of LRU pools of every size, as polars frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from bufferlab.errors import SpecError
from bufferlab.results.store import RunRecord
from bufferlab.traces import runs
from bufferlab.traces.accesses import Accesses
from bufferlab.traces.curve import MissCurve
from bufferlab.traces.curve import curve as misses_of

_NEEDED = ("page", "kind", "in_window", "t_s")


def trace(run: Path | str) -> pl.DataFrame:
    """Return a row for each access to a page of the pool, in the order of time.

    `run` is the folder of a run with a page trace, or of a sweep with one such run. `object` is the table or index to
    which the page belongs, null where it is not known. `in_window` marks the rows of the measured window. Raises a
    BufferlabError for a run without a good trace.
    """
    return runs.table(runs.traced(Path(run)))


def curve(accesses: pl.DataFrame | Path | str) -> pl.DataFrame:
    """Return a row for each size of an LRU pool, from none to all pages: its misses in the measured window.

    `accesses` are rows of `trace`, all or some, or a run, whose misses are then told per transaction too. Rows before
    the window only fill the pool. Raises a BufferlabError for rows without a get in the window.
    """
    if isinstance(accesses, pl.DataFrame):
        return _frame(_curve(accesses))
    record = runs.traced(Path(accesses))
    return _frame(_curve(runs.table(record))).with_columns(
        (pl.col("misses") / count).alias(f"misses_per_{work}") for work, count in _work(record).items()
    )


def _curve(rows: pl.DataFrame) -> MissCurve:
    if lacking := [name for name in _NEEDED if name not in rows.columns]:
        raise SpecError(
            f"these are no page accesses: there is no column {lacking[0]}", "bl.curve", "give rows of bl.trace(run)"
        )
    touches = rows.filter(runs.is_touch())
    times = touches.filter("in_window")["t_s"]
    counted = runs.marks(rows)
    window = (float(times[0]), float(times[-1])) if len(times) else None
    if window is None or not counted[touches["in_window"].to_numpy()].any():
        raise SpecError("no get lies in the window: no pool misses anything", "bl.curve", "give more rows of the trace")
    page = touches["page"].rank("dense").to_numpy().astype(np.uint32) - np.uint32(1)
    found = Accesses(page, counted, touches["t_s"].to_numpy(), None, window)
    return misses_of(found, window, lambda _done: None)


def _frame(found: MissCurve) -> pl.DataFrame:
    misses = pl.Series("misses", found.misses)
    return pl.DataFrame({"pool_pages": np.arange(len(misses), dtype=np.uint32), "misses": misses}).with_columns(
        (pl.col("misses") / found.accesses).alias("misses_per_get")
    )


def _work(record: RunRecord) -> dict[str, float]:
    """Return the units of work in the window that the run tells of."""
    values, measured = record.values(), record.run.measured
    found = {
        "transaction": float(measured.transactions) if measured else None,
        "new_order": values["new_orders"].value,
    }
    return {work: count for work, count in found.items() if count}
