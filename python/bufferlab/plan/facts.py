"""The facts of loaded data that a plan needs: size and trees, found in the database or estimated before its load.

This file names the databases that an experiment needs. It loads none (execute does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.knob import Native, Setting, values_of
from bufferlab.spec import Experiment
from bufferlab.spec.experiment import OWN
from bufferlab.workloads import registry as workloads
from bufferlab.workloads.declaration import WorkloadDeclaration


@dataclass(frozen=True)
class DataKnobs:
    """The values that decide one loaded database: equal ones mean the same database."""

    knobs: tuple[tuple[str, Native], ...]
    """The engine's knobs that decide the file, by name."""
    parameters: tuple[tuple[str, Native], ...]
    """The workload's parameters that decide the data, by name."""


@dataclass(frozen=True)
class DataFacts:
    """The size and trees of one loaded database, found or estimated."""

    allocated_bytes: int
    """Bytes of data and indexes."""
    shape: Mapping[str, Any] | None = None
    """Pages per level of every b-tree (`database.shape` in run.json); None if the engine cannot tell."""


Facts = Callable[[DataKnobs], DataFacts]
"""A function that returns the facts of any database of an experiment."""


def estimated_facts(experiment: Experiment) -> Facts:
    """Return the function that estimates size and trees of a database that is not loaded yet."""
    engine, workload = engines.declaration(experiment.engine), workload_of(experiment)

    def estimate(data: DataKnobs) -> DataFacts:
        if engine.data_bytes:
            return DataFacts(engine.data_bytes(dict(data.knobs)))
        parameters, page_size_bytes = dict(data.parameters), int(dict(data.knobs)[engine.page_knob])
        size_bytes = int(workload.estimate_bytes(parameters, page_size_bytes) * engine.size_factor)
        shape = workload.estimate_shape(parameters, page_size_bytes) if workload.estimate_shape else None
        return DataFacts(size_bytes, shape)

    return estimate


def known_facts(experiment: Experiment, known: Mapping[DataKnobs, DataFacts]) -> Facts:
    """Return the function that gives the `known` facts of a loaded database, and the estimate of any other."""
    estimate = estimated_facts(experiment)
    return lambda data: known.get(data) or estimate(data)


def workload_of(experiment: Experiment) -> WorkloadDeclaration:
    """Return the experiment's workload, with the parameters of the data that it works on."""
    declaration = workloads.declaration(experiment.workload.name)
    return workloads.on_data(declaration, str(experiment.workload.parameters.get(declaration.data_parameter, "")))


def data_knobs(engine: EngineDeclaration, workload: WorkloadDeclaration, asked: Mapping[str, Setting]) -> DataKnobs:
    """Return what decides the database of a point with these settings; none of them is a share of a database."""
    knobs, parameters = (
        values_of({knob.name: asked[knob.name] for knob in owner if knob.decides_file and knob.name in asked})
        for owner in (engine.knobs, workload.parameters)
    )
    return DataKnobs(tuple(knobs.items()), tuple(parameters.items()))


def reference_data(experiment: Experiment, engine: EngineDeclaration, own: DataKnobs) -> DataKnobs:
    """Return the database that percentages of a point refer to: `own`, or the same at the reference page size."""
    page_size = experiment.reference.page_size
    if page_size == OWN or not engine.page_knob:
        return own
    knobs = tuple((name, page_size if name == engine.page_knob else value) for name, value in own.knobs)
    return DataKnobs(knobs, own.parameters)
