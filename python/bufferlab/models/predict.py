"""Predicts the reads and writes of other settings from one traced run: a replay of its accesses for each point.

A pool's frames are computed from its bytes as the server does it, and corrected by the ratio of counted to computed
frames in the traced run. This file knows no engine: a model's declaration has the server's arithmetic, the model's
settings, and the reasons to doubt it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.native import native
from bufferlab.errors import DataFileError, Problem, SpecError
from bufferlab.knob import Native, Value
from bufferlab.models.ahead import Watch, replay_bytes
from bufferlab.models.limits import FEW_READS, OWN_LIMIT, READ_AHEAD_LIMIT, SPEED_LIMIT
from bufferlab.models.managers import innodb, postgres, sqlite
from bufferlab.models.managers.declaration import BufferManager, Pool, Server, Settings, Traced
from bufferlab.models.managers.dirty_buffers import DirtyBuffers
from bufferlab.models.managers.flushing import Flushing, Limit
from bufferlab.models.source import RECORD_AGAIN, Source
from bufferlab.models.writes import Writing, limits, written
from bufferlab.plan import DataFacts, GridPoint, Plan, PlannedRun, make
from bufferlab.results.page_traces import OtherPool, PredictedWrites, Prediction, Replayed, TracedRun, Verdict
from bufferlab.results.schema import WarmUp
from bufferlab.results.store import PAGE_TRACE_FILE
from bufferlab.spec import Experiment, Overrides, loads
from bufferlab.traces.page_trace import Columns
from bufferlab.units import format_bytes, format_count, format_percent
from bufferlab.versions import SERVERS

MANAGERS: tuple[BufferManager, ...] = (
    *innodb.MANAGERS,
    postgres.MANAGER,
    sqlite.MANAGER,
)
"""All models of buffer managers, one line per model. The first model that covers a server is used."""
LARGEST_POOL = 1 << 28
"""The number of frames of the largest pool that the core replays."""
YARDSTICK = "lru"
FLOOR = "opt"
UNFILLED_LIMIT = 0.2
"""The pool fillings (`BufferManager.filled`) that may be missing before the window, as a fraction of those in it.

Predictions were then within 3.5 % (docs/prediction.md).
"""
_HIDDEN_LIMIT = 0.001


@dataclass(frozen=True)
class Clock:
    """Factors by which a replay stretches the traced run's time: before the measured window, and within it."""

    before: float = 1.0
    within: float = 1.0


AS_TRACED = Clock()
CLOCKS = {"half the time": Clock(0.5, 0.5), "twice the time": Clock(2.0, 2.0)}
"""The further speeds at which accesses are replayed if a setting makes reads depend on the run's speed."""
_AS_TRACED_COUNTERS = ("transactions_committed", "transactions_rolled_back", "rows_returned", "page_gets")
"""Counters whose values a prediction copies from the traced run, because they do not depend on the pool."""
_SLOWEST = 10.0
"""The largest factor by which the rough time of a point (`_rough_clock`) may differ from the traced run's time."""


@dataclass(frozen=True)
class Predicted:
    """The results of one predicted run."""

    prediction: Prediction
    warm_up: WarmUp | None
    actual: Mapping[str, Value]
    """The name of each setting of the point -> the value that the engine had in the traced run."""
    counted: Sequence[tuple[str, str, float | None]]
    """(metric, subject, change in the window) of each sampled metric. A change that may differ at the point is None."""


@dataclass(frozen=True)
class Target:
    """The points to predict, the traced run whose accesses are replayed, and the model."""

    source: Source
    manager: BufferManager
    plan: Plan
    verdicts: tuple[Verdict, ...]
    """The doubts about the traced run. They apply to every predicted point."""
    seen: Traced
    """The facts about the traced run that the model may use."""
    own: Replayed
    """The model's counts when it replays the trace with the traced run's own pool and settings."""
    writing: Writing = None
    """How the traced run's server wrote dirty pages, or why that is unknown; None if the model has no writes."""

    @property
    def identity(self) -> dict[str, Any]:
        """Return everything that determines the predictions, except experiment and plan."""
        return {
            "run_id": self.traced.run_id,
            "page_trace_sha256": self.traced.page_trace_sha256,
            "model": self.manager.name,
            "model_version": self.manager.version,
        }

    @property
    def server(self) -> Server:
        """Return the engine and version of the traced run, which are those of the predicted runs."""
        return self.source.server

    @property
    def host(self) -> dict[str, Any]:
        """Return the description of the traced run's host, without its noise floor."""
        return {key: told for key, told in self.source.folder.host.items() if key != "noise"}

    def described(self, _planned: PlannedRun, _point: GridPoint) -> dict[str, Any]:
        """Return the fields of run.json about engine, data and transactions, taken from the traced run."""
        run = self.source.run
        told = ("engine", "engine_version", "workload", "load", "seed", "host", "data_key", "database")
        return {"inputs": "trace", "interval_kind": "none", **{name: getattr(run, name) for name in told}}

    def predicted(self, _planned: PlannedRun, point: GridPoint, watch: Watch) -> Predicted:
        """Replay the trace with a point's pool and settings. Raises DataFileError, and the errors of `watch`."""
        prediction = predict(self, point, lambda: watch("replaying the trace", 0.0))
        edges, source = self.source.edges, self.source
        counted = [
            (metric, subject, edges.change(metric, subject).value if metric in _AS_TRACED_COUNTERS else None)
            for metric, subjects in edges.end.items()
            for subject in subjects
        ]
        actual = {name: source.setting(name).actual for name in point.settings}
        return Predicted(prediction, source.run.warm_up, actual, counted)

    @property
    def prediction_bytes(self) -> int:
        """Return the most memory, in bytes, that the prediction of one point takes, without the trace."""
        source, page = self.source, self.source.trace.columns["page"]
        points = [(_pool_bytes(source, point), point.label) for point in self.plan.points]
        frames = max(max(_frames(source, self.manager, *point)) for point in points)
        return replay_bytes(frames + int(page.max()) + 1, len(page))

    def replayed(
        self, pool: Pool, check: Callable[[], None], clock: Clock = AS_TRACED, limit: Limit | None = None
    ) -> Replayed:
        """Return the model's counts with a pool and its settings. Raises DataFileError, and any error of `check`.

        `limit` decides how long pages stay dirty; the default is the first of the pool's own limits.
        """
        limit = limit or next(iter(self.limits(pool)), None)
        settings = {**self.manager.settings(self.seen, pool), **(limit.settings if limit else {})}
        return replay(self.source, self.manager.name, settings, pool.frames, check, clock)

    def limits(self, pool: Pool) -> Sequence[Limit]:
        """Return the limits of how long pages stay dirty in a pool; () if the model has no writes for this run."""
        return limits(self.writing_of(pool), pool.frames, self.seen.pool.frames, self.own)

    def writing_of(self, pool: Pool) -> Writing:
        """Return how the server writes dirty pages with the settings of a pool, or why that is unknown."""
        writing = self.writing
        return writing.under(pool.writing) if pool.writing and isinstance(writing, Flushing | DirtyBuffers) else writing

    @cached_property
    def traced(self) -> TracedRun:
        """Return the facts about the traced run that a predicted run stores."""
        source, written = self.source, self.source.edges.change("pages_written").value
        knows_writes = isinstance(self.writing, Flushing | DirtyBuffers)
        return TracedRun(
            run_id=source.run.run_id,
            point=source.run.point.label,
            engine_version=source.server.version,
            page_trace_sha256=source.run.files[PAGE_TRACE_FILE].sha256,
            pool_bytes=source.pool_bytes,
            pool_frames=source.frames,
            page_size_bytes=source.page_size_bytes,
            pages_touched=source.trace.pages,
            work=dict(source.trace.work),
            measured_reads=source.trace.counted("read")[0],
            modelled_reads=self.own.reads,
            measured_writes=None if written is None else int(written),
            modelled_writes=self.own.writes if knows_writes else None,
        )


def target(source: Source, overrides: Overrides, stored: Experiment | None = None) -> Target:
    """Return the points of the traced run's experiment, as changed by the command line, each to be predicted once.

    With `stored`, the experiment of a resumed sweep, return the points of that experiment.

    Raises SpecError for a server without a model, for a setting that the model lacks, and for an impossible pool.
    Raises DataFileError for a run that cannot be replayed.
    """
    manager = manager_of(source.server, str(source.folder.path))
    plan = _plan(source, manager, overrides, stored)
    seen = source.seen(_values(source, manager, None))
    none = {name: column[:0] for name, column in source.trace.columns.items()}
    for point in plan.points:
        pool = _pool(source, manager, point)
        # Replay nothing, so that the core refuses at once settings that this run cannot have had.
        _play(source, manager.name, manager.settings(seen, pool), pool.frames, none, (0, 0, 0), {})
    writing = manager.writing(seen) if manager.writing else None
    settings = dict(manager.settings(seen, seen.pool))
    for limit in limits(writing, seen.pool.frames, seen.pool.frames, None):
        settings |= limit.settings
    own = replay(source, manager.name, settings, seen.pool.frames, lambda: None)
    return Target(source, manager, plan, tuple(_of_source(source, manager)), seen, own, writing)


def predict(target: Target, point: GridPoint, check: Callable[[], None]) -> Prediction:
    """Return the counts at a point of the model, and for comparison those of LRU and of OPT, the lower bound.

    Calls `check` before each replay, and ten times a second during it. Raises DataFileError for a trace that cannot be
    replayed, and the errors of `check`.
    """
    source, manager = target.source, target.manager
    pool_bytes = _pool_bytes(source, point)
    frames, nominal = _frames(source, manager, pool_bytes, point.label)
    pool = _pool(source, manager, point)
    played = _played(target, pool_bytes, pool, check)

    def yardstick(name: str, frames: int) -> Replayed:
        return replay(source, name, {}, frames, check)

    return Prediction(
        model=manager.name,
        model_version=manager.version,
        traced=target.traced,
        values=dict(pool.values),
        pool_bytes=pool_bytes,
        pool_frames=frames,
        nominal_frames=nominal,
        found=played.found,
        replays=played.replays,
        lru=yardstick(YARDSTICK, nominal),
        opt=yardstick(FLOOR, frames),
        writes=played.writes,
        turnovers=played.as_traced.brought_in_since_start / frames,
        turnovers_before=_before(played.as_traced) / frames,
        is_traced_point=played.is_traced_point,
        verdicts=played.verdicts,
    )


def predict_pool(target: Target, pool_bytes: int, check: Callable[[], None]) -> OtherPool:
    """Return the model's reads with another pool and the traced run's other settings, without LRU and OPT.

    Raises the errors of `predict`, and SpecError for an impossible pool.
    """
    frames, _ = _frames(target.source, target.manager, pool_bytes, format_bytes(pool_bytes))
    played = _played(target, pool_bytes, Pool(frames, target.seen.pool.values), check)
    return OtherPool(
        pool_bytes=pool_bytes,
        pool_frames=frames,
        reads=played.found.reads if played.found else None,
        writes=played.writes,
        is_traced_point=played.is_traced_point,
        verdicts=played.verdicts,
    )


def replay(
    source: Source,
    manager: str,
    settings: Settings,
    frames: int,
    check: Callable[[], None],
    clock: Clock = AS_TRACED,
) -> Replayed:
    """Return the counts of the model `manager` in the traced run's window. `clock` stretches that run's times.


    Calls `check` at the beginning, and then ten times a second. Raises DataFileError for a run that cannot be replayed,
    and the errors of `check`.
    """
    check()
    trace = source.trace
    rows = (trace.load_row, *trace.window)
    watched = {"before": clock.before, "within": clock.within, "watch": lambda _share: check()}
    return _play(source, manager, settings, frames, trace.columns, rows, watched)


def _play(
    source: Source,
    manager: str,
    settings: Settings,
    frames: int,
    columns: Columns,
    rows: tuple[int, int, int],
    further: Mapping[str, Any],
) -> Replayed:
    """Replay a part of the trace. `rows` are the rows at which the load begins, the window begins, and the window ends.


    Raises DataFileError if the core refuses the settings or the columns.
    """
    try:
        load, first, end = rows
        told = native().replay(manager, json.dumps(dict(settings)), frames, load, first, end, **columns, **further)
    except ValueError as error:
        where = str(source.folder.path)
        raise DataFileError(f"the run cannot be replayed: {error}", where, RECORD_AGAIN) from error
    return Replayed.model_validate_json(told)


@dataclass(frozen=True)
class _Played:
    """The model's results for one pool, with its verdicts."""

    as_traced: Replayed
    """The model's counts at the trace's own speed."""
    found: Replayed | None
    """The model's counts; None if they depend on the speed of the run."""
    replays: dict[str, Replayed]
    is_traced_point: bool
    writes: PredictedWrites | None
    verdicts: list[Verdict]


def _played(target: Target, pool_bytes: int, pool: Pool, check: Callable[[], None]) -> _Played:
    source = target.source
    same_reads = pool_bytes == source.pool_bytes and pool.values == target.seen.pool.values
    is_traced_point = same_reads and not pool.writing
    found = target.own if is_traced_point else target.replayed(pool, check)
    why = None if is_traced_point else target.manager.by_speed(pool)
    replays = _at_speeds(target, pool, found, check) if why else {}
    speed = depends_on_speed(why, replays, source.trace.work["transaction"]) if why else None
    verdicts = [*_own_point(target), *target.verdicts, *_of_point(target, pool, found, speed)]
    counted = None if speed else found
    writes = written(
        target.writing_of(pool),
        target.traced,
        target.limits(pool),
        pool.frames,
        counted,
        lambda limit: target.replayed(pool, check, limit=limit),
    )
    return _Played(found, counted, replays, is_traced_point, writes, verdicts)


def of_server(server: Server) -> BufferManager | None:
    """Return the model of a server; None if it has none."""
    return next((manager for manager in MANAGERS if server.is_in(manager.servers)), None)


def manager_of(server: Server, where: str) -> BufferManager:
    """Return the model of a server. Raises SpecError with the models' names if none fits."""
    found = of_server(server)
    if found is None:
        known = ", ".join(f"{manager.name} ({manager.servers})" for manager in MANAGERS)
        what = f"there is no model of {server.engine} {server.version}"
        raise SpecError(what, where, f"the models: {known}")
    return found


def _plan(source: Source, manager: BufferManager, overrides: Overrides, stored: Experiment | None) -> Plan:
    """Return the requested points, one run each. Percentages mean the same bytes as in the traced run's sweep.

    Raises DataFileError for an experiment.toml of the sweep that cannot be used. Raises SpecError for a setting that
    the model lacks, and for an impossible point.
    """
    toml, where = source.folder.experiment_toml, str(source.folder.path / "experiment.toml")
    try:
        base = loads(toml, where)
    except SpecError as error:
        what = f"experiment.toml of the sweep cannot be used: {error.what}"
        raise DataFileError(what, error.where, "it must be as `bufferlab run` wrote it") from error
    overrides = replace(overrides, set_knobs=(*overrides.set_knobs, *_as_traced(source, manager, overrides, base)))
    experiment = stored or loads(toml, where, replace(overrides, repetitions=1))
    _require_known(source, manager, overrides, base, experiment)
    database = source.run.database
    loaded = database.bytes_loaded if database else 0
    index = source.run.point.index
    planned: dict[str, Any] = next((point for point in source.folder.plan["points"] if point["index"] == index), {})
    whole = planned.get("database_bytes")
    shape = database.shape.model_dump() if database and database.shape else None
    return make(experiment, lambda _: DataFacts(whole if isinstance(whole, int) else loaded, shape))


def _as_traced(
    source: Source, manager: BufferManager, overrides: Overrides, base: Experiment
) -> Iterator[tuple[str, str]]:
    """Yield (name, traced value) of each swept setting that the model lacks and no flag names: it keeps that value."""
    flags = {name for name, _ in (*overrides.set_knobs, *overrides.sweep)}
    for name in base.sweep:
        if name not in _known(source, manager) and name not in flags and name in source.run.point.swept:
            yield name, source.run.point.swept[name]


def _known(source: Source, manager: BufferManager) -> Sequence[str]:
    """Return the settings that the model knows."""
    return (engines.declaration(source.run.engine).results.pool, *manager.defaults, *manager.only_writes)


def _require_known(
    source: Source, manager: BufferManager, overrides: Overrides, base: Experiment, experiment: Experiment
) -> None:
    """Raise SpecError if the model lacks settings that differ from the traced run's. The error names each of them."""

    def ran(name: str) -> str:
        return source.run.point.swept.get(name) or source.setting(name).asked or str(base.asked.get(name, ""))

    where = str(source.folder.path / "experiment.toml")
    require_known(_known(source, manager), overrides, experiment, ran, f"the model {manager.name}", where)


def require_known(
    known: Sequence[str],
    overrides: Overrides,
    experiment: Experiment,
    ran: Callable[[str], str],
    who: str,
    where: str,
) -> None:
    """Raise SpecError if settings that were set or swept are not among the `known` ones. The error names each of them.

    `ran` returns the value that a setting has without the flags; asking for that value is allowed. `who` is the model's
    description in the message. `where` is the place that the message shows for settings that no flag names.
    """
    flags = {name: f"--set {name}={value}" for name, value in overrides.set_knobs}
    flags |= {name: f"--sweep {name}={','.join(values)}" for name, values in overrides.sweep}
    now = experiment.asked
    wanted = {name: (now[name],) for name, _ in overrides.set_knobs if name in now} | dict(experiment.sweep)
    problems = []
    for name, values in wanted.items():
        if name not in known and set(map(str, values)) != {ran(name)}:
            hint = f"it knows {', '.join(known)}"
            hint += (
                f"; for the traced run's value add --set {name}={ran(name)}" if ran(name) and name not in flags else ""
            )
            problems.append(Problem(f"{who} does not know {name}", flags.get(name, f"{where} (sweep.{name})"), hint))
    if problems:
        raise SpecError.of(problems)


def _pool_bytes(source: Source, point: GridPoint) -> int:
    return point.engine[engines.declaration(source.run.engine).results.pool].number


def _frames(source: Source, manager: BufferManager, pool_bytes: int, label: str) -> tuple[int, int]:
    """Return the number of frames that the traced run's engine would count in a pool, and the pool's bytes / page size.

    Raises SpecError for a pool without frames, and for a pool that is too large.
    """
    nominal, by_server = pool_bytes // source.page_size_bytes, partial(manager.frames, source.server)
    page_bytes = source.page_size_bytes
    own = by_server(page_bytes, source.pool_bytes)
    frames = round(by_server(page_bytes, pool_bytes) * source.frames / own) if own else 0
    if not 0 < min(frames, nominal) <= max(frames, nominal) <= LARGEST_POOL:
        raise SpecError(
            f"a pool of {format_bytes(pool_bytes)} has {format_count(frames)} frames and cannot be replayed",
            f"point {label}",
            f"ask for 1 to {format_count(LARGEST_POOL)} pages of {format_bytes(source.page_size_bytes)}",
        )
    return frames, nominal


def _pool(source: Source, manager: BufferManager, point: GridPoint) -> Pool:
    """Return a point's pool and settings. Raises SpecError for a pool that cannot be replayed."""
    frames, _ = _frames(source, manager, _pool_bytes(source, point), point.label)
    return Pool(frames, _values(source, manager, point), dict(_writing(source, manager, point)))


def _writing(source: Source, manager: BufferManager, point: GridPoint) -> Iterable[tuple[str, Native]]:
    """Yield the settings that affect only writes and whose values at a point differ from the traced run's."""
    for name in manager.only_writes:
        planned, ran = point.settings.get(name), source.setting(name).value
        if planned and planned.value is not None and planned.value != ran:
            yield name, planned.value


def _values(source: Source, manager: BufferManager, point: GridPoint | None) -> dict[str, int]:
    """Return the values of the model's settings at a point, or, without a point, in the traced run."""
    return {name: _value(source, point, name, default) for name, default in manager.defaults.items()}


def _value(source: Source, point: GridPoint | None, name: str, default: int) -> int:
    """Return a setting's value at a point, or, without a point, in the traced run; `default` if left to the server."""
    planned, ran = point.settings.get(name) if point else None, source.setting(name)
    if planned and planned.value is not None:
        return planned.number
    same = planned is None or planned.asked == ran.asked
    return int(ran.value) if same and isinstance(ran.value, int | float) else default


def _at_speeds(target: Target, pool: Pool, found: Replayed, check: Callable[[], None]) -> dict[str, Replayed]:
    """Return the replays of a pool by name of their speed: in the trace's time, in half and in twice that time.

    If `_rough_clock` can estimate the point's time, one more replay runs at this speed.
    """
    clocks = dict(CLOCKS)
    if rough := _rough_clock(target, found):
        clocks["the point's rough time"] = rough
    at_speeds = {name: target.replayed(pool, check, clock) for name, clock in clocks.items()}
    return {"the trace's time": found, **at_speeds}


def _before(found: Replayed) -> int:
    """Return the number of pages that entered the pool before the window."""
    return found.brought_in_since_start - found.brought_in


def _rough_clock(target: Target, found: Replayed) -> Clock | None:
    """Return factors for a run's time at a point: its additional reads lengthen it, missing reads shorten it.

    They are rough and serve only to test whether the speed matters. The result is None if the run did not measure the
    time of a read, or if transactions arrive at a set rate.
    """
    source, own = target.source, target.own
    if source.read_us is None or source.run.load.mode == "open":
        return None
    read_s = source.read_us / 1e6 / target.seen.connections

    def times(seconds: float, more: int) -> float:
        longer = (seconds + more * read_s) / seconds if seconds else 1.0
        return min(max(longer, 1 / _SLOWEST), _SLOWEST)

    before, within = _before(found) - _before(own), found.reads - own.reads
    first_ns, end_ns = source.trace.window_ns
    return Clock(times(first_ns / 1e9, before), times((end_ns - first_ns) / 1e9, within))


def depends_on_speed(why: str, replays: Mapping[str, Replayed], transactions: int) -> Verdict | None:
    """Return a doubt about the reads if replays at several speeds disagree; None if they agree."""
    reads = [one.reads for one in replays.values()]
    if not _differ(max(reads), min(reads), SPEED_LIMIT):
        return None
    told = " to ".join(f"{count / transactions:.3g}" for count in (min(reads), max(reads)))
    sentence = (
        f"{why}, so that reads depend on the speed of the run: {told} a transaction in replays at the speeds that the "
        "run may have, and no prediction; these are no bounds"
    )
    return Verdict(name="depends_on_speed", sentence=sentence)


def _differ(reads: int, reference: int, limit: float) -> bool:
    return abs(reads - reference) > max(limit * reference, FEW_READS)


def _own_point(target: Target) -> Iterable[Verdict]:
    traced = target.traced
    if not _differ(traced.modelled_reads, traced.measured_reads, OWN_LIMIT):
        return
    error = traced.own_error
    modelled, counted = (reads / traced.work["transaction"] for reads in (traced.modelled_reads, traced.measured_reads))
    sentence = (
        f"at the traced run's own point the model reads {modelled:.4g} pages a transaction and the engine counted "
        f"{counted:.4g}{'' if error is None else f' ({100 * error:+.1f} %)'}: the model lacks a rule that matters here"
    )
    yield Verdict(name="own_point", sentence=sentence)


def _of_point(target: Target, pool: Pool, found: Replayed, speed: Verdict | None) -> Iterable[Verdict]:
    source = target.source
    in_window, before = found.brought_in / pool.frames, _before(found) / pool.frames
    if pool.frames >= source.trace.pages:
        pages = format_count(source.trace.pages)
        sentence = f"the pool holds all {pages} pages that the run touched"
        yield Verdict(name="holds_all", sentence=sentence)
    elif target.manager.filled - before > UNFILLED_LIMIT * in_window:
        sentence = (
            f"the trace's warm-up fills this pool {before:.2g} times, and {target.manager.filled:g} are needed; the "
            f"window fills it {in_window:.2g} times more: first reads of pages weigh too much, so that a longer trace "
            "would predict fewer reads"
        )
        yield Verdict(name="short_trace", sentence=sentence)
    if speed:
        yield speed
    if found.guessed_scan_gets:
        sentence = (
            f"the trace does not tell which gets belong to scans that have a ring in this pool: "
            f"{format_count(found.guessed_scan_gets)} gets were taken for such by their order"
        )
        yield Verdict(name="guessed_scans", sentence=sentence)
    yield from target.manager.doubts(target.seen, pool)


def _of_source(source: Source, manager: BufferManager) -> list[Verdict]:
    found = list(not_compared(manager, source.server))
    (reads, _), (gets, recorded) = source.trace.counted("read"), source.trace.counted("get")
    read_ahead = int(sum(source.edges.change(metric).value or 0.0 for metric in manager.read_ahead))
    if reads and read_ahead / reads > READ_AHEAD_LIMIT:
        share = format_percent(read_ahead / reads)
        sentence = f"{share} of the run's reads were read ahead; another pool may read ahead more or less"
        found.append(Verdict(name="read_ahead", sentence=sentence))
    if gets and (gets - recorded) / gets > _HIDDEN_LIMIT:
        share = format_percent((gets - recorded) / gets)
        sentence = f"the engine counted {share} more gets than the trace holds, and the model does not know their pages"
        found.append(Verdict(name="hidden_accesses", sentence=sentence))
    return [*found, *presumed_otherwise(manager.presumes, lambda name: source.setting(name).value)]


def not_compared(manager: BufferManager, server: Server) -> Iterable[Verdict]:
    """Yield a doubt if the model's predictions for this server were never compared with measured reads."""
    if not manager.is_compared:
        sentence = (
            f"the model {manager.name} was compared with no run of {SERVERS[server.engine]} {server.version}: its "
            "rules are those of the nearest versions that were"
        )
        yield Verdict(name="not_calibrated", sentence=sentence)


def presumed_otherwise(presumes: Mapping[str, Value], ran: Callable[[str], Value]) -> Iterable[Verdict]:
    """Yield a doubt for each setting for which the model assumes another value than the run had."""
    for name, presumed in presumes.items():
        value = ran(name)
        if value is not None and value != presumed:
            sentence = f"the model takes {name} to be {presumed}, and the run had {value}"
            yield Verdict(name="presumes", sentence=sentence)
