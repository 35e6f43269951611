"""Turns an Experiment into the runs to do: points, blocks, order, seeds, and an estimate of their cost."""

from bufferlab.plan.estimate import SweepCost, estimate
from bufferlab.plan.grid import (
    DataFacts,
    DataKnobs,
    Facts,
    GridPoint,
    estimated_facts,
    known_facts,
    needed_data,
    points_of,
    stored_workload,
)
from bufferlab.plan.run_order import Plan, PlannedRun, block_order, make, run_seed
from bufferlab.plan.warm_up import least_transactions, settle_transactions

__all__ = [
    "DataFacts",
    "DataKnobs",
    "Facts",
    "GridPoint",
    "Plan",
    "PlannedRun",
    "SweepCost",
    "block_order",
    "estimate",
    "estimated_facts",
    "known_facts",
    "least_transactions",
    "make",
    "needed_data",
    "points_of",
    "run_seed",
    "settle_transactions",
    "stored_workload",
]
