"""Takes accesses from the page trace of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bufferlab.errors import DataFileError
from bufferlab.registry import open_sweep
from bufferlab.results.schema import PAGE_TRACE_KINDS, PagesOfObject, PageTrace
from bufferlab.results.store import RunRecord
from bufferlab.traces.accesses import Accesses, MeasuredPool

_GET, _IF_IN_POOL, _CREATE, _DROP = map(PAGE_TRACE_KINDS.index, ("get", "get_if_in_pool", "create", "drop"))
_TOUCHES = (_GET, _IF_IN_POOL, _CREATE)
_HINT = "record one: bufferlab run ... --probe page-trace"


def read(folder: Path) -> Accesses:
    """Return the accesses of a run's folder, or of the only traced run of a sweep folder. Raises DataFileError."""
    record = traced(folder)
    trace, table = record.run.page_trace, record.page_trace()
    assert trace is not None
    assert table is not None
    # Reads, read-aheads and evictions are what one pool did: another would do others.
    touches = table.select(is_touch())["kind"]
    counted = marks(table)
    if not counted.any():
        raise DataFileError("there is no get: no pool misses anything", str(record.folder), "trace another workload")
    return Accesses(
        page=table["page"].filter(touches).to_numpy(),
        counted=counted,
        time_s=table.select(_time_s())["t_s"].filter(touches).to_numpy(),
        page_size_bytes=trace.page_size_bytes,
        window_s=_window_s(trace),
        objects=tuple(trace.objects),
        measured=_measured(record, trace),
    )


def is_touch() -> pl.Expr:
    """Return the condition for rows that touch a page, in a table as stored or as `table` returns it."""
    return pl.col("kind").to_physical().is_in(_TOUCHES)


def marks(table: pl.DataFrame) -> NDArray[np.uint8]:
    """Return of each touch whether its miss counts, and whether its page was dropped since its last touch."""
    kind = pl.col("kind").to_physical()
    steps = table.select("page", kind).filter(kind.is_in([*_TOUCHES, _DROP]))
    dropped = pl.col("kind").shift(1).over("page") == _DROP
    mark = pl.when(pl.col("kind") != _GET).then(0).when(dropped).then(2).otherwise(1).cast(pl.UInt8)
    return steps.select(mark.alias("mark"), "kind").filter(pl.col("kind") != _DROP)["mark"].to_numpy()


def table(record: RunRecord) -> pl.DataFrame:
    """Return a traced run's accesses with their times, kinds and objects in words; the window's rows are marked."""
    trace, stored = record.run.page_trace, record.page_trace()
    assert trace is not None
    assert stored is not None
    first_s, last_s = _window_s(trace)
    objects = sorted(trace.objects, key=lambda one: one.first_page)
    names = pl.Enum(list(dict.fromkeys(one.name for one in objects)))
    return stored.select(
        _time_s(),
        "page",
        pl.col("kind").cat.to(pl.Enum(PAGE_TRACE_KINDS)),
        _object_of(stored["page"], objects, names).alias("object"),
        _time_s().is_between(first_s, last_s).alias("in_window"),
        "thread",
        "latch",
    )


def _object_of(page: pl.Series, objects: Sequence[PagesOfObject], names: pl.Enum) -> pl.Series:
    """Return the name of the object that has each page; null for a page of none."""
    if not objects:
        return pl.Series([None] * len(page), dtype=names)
    starts = np.array([one.first_page for one in objects])
    ends = np.array([one.first_page + one.pages for one in objects])
    place = np.searchsorted(starts, page.to_numpy(), "right") - 1
    known = (place >= 0) & (page.to_numpy() < ends[place])
    return pl.Series([one.name for one in objects], dtype=names).gather(place.clip(0)).set(~pl.Series(known), None)


def _time_s() -> pl.Expr:
    return (pl.col("delta_us").cast(pl.UInt64).cum_sum() / 1e6).alias("t_s")


def traced(folder: Path) -> RunRecord:
    """Return the run of a run's folder, or the only traced run of a sweep folder. Raises DataFileError."""
    if (folder / "run.json").exists():
        runs = [run for run in open_sweep(folder.resolve().parent.parent).runs() if run.run_id == folder.name]
    else:
        runs = open_sweep(folder).runs()
    traced = [run for run in runs if run.run.page_trace and run.run.page_trace.status == "ok"]
    if len(traced) == 1:
        return traced[0]
    if traced:
        names = ", ".join(f"{run.folder.name} ({run.run.point.label})" for run in traced)
        what = f"{len(traced)} runs of this sweep have a page trace"
        raise DataFileError(what, str(folder), f"name one of {folder}/runs: {names}")
    failed = next((run.run.page_trace for run in runs if run.run.page_trace), None)
    if failed:
        raise DataFileError(f"the page trace failed: {failed.reason}", str(folder), failed.hint or _HINT)
    raise DataFileError("there is no page trace", str(folder), _HINT)


def _window_s(trace: PageTrace) -> tuple[float, float]:
    assert trace.start_ns is not None
    assert trace.window_start_ns is not None
    assert trace.window_end_ns is not None
    return (trace.window_start_ns - trace.start_ns) / 1e9, (trace.window_end_ns - trace.start_ns) / 1e9


def _measured(record: RunRecord, trace: PageTrace) -> MeasuredPool | None:
    """Return the pool's frames at the end of the window, and the engine's count of misses in it."""
    samples = record.samples()
    at_end = (samples["metric"] == "pool_frames") & (samples["edge"] == "end") & (samples["phase"] == "measure")
    frames = samples.filter(at_end)["value"].to_list()
    misses = [one.counted for one in trace.counts if one.kind == "read"]
    return MeasuredPool(int(frames[0]), misses[0]) if frames and misses else None
