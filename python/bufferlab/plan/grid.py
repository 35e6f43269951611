"""Makes the points of a sweep: every combination of the swept settings, in the order written.

Percentages become bytes of whole frames, or counts. make.py repeats and orders the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.errors import SpecError
from bufferlab.knob import Knob, Native
from bufferlab.load_knobs import CONNECTIONS, LOAD_KNOBS, native_load
from bufferlab.plan.facts import DataKnobs, Facts, data_knobs, reference_data, workload_of
from bufferlab.results.keys import point_key
from bufferlab.spec import Experiment
from bufferlab.units import format_bytes
from bufferlab.workloads.declaration import Impossible, PoolAndData, WorkloadDeclaration


@dataclass(frozen=True)
class PlannedSetting:
    """One setting of a point: what was asked for, and the value that will run."""

    knob: Knob
    asked: str
    """Canonical text: "10%"."""
    planned: Native | None
    """The typed value; None if the engine chooses it."""
    read_back: bool
    """Whether the engine reads the value back after the run. Settings of load and workload run as planned."""
    note: str = ""
    """The reason why the planned value is not the one asked for; "" if it is."""

    def as_dict(self) -> dict[str, Any]:
        """Return the setting as plan.json and run.json hold it, without the value that ran."""
        return {"asked": self.asked, "planned": self.planned, "unit": self.knob.unit, "note": self.note}


@dataclass(frozen=True)
class Point:
    """One combination of all settings, which each block runs once."""

    index: int
    label: str
    swept: dict[str, str]
    """The canonical text of every swept setting, by name."""
    settings: dict[str, PlannedSetting] = field(hash=False)
    """By name: the engine's knobs, the load's settings that are swept or not at their default, swept parameters."""
    native_knobs: dict[str, int | str] = field(hash=False)
    """The engine's knobs as the core takes them. Sizes are in bytes, and a pool is a whole number of frames."""
    workload: dict[str, Native] = field(hash=False)
    """The workload's parameters as the core takes them, with percentages turned into counts."""
    load: dict[str, Any] = field(hash=False)
    """The load as the core takes it."""
    connections: int
    """The connections that run transactions at once."""
    data: DataKnobs
    """The knobs of the loaded database that the point runs on."""
    database_bytes: int
    """Bytes of the database that percentages of this point refer to."""
    point_key: str

    @property
    def variables(self) -> dict[str, int | float]:
        """Return the numeric parameters of the workload, which scripts may use as variables."""
        return {name: value for name, value in self.workload.items() if not isinstance(value, str)}

    def as_dict(self) -> dict[str, Any]:
        """Return the point as plan.json holds it."""
        return {
            "index": self.index,
            "label": self.label,
            "point_key": self.point_key,
            "swept": self.swept,
            "settings": {name: setting.as_dict() for name, setting in self.settings.items()},
            "workload": self.workload,
            "load": self.load,
            "database_bytes": self.database_bytes,
        }


def workload_identity(experiment: Experiment) -> dict[str, Any]:
    """Return the part of the workload that is the same at all points, as asked, for keys."""
    workload, declared = experiment.workload, workload_of(experiment)
    knobs = {knob.name: knob for knob in declared.parameters}
    identity: dict[str, Any] = {
        "name": workload.name,
        "version": declared.version,
        "connections": workload.connections,
        **{name: _as_asked(knobs[name], text) for name, text in workload.parameters.items()},
    }
    if workload.script:
        identity["script_sha256"] = workload.script.sha256
    if experiment.phases:
        identity["phases"] = {phase.name: [phase.script.sha256, phase.transactions] for phase in experiment.phases}
    return identity


def points_of(experiment: Experiment, facts: Facts) -> list[Point]:
    """Return every point. `facts` gives size and trees of the databases that percentages refer to.

    Raises SpecError when a point cannot be, such as a pool of too few frames.
    """
    engine, workload = engines.declaration(experiment.engine), workload_of(experiment)
    identity = workload_identity(experiment)
    return [
        _point(experiment, engine, workload, identity, index, swept, facts)
        for index, swept in enumerate(_combinations(experiment))
    ]


def needed_data(experiment: Experiment) -> list[DataKnobs]:
    """Return the databases that must be loaded before the plan is made: percentages refer to their size or trees."""
    engine, workload = engines.declaration(experiment.engine), workload_of(experiment)
    needed: dict[DataKnobs, None] = {}
    for swept in _combinations(experiment):
        asked = {**experiment.knobs, **swept}
        parameters = {**experiment.workload.parameters, **swept}
        own = _own_data(engine, workload, asked, parameters)
        if any(knob.share(asked[knob.name]) is not None for knob in engine.knobs):
            needed[reference_data(experiment, engine, own)] = None
        if any(_is_share(knob, parameters) for knob in workload.parameters):
            needed[own] = None
    return list(needed)


def _combinations(experiment: Experiment) -> Iterator[dict[str, str]]:
    names = list(experiment.sweep)
    for values in product(*experiment.sweep.values()):
        yield dict(zip(names, values, strict=True))


def _point(
    experiment: Experiment,
    engine: EngineDeclaration,
    workload: WorkloadDeclaration,
    identity: dict[str, Any],
    index: int,
    swept: dict[str, str],
    facts: Facts,
) -> Point:
    asked = {**experiment.knobs, **swept}
    parameters = {**experiment.workload.parameters, **swept}
    data = _own_data(engine, workload, asked, parameters)
    database_bytes = facts(reference_data(experiment, engine, data)).allocated_bytes
    native = _native_knobs(engine, asked, database_bytes)
    of_workload = _native_parameters(engine, workload, parameters, native, data, facts, _label(swept))
    settings = {
        **{knob.name: _of_engine(engine, knob, asked, native) for knob in engine.asked_knobs(asked)},
        **{
            knob.name: PlannedSetting(knob, asked[knob.name], knob.native(asked[knob.name], None), read_back=False)
            for knob in LOAD_KNOBS
            if knob.name in swept or asked[knob.name] != knob.parse(knob.default)
        },
        **({CONNECTIONS.name: _of_connections(swept)} if CONNECTIONS.name in swept else {}),
        **{
            knob.name: PlannedSetting(knob, swept[knob.name], of_workload[knob.native_name], read_back=False)
            for knob in workload.parameters
            if knob.name in swept
        },
    }
    texts = {name: setting.asked for name, setting in settings.items()}
    return Point(
        index=index,
        label=_label(swept),
        swept=swept,
        settings=settings,
        native_knobs=native,
        workload=of_workload,
        load=native_load(asked),
        connections=int(swept.get(CONNECTIONS.name) or experiment.workload.connections or 1),
        data=data,
        database_bytes=database_bytes,
        point_key=point_key(experiment=experiment.name, engine=experiment.engine, workload=identity, knobs_asked=texts),
    )


def _of_engine(
    engine: EngineDeclaration, knob: Knob, asked: Mapping[str, str], native: Mapping[str, int | str]
) -> PlannedSetting:
    """Return an engine's knob with its planned value. The note of a pool that is cut to whole frames says so."""
    text, planned = asked[knob.name], native.get(knob.native_name)
    cut = knob.name == engine.frame_knob and knob.share(text) is None and planned != knob.native(text, None)
    note = "rounded to whole pages" if cut else ""
    return PlannedSetting(knob, text, None if planned is None else knob.typed(planned), read_back=True, note=note)


def _of_connections(swept: Mapping[str, str]) -> PlannedSetting:
    text = swept[CONNECTIONS.name]
    return PlannedSetting(CONNECTIONS, text, CONNECTIONS.native(text, None), read_back=False)


def _label(swept: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in swept.items()) or "as set"


def _as_asked(knob: Knob, text: str) -> Native:
    """Return the native value that a text decides alone; for a percentage, the text itself."""
    return text if knob.share(text) is not None else knob.native(text, None)


def _is_share(knob: Knob, parameters: Mapping[str, str]) -> bool:
    return knob.name in parameters and knob.share(parameters[knob.name]) is not None


def _own_data(
    engine: EngineDeclaration, workload: WorkloadDeclaration, asked: Mapping[str, str], parameters: Mapping[str, str]
) -> DataKnobs:
    """Return the knobs that decide a point's database.

    None of them is a percentage of a database, so that any size (here 0 bytes) gives the same answer.
    """
    deciding = {
        knob.native_name: knob.native(parameters[knob.name], None)
        for knob in workload.parameters
        if knob.decides_file and knob.name in parameters
    }
    return data_knobs(engine, workload, engine.native(asked, 0), deciding)


def _native_parameters(
    engine: EngineDeclaration,
    workload: WorkloadDeclaration,
    texts: Mapping[str, str],
    native_knobs: Mapping[str, int | str],
    data: DataKnobs,
    facts: Facts,
    label: str,
) -> dict[str, Native]:
    known = [knob for knob in workload.parameters if knob.name in texts]
    native = {knob.native_name: _as_asked(knob, texts[knob.name]) for knob in known}
    for knob in known:
        ratio = knob.share(texts[knob.name])
        if ratio is not None and workload.resolve_share:
            page, frames = (engine.by_name()[name].native_name for name in (engine.page_knob, engine.frame_knob))
            page_size_bytes = int(native_knobs[page])
            by_name = {knob.name: native_knobs.get(knob.native_name) for knob in engine.knobs}
            of_data = engine.frames_of_data(by_name, int(native_knobs[frames]) // page_size_bytes)
            at = PoolAndData(of_data, page_size_bytes, facts(data).shape, engine.edge_rows)
            count = workload.resolve_share(knob.name, ratio, native, at)
            if isinstance(count, Impossible):
                raise SpecError(count.what, f"point {label}", count.hint)
            native[knob.native_name] = count
    impossible = workload.impossible(native) if workload.impossible else None
    if impossible:
        raise SpecError(impossible.what, f"point {label}", impossible.hint)
    return native


def _native_knobs(engine: EngineDeclaration, asked: Mapping[str, str], database_bytes: int) -> dict[str, int | str]:
    native = engine.native(asked, database_bytes)
    if not engine.frame_knob:
        return native
    page, frames = (engine.by_name()[name] for name in (engine.page_knob, engine.frame_knob))
    page_bytes, pool_bytes = int(native[page.native_name]), int(native[frames.native_name])
    if frames.share(asked[frames.name]) is not None:
        pool_bytes -= pool_bytes % engine.pool_unit_bytes
    whole_frames = pool_bytes // page_bytes
    if whole_frames < engine.min_frames:
        text = asked[frames.name]
        share = f" of {format_bytes(database_bytes)}" if frames.share(text) is not None else ""
        raise SpecError(
            f"{frames.name} = {text}{share} is {whole_frames} frames of {format_bytes(page_bytes)}; "
            f"{engine.name} needs {engine.min_frames}",
            f"point {frames.name} = {text}",
            f"ask for {format_bytes(engine.min_frames * page_bytes)} or more, or for more data",
        )
    native[frames.native_name] = whole_frames * page_bytes
    return native
