"""From an Experiment to the runs to do: points, blocks, order, seeds, and what they will cost."""

from bufferlab.plan.estimate import Estimate, estimate
from bufferlab.plan.grid import Point, points_of
from bufferlab.plan.make import Plan, PlannedRun, make
from bufferlab.plan.order import block_order, run_seed

__all__ = ["Estimate", "Plan", "PlannedRun", "Point", "block_order", "estimate", "make", "points_of", "run_seed"]
