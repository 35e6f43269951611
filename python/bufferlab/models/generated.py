"""Predicts an experiment's reads without any run: the Rust core generates the page accesses of its transactions.

Each run of the plan is generated with the seed that a measured run would have. The warm-up ends by the same rule as in
measured runs. Percentages in the plan refer to the size of the generated database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.native import failure_of_core, native
from bufferlab.errors import SpecError
from bufferlab.knob import CONNECTIONS, Setting, Value
from bufferlab.models import access_rules
from bufferlab.models.access_rules import AccessRules
from bufferlab.models.ahead import Watch
from bufferlab.models.generated_counts import (
    part_simulated,
    replayed,
    simulated,
    touches,
    uncalibrated,
    unfilled,
    warm_up,
)
from bufferlab.models.managers.declaration import BufferManager, Pool, Server, Traced
from bufferlab.models.managers.untraced import CLOCK_PER_S, UntracedWriting
from bufferlab.models.predict import (
    CLOCKS,
    YARDSTICK,
    Predicted,
    depends_on_speed,
    manager_of,
    presumed_otherwise,
    require_known,
)
from bufferlab.models.untraced_writes import (
    job_of,
    notes_of,
    pools_of,
    refusal_of_writes,
    require_written,
    writing_of,
    written,
)
from bufferlab.plan import (
    DataFacts,
    DataKnobs,
    GridPoint,
    Plan,
    PlannedRun,
    estimated_facts,
    least_transactions,
    make,
    run_seed,
    stored_workload,
)
from bufferlab.results.metrics import RAW
from bufferlab.results.page_traces import (
    GeneratedReads,
    GeneratedRun,
    Prediction,
    Replayed,
    Verdict,
)
from bufferlab.results.schema import Database
from bufferlab.results.window import Window
from bufferlab.spec import Experiment, Overrides
from bufferlab.workloads import registry as workloads

_PER_S = {"tpcc": CLOCK_PER_S, "hot_rows": 10_000}
"""Workload -> the number of transactions that one second of the generator's simulated clock has
(crates/bufferlab-generate/src/job.rs, `transaction_us`)."""
_AS_LOADED = {"hot_rows": {"seed": 0, "hot_rows": 1, "layout": "clustered"}}
"""Values of settings that the core requires even when it only describes the loaded table."""
_HOT_TABLE = "sbtest1"
"""The name of the only table of the workload hot_rows."""
_PREFILLED = ("hot_rows",)
"""The workloads whose prefill reads exactly the pages that the transactions access later."""
LEAST_RUNS = 3
"""The number of generated runs of each point, each with another seed, so that means have intervals."""
_FILLINGS = 4
"""The cap of a generated warm-up, in transactions per frame, for experiments whose runs fail if they reach the cap.

If misses are rare, the gate that ends the warm-up watches one transaction per frame of the pool (gate.rs, `last_span`).
"""

_OWN_TIME = "the generator's time"
_SCALE = "warehouses"

_MOST_TRANSACTIONS = 99_000_000
"""The most transactions to ask of a generated run. The core may add some (`MAX_TRANSACTIONS` of bufferlab-generate)."""


@dataclass(frozen=True)
class _Played:
    """One generated run, with its verdicts."""

    told: Mapping[str, Any]
    """The core's answer for the model's pool at the speed of the generator's clock."""
    beside: Sequence[Mapping[str, Any]]
    """The core's answers for further pools (LRU, and both ends of the writes' range), in which it replayed the same
    accesses."""
    run: GeneratedRun
    found: Replayed
    replays: dict[str, Replayed]
    speed: Verdict | None
    """The reason why a prediction is impossible, if the reads depend too much on the run's speed; else None."""
    verdicts: list[Verdict]


@dataclass(frozen=True)
class Generated:
    """The points of an experiment to predict from generated accesses, with the rules of access and the model."""

    plan: Plan
    server: Server
    rules: AccessRules
    manager: BufferManager
    databases: Mapping[DataKnobs, Mapping[str, Any]]
    """Settings that decide the data -> the loaded database, as the core describes it."""

    @property
    def identity(self) -> dict[str, Any]:
        """Return everything that determines the predictions, except experiment and plan."""
        return {
            "server": f"{self.server.engine} {self.server.version}",
            "rules": self.rules.name,
            "rules_version": self.rules.version,
            "model": self.manager.name,
            "model_version": self.manager.version,
        }

    @property
    def host(self) -> dict[str, Any]:
        """Return an empty description of the host: the predictions do not depend on it."""
        return {}

    def described(self, planned: PlannedRun, point: GridPoint) -> dict[str, Any]:
        """Return the fields of run.json about engine, data and transactions."""
        loaded = self.databases[point.data]["database_bytes"]
        return {
            "inputs": "generated",
            "interval_kind": "between-run",
            "engine": self.server.engine,
            "engine_version": self.server.version,
            "workload": stored_workload(self.plan.experiment, point),
            "load": point.arrivals,
            "seed": planned.seed,
            "database": None if loaded is None else Database(bytes_loaded=loaded),
        }

    @property
    def prediction_bytes(self) -> int:
        """Return the most memory, in bytes, that a generated run takes. A run that the core refuses counts as 0."""

        def run_bytes(run: PlannedRun) -> int:
            point = self.plan.points[run.point]
            pool = self._pool(point)
            beside = self._beside(point, pool, self._writing(point, pool))
            try:
                return int(_of_core(native().generated_bytes, self._job(run, point, pool, beside)))
            except SpecError:
                return 0

        return max(run_bytes(run) for run in {run.point: run for run in self.plan.runs}.values())

    def predicted(self, planned: PlannedRun, point: GridPoint, watch: Watch) -> Predicted:
        """Generate one run of a point; return the counts of the model and of LRU in its window.

        Raises SpecError if the core refuses, and any error of `watch`.
        """
        pool = self._pool(point)
        writing = self._writing(point, pool)
        played = self._played(planned, point, pool, watch, self._beside(point, pool, writing), job_of(writing))
        found = played.found
        prediction = Prediction(
            model=self.manager.name,
            model_version=self.manager.version,
            generated=played.run.model_copy(update={"notes": [*played.run.notes, *notes_of(writing)]}),
            values=dict(pool.values),
            pool_bytes=_pool_bytes(self.server.engine, point),
            pool_frames=pool.frames,
            nominal_frames=pool.frames,
            found=None if played.speed else found,
            replays=played.replays,
            lru=replayed(played.beside[0]),
            writes=written(
                writing,
                played.run,
                played.told,
                pool.frames,
                None if played.speed else found,
                [replayed(one) for one in played.beside[1:]],
            ),
            turnovers=found.brought_in_since_start / pool.frames,
            turnovers_before=(found.brought_in_since_start - found.brought_in) / pool.frames,
            is_traced_point=False,
            verdicts=played.verdicts,
        )
        return Predicted(prediction, warm_up(played.told), {}, self._samples(played.told))

    def reads(self, planned: PlannedRun, point: GridPoint, watch: Watch) -> tuple[GeneratedReads, list[Verdict]]:
        """Generate one run of a point; return only its reads, and the doubts about them.

        The reads are None if they depend on the run's speed. Raises the errors of `predicted`.
        """
        played = self._played(planned, point, self._pool(point), watch, [], {})
        reads = None if played.speed else played.found.reads
        return GeneratedReads(seed=planned.seed, reads=reads, work=played.run.work), played.verdicts

    def _played(
        self,
        planned: PlannedRun,
        point: GridPoint,
        pool: Pool,
        watch: Watch,
        beside: Sequence[Mapping[str, Any]],
        log: Mapping[str, Any],
    ) -> _Played:
        """Generate one run of a point; replay it in the model's pool at each speed, and in further pools.

        `log` has the job's further fields for counting writes to a log (`job_of`).
        """
        names = self._times(pool)
        job = {**self._job(planned, point, pool, beside), **log}
        told = _generated(job, _watching(watch, job["window_transactions"]))
        played, others = told["pools"][: len(names)], told["pools"][len(names) :]
        replays = {name: replayed(one) for name, one in zip(names, played, strict=True)}
        why = self.manager.by_speed(pool)
        speed = depends_on_speed(why, replays, played[0]["transactions"]) if why else None
        run = self._run(point, told)
        verdicts = [*self._verdicts(point, pool, run, played[0]), *([speed] if speed else [])]
        return _Played(played[0], others, run, replays[_OWN_TIME], replays if why else {}, speed, verdicts)

    def _job(
        self, planned: PlannedRun, point: GridPoint, pool: Pool, beside: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        experiment = self.plan.experiment
        return {
            **_job(self.rules, experiment, point.data),
            "workload": {**point.parameters, "seed": planned.seed},
            "connections": point.connections,
            "prefill": True,
            "pools": [*self._pools(point, pool, self._times(pool)), *beside],
            "warm_up": {"gate_within": _cap(experiment, pool.frames)},
            "at_least": least_transactions(experiment, point),
            "one_window": True,
            "window_transactions": window_transactions(experiment),
            # Pages are counted by table only in a predicted sweep: for a measured one only the reads are stored.
            "census": bool(beside) and planned.block == 0,
        }

    def _times(self, pool: Pool) -> list[str]:
        """Return the names of the speeds at which accesses are replayed in a pool."""
        return [_OWN_TIME, *(CLOCKS if self.manager.by_speed(pool) else ())]

    def _pool(self, point: GridPoint) -> Pool:
        values = {name: _value(point, name, default) for name, default in self.manager.defaults.items()}
        page_bytes, pool_bytes = _page_bytes(self.server.engine, point.data), _pool_bytes(self.server.engine, point)
        return Pool(self.manager.frames(self.server, page_bytes, pool_bytes), values)

    def _pools(self, point: GridPoint, pool: Pool, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the model's pool in the form of the core's job, once for each of the speeds `names`."""
        settings = self.manager.settings(self._seen(point, pool), pool)
        times = {_OWN_TIME: 1.0, **{name: clock.within for name, clock in CLOCKS.items()}}
        return [_asked(self.manager.name, settings, pool.frames, times[name]) for name in names]

    def _seen(self, point: GridPoint, pool: Pool) -> Traced:
        """Return the facts about a generated run that the model may use."""
        return Traced(
            server=self.server,
            pool=pool,
            edges=Window({}, {}, None),
            transactions=window_transactions(self.plan.experiment),
            connections=point.connections,
            # Generated accesses have no scan that uses a ring.
            objects=(),
            ran={name: value for name, value in point.knobs.items() if type(value) is int},
            numbers={name: float(value) for name, value in point.knobs.items() if isinstance(value, int | float)},
            words={name: value for name, value in point.knobs.items() if isinstance(value, str)},
            others=lambda: (),
        )

    def _writing(self, point: GridPoint, pool: Pool) -> UntracedWriting:
        """Return how the server writes pages at a point, or why that is unknown."""
        return writing_of(self.manager, self.rules, self._seen(point, pool), self.plan.experiment.workload.name)

    def _beside(self, point: GridPoint, pool: Pool, writing: UntracedWriting) -> list[dict[str, Any]]:
        """Return the pools of a prediction besides the model's: the yardstick, and the ends of the writes' range."""
        name, settings = self.manager.name, self.manager.settings(self._seen(point, pool), pool)
        at_ends = [
            {**_asked(name, {**settings, **own}, pool.frames, time), "if_exact": True}
            for own, time in pools_of(writing)
        ]
        return [_asked(YARDSTICK, {}, pool.frames), *at_ends]

    def _verdicts(
        self, point: GridPoint, pool: Pool, run: GeneratedRun, played: Mapping[str, Any]
    ) -> Iterable[Verdict]:
        """Yield the reasons to doubt the reads of a generated run."""
        experiment, warehouses = self.plan.experiment, int(dict(point.data.parameters).get(_SCALE, 1))
        yield from uncalibrated(self.server, self.rules, run)
        yield from part_simulated(run.simulated, warehouses)
        # If the core simulated parts of the database, it summed the windows of all parts. Scale the sum to one window.
        windows = played["transactions"] / window_transactions(experiment)
        needs = 0.0 if experiment.workload.name in _PREFILLED else self.manager.filled
        yield from unfilled(played, replayed(played), windows, pool.frames, run.pages, needs)
        yield from self.manager.untraced(pool)
        yield from presumed_otherwise({**self.manager.presumes, **self.rules.presumes}, lambda name: _set(point, name))

    def _run(self, point: GridPoint, told: Mapping[str, Any]) -> GeneratedRun:
        database, played = self.databases[point.data], told["pools"][0]
        counts = {"transaction": played["transactions"], "new_order": played["new_orders"]}
        return GeneratedRun(
            rules=self.rules.name,
            rules_version=self.rules.version,
            engine_version=self.server.version,
            page_size_bytes=_page_bytes(self.server.engine, point.data),
            database_bytes=database["database_bytes"],
            pages=sum(one["pages"] for one in database["objects"]),
            work={name: count for name, count in counts.items() if count},
            simulated=simulated(told),
            notes=notes(self.plan.experiment),
            touches=touches(told),
        )

    def _samples(self, played: Mapping[str, Any]) -> list[tuple[str, str, float | None]]:
        """Return (metric, subject, change) of each metric that a measured run samples; an unknown change is None."""
        types = workloads.declaration(self.plan.experiment.workload.name).transaction_types
        of_types = {"transactions_committed": played["committed"], "transactions_rolled_back": played["rolled_back"]}
        found: list[tuple[str, str, float | None]] = [
            (metric, name, count)
            for metric, counts in of_types.items()
            for name, count in zip(types, counts, strict=False)
        ]
        found.append(("page_gets", "", played["gets"]))
        known = {metric for metric, _, _ in found}
        raw = (*RAW, *engines.declaration(self.server.engine).results.raw)
        return found + [(metric.name, "", None) for metric in raw if metric.name not in known]


def generated(experiment: Experiment, server: Server, overrides: Overrides, base: Experiment) -> Generated:
    """Return the points of an experiment, to be predicted from generated accesses.

    `base` is the experiment without the settings of the command line. Raises SpecError if the server has no rules or no
    model, for a setting that neither of them has, and for an impossible point.
    """
    rules = rules_for(experiment, server.version)
    manager = manager_of(server, f"engine {server.engine}")

    def ran(name: str) -> str:
        return str(base.asked.get(name, ""))

    settable = Overrides(
        set_knobs=tuple(one for one in overrides.set_knobs if one[0] != "server"), sweep=overrides.sweep
    )
    _require_obeyed(manager, settable, experiment, ran, manager.untraced_settings)
    databases: dict[DataKnobs, Mapping[str, Any]] = {}
    estimate = estimated_facts(experiment)

    def facts(data: DataKnobs) -> DataFacts:
        if data not in databases:
            databases[data] = _loaded(rules, experiment, data)
        told = databases[data]["database_bytes"]
        # If the rules lack hot_rows' index on k, the database's size is unknown: use the analytic estimate.
        return estimate(data) if told is None else DataFacts(int(told), _shape(databases[data]))

    plan = make(experiment, facts)
    for point in plan.points:
        facts(point.data)
        if databases[point.data]["database_bytes"] is None:
            _require_bytes(point.engine[engines.declaration(experiment.engine).results.pool])
    target = Generated(plan, server, rules, manager, databases)
    first = plan.points[0]
    require_written(target._writing(first, target._pool(first)), manager, experiment, settable)
    return target


def _shape(database: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the table's tree in the form of `database.shape`, from which the knee of hot_rows is computed; else None.

    The tree has PostgreSQL's form: the pages of the primary key's index, then the heap. Inner index pages count as
    leaves, except the root.
    """
    pages = {one["name"]: one["pages"] for one in database["objects"]}
    key = pages.get(f"{_HOT_TABLE}.{_HOT_TABLE}_pkey")
    if key is None:
        return None
    levels = [1, key - 1, pages[_HOT_TABLE]] if key > 1 else [1, pages[_HOT_TABLE]]
    return {"trees": [{"name": _HOT_TABLE, "level_pages": levels}]}


def _require_bytes(pool: Setting) -> None:
    """Raise SpecError for a pool given as a share of a database whose size the rules do not know."""
    if pool.ratio is not None:
        name = pool.knob.name
        what = f"{name} = {pool} is a share of a database whose bytes the rules do not tell"
        raise SpecError(what, f"{name} = {pool}", f"name its bytes, such as --set {name}=4MiB")


def of_measured(plan: Plan, server: Server) -> tuple[Generated, list[str]]:
    """Return the points of a measured sweep that generated accesses can predict, with `LEAST_RUNS` runs of each.

    Also return the reasons, in sentences, why other points cannot be predicted. Pools have the sizes of the plan.
    Raises SpecError if the server has no rules or no model, and for a setting that neither of them has.
    """
    experiment = plan.experiment
    rules, manager = rules_for(experiment, server.version), manager_of(server, f"engine {server.engine}")
    _require_obeyed(manager, Overrides(), experiment, lambda _: "", ())
    databases: dict[DataKnobs, Mapping[str, Any]] = {}
    why_not: dict[DataKnobs, str] = {}
    for data in dict.fromkeys(point.data for point in plan.points):
        try:
            databases[data] = _loaded(rules, experiment, data)
        except SpecError as error:
            why_not[data] = error.what
    points = [point for point in plan.points if point.data in databases]
    runs = tuple(
        PlannedRun(place, block, block, block * len(points) + place, run_seed(experiment.design.seed, block))
        for block in range(LEAST_RUNS)
        for place in range(len(points))
    )
    return Generated(replace(plan, points=tuple(points), runs=runs), server, rules, manager, databases), [
        *why_not.values()
    ]


def _require_obeyed(
    manager: BufferManager,
    overrides: Overrides,
    experiment: Experiment,
    ran: Callable[[str], str],
    of_writes: Sequence[str],
) -> None:
    """Raise SpecError for settings that neither the rules nor the model have, except `of_writes`."""
    engine = engines.declaration(experiment.engine)
    parameters = [knob.name for knob in workloads.declaration(experiment.workload.name).parameters]
    known = [engine.results.pool, engine.page_knob, *manager.defaults, *parameters, CONNECTIONS.name, *of_writes]
    where = f"experiment {experiment.name}"
    if only := [name for name in experiment.sweep if name in manager.only_writes and name not in of_writes]:
        raise refusal_of_writes(only, "these are predicted from a run", experiment)
    require_known(known, overrides, experiment, ran, "what generates page accesses", where)


def window_transactions(experiment: Experiment) -> int:
    """Return the transactions of a window. If its length is a time, convert it by the generator's clock."""
    measure = experiment.measure
    return measure.transactions or round((measure.duration or 0) * _PER_S[experiment.workload.name])


def notes(experiment: Experiment) -> list[str]:
    """Return sentences on the differences between an experiment and its generated runs."""
    found = []
    if experiment.measure.transactions is None:
        found.append(
            f"The window of {experiment.measure.duration:g} s is one of {window_transactions(experiment):,} "
            f"transactions, {_PER_S[experiment.workload.name]:,} a second: no time passes here."
        )
    if experiment.phases:
        names = ", ".join(phase.name for phase in experiment.phases)
        found.append(f"Not predicted: what runs after the window ({names}).")
    return found


def rules_for(experiment: Experiment, version: str = "") -> AccessRules:
    """Return the rules by which page accesses of an experiment are generated. Raises SpecError if there are none.

    Without a server's version, return the engine's first rules.
    """
    rules = access_rules.of_server(experiment.engine, version)
    if rules is None:
        there = ", ".join(dict.fromkeys(name for one in access_rules.RULES for name in one.engines))
        what = f"no page accesses can be generated for engine {experiment.engine}"
        raise SpecError(what, f"engine {experiment.engine}", f"choose --engine {there}")
    for knob, value in engines.declaration(experiment.engine).shares_refer_to.items():
        asked = [*experiment.sweep.get(knob, ()), *filter(None, [experiment.knobs.get(knob)])]
        if others := sorted({each.asked for each in asked} - {value}):
            what = f"no page accesses can be generated for {knob} = {others[0]}"
            raise SpecError(what, f"{knob} = {others[0]}", f"leave it out, or ask for {knob}={value}")
    name = experiment.workload.name
    if name not in rules.workloads:
        what = f"no page accesses can be generated for workload {name}"
        hint = f"there are some for {', '.join(rules.workloads)}"
        hint += "; one run with --probe page-trace tells the rest: bufferlab predict RUN"
        raise SpecError(what, f"experiment {experiment.name}", hint)
    return rules


def _loaded(rules: AccessRules, experiment: Experiment, data: DataKnobs) -> Mapping[str, Any]:
    """Return the core's description of the loaded database: its bytes, and the pages of its tables and indexes."""
    return _loaded_by(json.dumps({**_job(rules, experiment, data), "pools": []}))


@lru_cache(maxsize=32)
def _loaded_by(job: str) -> Mapping[str, Any]:
    """Return the core's answer to a job. It is cached, because the job of one warehouse takes half a second."""
    return _generated(json.loads(job), None)


def _job(rules: AccessRules, experiment: Experiment, data: DataKnobs) -> dict[str, Any]:
    """Return a job's fields that describe the database. The job of a run overrides the last four fields."""
    words = {knob.name: knob.spelling for knob in workloads.declaration(experiment.workload.name).parameters}
    return {
        "engine": rules.name,
        "page_size_bytes": _page_bytes(experiment.engine, data),
        "workload": {
            **_AS_LOADED.get(experiment.workload.name, {}),
            **{words[name]: value for name, value in data.parameters},
        },
        "connections": 1,
        "warm_up": {"transactions": 0},
        "window_transactions": 1,
    }


def _generated(job: Mapping[str, Any], watch: Callable[[int, int | None], None] | None) -> dict[str, Any]:
    told: dict[str, Any] = _of_core(lambda text: native().generate(text, watch), job)
    return told


def _of_core(function: Callable[[str], str], job: Mapping[str, Any]) -> Any:
    """Call a function of the core with a job; return its answer. Raises SpecError if the core refuses the job."""
    try:
        return json.loads(function(json.dumps(job)))
    except Exception as error:
        failure = failure_of_core(error)
        if failure is None or failure.kind != "usage":
            raise
        raise SpecError(failure.what, failure.where, failure.hint) from error


def _watching(watch: Watch, window: int) -> Callable[[int, int | None], None]:
    def hear(_transactions: int, measured: int | None) -> None:
        if measured is None:
            watch("warming up", 0.0)
        else:
            watch("generating", measured / window)

    return hear


def _asked(model: str, settings: Mapping[str, Any], frames: int, time: float = 1.0) -> dict[str, Any]:
    return {"model": model, "settings": dict(settings), "frames": frames, "time": time}


def _cap(experiment: Experiment, frames: int) -> int:
    """Return the maximum number of transactions of a generated warm-up.

    The cap of measured runs limits their duration. A generated warm-up is fast, so that it may be longer.
    """
    warm_up, most = experiment.warm_up, max(0, _MOST_TRANSACTIONS - window_transactions(experiment))
    return min(max(warm_up.max_transactions, _FILLINGS * frames if warm_up.on_cap == "fail" else 0), most)


def _page_bytes(engine: str, data: DataKnobs) -> int:
    return int(dict(data.knobs)[engines.declaration(engine).page_knob])


def _pool_bytes(engine: str, point: GridPoint) -> int:
    return point.engine[engines.declaration(engine).results.pool].number


def _value(point: GridPoint, name: str, default: int) -> int:
    setting = point.settings.get(name)
    return setting.number if setting and setting.value is not None else default


def _set(point: GridPoint, name: str) -> Value:
    """Return the value of a point's setting; None if it is left to the engine, or the point has no such setting."""
    setting = {**point.engine, **point.workload}.get(name)
    return setting.value if setting else None
