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
from bufferlab.models.managers.declaration import Pools, Server, Settings
from bufferlab.results.derive import values_of
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

    def pools(self, frames: int) -> Pools:
        """Return this run's pool beside one of so many frames."""
        assert self.run.page_trace is not None
        return Pools(
            traced_frames=self.frames,
            frames=frames,
            connections=int(self.run.workload.get("connections", 1)),
            objects=self.run.page_trace.objects,
            ran={name: one.value for name, one in self.run.settings.items() if type(one.value) is int},
        )

    def replay(self, manager: str, settings: Settings, frames: int) -> Replayed:
        """Return what a manager counts in the window. Raises DataFileError for a run that cannot be replayed."""
        return self._replay(manager, settings, frames, slice(None), self.window)

    def require(self, manager: str, settings: Settings, frames: int) -> None:
        """Refuse, at once, settings that this run cannot have had. Raises DataFileError."""
        self._replay(manager, settings, frames, slice(0), (0, 0))

    def _replay(self, manager: str, settings: Settings, frames: int, rows: slice, window: tuple[int, int]) -> Replayed:
        page, kind, thread, delta_us, latch = self.columns
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

    new_orders = values_of(samples)["new_orders"].value
    return Source(
        folder=SweepFolder.open(record.folder.resolve().parent.parent),
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
    )
