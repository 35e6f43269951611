"""Makes the plan: every run with its point, block, order and seed. It touches no files and queries no server.

One number, the experiment's seed, determines the order within each block and the seed of each block. Only
`random.Random(int).random()` is used, because Python promises to keep its sequence for a given seed; `shuffle` and
`randrange` carry no such promise. So the same experiment gives the same plan with any later version of Python.
`lacking` finds settings that a server's version does not have.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.errors import Problem
from bufferlab.knob import AUTO, Values
from bufferlab.plan.grid import Facts, GridPoint, points_of
from bufferlab.spec import Experiment
from bufferlab.spec.experiment import OWN
from bufferlab.stats.stopping import FIRST_LOOK_BLOCKS
from bufferlab.versions import has, in_words

FORMAT_VERSION = 1


@dataclass(frozen=True)
class PlannedRun:
    """One execution of one point. Each block holds every point once."""

    point: int
    block: int
    repetition: int
    order: int
    """The run's position in the plan, from 0."""
    seed: int

    @property
    def cell(self) -> tuple[int, int]:
        """Return the numbers of point and block. `--resume` identifies a run by them."""
        return (self.point, self.block)


@dataclass(frozen=True)
class Plan:
    """The points of a sweep, and the runs that this host does, in their order."""

    experiment: Experiment
    database_bytes: int
    """The bytes of the largest database to which a point's percentages refer."""
    points: tuple[GridPoint, ...]
    runs: tuple[PlannedRun, ...]
    blocks: tuple[int, ...] | None = None
    """The block numbers of `runs`, if other hosts run the other blocks; None if this plan runs all blocks."""

    @property
    def least_runs(self) -> int:
        """Return the number of runs done in any case: with "auto" repetitions, the runs of the first blocks."""
        design = self.experiment.design
        blocks = FIRST_LOOK_BLOCKS if design.repetitions == AUTO else design.most
        return sum(run.block < blocks for run in self.runs)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of plan.json.

        It lists all runs, so that hosts that share the blocks write the same plan.
        """
        reference = self.experiment.reference.page_size
        return {
            "format_version": FORMAT_VERSION,
            "experiment": self.experiment.name,
            "engine": self.experiment.engine,
            "database_bytes": self.database_bytes,
            # None means that percentages refer to each point's own database.
            "reference_page_size_bytes": None if reference == OWN else reference,
            "seed": self.experiment.design.seed,
            "points": [point.as_dict() for point in self.points],
            "runs": [asdict(run) for run in (self.runs if self.blocks is None else _all_runs(self))],
            **({} if self.blocks is None else {"blocks": list(self.blocks)}),
        }


def make(experiment: Experiment, facts: Facts, blocks: tuple[int, ...] | None = None) -> Plan:
    """Return the plan of an experiment on databases with these facts. If `blocks` is given, only these blocks run.

    Raises SpecError for an impossible point.
    """
    points = points_of(experiment, facts)
    blocks = None if blocks is not None and len(blocks) == experiment.design.most else blocks
    plan = Plan(experiment, max(point.database_bytes for point in points), tuple(points), (), blocks)
    return replace(plan, runs=tuple(run for run in _all_runs(plan) if blocks is None or run.block in blocks))


def _all_runs(plan: Plan) -> list[PlannedRun]:
    """Return the runs of all blocks of the plan, in their order. Each block runs every point once."""
    seed = plan.experiment.design.seed
    runs: list[PlannedRun] = []
    for block in range(plan.experiment.design.most):
        for point in block_order(len(plan.points), seed, block):
            runs.append(
                PlannedRun(point=point, block=block, repetition=block, order=len(runs), seed=run_seed(seed, block))
            )
    return runs


_SEED_BITS = 53
"""The bits of a seed: seeds pass through JSON, whose readers keep integers of 53 bits."""


def derived_seed(purpose: str, seed: int, block: int) -> int:
    """Return a seed for one purpose and block.

    It is a SHA-256 of all three numbers, so seeds of blocks are independent.
    """
    digest = hashlib.sha256(f"bufferlab/1/{purpose}/{seed}/{block}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _SEED_BITS)


def run_seed(seed: int, block: int) -> int:
    """Return the workload's seed, the same for all runs of a block, so that differences between points are paired."""
    return derived_seed("run", seed, block)


def block_order(points: int, seed: int, block: int) -> list[int]:
    """Return the points' indexes in the order in which this block runs them.

    >>> sorted(block_order(5, seed=1, block=0))
    [0, 1, 2, 3, 4]
    """
    generator = random.Random(derived_seed("order", seed, block))
    keys = [generator.random() for _ in range(points)]
    return sorted(range(points), key=keys.__getitem__)


VersionOf = Callable[[Values], str]
"""A function that returns the server's version at a point, from the values of the point's knobs."""


def lacking(engine: EngineDeclaration, points: Sequence[GridPoint], version_of: VersionOf) -> list[Problem]:
    """Return one problem for each setting or value that the server version at a point does not support.

    "auto" is never refused: it means "if the version has the setting".
    """
    problems: dict[tuple[str, str], Problem] = {}
    for point in points:
        version = version_of(point.knobs)
        for knob in (knob for knob in engine.knobs if knob.name in point.engine):
            asked = point.engine[knob.name].asked
            versions = dict(knob.value_versions).get(asked, knob.versions)
            if asked == AUTO or has(versions, engine.name, version):
                continue
            what = knob.name if versions == knob.versions else f"{knob.name} = {asked}"
            problem = Problem(
                f"{engine.name} {version} has no {what}; {in_words(versions)} has",
                f"point {point.label}"
                if knob.name in point.swept_names or "server" in point.swept_names
                else f"{knob.name} = {asked}",
                f"leave {knob.name} out, or choose another server with --server",
            )
            problems.setdefault((what, version), problem)
    return list(problems.values())
