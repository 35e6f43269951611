"""From an Experiment to the runs to do: points, blocks, order, seeds, and their cost."""

from bufferlab.plan.estimate import Cost, estimate
from bufferlab.plan.grid import (
    DataFacts,
    DataKnobs,
    Facts,
    Point,
    estimated_facts,
    known_facts,
    needed_data,
    points_of,
    stored_workload,
)
from bufferlab.plan.make import Plan, PlannedRun, block_order, make, run_seed
from bufferlab.plan.warm_up import least_transactions

__all__ = [
    "Cost",
    "DataFacts",
    "DataKnobs",
    "Facts",
    "Plan",
    "PlannedRun",
    "Point",
    "block_order",
    "estimate",
    "estimated_facts",
    "known_facts",
    "least_transactions",
    "make",
    "needed_data",
    "points_of",
    "run_seed",
    "stored_workload",
]
