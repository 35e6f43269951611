"""The facts of loaded data that a plan needs: size and trees, found in the database or estimated before its load.

This file names the databases that an experiment needs. It loads none (execute does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.knob import Native
from bufferlab.spec import Experiment
from bufferlab.spec.experiment import OWN
from bufferlab.workloads import registry as workloads
from bufferlab.workloads.declaration import WorkloadDeclaration


@dataclass(frozen=True)
class DataKnobs:
    """The native knobs that decide one loaded database: equal knobs mean the same database."""

    knobs: tuple[tuple[str, int | str], ...]
    """The engine's knobs that decide the file, by native name."""
    parameters: tuple[tuple[str, Native], ...]
    """The workload's parameters that decide the data, by native name."""


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
    page_name = engine.by_name()[engine.page_knob].native_name if engine.page_knob else ""

    def estimate(data: DataKnobs) -> DataFacts:
        if engine.data_bytes:
            return DataFacts(engine.data_bytes(dict(data.knobs)))
        parameters, page_size_bytes = dict(data.parameters), int(dict(data.knobs)[page_name])
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
    return workloads.on_data(declaration, experiment.workload.parameters.get(declaration.data_parameter, ""))


def data_knobs(
    engine: EngineDeclaration,
    workload: WorkloadDeclaration,
    native_knobs: Mapping[str, int | str],
    parameters: Mapping[str, Native],
) -> DataKnobs:
    """Return what decides the database of a point with these native knobs and parameters."""
    return DataKnobs(
        tuple(
            (knob.native_name, native_knobs[knob.native_name])
            for knob in engine.knobs
            if knob.decides_file and knob.native_name in native_knobs
        ),
        tuple(
            (knob.native_name, parameters[knob.native_name])
            for knob in workload.parameters
            if knob.decides_file and knob.native_name in parameters
        ),
    )


def reference_data(experiment: Experiment, engine: EngineDeclaration, own: DataKnobs) -> DataKnobs:
    """Return the database that percentages of a point refer to: `own`, or the same at the reference page size."""
    page_size = experiment.reference.page_size
    if page_size == OWN or not engine.page_knob:
        return own
    page_name = engine.by_name()[engine.page_knob].native_name
    knobs = tuple((name, page_size if name == page_name else value) for name, value in own.knobs)
    return DataKnobs(knobs, own.parameters)
