"""`bufferlab run --dry-run`: prints the plan with its time and disk space, as text or JSON. It runs nothing."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bufferlab.cli.output import columns, in_lines, print_json, put
from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import ServerCheck
from bufferlab.engines.dump_contents import has_rows
from bufferlab.engines.servers.dump_head import read_head
from bufferlab.errors import SpecError, runnable
from bufferlab.execute.preflight import Findings
from bufferlab.execute.sweep import SweepOptions, prepare_estimate
from bufferlab.knob import KnobKind
from bufferlab.plan import Plan, SweepCost
from bufferlab.plan.estimate import declared_rates, estimate, is_elsewhere
from bufferlab.plan.grid import workload_of
from bufferlab.results.blocks import said
from bufferlab.spec import Experiment
from bufferlab.units import format_bytes, format_duration


def show_plan(experiment: Experiment, options: SweepOptions, as_json: bool) -> None:
    """Print the plan that `run` would carry out, its estimated cost, and the checks of running servers."""
    plan, cost, found = prepare_estimate(experiment, options)
    if as_json:
        print_json({"dry_run": True, "plan": plan, "estimate": cost, "servers": found})
    else:
        put(runnable(_text(plan, cost, found)))


def _text(plan: Plan, cost: SweepCost, found: Findings) -> str:
    experiment = plan.experiment
    parameters = ", ".join(f"{name} {value}" for name, value in experiment.workload.parameters.items())
    if experiment.workload.script:
        parameters = f"{experiment.workload.script.source}, {parameters}"
    window = (
        f"{experiment.measure.transactions:,} transactions"
        if experiment.measure.transactions
        else format_duration(experiment.measure.max_seconds)
    )
    head = [
        f"{experiment.name} ({experiment.profile}): {experiment.question}",
        f"engine {_engine(experiment)}, workload {experiment.workload.name} ({parameters}), {_load(plan)}",
        f"{len(plan.points)} points x {_repetitions(plan)} = {_runs(plan)}, "
        f"each measuring {window}; seed {experiment.design.seed}",
        *(
            f"then phase {phase.name}: {phase.transactions:,} transactions of {phase.script.source}, "
            f"at most {format_duration(phase.max_duration)}"
            for phase in experiment.phases
        ),
        *_empty(experiment),
        f"{_size(plan)}; shares of it are resolved after the load",
    ]
    servers = [f"{url}\n{checks_text(checks)}" for url, checks in found.items()]
    return "\n\n".join([in_lines("\n".join(head)), _points(plan), _order(plan), *servers, _cost(cost, plan)])


def _size(plan: Plan) -> str:
    size = format_bytes(plan.database_bytes)
    data = plan.points[0].workload.get("data")
    if plan.experiment.workload.script is None or data is None or data.value_or_text != "setup":
        return f"the database is estimated at {size}"
    return f"the size of a script's data counts as {size} until they are loaded"


def _empty(experiment: Experiment) -> list[str]:
    """Return [a line that says that the experiment's dump has no rows]; [] if it has rows, or without a dump."""
    if (dump := experiment.workload.dump) is None:
        return []
    path = Path(dump.path)
    with suppress(SpecError):  # A resumed sweep may no longer need the dump's file.
        if not has_rows(path, read_head(path)):
            return [f"the dump {path.name} holds no rows: its tables are empty until the script inserts"]
    return []


def _repetitions(plan: Plan) -> str:
    planned = plan.experiment.design.most
    if plan.blocks is None:
        return f"{_from(plan.least_runs // len(plan.points), planned)} repetitions"
    return f"{len(plan.blocks)} of {planned} repetitions ({said(plan.blocks)})"


def _runs(plan: Plan) -> str:
    """Return in words the number of runs: a range if the sweep itself decides how many its answer needs."""
    return f"{_from(plan.least_runs, len(plan.runs))} runs"


def _from(least: int, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"


def _engine(experiment: Experiment) -> str:
    """Return the engine's name; for a server, also its builds and the number of connections."""
    if not engines.declaration(experiment.engine).is_server:
        return experiment.engine
    builds, connections = (
        experiment.sweep.get(name) or (experiment.asked[name],) for name in ("server", "connections")
    )
    where = ", ".join("the one on PATH" if build.value == "path" else build.asked for build in builds)
    return f"{experiment.engine} ({where}; {', '.join(map(str, connections))} connections)"


def _load(plan: Plan) -> str:
    """Return in words how transactions arrive, over all points."""
    modes = {point.arrivals.mode for point in plan.points}
    if modes == {"closed"}:
        return "closed loop"
    knobs = plan.experiment.knobs
    how = ", ".join(f"{name} {knobs[name]}" for name in ("rate", "arrivals", "patience") if name in knobs)
    return f"{'open' if modes == {'open'} else 'open and closed'} loop ({how})"


def _points(plan: Plan) -> str:
    names = list(plan.experiment.sweep)
    shares = [knob for knob in workload_of(plan.experiment).parameters if knob.kind is KnobKind.COUNT_OR_SHARE]
    rows = []
    for point in plan.points:
        sized = point.engine.get(engines.declaration(plan.experiment.engine).results.pool)
        pool = f"about {format_bytes(sized.number)} of frames" if sized else ""
        counts = [f"about {point.workload[knob.name].number:,}" for knob in shares]
        rows.append([str(point.index + 1), *(point.swept[name] for name in names), pool, *counts])
    return columns(["point", *names, "pool", *(f"{knob.name}, as a number" for knob in shares)], rows)


def _order(plan: Plan) -> str:
    blocks: dict[int, list[str]] = {}
    for run in plan.runs:
        blocks.setdefault(run.block, []).append(str(run.point + 1))
    return "\n".join(f"block {block + 1}: points {' '.join(points)}" for block, points in blocks.items())


def checks_text(checks: Iterable[ServerCheck]) -> str:
    """Return the checks of a server as a table, with a row for each."""
    rows = [["ok" if check.ok else "NO" if check.refuses else "no", check.name, check.detail
             + (f" -> {check.hint}" if check.hint else "")] for check in checks]  # fmt: skip
    return columns(("", "what", "found"), rows)


def _time(least_s: float, most_s: float) -> str:
    """Return in words the time of the minimum number of runs and that of all runs; one time if they are equal."""
    least, most = format_duration(least_s), format_duration(most_s)
    return most if least == most else f"{least} to {most}"


def _cost(cost: SweepCost, plan: Plan) -> str:
    stages = [
        ("load", cost.load_seconds),
        ("copy", cost.restore_seconds),
        ("warm up", cost.warm_up_seconds),
        ("measure", cost.measure_seconds),
        ("consistency checks", cost.check_seconds),
        ("start, end, traces", cost.other_seconds),
        ("predict", cost.predict_seconds),
        ("all", cost.seconds),
    ]
    share, rows = plan.least_runs / len(plan.runs), []
    spared_s = _spared_by_short_statements(cost, plan)
    for name, seconds in stages:
        fixed_s = {"load": cost.load_seconds, "predict": cost.predict_seconds, "all": cost.once_seconds}.get(name, 0.0)
        rows.append([name, _time(fixed_s + (seconds - fixed_s - spared_s.get(name, 0.0)) * share, seconds)])
    time = columns(["stage", "estimated time"], rows)
    space = (
        f"space: {format_bytes(cost.data_bytes)} for a run's copy, {format_bytes(cost.cache_bytes)} more in the cache, "
        f"{format_bytes(cost.results_bytes)} of results"
    )
    if elsewhere := sum({point.data: point.database_bytes for point in plan.points if is_elsewhere(point)}.values()):
        space += f"; about {format_bytes(elsewhere)} on the servers named by URL"
    return f"{time}\n{in_lines(_basis(cost, plan.experiment))}\n{space}"


_SHORT_TIMES = 10.0
"""The speed of short statements as a multiple of that assumed for a script: 20,000 transactions of one took 0.5 s."""


def _spared_by_short_statements(cost: SweepCost, plan: Plan) -> dict[str, float]:
    """Return, by stage, the seconds that a script's runs need less if its statements are short; {} if they are known.

    A script may have any statements, so that before its first run only a range of times is known.
    """
    if cost.is_observed or plan.experiment.workload.script is None:
        return {}
    slow = declared_rates(plan.experiment)
    short = estimate(
        plan,
        replace(
            slow,
            transactions_per_s=_SHORT_TIMES * slow.transactions_per_s,
            warm_up_bytes_per_s=_SHORT_TIMES * slow.warm_up_bytes_per_s,
        ),
    )
    spared = {
        "warm up": cost.warm_up_seconds - short.warm_up_seconds,
        "measure": cost.measure_seconds - short.measure_seconds,
    }
    return {**spared, "all": sum(spared.values())}


def _basis(cost: SweepCost, experiment: Experiment) -> str:
    """Return a sentence on which measured or assumed speed the estimate is based on."""
    if cost.is_observed:
        return "times: as the last runs of this workload on this host took"
    if experiment.workload.script is not None:
        return (
            "times: for short and for slow statements, because this host has not run this script yet; with slow ones "
            "they are upper bounds"
        )
    return "times: of a modest machine, because this host has not run this workload yet"
