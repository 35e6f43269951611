"""Page accesses in their order, and the page trace of a run. Curves, predictions and the API read both.

`TraceReading` describes how a file of another program was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bufferlab.errors import DataFileError
from bufferlab.results.trace_words import page_trace_words
from bufferlab.results.window import Value
from bufferlab.units import format_bytes

if TYPE_CHECKING:
    import polars as pl

    from bufferlab.results.page_traces import PagesOfObject, PageTrace
    from bufferlab.results.store import RunRecord


TOUCHES = ("get", "get_if_in_pool", "create")
"""The kinds of accesses that need the page in the pool."""
Columns = Mapping[str, NDArray[Any]]
"""The columns of page-trace.parquet, by name."""
_HINT = "record one: bufferlab run ... --probe page-trace"
_NAMED_RUNS = 4
"""The maximum number of other traced runs that a sentence lists."""


def number_of(kind: str) -> int:
    """Return the code of an access kind, such as "get", in the column `kind`."""
    return page_trace_words().kinds.index(kind)


@dataclass(frozen=True)
class TakenColumn:
    """A column that was used: its role, its name or number, and the unit of its numbers."""

    role: str
    name: str
    unit: str | None
    """The unit: s, ms, us, ns or 100ns for times; bytes, sectors or pages for pages and sizes; else None."""

    @property
    def sentence(self) -> str:
        """Return the column in words, such as "ts as time in ms"."""
        if self.role == "op":
            return f"{self.name} as get or create"
        unit = f" in {self.unit}" if self.unit and self.unit != f"{self.role}s" else ""
        return f"{self.name} as {self.role}{unit}"


@dataclass(frozen=True)
class TraceReading:
    """How a foreign file was read: its format, columns, header and doubtful points."""

    format: str
    """The format in words: "MSR Cambridge", "a table"."""
    columns: tuple[TakenColumn, ...] = ()
    has_head: bool | None = None
    """Whether the first line names the columns; None for a format without header lines."""
    notes: tuple[str, ...] = ()
    """Further remarks on how the file was read, in sentences."""

    def sentence(self, first_s: float, last_s: float) -> str:
        """Return a sentence on how the file was read; the arguments are the times of its first and last touch."""
        parts = [f"Read as {self.format}" + (": " if self.columns else "")]
        parts[0] += ", ".join(column.sentence for column in self.columns)
        if self.has_head is not None:
            parts.append("the first line names columns" if self.has_head else "no line of names")
        if self.columns and not any(column.role == "time" for column in self.columns):
            parts.append("without a time the n-th access is at n s")
        parts.append(f"times from {_seconds(first_s)} to {_seconds(last_s)} s")
        return "; ".join(parts) + "."


def _seconds(time_s: float) -> str:
    """Return a time in seconds as text, with at most six decimals."""
    return f"{time_s:.6f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class MeasuredPool:
    """The pool size of a run, and the misses that its engine counted in the measured window."""

    pages: int
    misses: int


@dataclass(frozen=True)
class Accesses:
    """The accesses that a pool of any size would get, in their order; all arrays have one length.

    Reads, read-aheads and evictions depend on the pool size, so they are left out.
    """

    page: NDArray[np.uint32]
    """The number of each access's page; pages are numbered from 0 without gaps."""
    kind: NDArray[np.uint8]
    """The code of each access's kind: a get or another touch, or the drop of a page that the trace also touches."""
    time_s: NDArray[np.float64]
    """The time of each access in seconds, from an arbitrary origin; times never run backwards."""
    page_size_bytes: int | None = None
    """The page size in bytes; None if the file does not give it."""
    window_s: tuple[float, float] | None = None
    """The first and the last second of a run's measured window; None for a file of another program."""
    objects: tuple[PagesOfObject, ...] = ()
    """The tables and indexes of a run's database."""
    measured: MeasuredPool | None = None
    """The pool in which a run's accesses were recorded; None for a file of another program, or for another window."""
    sizes_bytes: tuple[int, int] | None = None
    """The sizes in bytes of a file's smallest and largest object, if sizes differ; else None."""
    reading: TraceReading | None = None
    """How a file was read; None for the trace of a run."""

    def with_sizes(self, smallest: object, largest: object) -> Accesses:
        """Return these accesses with the page size in bytes, if all objects have one size, or with the range of sizes.

        Sizes of 0 or 1 mean that no size is given and change nothing; neither does a value that is not an integer.
        """
        if not isinstance(smallest, int) or not isinstance(largest, int):
            return self
        if smallest == largest:
            return replace(self, page_size_bytes=smallest) if smallest > 1 else self
        return replace(self, sizes_bytes=(smallest, largest))

    def page_size(self, asked_bytes: int | None) -> tuple[int | None, str | None]:
        """Return the page size in bytes, and a sentence if it differs from the size that the user gave."""
        if self.sizes_bytes:
            smallest, largest = (f"{size:,}" for size in self.sizes_bytes)
            unused = "; --page-size was not used" if asked_bytes else ""
            return None, f"Objects have {smallest} to {largest} bytes: pages are counted, and have no size{unused}."
        known = self.page_size_bytes
        if known and asked_bytes and known != asked_bytes:
            whose = "file" if self.reading else "run"
            return known, f"The {whose}'s pages have {format_bytes(known)}: --page-size was not used."
        return known or asked_bytes, None

    @cached_property
    def touches(self) -> Accesses:
        """Return the accesses without drops, which remove a page from the pool."""
        kept = self.kind != number_of("drop")
        return replace(self, page=self.page[kept], kind=self.kind[kept], time_s=self.time_s[kept])

    @property
    def pages(self) -> int:
        """Return the number of distinct pages in the accesses."""
        return int(self.page.max()) + 1 if len(self.page) else 0

    @property
    def gets(self) -> int:
        """Return the number of gets. A get whose page is not in the pool is a miss and causes a read."""
        return int(np.count_nonzero(self.kind == number_of("get")))


@dataclass(frozen=True)
class RunTrace:
    """The page trace of a run, with the run's record."""

    record: RunRecord
    stored: PageTrace
    table: pl.DataFrame
    """A row for each access, with the columns of page-trace.parquet."""
    window_ns: tuple[int, int]
    """Begin and end of the measured window, in ns since the first access."""
    choice: str | None = None
    """A sentence that names the run, if other runs of the sweep have a page trace too."""

    @cached_property
    def columns(self) -> Columns:
        """Return the columns of the table, by name. They are read-only, so that threads may share them."""
        found = {name: np.ascontiguousarray(self.table[name].to_numpy()) for name in self.table.columns}
        for column in found.values():
            column.flags.writeable = False
        return found

    def counted(self, kind: str) -> tuple[int, int]:
        """Return how many accesses of a kind the engine counted in the window, and how many of them the trace holds.

        The engine's count may include a few accesses outside the window, because its counters were read slightly before
        and after it.
        """
        for one in self.stored.counts:
            if kind in one.kind.split(" + "):
                return one.counted, one.recorded + min(one.at_edges, max(one.counted - one.recorded, 0))
        return 0, 0

    @property
    def window_s(self) -> tuple[float, float]:
        """Return the first and the last second of the window, since the first access."""
        return self.window_ns[0] / 1e9, self.window_ns[1] / 1e9

    @property
    def time_s(self) -> pl.Series:
        """Return the time of each row, in seconds since the first access."""
        import polars as pl

        return (self.table["delta_us"].cast(pl.UInt64).cum_sum() / 1e6).alias("t_s")

    @cached_property
    def window(self) -> tuple[int, int]:
        """Return the first row of the measured window in the trace, and the first row after the window."""
        times_us = self.table["delta_us"].to_numpy().cumsum(dtype=np.uint64)
        return rows_within(times_us, (self.window_ns[0] / 1e3, self.window_ns[1] / 1e3))

    @cached_property
    def load_row(self) -> int:
        """The approximate first row of the workload. Rows before it may belong to a check that read all tables.

        It is derived from the samples of each second, which count the transactions that had ended.
        """
        times_us, began_us = self.table["delta_us"].to_numpy().cumsum(dtype=np.uint64), 1e6 * self._load_began_s()
        return min(int(np.searchsorted(times_us, began_us)), self.window[0])

    def _load_began_s(self) -> float:
        """Return when transactions began, in seconds since the first access."""
        import polars as pl

        counted = self.samples.filter(pl.col("metric") == "transactions_committed").sort("t_s")
        told = counted.group_by("t_s", maintain_order=True).agg(pl.col("count").sum(), pl.col("edge").first())
        rows = told.select("t_s", "count", (pl.col("edge") == "start").fill_null(False)).rows()
        edge_s = next((t_s for t_s, _, is_start in rows if is_start), None)
        if edge_s is None:
            return 0.0
        idle_s = max((t_s for t_s, count, _ in rows if not count), default=-np.inf)
        some = [(t_s, count) for t_s, count, _ in rows if count][:2]
        if len(some) == 2 and some[1][1] > some[0][1]:
            (first_s, first), (second_s, second) = some
            idle_s = max(idle_s, first_s - first * (second_s - first_s) / (second - first))
        return max(0.0, self.window_s[0] - float(edge_s - min(idle_s, edge_s)))

    @cached_property
    def pages(self) -> int:
        """Return the number of distinct pages in the trace."""
        return int(self.table["page"].n_unique())

    @cached_property
    def samples(self) -> pl.DataFrame:
        """Return the rows of the run's samples.parquet."""
        return self.record.samples()

    @cached_property
    def values(self) -> dict[str, Value]:
        """Return every derived value of the run, by the metric's name."""
        return self.record.values()

    @cached_property
    def work(self) -> dict[str, int]:
        """Return how many transactions and New-Orders the run counted in its window, without those that are zero."""
        measured, new_orders = self.record.run.measured, self.values["new_orders"].value
        found = {"transaction": measured.transactions if measured else 0, "new_order": int(new_orders or 0)}
        return {unit: count for unit, count in found.items() if count}

    def named(self) -> pl.DataFrame:
        """Return the accesses with times, kinds and objects as text, and a column that marks the window's rows."""
        import polars as pl

        time_s = self.time_s
        return self.table.select(
            time_s,
            "page",
            pl.col("kind").cat.to(pl.Enum(page_trace_words().kinds)),
            _object_of(self.table["page"], self.stored.objects).alias("object"),
            time_s.is_between(*self.window_s).alias("in_window"),
            "thread",
            "latch",
        )

    def accesses(self) -> Accesses:
        """Return the accesses that are independent of the pool's size. Raises DataFileError if none is a get."""
        found = accesses_of(self.table.with_columns(self.time_s))
        if not found.gets:
            where = str(self.record.folder)
            raise DataFileError("there is no get: no pool misses anything", where, "trace another workload")
        return replace(
            found,
            page_size_bytes=self.stored.page_size_bytes,
            window_s=self.window_s,
            objects=tuple(self.stored.objects),
            measured=self._measured(),
        )

    def _measured(self) -> MeasuredPool | None:
        """Return the pool's frames at the window's end, and the engine's misses in it; None if either is missing."""
        import polars as pl

        at_end = (pl.col("metric") == "pool_frames") & (pl.col("edge") == "end") & (pl.col("phase") == "measure")
        frames = self.samples.filter(at_end)["value"].to_list()
        misses = [one.counted for one in self.stored.counts if one.kind == "read"]
        return MeasuredPool(int(frames[0]), misses[0]) if frames and misses else None


def read(folder: Path) -> RunTrace:
    """Return the page trace of a run's folder, or of one run of a sweep folder.

    If several runs of the sweep have one, return that of the run from which the sweep's report predicts other pools;
    `choice` of the result says so. Raises DataFileError without a good trace.
    """
    from bufferlab.registry import open_sweep  # Import late: files of other programs need no sweep and no polars.

    if (folder / "run.json").exists():
        runs = [run for run in open_sweep(folder.resolve().parent.parent).runs() if run.run_id == folder.name]
    else:
        runs = open_sweep(folder).runs()
    traces = [(run, run.run.page_trace) for run in runs if run.run.page_trace]
    good = [run for run, trace in traces if trace.status == "ok"]
    if not traces:
        raise DataFileError("there is no page trace", str(folder), _HINT)
    if not good:
        failed = traces[0][1]
        what = "was dropped" if failed.status == "dropped" else "failed"
        raise DataFileError(f"the page trace {what}: {failed.reason}", str(folder), failed.hint or _HINT)
    chosen, choice = (good[0], None) if len(good) == 1 else _chosen(good, folder)
    found = of_run(chosen)
    assert found
    return replace(found, choice=choice)


def _chosen(traced: Sequence[RunRecord], folder: Path) -> tuple[RunRecord, str]:
    """Return which of several traced runs of a sweep to read, and a sentence that names it."""
    from bufferlab.traces.middle_run import groups, middle, sizes_of  # Import late, because it loads the engines.

    of_pools = groups(sorted([run for run in traced if run.ok] or traced, key=lambda run: run.run.point.index))
    chosen = middle(of_pools[0])
    which = {1: "", 2: ", the one with the larger pool"}
    why = which.get(len(sizes_of(of_pools[0])), ", the one with the middle pool")
    others = [f"{run.run_id} ({run.run.point.label})" for run in traced if run.run_id != chosen.run_id]
    shown = ", ".join(others[:_NAMED_RUNS]) + (", ..." if len(others) > _NAMED_RUNS else "")
    return chosen, (
        f"{len(traced)} runs have a page trace: run {chosen.run_id} ({chosen.run.point.label}) is read{why}. To read "
        f"another, name its folder in {folder}/runs: {shown}."
    )


def of_run(record: RunRecord) -> RunTrace | None:
    """Return the page trace of a run; None if no trace passed its checks. Raises DataFileError for a damaged file."""
    stored, table = record.run.page_trace, record.page_trace()
    if stored is None or table is None:
        return None
    moments = (stored.start_ns, stored.window_start_ns, stored.window_end_ns)
    start_ns, first_ns, last_ns = (moment or 0 for moment in moments)
    return RunTrace(record, stored, table, (first_ns - start_ns, last_ns - start_ns))


def accesses_of(rows: pl.DataFrame) -> Accesses:
    """Return the accesses in `rows`. The columns page, kind and t_s may be as stored, or as in `RunTrace.named`."""
    import polars as pl

    kind = pl.col("kind").to_physical()
    is_touch, is_drop = kind.is_in([number_of(name) for name in TOUCHES]), kind == number_of("drop")
    kept = rows.select("page", kind.cast(pl.UInt8), "t_s").filter(is_touch | is_drop & is_touch.any().over("page"))
    return Accesses(kept["page"].to_numpy(), kept["kind"].to_numpy(), kept["t_s"].to_numpy())


def rows_within(times: NDArray[Any], window: tuple[float, float]) -> tuple[int, int]:
    """Return the first row of a window, and the first row after it; all times have the same unit."""
    return int(np.searchsorted(times, window[0])), int(np.searchsorted(times, window[1], "right"))


def _object_of(page: pl.Series, found: Sequence[PagesOfObject]) -> pl.Series:
    """Return the name of the table or index that has each page; null for a page that belongs to none."""
    import polars as pl

    objects = sorted(found, key=lambda one: one.first_page)
    names = pl.Enum(list(dict.fromkeys(one.name for one in objects)))
    if not objects:
        return pl.Series([None] * len(page), dtype=names)
    starts = np.array([one.first_page for one in objects])
    ends = np.array([one.first_page + one.pages for one in objects])
    place = np.searchsorted(starts, page.to_numpy(), "right") - 1
    known = (place >= 0) & (page.to_numpy() < ends[place])
    return pl.Series([one.name for one in objects], dtype=names).gather(place.clip(0)).set(~pl.Series(known), None)
