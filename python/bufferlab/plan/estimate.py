"""What a plan will cost in time and space, before anything is touched.

Rates are the engine's declared ones, or what earlier runs on this host took (execute keeps those).
A figure for a person deciding whether to wait, not a measurement.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import Rates
from bufferlab.plan.facts import workload_of
from bufferlab.plan.grid import Point, needed_data
from bufferlab.plan.make import Plan
from bufferlab.spec import Experiment
from bufferlab.units import MIB

_PHASE_COST = 3.0
"""Transactions of the workload that one of a phase is taken to cost: phases scan and insert many rows."""
_PHASE_SETUP_SECONDS = 0.3
"""What a phase makes for itself before its edges."""
_PHASE_BYTES = 64 * MIB
"""Room for that and for what it inserts: a script does not say."""


@dataclass(frozen=True)
class Estimate:
    """Seconds by stage, and the bytes that must be free."""

    load_seconds: float
    restore_seconds: float
    warm_up_seconds: float
    measure_seconds: float
    check_seconds: float
    cache_bytes: int
    """Loaded databases, kept for the next time."""
    data_bytes: int
    """One run's copy and its growth, deleted after the run."""
    results_bytes: int

    @property
    def seconds(self) -> float:
        """All stages together."""
        return (
            self.load_seconds + self.restore_seconds + self.warm_up_seconds + self.measure_seconds + self.check_seconds
        )

    def as_dict(self) -> dict[str, float]:
        """The estimate as --json shows it."""
        return {**asdict(self), "seconds": self.seconds}


def estimate(plan: Plan, rates: Rates | None = None, *, loaded: int = 0) -> Estimate:
    """Cost of a plan, when `loaded` of its databases are in the cache already."""
    experiment = plan.experiment
    rates = rates or declared_rates(experiment)
    engine, workload = engines.declaration(experiment.engine), workload_of(experiment)
    warm_up = experiment.warm_up
    repetitions = experiment.design.repetitions
    restore_seconds = warm_up_seconds = measure_seconds = checked_bytes = 0.0
    largest_bytes = results_bytes = 0
    for point in plan.points:
        size = point.database_bytes
        measuring = window_seconds(experiment, point, rates) + _phases_seconds(experiment, rates)
        warming = min(
            warm_up.max_duration,
            warm_up.max_transactions / rates.transactions_per_s,
            max(size / rates.warm_up_bytes_per_s, warm_up.min_transactions / rates.transactions_per_s),
        )
        grown_bytes = int((measuring + warming) * rates.transactions_per_s * workload.grows_bytes_per_transaction)
        copied_bytes = 0 if engine.data_is_read_only else size + engine.base_bytes
        restore_seconds += repetitions * (copied_bytes / rates.restore_bytes_per_s + engine.start_seconds)
        warm_up_seconds += repetitions * warming
        measure_seconds += repetitions * measuring
        checked_bytes += 0 if engine.data_is_read_only else repetitions * (size + grown_bytes)
        largest_bytes = max(largest_bytes, copied_bytes + grown_bytes + len(experiment.phases) * _PHASE_BYTES)
        results_bytes += repetitions * int(200_000 + 20_000 * measuring)
    sizes = _database_sizes(plan)
    # Which of them are loaded already is not told; all but a swept scale are of one size.
    missing = max(0, len(sizes) - loaded)
    starts_seconds = 2 * engine.start_seconds if engine.is_server else 0.0  # To load, and to check.
    missing_bytes = sum(sizes) * missing // max(1, len(sizes))
    return Estimate(
        load_seconds=missing_bytes / rates.load_bytes_per_s + missing * starts_seconds,
        restore_seconds=restore_seconds,
        warm_up_seconds=warm_up_seconds,
        measure_seconds=measure_seconds,
        check_seconds=(checked_bytes + missing_bytes) / rates.check_bytes_per_s,
        cache_bytes=missing_bytes + missing * engine.base_bytes,
        data_bytes=largest_bytes,
        results_bytes=results_bytes,
    )


def declared_rates(experiment: Experiment) -> Rates:
    """The engine's declared rates for this workload, until runs here have told better ones."""
    rates = engines.declaration(experiment.engine).rates
    return replace(rates, transactions_per_s=rates.transactions_per_s / workload_of(experiment).relative_cost)


def _database_sizes(plan: Plan) -> list[int]:
    """Bytes of every different database the plan needs: its points', and those that shares are reckoned from."""
    own = {point.data: point.database_bytes for point in plan.points}
    return list((dict.fromkeys(needed_data(plan.experiment), plan.database_bytes) | own).values())


def window_seconds(experiment: Experiment, point: Point, rates: Rates) -> float:
    """Return the seconds that a measured window should take: a rate that is asked for can only slow it down."""
    measure = experiment.measure
    per_s = min(rates.transactions_per_s, float(point.load.get("rate_per_s", "inf")))
    return min(measure.max_seconds, (measure.transactions or float("inf")) / per_s)


def _phases_seconds(experiment: Experiment, rates: Rates) -> float:
    per_s = rates.transactions_per_s / _PHASE_COST
    return sum(
        _PHASE_SETUP_SECONDS + min(phase.max_duration, phase.transactions / per_s) for phase in experiment.phases
    )
