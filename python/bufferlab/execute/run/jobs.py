"""Builds the jobs for workers, in the form of the core's contract, and reads the answers of checks.

This file starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.knob import Values
from bufferlab.plan import DataKnobs, GridPoint, least_transactions, settle_transactions
from bufferlab.results.schema import Condition, Consistency
from bufferlab.spec import Experiment
from bufferlab.spec.experiment import Phase, Workload
from bufferlab.workloads import registry as workloads

NO_LIMIT = 2**53 - 1
"""A transaction count that no window reaches, so that the core measures by time."""

_LOAD_THREADS = 2

Job = dict[str, Any]


def run_job(experiment: Experiment, point: GridPoint, seed: int, database: Path) -> Job:
    """Return the core's job for one run; `database` is the run's copy, or data that the run reads in place."""
    measure, warm_up = experiment.measure, experiment.warm_up
    return {
        **_connections(experiment, point),
        "database": str(database),
        "knobs": point.knobs,
        **_transactions(experiment.workload, point, seed),
        "load": point.arrivals.model_dump(exclude_none=True),
        "warm_up": {
            "min_transactions": least_transactions(experiment, point),
            "turnover_within": warm_up.turnover_within,
            "settle_transactions": settle_transactions(experiment, point),
            "max_transactions": warm_up.max_transactions,
            "max_seconds": warm_up.max_duration,
        },
        "measure": {"transactions": measure.transactions or NO_LIMIT, "max_seconds": measure.max_seconds},
        "phases": [_phase(phase, point, seed) for phase in experiment.phases],
        "sample_interval_ms": max(1, round(measure.sample_interval * 1000)),
    }


def _connections(experiment: Experiment, point: GridPoint) -> Job:
    """Return the entry with the number of connections, if the engine supports more than one; else {}."""
    if engines.declaration(experiment.engine).max_connections == 1:
        return {}
    return {"connections": point.connections}


def _transactions(workload: Workload, point: GridPoint, seed: int) -> Job:
    """Return the source of the transactions: the workload, or an external load generator that the engine starts."""
    if workloads.declaration(workload.name).needs_server:
        return {"program": {name: point.parameters[name] for name in ("exec", "kind_of_transaction")}}
    return {"workload": {**run_workload(workload, point), "seed": seed}}


def run_workload(workload: Workload, point: GridPoint) -> Job:
    """Return the workload at a point; for a script, with its text and its variables."""
    if workload.script is None:
        return {"name": workload.name, **point.parameters}
    script = workload.script
    return {"name": workload.name, "source": script.source, "text": script.text, "variables": point.variables}


def load_workload(workload: Workload, data: DataKnobs) -> Job:
    """Return the workload for a load: the parameters that affect data.

    A script also names the workload whose data it uses (`data`); None if its setup or a dump creates all its data.
    """
    parameters = dict(data.parameters)
    if workloads.declaration(workload.name).needs_server:
        return {"name": parameters.pop(_data_parameter(workload)), **parameters}
    if workload.script is None:
        return {"name": workload.name, **parameters}
    script, other = workload.script, str(parameters.pop(_data_parameter(workload)))
    return {
        "name": workload.name,
        "source": script.source,
        "text": script.text,
        "variables": parameters,
        "data": {"name": other, **parameters} if other in workloads.names() else None,
        **({"dump": workload.dump.model_dump()} if workload.dump else {}),
    }


def load_version(workload: Workload) -> int | str:
    """Return the versions that loaded data depends on: the workload's, and that of the workload whose data it uses.

    Data of other versions are not reused.
    """
    own = workloads.declaration(workload.name).version
    other = str(workload.parameters.get(_data_parameter(workload), ""))
    if workloads.declaration(workload.name).needs_server:
        # The data belong to the other workload, so that workload's version is the relevant one.
        return workloads.declaration(other).version
    return f"{own} on {workloads.declaration(other).version}" if other in workloads.names() else own


def load_job(workload: Mapping[str, Any], knobs: Values, database: Path) -> Job:
    """Return the core's job for a bulk load into the new database `database`, a file or a directory."""
    return {"database": str(database), "knobs": dict(knobs), "workload": dict(workload), "threads": _LOAD_THREADS}


def check_job(
    workload: Mapping[str, Any], database: Path, delivered: Sequence[Sequence[int]], *, is_last: bool = False
) -> Job:
    """Return the job for the consistency check of a closed database.

    `delivered` has rows of [warehouse, district, orders since the load]. `is_last` is True if nothing uses the database
    later.
    """
    told = {"database": str(database), "workload": dict(workload), "delivered_orders": list(delivered)}
    return {**told, "is_last": is_last}


def _phase(phase: Phase, point: GridPoint, seed: int) -> Job:
    return {
        "name": phase.name,
        "source": phase.script.source,
        "text": phase.script.text,
        "variables": point.variables,
        # Use the run's seed, so that all points of a block execute the same statements.
        "seed": seed,
        "transactions": phase.transactions,
        "max_seconds": phase.max_duration,
    }


def _data_parameter(workload: Workload) -> str:
    return workloads.declaration(workload.name).data_parameter


def stored_conditions(result: Mapping[str, Any]) -> Consistency:
    """Return the check's seconds and one row per condition. Examples are left out: `violations` reports them."""
    rows = [Condition(**{name: row[name] for name in Condition.model_fields}) for row in result["conditions"]]
    return Consistency(seconds=result["seconds"], conditions=rows)


def violations(result: Mapping[str, Any]) -> str | None:
    """Return a sentence with every violated condition and its first example; None if all conditions hold."""
    broken = [row for row in result["conditions"] if not row["passed"]]
    return "; ".join(_sentence(row) for row in broken) or None


def _sentence(row: Mapping[str, Any]) -> str:
    example = row.get("example") or {}
    first = ", such as " + ", ".join(f"{column} {value}" for column, value in example.items()) if example else ""
    return f"condition {row['condition']} ({row['name']}) is violated {row['violations']:,} times{first}"
