"""Predicts the points of a sweep before its first run, from three generated runs of each point.

Generated runs have the seeds of the sweep's first blocks. Whether points are predicted depends only on the size of the
work: a limit by the clock would leave points out on a busy host. The prediction comes after the load, because the size
of a pool given as a share of the database is not known before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bufferlab.engines import registry as engines
from bufferlab.errors import BufferlabError, Interrupted
from bufferlab.models.ahead import Ahead, Watch, threads_for
from bufferlab.models.generated import LEAST_RUNS, Generated, of_measured, rules_for, window_transactions
from bufferlab.models.managers.declaration import Server
from bufferlab.plan import GridPoint, Plan, PlannedRun, least_transactions
from bufferlab.results.page_traces import GeneratedPoint, GeneratedPoints, GeneratedReads, Verdict
from bufferlab.results.store import RunRecord, SweepFolder
from bufferlab.traces.middle_run import pool_bytes_of
from bufferlab.units import format_duration

_MOST_S = 60.0
"""The most processor time, in seconds, that predictions before the first run may take, estimated by _TRANSACTION_S."""
_MOST_SHARE = 0.01
"""The share of a sweep's estimated time that predictions may take, even if this is more than _MOST_S."""
_TRANSACTION_S = {
    ("tpcc", "sqlite"): 40e-6,
    ("tpcc", "innodb"): 15e-6,
    ("tpcc", "innodb80"): 15e-6,
    ("tpcc", "postgres"): 30e-6,
    ("hot_rows", "sqlite"): 2e-6,
    ("hot_rows", "innodb"): 2e-6,
    ("hot_rows", "innodb80"): 2e-6,
    ("hot_rows", "postgres"): 2e-6,
}
"""(workload, rules) -> seconds of processor time per generated transaction, measured once on shipped experiments."""
_WARM_UP = 10_000
"""The assumed number of transactions in a warm-up; the shipped experiments have 500 to 40,000."""

_Told = tuple[GeneratedReads, list[Verdict]]


def generated_points(
    plan: Plan, server: Server, watch: Callable[[float], None], sweep_s: float = 0.0
) -> tuple[GeneratedPoints | None, list[str]]:
    """Return the predicted reads of a plan's points, and sentences on why some points are left out.

    `sweep_s` is the estimated length of the sweep. Predictions that would take more than a minute, and more than a
    hundredth of `sweep_s`, are not made.

    Calls `watch` ten times a second with the share of the runs that are done. Raises Interrupted if `watch` does, and
    no other error.
    """
    try:
        return _generated_points(plan, server, watch, max(_MOST_S, _MOST_SHARE * sweep_s))
    except Interrupted:
        raise
    except BufferlabError as error:
        return None, [error.what]
    except Exception as error:
        # A bug in a prediction must not stop a sweep.
        return None, [f"the generator failed: {error}"]


def has_generator(plan: Plan) -> bool:
    """Return whether a sweep's points can be predicted without a run: there are rules for its engine and workload."""
    try:
        rules_for(plan.experiment)
    except BufferlabError:
        return False
    return True


def with_other_pools(plan: Plan, folder: SweepFolder) -> Plan:
    """Return a plan of only those points whose server had a pool of another size than planned, with the real sizes."""
    first = {record.run.point.index: record for record in reversed(folder.runs()) if record.ok}
    ran = {point.index: _as_it_ran(point, first[point.index]) for point in plan.points if point.index in first}
    return replace(plan, points=tuple(ran[one.index] for one in plan.points if ran.get(one.index, one) != one))


def with_points(found: GeneratedPoints, anew: GeneratedPoints | None) -> GeneratedPoints:
    """Return the predictions `found`; points that `anew` has too are taken from `anew`."""
    later = {point.index: point for point in (anew.points if anew else ())}
    return found.model_copy(update={"points": [later.get(point.index, point) for point in found.points]})


def _as_it_ran(point: GridPoint, record: RunRecord) -> GridPoint:
    """Return a point with the pool size that its server really had."""
    pool = engines.declaration(record.run.engine).results.pool
    ran = pool_bytes_of(record)
    return replace(point, engine={**point.engine, pool: replace(point.engine[pool], value=ran)}) if ran else point


def _generated_points(
    plan: Plan, server: Server, watch: Callable[[float], None], most_s: float
) -> tuple[GeneratedPoints | None, list[str]]:
    if (seconds := _processor_s(plan)) > most_s:
        what = f"it would take about {format_duration(seconds)} of one processor before the first run"
        return None, [f"{what}; {_command(plan)} has as long as it needs"]
    target, why_not = of_measured(plan, server)
    if not target.plan.runs:
        return None, why_not
    told, refused = _all_runs(target, watch)
    pool = engines.declaration(server.engine).results.pool
    found = [
        GeneratedPoint(
            index=point.index,
            pool_bytes=point.engine[pool].number,
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
        engine_version=server.version,
        points=found,
    )
    return points_told, why_not


def _command(plan: Plan) -> str:
    """Return the command that predicts the points without a time limit. It lacks settings of the command line."""
    experiment, server = plan.experiment, plan.experiment.knobs.get("server")
    profile = "" if experiment.profile == "default" else f" --{experiment.profile}"
    told = f"bufferlab predict {experiment.name}{profile} --engine {experiment.engine}"
    return told + (f" --server {server}" if server else "")


def _processor_s(plan: Plan) -> float:
    """Return the estimated processor time of all generated runs together, in seconds (`_TRANSACTION_S`)."""
    experiment = plan.experiment
    warm_ups = (max(_WARM_UP, least_transactions(experiment, point)) for point in plan.points)
    each_s = _TRANSACTION_S[experiment.workload.name, rules_for(experiment).name]
    return LEAST_RUNS * sum(window_transactions(experiment) + before for before in warm_ups) * each_s


def _all_runs(target: Generated, watch: Callable[[float], None]) -> tuple[dict[int, list[_Told]], list[str]]:
    """Return the results of each point's runs by its index in the plan, and the reasons why some points have none."""

    def one(run: PlannedRun, hear: Watch) -> _Told | str:
        try:
            return target.reads(run, target.plan.points[run.point], hear)
        except BufferlabError as error:
            return error.what

    told: dict[int, list[_Told]] = {}
    why_not: dict[int, str] = {}
    threads, _ = threads_for(len(target.plan.runs), target.prediction_bytes)
    with Ahead(one, target.plan.runs, threads) as ahead:
        for run, found in ahead.results(watch):
            if isinstance(found, str):
                why_not[run.point] = found
            else:
                told.setdefault(run.point, []).append(found)
    return {place: runs for place, runs in told.items() if place not in why_not}, list(dict.fromkeys(why_not.values()))
