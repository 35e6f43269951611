"""Handles page traces: decides which trace a sweep's runs have, refuses early, and stores every access to a pool's
page.

Pages are numbered so that the pages of one table or index are consecutive, and run.json can name them by ranges. A
trace that lacks accesses, or disagrees with the engine's own counters, is marked as failed and has no table. Its run is
kept.

Runs have the trace that the user requests, or that plan.json has, or the default. By default a run has a trace if the
engine can record one. It has none if the experiment is about times and the cost of a trace on that server was never
measured. The sweep then prints why its runs have no traces.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import OwnedPages
from bufferlab.errors import BufferlabError, Failure, SpecError
from bufferlab.execute.host.fingerprint import memory_bytes
from bufferlab.execute.probes.command_line_probe import EndedRun
from bufferlab.knob import CONNECTIONS
from bufferlab.plan import Plan
from bufferlab.plan.grid import workload_of
from bufferlab.registry import registry
from bufferlab.results.blocks import KeepTraces
from bufferlab.results.page_traces import PageTrace, PlannedTraces
from bufferlab.results.schema import StoredPlan
from bufferlab.results.store import PAGE_TRACE_FILE, write_page_trace
from bufferlab.results.trace_words import NOT_WRITTEN, hint_for, page_trace_words
from bufferlab.traces.changed_pages import changes_joined
from bufferlab.units import GIB, format_bytes

if TYPE_CHECKING:
    import polars as pl


OFF = "BUFFERLAB_NO_PAGE_TRACE"
"""The environment variable that, with any value, disables traces that the user did not request."""
KEY = "page_trace"
"""The key of plan.json for the planned traces."""
DEFAULT_KEEP: KeepTraces = "one"


@dataclass(frozen=True)
class TraceWish:
    """The user's options for page traces. If the user gives none, the defaults apply."""

    by_name: bool = False
    """Whether the user requests traces: a run that cannot be recorded must then fail."""
    unwanted: bool = False
    limit_bytes: int | None = None
    keep: KeepTraces | None = None

    def __post_init__(self) -> None:
        """Raise SpecError if --no-page-trace is combined with an option that describes traces."""
        if not self.unwanted:
            return
        others = {"--probe page-trace": self.by_name, "--trace-limit": self.limit_bytes, "--keep-traces": self.keep}
        for flag, value in others.items():
            if value:
                raise SpecError(
                    "runs without a page trace have none to describe", f"--no-page-trace {flag}", "drop one"
                )


NOTHING_SAID = TraceWish()


def planned(wish: TraceWish, plan: Plan, stored: Mapping[str, Any] | None) -> PlannedTraces:
    """Return the traces of a sweep's runs; for a resumed sweep, `stored` is its plan.json, which decides.

    Raises SpecError for options that contradict the stored plan, and for a sweep whose accesses the kernel recorded.
    """
    if stored is None:
        return _new(wish, plan)
    before = StoredPlan.model_validate(stored).page_trace
    if before is None:  # An earlier version began the sweep; in that version each command had to request traces.
        return PlannedTraces(recorder="inside" if wish.by_name else None, keep=wish.keep or "all", by_name=wish.by_name)
    if before.recorder == "uprobes":
        what = "the kernel recorded this sweep's page accesses, which only an earlier version lets it do"
        raise SpecError(what, "--resume", "begin a new sweep")
    now = {
        "--no-page-trace": wish.unwanted and before.recorder is not None,
        "--probe page-trace": wish.by_name and before.recorder is None,
        f"--keep-traces {wish.keep}": wish.keep is not None and wish.keep != before.keep,
    }
    for flag, differs in now.items():
        if differs:
            traces = f"page traces, of which it keeps: {before.keep}"
            what = f"the sweep was begun with {traces if before.recorder else 'no page traces'}"
            raise SpecError(what, f"--resume {flag}", "leave the flag out, or begin a new sweep")
    return before


def asked(traces: PlannedTraces, wish: TraceWish) -> tuple[PageTraceAsked, ...]:
    """Return the probe of these traces, or (). A resumed sweep keeps its size limit, unless the user gives another."""
    if traces.recorder is None:
        return ()
    return (PageTraceAsked(wish.limit_bytes or traces.limit_bytes, traces.keep, traces.by_name),)


def _new(wish: TraceWish, plan: Plan) -> PlannedTraces:
    keep, limit_bytes = wish.keep or DEFAULT_KEEP, wish.limit_bytes
    if wish.by_name:
        return PlannedTraces(recorder="inside", keep=keep, by_name=True, limit_bytes=limit_bytes)
    if wish.unwanted or OFF in os.environ or not engines.behaviour(plan.experiment.engine).page_trace_counters:
        return PlannedTraces(recorder=None, keep=keep, by_name=False)
    try:
        why_not = _why_not(plan)
    except BufferlabError as error:
        why_not = error.what
    if why_not:
        return PlannedTraces(recorder=None, keep=keep, by_name=False, why_not=why_not)
    return PlannedTraces(recorder="inside", keep=keep, by_name=False, limit_bytes=limit_bytes)


def _why_not(plan: Plan) -> str | None:
    """Return why these runs have no trace by default; None if they may have one.

    Raises BufferlabError if they cannot.
    """
    if _asks_for_throughput(plan):
        return "this experiment asks what the processors can do, and recording accesses takes some of them"
    behaviour = engines.behaviour(plan.experiment.engine)
    of_points = [dict(knobs) for knobs in {tuple(point.knobs.items()) for point in plan.points}]
    for knobs in of_points:
        behaviour.require_page_trace(knobs)
    if not _asks_for_times(plan) or all(map(behaviour.page_trace_cost_is_shown, of_points)):
        return None
    return "this experiment asks for times, and what a page trace costs this server is not shown (docs/page-trace.md)"


def _asks_for_throughput(plan: Plan) -> bool:
    """Return whether the sweep varies the connections in windows of a fixed time."""
    return CONNECTIONS.name in plan.experiment.sweep and plan.experiment.measure.duration is not None


def _asks_for_times(plan: Plan) -> bool:
    """Return whether the experiment is about times: by its headline, or how long users wait at a given arrival rate."""
    headline = registry().metric(workload_of(plan.experiment).headline)
    return headline.is_timed or any(point.arrivals.mode == "open" for point in plan.points)


_SPOOL = "page-trace"
_MOST_BYTES = 2 * GIB
_NO_SPACE = "free some space, or name a directory on another disk with --data-dir"
_KEPT: Mapping[KeepTraces, str] = {"one": "its first block", "none": "no run"}
_CHUNK_EVENTS = 2_000_000
_MOST_THREADS = 1 << 16
"""The number of threads that the column `thread` can distinguish."""
WRITTEN = ("write",)
"""The access kinds in the entry of counts for written pages."""
_MOST_OFF = 0.005
"""The largest relative difference between a trace's count in the window and the engine's own."""
_Records = np.ndarray[Any, Any]


@dataclass(frozen=True)
class PageTraceAsked:
    """A trace of page accesses, requested by the user or by default."""

    name: ClassVar[str] = "page_trace"
    limit_bytes: int | None = None
    """The most bytes of the file of accesses; None for a limit by the host's free space (`_limit_here`)."""
    keeps: KeepTraces = "one"
    by_name: bool = True
    """Whether the user requested the trace explicitly, so that a run whose accesses cannot be recorded must fail."""

    def job(self, home: Path) -> dict[str, Any]:
        """Return the probe's part of a run's job: a file for the records, and its size limit."""
        spool = {"path": str(home / _SPOOL), "limit_bytes": self.limit_bytes or _limit_here(home)}
        return {"spool": spool, "required": self.by_name}

    def require(self, engine: str, job: Mapping[str, Any]) -> None:
        """Refuse, before anything starts, settings whose accesses cannot be recorded, and a limit that is too large.

        A default trace is not refused because of settings: each run stores the reason why it has no trace. Raises
        SpecError or EnvironmentLackingError.
        """
        try:
            engines.behaviour(engine).require_page_trace(job["knobs"])
        except BufferlabError:
            if self.by_name:
                raise
        folder = Path(job.get("database", "")).parent
        free_bytes = shutil.disk_usage(folder).free if folder.exists() else None
        if self.limit_bytes and free_bytes is not None and self.limit_bytes > free_bytes:
            what = f"a page trace may take more than the {format_bytes(free_bytes)} that are free"
            where = f"--trace-limit {format_bytes(self.limit_bytes)}, {folder}"
            raise SpecError(what, where, "lower it, or free some space")
        if self.limit_bytes and self.limit_bytes // 2 > memory_bytes():
            what = f"a page trace may take half of its limit in memory, and the host has {format_bytes(memory_bytes())}"
            raise SpecError(what, f"--trace-limit {format_bytes(self.limit_bytes)}", "lower it")

    def keep(self, run: EndedRun) -> tuple[PageTrace, Path | None]:
        """Number the pages and store the trace.

        Return run.json's `page_trace`, and the Parquet file of a good trace.
        """
        if run.result is None or self.name not in run.result["recorded"]:
            return _failed({}, Failure("the run ended before the trace did", None, "repeat the run")), None
        told = run.result["recorded"][self.name]
        if "refused" in told:
            return _failed({}, Failure.told(told["refused"])), None
        spool = Path(told["spool"])
        stored = {
            "page_size_bytes": run.result["actual"].get("page_size"),
            "window_start_ns": told["window_start_ns"],
            "window_end_ns": told["window_end_ns"],
            "events": told["events"],
            "spool_bytes": spool.stat().st_size if spool.exists() else 0,
            "reader_cpu_us": told["reader_cpu_ns"] / 1000 if "reader_cpu_ns" in told else None,
            "lost": told.get("lost", 0),
            "recorder": told.get("recorder", "engine"),
            "set_up_us": told["set_up_ns"] / 1000 if "set_up_ns" in told else None,
            "waits": told.get("waits", 0),
            "wait_us": told.get("wait_ns", 0) / 1000,
        }
        problem = _problem(told, stored["spool_bytes"])
        if problem:
            return _failed(stored, problem), None
        try:
            return self._kept(run, told, spool, stored)
        except OSError as error:
            what = f"{NOT_WRITTEN}: {error.strerror or error}"
            return _failed(stored, Failure(what, str(run.home), _NO_SPACE)), None
        finally:
            spool.unlink(missing_ok=True)

    def _kept(
        self, run: EndedRun, told: Mapping[str, Any], spool: Path, stored: dict[str, Any]
    ) -> tuple[PageTrace, Path | None]:
        """Compare complete records with the engine's counts; write the table if this run's trace should be kept."""
        records: _Records = np.memmap(spool, _record(), "r")
        stored["start_ns"] = int(records["t_ns"][0])
        stored["counts"] = _counts(records, told, run)
        if off := _off(stored["counts"], _late(records, told)):
            return _failed(stored, off), None
        if self.keeps == "none" or (self.keeps == "one" and run.block):
            reason, hint = f"the sweep keeps the traces of {_KEPT[self.keeps]}", "keep more with --keep-traces"
            return PageTrace(**stored, status="dropped", reason=reason, hint=hint), None
        keys = np.unique(np.concatenate([np.unique(_keys(chunk)) for chunk in _chunks(records)]))
        objects = engines.behaviour(run.engine).pages_of_objects(run.database, keys, told.get("relations", ()))
        numbers, stored["objects"] = _numbered(keys, objects)
        out = run.home / PAGE_TRACE_FILE
        write_page_trace(out, _frames(records, numbers))
        return PageTrace(**stored, status="ok"), out


def _limit_here(home: Path) -> int:
    """Return the most bytes for a trace: the least of 2 GiB, a tenth of the free space, a quarter of the memory.

    In memory a trace takes at most half of its limit.
    """
    return min(_MOST_BYTES, shutil.disk_usage(home).free // 10, memory_bytes() // 4)


def _record() -> np.dtype[np.void]:
    return np.dtype(list(page_trace_words().record))


def _failed(stored: dict[str, Any], failure: Failure) -> PageTrace:
    return PageTrace(**stored, status="failed", reason=failure.what, hint=failure.hint)


def _problem(told: Mapping[str, Any], spool_bytes: int) -> Failure | None:
    """Return why the recorded file is unreliable; None if it is reliable."""
    if told["problem"]:
        return Failure(told["problem"], told["spool"], hint_for(told["problem"], _NO_SPACE))
    if told.get("over_limit_bytes") is not None:
        what = f"the page trace ended at its limit of {format_bytes(told['over_limit_bytes'])}"
        return Failure(what, None, "raise it with --trace-limit, or measure fewer transactions")
    if told.get("lost"):
        hint = "leave the processors to the run, or use fewer connections"
        return Failure(f"there was no room for {told['lost']:,} records of the trace", None, hint)
    if told.get("steps_back"):
        what = (
            "the time-stamp counters of this host's processors disagree:"
            f" {told['steps_back']:,} records are older than the one before"
        )
        return Failure(what, None, "leave the trace out, or use another machine")
    if (threads := len(told.get("threads", ()))) > _MOST_THREADS:
        what = f"{threads:,} threads and sessions touched pages, and a page trace has numbers for {_MOST_THREADS:,}"
        return Failure(what, None, "measure fewer transactions, or let queries use fewer parallel workers")
    # Without the counters at both edges, a window cannot be compared with the engine's counts.
    if told["window_end_ns"] is None or told.get("counters_end_ns", 0) is None:
        return Failure("the measured window was not reached", None, None)
    wrote = sum(told["events"].values())
    if not wrote or spool_bytes != wrote * _record().itemsize:
        what = f"{wrote:,} accesses were recorded, and the file has {spool_bytes:,} bytes"
        return Failure(what, told["spool"], "repeat the run")
    return None


def _chunks(records: _Records) -> Iterator[_Records]:
    for start in range(0, len(records), _CHUNK_EVENTS):
        yield records[start : start + _CHUNK_EVENTS]


def _counts(records: _Records, told: Mapping[str, Any], run: EndedRun) -> list[dict[str, Any]]:
    """Return for each kind of access the number recorded in the window, and the growth of the engine's counter."""
    behaviour = engines.behaviour(run.engine)
    objects = behaviour.uncounted_objects(run.database, told.get("relations", ()))
    ours = told.get("uncounted_threads", ())
    threads = [number for number, thread in enumerate(told.get("threads", ())) if thread in ours]
    names = page_trace_words().kinds
    start_ns, end_ns = _counters_ns(told)
    inside, around = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    for chunk in _chunks(records):
        times = chunk["t_ns"]
        counted = (times >= start_ns) & (times <= end_ns)
        for column, uncounted in (("site", told.get("uncounted_sites", ())), ("object", objects), ("thread", threads)):
            counted &= ~np.isin(chunk[column], uncounted)
        in_window = (times >= told["window_start_ns"]) & (times <= told["window_end_ns"])
        inside += np.bincount(chunk["kind"][counted & in_window], minlength=len(inside))
        around += np.bincount(chunk["kind"][counted & ~in_window], minlength=len(inside))
    return [
        {
            "kind": " + ".join(kinds),
            "recorded": sum(int(inside[names.index(kind)]) for kind in kinds),
            "counter": counter,
            "counted": counted,
            **({"at_edges": at_edges} if at_edges else {}),
        }
        for kinds, counters in behaviour.page_trace_counters.items()
        if kinds != WRITTEN or "write" in told.get("kinds", ())
        for counter, counted in [_growth(run.samples, counters)]
        for at_edges in [sum(int(around[names.index(kind)]) for kind in kinds)]
    ]


def _counters_ns(told: Mapping[str, Any]) -> tuple[int, int]:
    """Return two times: when the counters at the window's beginning were requested, and when those at its end had been
    read.

    An engine inside bufferlab's own process does no work meanwhile, so its counters are exactly those of the window.
    """
    if told.get("recorder", "engine") == "engine":
        return told["window_start_ns"], told["window_end_ns"]
    return told["counters_start_ns"], told["counters_end_ns"]


def _late(records: _Records, told: Mapping[str, Any]) -> tuple[int, int]:
    """Return two numbers of gets, made before and in the window, that the server may have counted with a delay.

    Gets made while the counters were read are not included: `at_edges` has them.
    """
    sites = told.get("late_sites", ())
    before = inside = 0
    for chunk in _chunks(records) if sites else ():
        times = chunk["t_ns"][np.isin(chunk["site"], sites)]
        before += int((times < _counters_ns(told)[0]).sum())
        inside += int(((times >= told["window_start_ns"]) & (times <= told["window_end_ns"])).sum())
    return before, inside


def _growth(samples: Sequence[Mapping[str, Any]], counters: Sequence[str]) -> tuple[str, int]:
    """Return the first of these counters that the engine has, and its growth in the window."""
    edges = {
        (row["metric"], row["edge"]): row["count"]
        for row in samples
        if row["metric"] in counters and row["edge"] and row["phase"] == "measure"
    }
    counter = next(name for name in counters if edges[name, "end"] is not None)
    return counter, int(edges[counter, "end"]) - int(edges[counter, "start"])


def _off(counts: Sequence[Mapping[str, Any]], late: tuple[int, int]) -> Failure | None:
    """Return a failure for the first count that differs too much from the engine's; None if all agree.

    A server may count a get later than it makes it. So its count may include gets from before the window, and may lack
    gets of the window. It may also include gets that were made while its counters were read. On a server that counts
    reads but no gets, as MariaDB 10.11.5 (srv0srv.cc, srv_export_innodb_status), only reads are compared.
    """
    reads = sum(one["counted"] for one in counts if one["kind"] == "read")
    for one in counts:
        recorded, counted = one["recorded"], one["counted"]
        if one["kind"] == WRITTEN[0]:
            # Background processes publish their writes late, so a difference does not fail this check. A prediction
            # compares its writes with the engine's count.
            continue
        if one["kind"].startswith("get") and not counted and reads:
            continue
        before, inside = late if one["kind"].startswith("get") else (0, 0)
        most = _MOST_OFF * counted
        if not -before - one.get("at_edges", 0) - most <= recorded - counted <= inside + most:
            what = f"the trace has {recorded:,} of kind {one['kind']}, and the engine counted {counted:,}"
            return Failure(what, one["counter"], "please report this with the engine's version")
    return None


@dataclass(frozen=True)
class _Numbers:
    """The table that maps a page's object and its number in the object (`_keys`) to its number in the trace."""

    keys: NDArray[np.uint64]
    numbers: NDArray[np.uint32]

    def of(self, records: _Records) -> NDArray[np.uint32]:
        return self.numbers[np.searchsorted(self.keys, _keys(records))]


def _keys(records: _Records) -> NDArray[np.uint64]:
    keys: NDArray[np.uint64] = records["object"].astype(np.uint64) << np.uint64(32) | records["page"]
    return keys


def _numbered(keys: NDArray[np.uint64], objects: Sequence[OwnedPages]) -> tuple[_Numbers, list[dict[str, Any]]]:
    """Number the touched pages, object by object; return the numbers, and the range of each object.

    In each object the pages above the leaves come first. Otherwise pages keep the order of their numbers in the object.
    """
    owner = np.full(len(keys), len(objects), np.uint32)
    is_leaf = np.ones(len(keys), np.bool_)
    for place, one in enumerate(objects):
        owner[np.isin(keys, one.pages)] = place
        is_leaf[np.isin(keys, one.interior)] = False
    order = np.lexsort((keys, is_leaf, owner))
    numbers = np.empty(len(keys), np.uint32)
    numbers[order] = np.arange(len(keys), dtype=np.uint32)
    names = [*(one.name for one in objects), "(free)"]
    interior = np.bincount(owner[~is_leaf], minlength=len(names))
    places, firsts, counts = np.unique(owner[order], return_index=True, return_counts=True)
    ranges = [
        {"name": names[place], "first_page": int(first), "pages": int(count), "interior": int(interior[place])}
        for place, first, count in zip(places, firsts, counts, strict=True)
    ]
    return _Numbers(keys, numbers), ranges


def _frames(records: _Records, numbers: _Numbers) -> Iterator[pl.DataFrame]:
    """Yield the recorded accesses as rows of page-trace.parquet, a chunk at a time.

    Changes become marks of their gets, so that a replay has no additional rows.
    """
    import polars as pl

    start_ns, before_us = int(records["t_ns"][0]), 0
    for whole in _chunks(records):
        chunk = changes_joined(whole)
        # Round times before the subtraction, so that sums stay within a microsecond of the clock.
        times_us = (chunk["t_ns"] - np.uint64(start_ns)) // np.uint64(1000)
        delta_us = np.diff(times_us, prepend=np.uint64(before_us))
        before_us = int(times_us[-1])
        yield pl.DataFrame(
            {
                "page": numbers.of(chunk),
                "kind": np.ascontiguousarray(chunk["kind"]),
                "latch": np.ascontiguousarray(chunk["latch"]),
                "thread": chunk["thread"].astype(np.uint16),
                "delta_us": delta_us.astype(np.uint32),
            }
        )
