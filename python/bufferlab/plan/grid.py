"""Makes the points of a sweep: every combination of the swept settings, in the order written.

Percentages become counts, or bytes rounded to whole frames. They refer to the size and trees of a database, which
`execute` measures in the loaded database or which are estimated before. run_order.py repeats and orders the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.errors import SpecError
from bufferlab.knob import CONNECTIONS, LOAD_KNOBS, UNLIMITED, Native, Setting, values_of
from bufferlab.results.keys import point_key
from bufferlab.results.schema import Load, StoredSetting
from bufferlab.spec import Experiment
from bufferlab.spec.experiment import OWN
from bufferlab.units import format_bytes
from bufferlab.workloads import registry as workloads
from bufferlab.workloads.declaration import Impossible, PoolAndData, WorkloadDeclaration

_RESTORED_PER_DUMPED = 3
"""A guess: bytes of a restored database for each byte of its dump. Plans made before the restore use it."""


@dataclass(frozen=True)
class DataKnobs:
    """The values that determine a loaded database: points with equal values share one database."""

    knobs: tuple[tuple[str, Native], ...]
    """The engine's knobs that affect the database file, by name."""
    parameters: tuple[tuple[str, Native], ...]
    """The workload's parameters that affect the data, by name."""


@dataclass(frozen=True)
class DataFacts:
    """The size and trees of one loaded database, measured in it or estimated before its load."""

    allocated_bytes: int
    """The bytes of the database's data and indexes."""
    shape: Mapping[str, Any] | None = None
    """Pages per level of every b-tree (`database.shape` in run.json); None if the engine does not report it."""


Facts = Callable[[DataKnobs], DataFacts]
"""A function that returns size and trees of any database of an experiment."""


def estimated_facts(experiment: Experiment) -> Facts:
    """Return the function that estimates size and trees of a database that is not loaded yet."""
    engine, workload = engines.declaration(experiment.engine), workload_of(experiment)

    def estimate(data: DataKnobs) -> DataFacts:
        if engine.data_bytes:
            return DataFacts(engine.data_bytes(dict(data.knobs)))
        if dump := experiment.workload.dump:
            # A dump lacks indexes, but its numbers are texts, which are longer; pg_dump compresses its rows.
            least_bytes = workload.estimate_bytes({}, 0)
            return DataFacts(max(least_bytes, dump.size_bytes * _RESTORED_PER_DUMPED))
        parameters, page_size_bytes = dict(data.parameters), int(dict(data.knobs)[engine.page_knob])
        size_bytes = int(workload.estimate_bytes(parameters, page_size_bytes) * engine.size_factor)
        shape = workload.estimate_shape(parameters, page_size_bytes) if workload.estimate_shape else None
        return DataFacts(size_bytes, shape)

    return estimate


def known_facts(experiment: Experiment, known: Mapping[DataKnobs, DataFacts]) -> Facts:
    """Return a function that gives the `known` facts of a loaded database, and an estimate for any other database."""
    estimate = estimated_facts(experiment)
    return lambda data: known.get(data) or estimate(data)


def workload_of(experiment: Experiment) -> WorkloadDeclaration:
    """Return the experiment's workload, with the parameters of the data that it uses."""
    declaration = workloads.declaration(experiment.workload.name)
    return workloads.on_data(declaration, str(experiment.workload.parameters.get(declaration.data_parameter, "")))


def _data_knobs(engine: EngineDeclaration, workload: WorkloadDeclaration, asked: Mapping[str, Setting]) -> DataKnobs:
    """Return the settings that determine a point's database. None of them is a percentage of a database."""
    knobs, parameters = (
        values_of({knob.name: asked[knob.name] for knob in owner if knob.decides_file and knob.name in asked})
        for owner in (engine.knobs, workload.parameters)
    )
    return DataKnobs(tuple(knobs.items()), tuple(parameters.items()))


def _reference_data(experiment: Experiment, engine: EngineDeclaration, own: DataKnobs) -> DataKnobs:
    """Return the database that percentages of a point refer to: `own`, or the same data at the reference page size."""
    page_size = experiment.reference.page_size
    paged = {} if page_size == OWN or not engine.page_knob else {engine.page_knob: page_size}
    return _with(own, {**engine.shares_refer_to, **paged})


def _with(data: DataKnobs, values: Mapping[str, Native]) -> DataKnobs:
    """Return a copy of the database's knobs with these values replaced."""
    return DataKnobs(tuple((name, values.get(name, value)) for name, value in data.knobs), data.parameters)


@dataclass(frozen=True)
class GridPoint:
    """One combination of all settings, which each block runs once. Each setting is in one mapping: its owner's."""

    index: int
    swept_names: tuple[str, ...]
    """The names of the swept settings, in the order written."""
    engine: Mapping[str, Setting] = field(hash=False)
    """The engine's settings. Sizes are in bytes, and a pool is a whole number of frames."""
    workload: Mapping[str, Setting] = field(hash=False)
    """The workload's parameters, with percentages turned into counts."""
    load: Mapping[str, Setting] = field(hash=False)
    """The load's settings, and the number of connections that run transactions concurrently."""
    data: DataKnobs
    """The values that determine the loaded database on which the point runs."""
    database_bytes: int
    """The bytes of the database to which this point's percentages refer."""
    point_key: str = ""

    @property
    def swept(self) -> dict[str, str]:
        """Return the canonical text of this point's value of every swept setting, by the setting's name."""
        owned = {**self.engine, **self.workload, **self.load}
        return {name: owned[name].asked for name in self.swept_names}

    @property
    def label(self) -> str:
        """Return the swept settings with their values in words; "as set" if nothing is swept."""
        return ", ".join(f"{name} {value}" for name, value in self.swept.items()) or "as set"

    @property
    def settings(self) -> dict[str, Setting]:
        """Return the settings that reports show: the engine's, the swept ones, and the arrival rate's."""
        load = (name for name, one in self.load.items() if name in self.swept_names or _is_changed(one))
        swept = (name for name in self.workload if name in self.swept_names)
        return {**self.engine, **{n: self.load[n] for n in load}, **{n: self.workload[n] for n in swept}}

    @property
    def knobs(self) -> dict[str, Native]:
        """Return the values of the engine's settings by name, without those for which the engine's default applies."""
        return values_of(self.engine)

    @property
    def parameters(self) -> dict[str, Native]:
        """Return the values of the workload's parameters as the core's job and run.json name them."""
        return {one.knob.spelling: one.value for one in self.workload.values() if one.value is not None}

    @property
    def variables(self) -> dict[str, int | float]:
        """Return the numeric parameters of the workload, which scripts may use as variables."""
        return {name: value for name, value in self.parameters.items() if not isinstance(value, str)}

    @property
    def connections(self) -> int:
        """Return how many connections run transactions concurrently at this point."""
        return self.load[CONNECTIONS.name].number

    @property
    def arrivals(self) -> Load:
        """Return the arrival process: transactions follow one another at once, or arrive at a rate."""
        if self.load["rate"].value == UNLIMITED:
            return Load()
        values = {one.knob.spelling: one.value for one in self.load.values() if one.knob.spelling in Load.model_fields}
        return Load.model_validate({"mode": "open", **values})

    def stored(self) -> dict[str, StoredSetting]:
        """Return the settings as plan.json and run.json hold them, without the values in effect at run time."""
        return {
            name: StoredSetting(asked=one.asked, planned=one.value, unit=one.knob.unit, note=one.note)
            for name, one in self.settings.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the point as plan.json holds it."""
        return {
            "index": self.index,
            "label": self.label,
            "point_key": self.point_key,
            "swept": self.swept,
            "settings": {name: one.model_dump(exclude={"actual"}) for name, one in self.stored().items()},
            "workload": self.parameters,
            "load": self.arrivals.model_dump(exclude_none=True),
            "database_bytes": self.database_bytes,
        }


def _is_changed(setting: Setting) -> bool:
    return setting.knob is not CONNECTIONS and setting.asked != setting.knob.parse(setting.knob.default).asked


def workload_identity(experiment: Experiment) -> dict[str, Any]:
    """Return the user's workload settings that are equal at all points. Cache keys are made from them."""
    workload, connections = experiment.workload, experiment.knobs.get(CONNECTIONS.name)
    identity: dict[str, Any] = {
        "name": workload.name,
        "version": workload_of(experiment).version,
        "connections": connections.number if connections else None,
        **{name: setting.value_or_text for name, setting in workload.parameters.items()},
    }
    if workload.script:
        identity["script_sha256"] = workload.script.sha256
    if workload.dump:
        identity["dump_sha256"] = workload.dump.sha256
    if experiment.phases:
        identity["phases"] = {phase.name: [phase.script.sha256, phase.transactions] for phase in experiment.phases}
    return identity


def stored_workload(experiment: Experiment, point: GridPoint) -> dict[str, Any]:
    """Return the workload as run.json stores it: parameters in the core's form, and a script's name and hash."""
    script, dump = experiment.workload.script, experiment.workload.dump
    return {
        "name": experiment.workload.name,
        "version": workload_of(experiment).version,
        "connections": point.connections,
        **point.parameters,
        **({"script": script.source, "script_sha256": script.sha256} if script else {}),
        **({"dump": Path(dump.path).name, "dump_sha256": dump.sha256} if dump else {}),
    }


def points_of(experiment: Experiment, facts: Facts) -> list[GridPoint]:
    """Return every point. `facts` gives size and trees of the databases to which percentages refer.

    Raises SpecError for an impossible point, such as a pool with too few frames.
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
        asked = {**experiment.asked, **swept}
        own = _data_knobs(engine, workload, asked)
        if any(asked[knob.name].ratio is not None for knob in engine.knobs):
            needed[_reference_data(experiment, engine, own)] = None
        if any(knob.name in asked and asked[knob.name].ratio is not None for knob in workload.parameters):
            needed[_with(own, engine.shares_refer_to)] = None
    return list(needed)


def _combinations(experiment: Experiment) -> Iterator[dict[str, Setting]]:
    names = list(experiment.sweep)
    for values in product(*experiment.sweep.values()):
        yield dict(zip(names, values, strict=True))


def _point(
    experiment: Experiment,
    engine: EngineDeclaration,
    workload: WorkloadDeclaration,
    identity: dict[str, Any],
    index: int,
    swept: dict[str, Setting],
    facts: Facts,
) -> GridPoint:
    asked = {**experiment.asked, **swept}
    data = _data_knobs(engine, workload, asked)
    point = GridPoint(
        index=index,
        swept_names=tuple(swept),
        engine=engine.settings(asked),
        workload={knob.name: asked[knob.name] for knob in workload.parameters if knob.name in asked},
        load={knob.name: asked[knob.name] for knob in (*LOAD_KNOBS, CONNECTIONS)},
        data=data,
        database_bytes=facts(_reference_data(experiment, engine, data)).allocated_bytes,
    )
    point = replace(point, engine=_sized(engine, point))
    if engine.refused and (why := engine.refused(point.knobs, workload.name)):
        raise SpecError(why[0], f"point {point.label}", why[1])
    point = replace(point, workload=_counted(engine, workload, point, facts))
    point = replace(point, engine=engine.applying(point.engine))
    texts = {name: setting.asked for name, setting in point.settings.items()}
    key = point_key(experiment=experiment.name, engine=experiment.engine, workload=identity, knobs_asked=texts)
    return replace(point, point_key=key)


def _sized(engine: EngineDeclaration, point: GridPoint) -> dict[str, Setting]:
    """Return the engine's settings with percentages as bytes, and the pool in whole frames; a rounded pool gets a note.

    Raises SpecError for a pool with fewer frames than the engine needs.
    """
    settings = {name: setting.of(point.database_bytes) for name, setting in point.engine.items()}
    if not engine.results.pool:
        return settings
    page_bytes, pool = settings[engine.page_knob].number, settings[engine.results.pool]
    is_share = pool.ratio is not None
    frames = (pool.number - pool.number % engine.pool_unit_bytes if is_share else pool.number) // page_bytes
    if frames < engine.min_frames:
        share = f" of {format_bytes(point.database_bytes)}" if is_share else ""
        raise SpecError(
            f"{engine.results.pool} = {pool}{share} is {frames} frames of {format_bytes(page_bytes)}; "
            f"{engine.name} needs {engine.min_frames}",
            f"point {engine.results.pool} = {pool}",
            f"ask for {format_bytes(engine.min_frames * page_bytes)} or more, or for more data",
        )
    cut = not is_share and frames * page_bytes != pool.value
    note = "rounded to whole pages" if cut else ""
    return {**settings, engine.results.pool: replace(pool, value=frames * page_bytes, note=note)}


def _counted(
    engine: EngineDeclaration, workload: WorkloadDeclaration, point: GridPoint, facts: Facts
) -> dict[str, Setting]:
    """Return the workload's parameters with percentages turned into counts.

    Raises SpecError for parameters that cannot be combined.
    """
    settings = dict(point.workload)
    values = {name: setting.value_or_text for name, setting in settings.items()}
    for name, setting in settings.items():
        if setting.ratio is not None and workload.resolve_share:
            page_bytes, pool_bytes = (point.engine[knob].number for knob in (engine.page_knob, engine.results.pool))
            frames = engine.frames_of_data(point.knobs, pool_bytes // page_bytes)
            shape = facts(_with(point.data, engine.shares_refer_to)).shape
            at = PoolAndData(frames, page_bytes, shape, engine.edge_rows)
            count = workload.resolve_share(name, setting.ratio, values, at)
            if isinstance(count, Impossible):
                raise SpecError(count.what, f"point {point.label}", count.hint)
            values[name] = count
            settings[name] = replace(setting, value=count)
    impossible = workload.impossible(values) if workload.impossible else None
    if impossible is None and workload.too_many:
        impossible = workload.too_many(values, point.connections)
    if impossible:
        raise SpecError(impossible.what, f"point {point.label}", impossible.hint)
    return settings
