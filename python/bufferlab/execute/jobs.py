"""The jobs workers are given, as the core's contract words them. Starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bufferlab.plan import Point, estimated_facts, points_of
from bufferlab.spec import Experiment

NO_LIMIT = 2**53 - 1
"""A count no window reaches: the core measures by time then."""

_LOAD_THREADS = 2


def run_job(experiment: Experiment, point: Point, seed: int, database: Path) -> dict[str, Any]:
    """The core's job for one run."""
    measure, warm_up = experiment.measure, experiment.warm_up
    return {
        "database": str(database),
        "knobs": point.native_knobs,
        "workload": {"name": experiment.workload.name, **point.workload, "seed": seed},
        "warm_up": {"max_transactions": warm_up.max_transactions, "max_seconds": warm_up.max_duration},
        "measure": {"transactions": measure.transactions or NO_LIMIT, "max_seconds": measure.max_seconds},
        "sample_interval_ms": max(1, round(measure.sample_interval * 1000)),
    }


def workload_job(experiment: Experiment) -> dict[str, Any]:
    """The workload as the core's jobs name it."""
    return {"name": experiment.workload.name, **points_of(experiment, estimated_facts(experiment))[0].workload}


def load_job(workload: Mapping[str, Any], knobs: Mapping[str, int | str], database: Path) -> dict[str, Any]:
    """The core's job for a bulk load into a new file."""
    return {"database": str(database), "knobs": dict(knobs), "workload": dict(workload), "threads": _LOAD_THREADS}


def check_job(workload: Mapping[str, Any], database: Path, delivered: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The consistency check of a closed database; `delivered` is [warehouse, district, orders since the load]."""
    return {"database": str(database), "workload": dict(workload), "delivered_orders": list(delivered)}
