"""Estimates the time and space of a plan, before anything is loaded or run.

The rates come from earlier runs on this host, which `execute` stores, or else from the engine's declaration. The
estimate helps a person to decide whether to wait. It is not a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import DeclaredRates
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.plan.grid import GridPoint, needed_data, workload_of
from bufferlab.plan.run_order import Plan
from bufferlab.plan.warm_up import least_transactions, settle_transactions
from bufferlab.spec import Experiment
from bufferlab.units import MIB

_PHASE_COST = 3.0
"""The cost of one transaction of a phase, in transactions of the workload: phases scan and insert many rows."""
_PHASE_SETUP_SECONDS = 0.3
"""The seconds that a phase takes to create its tables, before its measured window begins."""
_PHASE_BYTES = 64 * MIB
"""The bytes reserved for a phase's tables and inserted rows. This is a guess, because a script does not say."""


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
    """Seconds of the runs' other stages: starting and ending the engine, and storing page traces and results."""
    predict_seconds: float
    """Seconds of the predictions before and after the runs; 0 for a sweep without them."""
    is_observed: bool
    """Whether the rates were measured by earlier runs of this workload on this host, and not only declared."""
    cache_bytes: int
    """The bytes of the databases that must still be loaded. They stay in the cache for later sweeps."""
    data_bytes: int
    """The bytes of the largest database copy of a run, its growth included. The copy is deleted after the run."""
    results_bytes: int

    @property
    def seconds(self) -> float:
        """Return the seconds of the whole plan: of all stages together."""
        return self.once_seconds + (
            self.restore_seconds + self.warm_up_seconds + self.measure_seconds + self.check_seconds + self.other_seconds
        )

    @property
    def once_seconds(self) -> float:
        """Return the seconds that are spent once, for any number of runs."""
        return self.load_seconds + self.predict_seconds


def estimate(
    plan: Plan,
    rates: DeclaredRates | None = None,
    *,
    loaded: int = 0,
    predicts: bool = False,
    is_observed: bool = False,
) -> SweepCost:
    """Return the cost of a plan if `loaded` of its databases are in the cache already.

    Without `rates` the declared rates are used. `is_observed` is True if `rates` come from earlier runs; `predicts` is
    True if the sweep also predicts its points.
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
        least = max(least_transactions(experiment, point), settle_transactions(experiment, point))
        warming = min(
            warm_up.max_duration,
            warm_up.max_transactions / rates.transactions_per_s,
            max(size / rates.warm_up_bytes_per_s, least / rates.transactions_per_s),
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
    # `loaded` is only a number: it does not show which databases are loaded. This matters only if scale is swept,
    # because otherwise all have one size.
    missing = max(0, len(sizes) - loaded)
    # A server is started twice: to load, and to check.
    starts_seconds = 2 * engine.start_seconds if engine.is_server else 0.0
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
    """Return whether the point's data are on an already running server.

    bufferlab then neither copies nor caches them.
    """
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
    """Return the bytes of each distinct database of the plan: the points' own, and those that percentages refer to."""
    own = {point.data: point.database_bytes for point in plan.points}
    return list((dict.fromkeys(needed_data(plan.experiment), plan.database_bytes) | own).values())


def window_seconds(experiment: Experiment, point: GridPoint, rates: DeclaredRates) -> float:
    """Return the expected seconds of a measured window. A requested arrival rate can only make it longer."""
    measure = experiment.measure
    per_s = min(rates.transactions_per_s, point.arrivals.rate_per_s or float("inf"))
    return min(measure.max_seconds, (measure.transactions or float("inf")) / per_s)


def _phases_seconds(experiment: Experiment, rates: DeclaredRates) -> float:
    per_s = rates.transactions_per_s / _PHASE_COST
    return sum(
        _PHASE_SETUP_SECONDS + min(phase.max_duration, phase.transactions / per_s) for phase in experiment.phases
    )
