"""Reads the traced run on which predictions are based: its page trace, its pool, and its engine's counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeGuard

from bufferlab.engines import registry as engines
from bufferlab.errors import DataFileError, SpecError
from bufferlab.knob import Value
from bufferlab.models.managers.declaration import Pool, Server, Traced
from bufferlab.results.schema import Run, StoredSetting
from bufferlab.results.store import SweepFolder
from bufferlab.results.window import Window
from bufferlab.traces import page_trace
from bufferlab.traces.changed_pages import changes_in, changes_of
from bufferlab.traces.page_trace import RunTrace

RECORD_AGAIN = "record it again: bufferlab run ... --probe page-trace"


@dataclass(frozen=True)
class Source:
    """The traced run on which predictions are based, with its pool and its engine's counts."""

    trace: RunTrace
    folder: SweepFolder
    server: Server
    pool_bytes: int
    frames: int
    """The pool's frames as the engine counted them. They may differ from the pool's bytes divided by the page size."""
    page_size_bytes: int
    edges: Window
    read_us: float | None
    """The mean time of a device read in the window, in microseconds; None if it was not sampled."""

    @property
    def run(self) -> Run:
        """Return the content of the traced run's run.json."""
        return self.trace.record.run

    def setting(self, name: str) -> StoredSetting:
        """Return a setting of the run; an empty one if the run has no setting of that name."""
        return self.run.settings.get(name, StoredSetting())

    def seen(self, values: Mapping[str, int]) -> Traced:
        """Return the facts about this run that a model may use; `values` are the values of the model's settings."""
        return Traced(
            server=self.server,
            pool=Pool(self.frames, values),
            edges=self.edges,
            transactions=self.trace.work["transaction"],
            connections=int(self.run.workload.get("connections") or 1),
            objects=self.trace.stored.objects,
            ran={name: int(one.value) for name, one in self.run.settings.items() if _is_whole(one.value)},
            numbers={
                name: float(one.value)
                for name, one in self.run.settings.items()
                if isinstance(one.value, int | float) and not isinstance(one.value, bool)
            },
            others=self.others,
            is_rotational=bool((self.folder.host.get("device") or {}).get("rotational")),
            changed_pages=lambda: changes_in(self.trace.columns, *self.trace.window),
            changes=partial(changes_of, self.trace),
        )

    def others(self) -> list[tuple[int, int, Window]]:
        """Return frames, transactions and window of each measured run of the sweep that differs only in its pool.

        Raises DataFileError for a damaged run.
        """
        pool, found = engines.declaration(self.run.engine).results.pool, []
        own = {**self.run.point.swept, pool: None}
        for record in self.folder.runs():
            run = record.run
            if record.ok and run.source == "measured" and run.measured and {**run.point.swept, pool: None} == own:
                edges = Window.of(record.samples())
                found.append((int(edges.level("pool_frames").value or 0), run.measured.transactions, edges))
        return [one for one in found if one[0]]


def _is_whole(value: Value) -> TypeGuard[int | str]:
    """Return whether a stored value is a whole number, or the text of one, as servers show it."""
    return type(value) is int or (isinstance(value, str) and value.isdecimal())


def read(path: Path) -> Source:
    """Return the traced run in a run's folder or a sweep folder.

    Raises DataFileError if there is none, or if it cannot be the source of a prediction: its engine is unknown, or it
    lacks its window, its pool's size or its frames. Raises SpecError if its window has no transaction.
    """
    trace = page_trace.read(path)
    record, run, where = trace.record, trace.record.run, str(trace.record.folder)
    edges = Window.of(trace.samples, courses=record.registry.courses)
    if run.engine not in engines.names(hidden=True):
        raise DataFileError(f'there is no engine "{run.engine}"', where, RECORD_AGAIN)
    pool = run.settings.get(engines.declaration(run.engine).results.pool, StoredSetting()).value
    frames, page_size_bytes, (first, end) = edges.level("pool_frames").value, trace.stored.page_size_bytes, trace.window
    if not isinstance(pool, int) or not (pool and frames and page_size_bytes and run.measured and first < end):
        raise DataFileError("the run does not tell its pool or its window", where, RECORD_AGAIN)
    if "transaction" not in trace.work:
        raise SpecError("no transaction lies in the run's window", where, "trace another workload")
    await_ms = trace.values["device_read_await_ms"].value
    return Source(
        trace=trace,
        folder=SweepFolder.open(record.folder.resolve().parent.parent, record.registry),
        server=Server(run.engine, run.engine_version or ""),
        pool_bytes=pool,
        frames=int(frames),
        page_size_bytes=page_size_bytes,
        edges=edges,
        read_us=None if await_ms is None else 1000 * await_ms,
    )
