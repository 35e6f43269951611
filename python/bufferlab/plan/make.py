"""Makes the plan: every run with its point, block, order and seed. It is pure and touches no file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bufferlab.plan.facts import Facts
from bufferlab.plan.grid import Point, points_of
from bufferlab.plan.order import block_order, run_seed
from bufferlab.spec import Experiment
from bufferlab.spec.experiment import OWN

FORMAT_VERSION = 1


@dataclass(frozen=True)
class PlannedRun:
    """One execution of one point. Each block holds every point once."""

    point: int
    block: int
    repetition: int
    order: int
    """The run's place among all runs, from 0."""
    seed: int

    @property
    def cell(self) -> tuple[int, int]:
        """Return point and block, by which a resume recognises a run."""
        return (self.point, self.block)


@dataclass(frozen=True)
class Plan:
    """The points of a sweep, and its runs in their order."""

    experiment: Experiment
    database_bytes: int
    """Bytes of the largest database that percentages of a point refer to."""
    points: tuple[Point, ...]
    runs: tuple[PlannedRun, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plan.json holds it."""
        reference = self.experiment.reference.page_size
        return {
            "format_version": FORMAT_VERSION,
            "experiment": self.experiment.name,
            "engine": self.experiment.engine,
            "database_bytes": self.database_bytes,
            # None: percentages refer to each point's own database.
            "reference_page_size_bytes": None if reference == OWN else reference,
            "seed": self.experiment.design.seed,
            "points": [point.as_dict() for point in self.points],
            "runs": [
                {
                    "order": run.order,
                    "point": run.point,
                    "block": run.block,
                    "repetition": run.repetition,
                    "seed": run.seed,
                }
                for run in self.runs
            ],
        }


def make(experiment: Experiment, facts: Facts) -> Plan:
    """Return the plan of an experiment on databases with these facts. Raises SpecError when a point cannot be."""
    points = points_of(experiment, facts)
    seed = experiment.design.seed
    runs: list[PlannedRun] = []
    for block in range(experiment.design.repetitions):
        for point in block_order(len(points), seed, block):
            runs.append(
                PlannedRun(point=point, block=block, repetition=block, order=len(runs), seed=run_seed(seed, block))
            )
    return Plan(experiment, max(point.database_bytes for point in points), tuple(points), tuple(runs))
