"""Estimates the time and space of a plan, before anything is loaded or run.

The rates are those of earlier runs on this host (execute keeps them), or else those that the engine declares.
The estimate helps a person to decide whether to wait. It is not a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import DeclaredRates
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.plan.grid import GridPoint, needed_data, workload_of
from bufferlab.plan.run_order import Plan
from bufferlab.plan.warm_up import least_transactions
from bufferlab.spec import Experiment
from bufferlab.units import MIB

_PHASE_COST = 3.0
"""How many of the workload's transactions one transaction of a phase costs: phases scan and insert many rows."""
_PHASE_SETUP_SECONDS = 0.3
"""The seconds in which a phase makes its tables, before its measured window begins."""
_PHASE_BYTES = 64 * MIB
"""The room for a phase's tables and inserted rows: a guess, because a script does not say."""


@dataclass(frozen=True)
class SweepCost:
    """The cost of a plan: seconds by stage, and the bytes that must be free."""

    ALSO_PRINTED: ClassVar = ("seconds",)

    load_seconds: float
    restore_seconds: float
    warm_up_seconds: float
    measure_seconds: float
    check_seconds: float
    other_seconds: float
    """Seconds of the runs' other stages: to start and end the engine, and to keep page traces and results."""
    predict_seconds: float
    """Seconds of the predictions before and after the runs; 0 for a sweep without them."""
    is_observed: bool
    """Whether the rates are those of earlier runs of this workload on this host, and not only the declared ones."""
    cache_bytes: int
    """Bytes of the databases that must be loaded. The databases are kept for later sweeps."""
    data_bytes: int
    """Bytes of the largest copy of a run with its growth. The copy is deleted after the run."""
    results_bytes: int

    @property
    def seconds(self) -> float:
        """Return the seconds of the whole plan: of all stages together."""
        return self.once_seconds + (
            self.restore_seconds + self.warm_up_seconds + self.measure_seconds + self.check_seconds + self.other_seconds
        )

    @property
    def once_seconds(self) -> float:
        """Return the seconds that do not grow with the number of runs."""
        return self.load_seconds + self.predict_seconds


def estimate(
    plan: Plan,
    rates: DeclaredRates | None = None,
    *,
    loaded: int = 0,
    predicts: bool = False,
    is_observed: bool = False,
) -> SweepCost:
    """Return the cost of a plan of which `loaded` databases are in the cache already.

    Without `rates` the declared ones are taken. `is_observed` says that the rates come from earlier runs; `predicts`
    that the sweep predicts its points, too.
    """
    experiment = plan.experiment
    rates = rates or declared_rates(experiment)
    engine, workload = engines.declaration(experiment.engine), workload_of(experiment)
    warm_up = experiment.warm_up
    repetitions = len({run.block for run in plan.runs})
    restore_seconds = warm_up_seconds = measure_seconds = checked_bytes = 0.0
    largest_bytes = results_bytes = 0
    for point in plan.points:
        size = point.database_bytes
        measuring = window_seconds(experiment, point, rates) + _phases_seconds(experiment, rates)
        warming = min(
            warm_up.max_duration,
            warm_up.max_transactions / rates.transactions_per_s,
            max(size / rates.warm_up_bytes_per_s, least_transactions(experiment, point) / rates.transactions_per_s),
        )
        grown_bytes = int((measuring + warming) * rates.transactions_per_s * workload.grows_bytes_per_transaction)
        in_place = engine.data_is_read_only or is_elsewhere(point)
        copied_bytes = 0 if in_place else size + engine.base_bytes
        restore_seconds += repetitions * copied_bytes / rates.restore_bytes_per_s
        warm_up_seconds += repetitions * warming
        measure_seconds += repetitions * measuring
        checked_bytes += 0 if engine.data_is_read_only else repetitions * (size + grown_bytes)
        if not is_elsewhere(point):
            largest_bytes = max(largest_bytes, copied_bytes + grown_bytes + len(experiment.phases) * _PHASE_BYTES)
        results_bytes += repetitions * int(200_000 + 20_000 * measuring)
    sizes = _database_sizes(plan)
    # `loaded` does not say which of the databases are loaded. Unless the scale is swept, all have one size.
    missing = max(0, len(sizes) - loaded)
    starts_seconds = 2 * engine.start_seconds if engine.is_server else 0.0  # A start to load, one to check.
    missing_bytes = sum(sizes) * missing // max(1, len(sizes))
    return SweepCost(
        load_seconds=missing_bytes / rates.load_bytes_per_s + missing * starts_seconds,
        restore_seconds=restore_seconds,
        warm_up_seconds=warm_up_seconds,
        measure_seconds=measure_seconds,
        check_seconds=(checked_bytes + missing_bytes) / rates.check_bytes_per_s,
        other_seconds=len(plan.points) * repetitions / rates.runs_per_s,
        predict_seconds=1 / rates.predictions_per_s if predicts else 0.0,
        is_observed=is_observed,
        cache_bytes=0 if all(map(is_elsewhere, plan.points)) else missing_bytes + missing * engine.base_bytes,
        data_bytes=largest_bytes,
        results_bytes=results_bytes,
    )


def is_elsewhere(point: GridPoint) -> bool:
    """Return whether a server that runs already holds the point's data: no copy and no cache of ours does."""
    return is_url(point.knobs.get("server"))


def declared_rates(experiment: Experiment) -> DeclaredRates:
    """Return the engine's declared rates for this workload. They are used until runs on this host give better ones."""
    engine = engines.declaration(experiment.engine)
    return replace(
        engine.rates,
        transactions_per_s=engine.rates.transactions_per_s / workload_of(experiment).relative_cost,
        runs_per_s=1 / engine.start_seconds,
    )


def _database_sizes(plan: Plan) -> list[int]:
    """Return the bytes of each distinct database of the plan: those of its points, and those percentages refer to."""
    own = {point.data: point.database_bytes for point in plan.points}
    return list((dict.fromkeys(needed_data(plan.experiment), plan.database_bytes) | own).values())


def window_seconds(experiment: Experiment, point: GridPoint, rates: DeclaredRates) -> float:
    """Return the seconds that a measured window should take: a rate that is asked for can only slow it down."""
    measure = experiment.measure
    per_s = min(rates.transactions_per_s, point.arrivals.rate_per_s or float("inf"))
    return min(measure.max_seconds, (measure.transactions or float("inf")) / per_s)


def _phases_seconds(experiment: Experiment, rates: DeclaredRates) -> float:
    per_s = rates.transactions_per_s / _PHASE_COST
    return sum(
        _PHASE_SETUP_SECONDS + min(phase.max_duration, phase.transactions / per_s) for phase in experiment.phases
    )
