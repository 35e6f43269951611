"""Decides which page trace the runs of a sweep have: one that the user requests, the one in plan.json, or the default.

By default a run has a trace if the engine can record one. It has none if the experiment is about times and the cost of
a trace on that server was never measured. The sweep then prints why its runs have no traces.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.errors import BufferlabError, SpecError
from bufferlab.execute.probes.page_trace_probe import PageTraceAsked
from bufferlab.knob import CONNECTIONS
from bufferlab.plan import Plan
from bufferlab.plan.grid import workload_of
from bufferlab.registry import registry
from bufferlab.results.blocks import KeepTraces
from bufferlab.results.page_traces import PlannedTraces
from bufferlab.results.schema import StoredPlan

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
