"""Reads the run from which others are predicted: its page trace, its pool, and what its engine counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines import registry as engines
from bufferlab.engines.native import native
from bufferlab.errors import DataFileError, SpecError
from bufferlab.models.managers.declaration import Pool, Server, Settings, Traced
from bufferlab.results.schema import Replayed, Run, StoredSetting
from bufferlab.results.store import PAGE_TRACE_FILE, SweepFolder
from bufferlab.results.window import Window
from bufferlab.traces import runs

LARGEST_POOL = 1 << 28
"""The frames of the largest pool that the core replays."""
_HINT = "record it again: bufferlab run ... --probe page-trace"


@dataclass(frozen=True)
class Measured:
    """What the engine itself counted in the window."""

    reads: int
    read_ahead: int
    gets: int
    hidden_gets: int
    """Gets that the trace does not hold."""


@dataclass(frozen=True)
class Clock:
    """How many times as long as it took the traced run takes: before its window, and in it."""

    before: float = 1.0
    within: float = 1.0


AS_TRACED = Clock()


@dataclass(frozen=True)
class Source:
    """A traced run."""

    folder: SweepFolder
    run: Run
    server: Server
    columns: tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint16], NDArray[np.uint32], NDArray[np.uint8]]
    """Page, kind, thread, microseconds since the row before, and latch, of every row."""
    window: tuple[int, int]
    """The window's first row, and the first behind it."""
    pages: int
    """Pages that the trace touches."""
    page_size_bytes: int
    pool_bytes: int
    frames: int
    """Frames as the engine counted them, which are not always bytes by page size."""
    seconds: float
    seconds_before: float
    """Time from the first access to the window."""
    work: Mapping[str, int]
    """Units of work in the window, such as transactions, by their name."""
    edges: Window
    read_us: float | None
    """Mean time of a device's read in the window; None where it was not sampled."""

    def measured(self, read_ahead: tuple[str, ...]) -> Measured:
        """Return the engine's own counts; `read_ahead` names its counters of pages read ahead."""
        trace = self.run.page_trace
        assert trace is not None
        told = {kind: one for one in trace.counts for kind in one.kind.split(" + ")}
        ahead = (self.edges.change(metric).value or 0.0 for metric in read_ahead)
        gets = told.get("get")
        return Measured(
            reads=told["read"].counted if "read" in told else 0,
            read_ahead=int(sum(ahead)),
            gets=gets.counted if gets else 0,
            hidden_gets=max(0, gets.counted - gets.recorded) if gets else 0,
        )

    @property
    def page_trace_sha256(self) -> str:
        """Return the hash of the trace that was read."""
        return self.run.files[PAGE_TRACE_FILE].sha256

    def setting(self, name: str) -> StoredSetting:
        """Return a setting of the run; an empty one where the run has none of that name."""
        return self.run.settings.get(name, StoredSetting())

    def seen(self, values: Mapping[str, int]) -> Traced:
        """Return what a model may know of this run; `values` are the settings that it obeys."""
        assert self.run.page_trace is not None
        return Traced(
            server=self.server,
            pool=Pool(self.frames, values),
            edges=self.edges,
            transactions=self.work["transaction"],
            connections=int(self.run.workload.get("connections", 1)),
            objects=self.run.page_trace.objects,
            ran={name: one.value for name, one in self.run.settings.items() if type(one.value) is int},
            others=self.others,
        )

    def others(self) -> list[tuple[int, int, Window]]:
        """Return frames, transactions and window of each measured run of the sweep that differs in its pool alone.

        Raises DataFileError for a damaged run.
        """
        pool = engines.declaration(self.run.engine).frame_knob
        found = []
        for record in self.folder.runs():
            run = record.run
            swept = {**run.point.swept, pool: self.run.point.swept.get(pool)}
            if (
                record.ok
                and run.source == "measured"
                and run.measured
                and swept == {pool: None, **self.run.point.swept}
            ):
                edges = Window.of(record.samples())
                found.append((int(edges.level("pool_frames").value or 0), run.measured.transactions, edges))
        return [one for one in found if one[0]]

    def replay(self, manager: str, settings: Settings, frames: int, clock: Clock = AS_TRACED) -> Replayed:
        """Return what a manager counts in the window. Raises DataFileError for a run that cannot be replayed.

        With a clock the run takes other times than it took.
        """
        return self._replay(manager, settings, frames, slice(None), self.window, self._deltas(clock))

    def _deltas(self, clock: Clock) -> NDArray[np.uint32]:
        """Return microseconds since the row before, by a clock."""
        delta_us = self.columns[3]
        if clock == AS_TRACED:
            return delta_us
        first = self.window[0]
        times_us = np.cumsum(delta_us, dtype=np.float64)
        edge_us = times_us[first - 1] if first else 0.0
        times_us[:first] *= clock.before
        times_us[first:] = edge_us * clock.before + (times_us[first:] - edge_us) * clock.within
        # Times are rounded and not their differences, or the errors would add up.
        deltas = np.diff(np.floor(times_us), prepend=0.0)
        return np.minimum(deltas, np.iinfo(np.uint32).max).astype(np.uint32)

    def require(self, manager: str, settings: Settings, frames: int) -> None:
        """Refuse, at once, settings that this run cannot have had. Raises DataFileError."""
        self._replay(manager, settings, frames, slice(0), (0, 0), self.columns[3])

    def _replay(
        self,
        manager: str,
        settings: Settings,
        frames: int,
        rows: slice,
        window: tuple[int, int],
        delta_us: NDArray[np.uint32],
    ) -> Replayed:
        page, kind, thread, _, latch = self.columns
        columns = page[rows], kind[rows], thread[rows], delta_us[rows], latch[rows]
        try:
            told = native().replay(manager, json.dumps(dict(settings)), frames, *columns, *window)
        except ValueError as error:
            raise DataFileError(f"the run cannot be replayed: {error}", str(self.folder.path), _HINT) from error
        return Replayed.model_validate_json(told)


def read(path: Path) -> Source:
    """Return the traced run of a run's folder or a sweep folder. Raises DataFileError.

    A run without its window, its pool's size or its frames cannot be the source of a prediction; for one without a
    transaction a SpecError is raised.
    """
    record = runs.traced(path)
    trace, table, samples = record.run.page_trace, record.page_trace(), record.samples()
    assert trace is not None
    assert table is not None
    assert trace.start_ns is not None
    assert trace.window_start_ns is not None
    assert trace.window_end_ns is not None
    times_us = table["delta_us"].to_numpy().cumsum(dtype=np.uint64)
    first = int(np.searchsorted(times_us, (trace.window_start_ns - trace.start_ns) / 1e3))
    end = int(np.searchsorted(times_us, (trace.window_end_ns - trace.start_ns) / 1e3, "right"))
    edges = Window.of(samples)
    if record.run.engine not in engines.names(hidden=True):
        raise DataFileError(f'there is no engine "{record.run.engine}"', str(record.folder), _HINT)
    pool = record.run.settings.get(engines.declaration(record.run.engine).frame_knob, StoredSetting()).value
    frames = edges.level("pool_frames").value
    measured = record.run.measured
    if not isinstance(pool, int) or not pool or not frames or not trace.page_size_bytes or not measured or first == end:
        raise DataFileError("the run does not tell its pool or its window", str(record.folder), _HINT)
    if not measured.transactions:
        raise SpecError("no transaction lies in the run's window", str(record.folder), "trace another workload")

    def column(name: str) -> NDArray[Any]:
        return np.ascontiguousarray(table[name].to_numpy())

    values = record.registry.values(samples)
    new_orders, await_ms = values["new_orders"].value, values["device_read_await_ms"].value
    return Source(
        folder=SweepFolder.open(record.folder.resolve().parent.parent, record.registry),
        run=record.run,
        server=Server(record.run.engine, record.run.engine_version or ""),
        columns=(column("page"), column("kind"), column("thread"), column("delta_us"), column("latch")),
        window=(first, end),
        pages=int(table["page"].n_unique()),
        page_size_bytes=trace.page_size_bytes,
        pool_bytes=pool,
        frames=int(frames),
        seconds=(trace.window_end_ns - trace.window_start_ns) / 1e9,
        seconds_before=max(0, trace.window_start_ns - trace.start_ns) / 1e9,
        work={"transaction": measured.transactions, **({"new_order": int(new_orders)} if new_orders else {})},
        edges=edges,
        read_us=None if await_ms is None else 1000 * await_ms,
    )
