"""What a plan will cost in time and space, before anything is touched.

Rates are the engine's declared ones, or what earlier runs on this host took (execute keeps those).
A figure for a person deciding whether to wait, not a measurement.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import Rates
from bufferlab.plan.make import Plan
from bufferlab.spec import Experiment
from bufferlab.workloads import registry as workloads

_START_SECONDS = 0.5
"""A worker process: interpreter, imports, opening the database."""


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
    rates = rates or engines.declaration(experiment.engine).rates
    workload = workloads.declaration(experiment.workload.name)
    measure, warm_up = experiment.measure, experiment.warm_up
    measure_seconds = min(measure.max_seconds, (measure.transactions or float("inf")) / rates.transactions_per_s)
    warm_up_seconds = min(
        warm_up.max_duration,
        warm_up.max_transactions / rates.transactions_per_s,
        plan.database_bytes / rates.warm_up_bytes_per_s,
    )
    transactions = (measure_seconds + warm_up_seconds) * rates.transactions_per_s
    grown_bytes = int(transactions * workload.grows_bytes_per_transaction)
    databases = count_databases(plan)
    runs, size = len(plan.runs), plan.database_bytes
    checked_bytes = runs * (size + grown_bytes) + (databases - loaded) * size
    return Estimate(
        load_seconds=(databases - loaded) * size / rates.load_bytes_per_s,
        restore_seconds=runs * (size / rates.restore_bytes_per_s + _START_SECONDS),
        warm_up_seconds=runs * warm_up_seconds,
        measure_seconds=runs * measure_seconds,
        check_seconds=checked_bytes / rates.check_bytes_per_s,
        cache_bytes=(databases - loaded) * size,
        data_bytes=size + grown_bytes,
        results_bytes=runs * int(200_000 + 20_000 * measure_seconds),
    )


def estimated_database_bytes(experiment: Experiment) -> int:
    """Bytes of the loaded database at the reference page size, before it was ever loaded."""
    workload = workloads.declaration(experiment.workload.name)
    size = workload.estimate_bytes(experiment.workload.parameters, experiment.reference.page_size)
    return int(size * engines.declaration(experiment.engine).size_factor)


def count_databases(plan: Plan) -> int:
    """Different databases the plan needs: one per setting of the knobs that decide the file, and the reference."""
    engine = engines.declaration(plan.experiment.engine)
    deciding = [knob.native_name for knob in engine.knobs if knob.decides_file]
    files = {tuple(point.native_knobs[name] for name in deciding) for point in plan.points}
    page = engine.by_name()[engine.page_knob].native_name
    reference = plan.experiment.reference.page_size
    has_reference = any(point.native_knobs[page] == reference for point in plan.points)
    return len(files) + (0 if has_reference else 1)
