"""Predicts the points of a measured sweep without any run, at its end: three generated runs a point, in a bounded time.

Runs have the seeds of the sweep's first blocks. A line that would exceed the budget is left out whole: half of its
points would answer nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

from bufferlab.engines import registry as engines
from bufferlab.errors import BufferlabError, Interrupted
from bufferlab.models.ahead import Ahead, Watch
from bufferlab.models.generated import LEAST_RUNS, Generated, of_measured, rules_for, window_transactions
from bufferlab.models.managers.declaration import Server
from bufferlab.models.other_pools import pool_bytes_of
from bufferlab.plan import GridPoint, Plan, PlannedRun
from bufferlab.results.page_traces import GeneratedPoint, GeneratedPoints, GeneratedReads, Verdict
from bufferlab.results.store import RunRecord, SweepFolder

BUDGET_S = 5.0
"""The most seconds by which predictions may delay a sweep's end, on an otherwise idle host."""
_WORKLOAD = "tpcc"
"""The only workload that is generated here: its transactions have a known cost. For hot rows the chapter on the knee
already has a prediction."""
_LEAST_S = 8e-6
"""A transaction takes longer than this on any processor: 25 to 35 microseconds where it was timed (TPC-C, SQLite)."""

_Told = tuple[GeneratedReads, list[Verdict]]


class _OverBudgetError(Exception):
    """The generated runs take longer than they may."""


def generated_points(
    plan: Plan, folder: SweepFolder, before_run: Callable[[float], None], check: Callable[[], None]
) -> tuple[GeneratedPoints | None, list[str]]:
    """Return the reads of a measured sweep's points without any run, and why some are left out, in sentences.

    It calls `before_run` with the share of the runs that are done, and `check` from its workers; both may raise
    Interrupted, which it raises. No other error leaves it.
    """
    try:
        return _generated_points(plan, folder, before_run, check)
    except Interrupted:
        raise
    except _OverBudgetError:
        what = f"it would take longer than the {BUDGET_S:g} s that a sweep gives it"
        return None, [f"{what}; bufferlab predict {plan.experiment.name} has as long as it needs"]
    except BufferlabError as error:
        return None, [error.what]
    except Exception as error:
        # A bug here must not cost a sweep whose runs are measured.
        return None, [f"the generator failed: {error}"]


def has_generator(plan: Plan) -> bool:
    """Return whether the points of a sweep may be predicted here: of TPC-C, where there are rules for the engine."""
    if plan.experiment.workload.name != _WORKLOAD:
        return False
    try:
        rules_for(plan.experiment)
    except BufferlabError:
        return False
    return True


def _generated_points(
    plan: Plan, folder: SweepFolder, before_run: Callable[[float], None], check: Callable[[], None]
) -> tuple[GeneratedPoints | None, list[str]]:
    first = {record.run.point.index: record for record in reversed(folder.runs()) if record.ok}
    points = tuple(_as_it_ran(point, first[point.index]) for point in plan.points if point.index in first)
    if not points:
        return None, []
    workers = min(LEAST_RUNS, len(os.sched_getaffinity(0)))
    budget = _Budget(BUDGET_S * workers, check)
    if LEAST_RUNS * len(points) * window_transactions(plan.experiment) * _LEAST_S > budget.seconds:
        raise _OverBudgetError
    run = first[points[0].index].run
    target, why_not = of_measured(replace(plan, points=points), Server(run.engine, run.engine_version or ""))
    told, refused = _all_runs(target, workers, budget, before_run)
    found = [
        GeneratedPoint(
            index=point.index,
            pool_bytes=point.engine[engines.declaration(run.engine).results.pool].number,
            runs=[reads for reads, _ in told[place]],
            verdicts=list({one.sentence: one for _, verdicts in told[place] for one in verdicts}.values()),
        )
        for place, point in enumerate(target.plan.points)
        if place in told
    ]
    why_not += refused
    if not found:
        return None, why_not
    rules, manager = target.rules, target.manager
    points_told = GeneratedPoints(
        rules=rules.name,
        rules_version=rules.version,
        model=manager.name,
        model_version=manager.version,
        engine_version=target.server.version,
        points=found,
    )
    return points_told, why_not


def _as_it_ran(point: GridPoint, record: RunRecord) -> GridPoint:
    """Return a point with the pool that its server really had."""
    pool = engines.declaration(record.run.engine).results.pool
    ran = pool_bytes_of(record)
    return replace(point, engine={**point.engine, pool: replace(point.engine[pool], value=ran)}) if ran else point


class _Budget:
    """Processor time that all workers may take together."""

    def __init__(self, seconds: float, check: Callable[[], None]) -> None:
        self.seconds, self._check, self._started = seconds, check, time.process_time()

    def require(self) -> None:
        """Raise _OverBudgetError when the time is spent, and what `check` raises."""
        self._check()
        if time.process_time() - self._started > self.seconds:
            raise _OverBudgetError


def _all_runs(
    target: Generated, workers: int, budget: _Budget, before_run: Callable[[float], None]
) -> tuple[dict[int, list[_Told]], list[str]]:
    """Return the results of each point's runs, by its place in the plan, and why some points have none."""

    def one(run: PlannedRun, watch: Watch) -> _Told | str:
        def hear(stage: str, share: float) -> None:
            budget.require()
            watch(stage, share)

        hear("generating", 0.0)
        try:
            return target.reads(run, target.plan.points[run.point], hear)
        except Interrupted:
            raise
        except BufferlabError as error:
            return error.what

    told: dict[int, list[_Told]] = {}
    why_not: dict[int, str] = {}
    with Ahead(one, target.plan.runs, workers) as ahead:
        for run, found in ahead.results(before_run):
            if isinstance(found, str):
                why_not[run.point] = found
            else:
                told.setdefault(run.point, []).append(found)
    return {place: runs for place, runs in told.items() if place not in why_not}, list(dict.fromkeys(why_not.values()))
