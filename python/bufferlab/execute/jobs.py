"""The jobs workers are given, as the core's contract words them. Starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.plan import DataSetting, Point
from bufferlab.spec import Experiment
from bufferlab.spec.model import Phase, Workload
from bufferlab.workloads import registry as workloads

NO_LIMIT = 2**53 - 1
"""A count no window reaches: the core measures by time then."""

_LOAD_THREADS = 2

Job = dict[str, Any]


def run_job(
    experiment: Experiment, point: Point, seed: int, database: Path, *, allow_online_changes: bool = False
) -> Job:
    """The core's job for one run."""
    measure, warm_up = experiment.measure, experiment.warm_up
    return {
        **_connections(experiment),
        **({"allow_online_changes": True} if allow_online_changes else {}),
        "database": str(database),
        "knobs": point.native_knobs,
        **_transactions(experiment.workload, point, seed),
        "load": point.load,
        "warm_up": {
            "min_transactions": warm_up.min_transactions,
            "max_transactions": warm_up.max_transactions,
            "max_seconds": warm_up.max_duration,
        },
        "measure": {"transactions": measure.transactions or NO_LIMIT, "max_seconds": measure.max_seconds},
        "phases": [_phase(phase, point) for phase in experiment.phases],
        "sample_interval_ms": max(1, round(measure.sample_interval * 1000)),
    }


def _connections(experiment: Experiment) -> Job:
    """For engines that take more than one."""
    if engines.declaration(experiment.engine).max_connections == 1:
        return {}
    return {"connections": experiment.workload.connections}


def _transactions(workload: Workload, point: Point, seed: int) -> Job:
    """Who makes the transactions: the workload, or an external program, which the engine starts."""
    if workloads.declaration(workload.name).needs_server:
        return {"program": {name: point.workload[name] for name in ("exec", "kind_of_transaction")}}
    return {"workload": {**run_workload(workload, point), "seed": seed}}


def run_workload(workload: Workload, point: Point) -> Job:
    """The workload at a point; of a script its text, and what the text may refer to."""
    if workload.script is None:
        return {"name": workload.name, **point.workload}
    script = workload.script
    return {"name": workload.name, "source": script.source, "text": script.text, "variables": point.variables}


def load_workload(workload: Workload, data: DataSetting) -> Job:
    """What is loaded: the parameters that decide data, and for a script the data it works on (none: its setup's)."""
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
    }


def load_version(workload: Workload) -> int | str:
    """The versions of what is loaded: data of another version of the workload, or of the one below, are not reused."""
    own = workloads.declaration(workload.name).version
    other = workload.parameters.get(_data_parameter(workload), "")
    if workloads.declaration(workload.name).needs_server:
        return workloads.declaration(other).version  # The same data as that workload's own.
    return f"{own} on {workloads.declaration(other).version}" if other in workloads.names() else own


def load_job(workload: Mapping[str, Any], knobs: Mapping[str, int | str], database: Path) -> Job:
    """The core's job for a bulk load into a new file."""
    return {"database": str(database), "knobs": dict(knobs), "workload": dict(workload), "threads": _LOAD_THREADS}


def check_job(workload: Mapping[str, Any], database: Path, delivered: Sequence[Sequence[int]]) -> Job:
    """The consistency check of a closed database; `delivered` is [warehouse, district, orders since the load]."""
    return {"database": str(database), "workload": dict(workload), "delivered_orders": list(delivered)}


def shape_job(database: Path) -> Job:
    """The trees of a closed database."""
    return {"database": str(database)}


def _phase(phase: Phase, point: Point) -> Job:
    return {
        "name": phase.name,
        "source": phase.script.source,
        "text": phase.script.text,
        "variables": point.variables,
        "transactions": phase.transactions,
        "max_seconds": phase.max_duration,
    }


def _data_parameter(workload: Workload) -> str:
    return workloads.declaration(workload.name).data_parameter
