"""Predicts the reads of other settings from one traced run: a replay of its accesses for each point.

Frames of a target are its bytes times the frames per byte that the source's engine counted. It knows no engine: what
a model obeys and where it must not be believed stands in its declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.errors import DataFileError, Problem, SpecError
from bufferlab.load_knobs import CONNECTIONS
from bufferlab.models.managers import registry
from bufferlab.models.managers.declaration import BothEnds, BufferManager
from bufferlab.models.managers.declaration import Point as ModelPoint
from bufferlab.models.source import LARGEST_POOL, Source
from bufferlab.plan import DataFacts, Plan, Point, make
from bufferlab.results.schema import Prediction, Replayed, TracedRun, Verdict
from bufferlab.spec import Experiment, Overrides, loads
from bufferlab.units import format_bytes, format_count, format_percent

YARDSTICK = "lru"
FLOOR = "opt"
_TURNOVERS = 2
_READ_AHEAD_LIMIT = 0.05
_HIDDEN_LIMIT = 0.001


@dataclass(frozen=True)
class Target:
    """The points to predict, from which run, by which model."""

    source: Source
    manager: BufferManager
    plan: Plan
    verdicts: tuple[Verdict, ...]
    """Those of the source, which hold at every point."""

    @property
    def traced(self) -> TracedRun:
        """Return the source as a predicted run holds it."""
        source = self.source
        return TracedRun(
            run_id=source.run.run_id,
            point=source.run.point.label,
            engine_version=source.server.version,
            page_trace_sha256=source.page_trace_sha256,
            pool_bytes=source.pool_bytes,
            pool_frames=source.frames,
            page_size_bytes=source.page_size_bytes,
            pages_touched=source.pages,
            work=dict(source.work),
            measured_reads=source.measured(self.manager.read_ahead).reads,
        )


def target(source: Source, overrides: Overrides, stored: Experiment | None = None) -> Target:
    """Return the points of the source's experiment with the changes of the command line, each to be predicted once.

    With `stored`, the experiment of a sweep that is resumed, its points.

    Raises SpecError for a server without a model, for a setting that the model does not obey, and for a pool that
    cannot be.
    """
    manager = _manager(source)
    plan = _plan(source, manager, overrides, stored)
    for point in plan.points:
        frames, _ = _frames(source, _pool_bytes(source, point), point)
        source.require(manager.name, _settings(source, manager, _values(source, manager, point), frames), frames)
    return Target(source, manager, plan, tuple(_of_source(source, manager)))


def predict(target: Target, point: Point, before_replay: Callable[[], None]) -> Prediction:
    """Return what the model counts at a point, beside the yardstick and the floor.

    It calls `before_replay` before each replay, which takes a second for ten million accesses at most. Raises
    DataFileError for a trace that cannot be replayed.
    """
    source, manager = target.source, target.manager
    pool_bytes = _pool_bytes(source, point)
    frames, nominal = _frames(source, pool_bytes, point)
    values = _values(source, manager, point)

    def replay(name: str, settings: Mapping[str, Any], frames: int) -> Replayed:
        before_replay()
        return source.replay(name, settings, frames)

    found = replay(manager.name, _settings(source, manager, values, frames), frames)
    both = _both_ends(source, manager, values, frames, found)
    turnovers = found.brought_in_since_start / frames
    return Prediction(
        model=manager.name,
        model_version=manager.version,
        traced=target.traced,
        values=values,
        pool_bytes=pool_bytes,
        pool_frames=frames,
        nominal_frames=nominal,
        found=None if both else found,
        ends={name: replay(manager.name, end, frames) for name, end in both.ends} if both else {},
        lru=replay(YARDSTICK, {}, nominal),
        opt=replay(FLOOR, {}, frames),
        turnovers=turnovers,
        is_traced_point=pool_bytes == source.pool_bytes and values == _values(source, manager, None),
        verdicts=[*target.verdicts, *_of_point(source, frames, turnovers, both), *_of_scans(found)],
    )


def _manager(source: Source) -> BufferManager:
    found = registry.of_server(source.server)
    if found is None:
        known = ", ".join(f"{manager.name} ({manager.servers})" for manager in registry.MANAGERS)
        what = f"there is no model of {source.server.engine} {source.server.version}"
        raise SpecError(what, str(source.folder.path), f"the models: {known}")
    return found


def _plan(source: Source, manager: BufferManager, overrides: Overrides, stored: Experiment | None) -> Plan:
    """Return the points asked for, one run each, with shares of the same bytes as in the source's sweep."""
    toml, where = source.folder.experiment_toml, str(source.folder.path / "experiment.toml")
    try:
        base = loads(toml, where)
    except SpecError as error:
        what = f"experiment.toml of the sweep cannot be used: {error.what}"
        raise DataFileError(what, error.where, "it must be as `bufferlab run` wrote it") from error
    experiment = stored or loads(toml, where, replace(overrides, repetitions=1))
    _require_known(source, manager, overrides, base, experiment)
    database = source.run.database
    loaded = database.bytes_loaded if database else 0
    index = source.run.point.index
    planned: dict[str, Any] = next((point for point in source.folder.plan["points"] if point["index"] == index), {})
    whole = planned.get("database_bytes")
    shape = database.shape.model_dump() if database and database.shape else None
    return make(experiment, lambda _: DataFacts(whole if isinstance(whole, int) else loaded, shape))


def _require_known(
    source: Source, manager: BufferManager, overrides: Overrides, base: Experiment, experiment: Experiment
) -> None:
    """Refuse settings that are neither the source's nor obeyed by the model. Raises SpecError, which names each."""
    known = (engines.declaration(source.run.engine).frame_knob, *manager.defaults)
    asked = {**base.workload.parameters, **base.knobs, CONNECTIONS.name: str(base.workload.connections)}
    flags = {name: f"--set {name}={value}" for name, value in overrides.set_knobs}
    flags |= {name: f"--sweep {name}={','.join(values)}" for name, values in overrides.sweep}
    now = {**experiment.workload.parameters, **experiment.knobs, CONNECTIONS.name: str(experiment.workload.connections)}
    wanted = {name: (now[name],) for name, _ in overrides.set_knobs if name in now} | dict(experiment.sweep)
    problems = []
    for name, values in wanted.items():
        ran = source.run.point.swept.get(name) or source.setting(name).asked or asked.get(name)
        if name not in known and set(values) != {ran}:
            where = flags.get(name, f"{source.folder.path / 'experiment.toml'} (sweep.{name})")
            what = f"the model {manager.name} does not know {name}"
            hint = f"it knows {', '.join(known)}"
            hint += f"; for the traced run's value add --set {name}={ran}" if ran and name not in flags else ""
            problems.append(Problem(what, where, hint))
    if problems:
        raise SpecError.of(problems)


def _pool_bytes(source: Source, point: Point) -> int:
    engine = engines.declaration(source.run.engine)
    return int(point.native_knobs[engine.by_name()[engine.frame_knob].native_name])


def _frames(source: Source, pool_bytes: int, point: Point) -> tuple[int, int]:
    """Return the frames of a pool, as the source's engine counts them and as bytes by page size."""
    frames, nominal = round(pool_bytes * source.frames / source.pool_bytes), pool_bytes // source.page_size_bytes
    if not 0 < min(frames, nominal) <= max(frames, nominal) <= LARGEST_POOL:
        raise SpecError(
            f"a pool of {format_bytes(pool_bytes)} has {format_count(frames)} frames and cannot be replayed",
            f"point {point.label}",
            f"ask for 1 to {format_count(LARGEST_POOL)} pages of {format_bytes(source.page_size_bytes)}",
        )
    return frames, nominal


def _values(source: Source, manager: BufferManager, point: Point | None) -> dict[str, int]:
    """Return the settings that the model obeys, at a point or of the source itself."""
    return {name: _value(source, point, name, default) for name, default in manager.defaults.items()}


def _value(source: Source, point: Point | None, name: str, default: int) -> int:
    """Return a setting at a point, or of the source itself; one that is left to the server has its default."""
    planned, ran = point.settings.get(name) if point else None, source.setting(name)
    if planned and planned.planned is not None:
        return int(planned.planned)
    same = planned is None or planned.asked == ran.asked
    return int(ran.value) if same and isinstance(ran.value, int | float) else default


def _settings(source: Source, manager: BufferManager, values: Mapping[str, int], frames: int) -> dict[str, Any]:
    """Return all settings of the model at a point, as the core takes them."""
    return {**manager.settings(source.server, values), **manager.of_pools(source.server, source.pools(frames))}


def _both_ends(
    source: Source, manager: BufferManager, values: Mapping[str, int], frames: int, found: Replayed
) -> BothEnds | None:
    in_window = found.reads + found.creates
    point = ModelPoint(
        source.server,
        values,
        frames,
        connections=int(source.run.workload.get("connections", 1)),
        reads_per_s=_rate(found.reads, source.seconds),
        reads_per_s_before=_rate(found.brought_in_since_start - in_window, source.seconds_before),
        turnovers_in_window=in_window / frames,
    )
    return manager.both_ends(point)


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds else 0.0


def _of_point(source: Source, frames: int, turnovers: float, both: BothEnds | None) -> list[Verdict]:
    found = []
    if frames >= source.pages:
        pages = format_count(source.pages)
        sentence = f"the pool holds all {pages} pages that the run touched"
        found.append(Verdict(name="holds_all", sentence=sentence))
    elif turnovers < _TURNOVERS:
        sentence = (
            f"the trace fills this pool {turnovers:.2g} times, less than {_TURNOVERS}: first reads of pages weigh too "
            "much, so that a longer trace would predict fewer reads"
        )
        found.append(Verdict(name="short_trace", sentence=sentence))
    if both:
        sentence = f"{both.why}; both ends are given in place of a prediction"
        found.append(Verdict(name="both_ends", sentence=sentence))
    return found


def _of_scans(found: Replayed) -> list[Verdict]:
    if not found.guessed_scan_gets:
        return []
    sentence = (
        f"the trace does not tell which gets belong to scans that have a ring in this pool: "
        f"{format_count(found.guessed_scan_gets)} gets were taken for such by their order"
    )
    return [Verdict(name="guessed_scans", sentence=sentence)]


def _of_source(source: Source, manager: BufferManager) -> list[Verdict]:
    found = []
    measured = source.measured(manager.read_ahead)
    if measured.reads and measured.read_ahead / measured.reads > _READ_AHEAD_LIMIT:
        share = format_percent(measured.read_ahead / measured.reads)
        sentence = f"{share} of the run's reads were read ahead; another pool may read ahead more or less"
        found.append(Verdict(name="read_ahead", sentence=sentence))
    if measured.gets and measured.hidden_gets / measured.gets > _HIDDEN_LIMIT:
        share = format_percent(measured.hidden_gets / measured.gets)
        sentence = f"the engine counted {share} more gets than the trace holds, and the model does not know their pages"
        found.append(Verdict(name="hidden_accesses", sentence=sentence))
    for name, presumed in manager.presumes.items():
        ran = source.setting(name).value
        if ran is not None and ran != presumed:
            sentence = f"the model takes {name} to be {presumed}, and the run had {ran}"
            found.append(Verdict(name="presumes", sentence=sentence))
    return found
