"""What a plan must know of loaded data: sizes and trees, as found in the database or estimated before a load.

Names the databases an experiment needs; loads none (execute does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.knob import Native
from bufferlab.spec import Experiment
from bufferlab.spec.model import OWN
from bufferlab.workloads import registry as workloads
from bufferlab.workloads.declaration import WorkloadDeclaration


@dataclass(frozen=True)
class DataSetting:
    """Everything asked that decides one loaded database; equal settings mean the same database."""

    knobs: tuple[tuple[str, int | str], ...]
    """The engine's knobs that decide the file, native."""
    parameters: tuple[tuple[str, Native], ...]
    """The workload's parameters that decide the data, native."""


@dataclass(frozen=True)
class DataFacts:
    """What is known of one loaded database."""

    allocated_bytes: int
    """Bytes of data and indexes."""
    shape: Mapping[str, Any] | None = None
    """Its trees, as run.json's `database.shape` has them; None when the engine tells none."""


Facts = Callable[[DataSetting], DataFacts]
"""The facts of any database of an experiment."""


def estimated_facts(experiment: Experiment) -> Facts:
    """Facts as they are expected before anything was loaded."""
    engine, workload = engines.declaration(experiment.engine), workload_of(experiment)
    page_name = engine.by_name()[engine.page_knob].native_name if engine.page_knob else ""

    def estimate(setting: DataSetting) -> DataFacts:
        if engine.data_bytes:
            return DataFacts(engine.data_bytes(dict(setting.knobs)))
        parameters, page_size_bytes = dict(setting.parameters), int(dict(setting.knobs)[page_name])
        size_bytes = int(workload.estimate_bytes(parameters, page_size_bytes) * engine.size_factor)
        shape = workload.estimate_shape(parameters, page_size_bytes) if workload.estimate_shape else None
        return DataFacts(size_bytes, shape)

    return estimate


def known_facts(experiment: Experiment, known: Mapping[DataSetting, DataFacts]) -> Facts:
    """What was found in loaded databases; the estimate for the others."""
    estimate = estimated_facts(experiment)
    return lambda setting: known.get(setting) or estimate(setting)


def workload_of(experiment: Experiment) -> WorkloadDeclaration:
    """The experiment's workload, with the parameters of the data it works on."""
    declaration = workloads.declaration(experiment.workload.name)
    return workloads.on_data(declaration, experiment.workload.parameters.get(declaration.data_parameter, ""))


def data_setting(
    engine: EngineDeclaration,
    workload: WorkloadDeclaration,
    native_knobs: Mapping[str, int | str],
    parameters: Mapping[str, Native],
) -> DataSetting:
    """The database a point runs on."""
    return DataSetting(
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


def reference_setting(experiment: Experiment, engine: EngineDeclaration, own: DataSetting) -> DataSetting:
    """The database of which a share at this point is a share: the point's own, or that at the reference page size."""
    page_size = experiment.reference.page_size
    if page_size == OWN or not engine.page_knob:
        return own
    page_name = engine.by_name()[engine.page_knob].native_name
    knobs = tuple((name, page_size if name == page_name else value) for name, value in own.knobs)
    return DataSetting(knobs, own.parameters)
