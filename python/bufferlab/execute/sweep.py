"""Does a whole sweep: checks the host, locks the device, loads the data, does and publishes every run, cleans up.

`run_sweep` shows the steps in their order; each step has a separate file. This file draws nothing and computes no
result.
"""

from __future__ import annotations

import platform
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bufferlab import __version__
from bufferlab.engines import registry as engines
from bufferlab.engines.native import native
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.errors import BufferlabError, DataFileError, EnvironmentLackingError, Interrupted, Problem, SpecError
from bufferlab.execute import preflight, resume
from bufferlab.execute.data import leftovers
from bufferlab.execute.data.copy_method import probe_method
from bufferlab.execute.data.datasets import Dataset, Datasets, database_name
from bufferlab.execute.host import fingerprint, storage, stored_noise
from bufferlab.execute.host.device_lock import Patience, device_lock
from bufferlab.execute.host.reachable import require_reachable, servers_owner
from bufferlab.execute.host.restore_host import restore_host
from bufferlab.execute.preflight import Findings
from bufferlab.execute.probes import page_trace_probe
from bufferlab.execute.probes.page_trace_probe import NOTHING_SAID, TraceWish
from bufferlab.execute.progress import Pace, Progress, Silent, SweepStatus
from bufferlab.execute.rates import KnownRates
from bufferlab.execute.run.engine_backend import AskedProbe, EngineBackend, SweepContext, observe_other_stages
from bufferlab.execute.stop import StopRequest
from bufferlab.execute.sweep_log import LoggedProgress, sweep_log
from bufferlab.execute.sweep_runs import SweepOutcome, SweepRuns
from bufferlab.knob import Values
from bufferlab.models.generated_points import generated_points, has_generator, with_other_pools, with_points
from bufferlab.models.managers.declaration import Server
from bufferlab.models.other_pools import other_pools
from bufferlab.plan import (
    DataFacts,
    DataKnobs,
    Facts,
    GridPoint,
    Plan,
    SweepCost,
    estimate,
    estimated_facts,
    known_facts,
    make,
    needed_data,
)
from bufferlab.plan.estimate import declared_rates
from bufferlab.plan.run_order import lacking
from bufferlab.registry import registry
from bufferlab.results.page_traces import GeneratedPoints, OtherPools, PlannedTraces, PoolsOfTrace
from bufferlab.results.store import SweepFolder
from bufferlab.spec import Experiment, to_toml

_STAGE_S = 10.0
"""The assumed duration, in seconds, of the predictions before the first run, until a part of them has been timed."""


@dataclass(frozen=True)
class SweepOptions:
    """The options of one sweep on this host: its data folder, its probes, its blocks, and permissions."""

    data_dir: Path | None = None
    share_device: bool = False
    probes: tuple[AskedProbe, ...] = ()
    """The probes that the user requested, in addition to the page trace."""
    page_trace: TraceWish = NOTHING_SAID
    keeps_restored: bool = False
    """Whether a database that was restored from a dump stays in the cache when the sweep ends."""
    blocks: tuple[int, ...] | None = None
    """The numbers of the blocks that this host does, if other hosts do the rest; None for all blocks."""
    device_wait_s: float = 0.0
    """How many seconds to wait for a device that another sweep uses."""


@dataclass
class _Sweep:
    """The state of a running sweep."""

    experiment: Experiment
    options: SweepOptions
    out: Path
    progress: Progress
    stop: StopRequest
    rates: KnownRates
    datasets: Datasets
    estimated: Facts
    pace: Pace = field(default_factory=lambda: Pace(0.0, 0.0, 0))
    load_failures: dict[str, BufferlabError] = field(default_factory=dict)


def run_sweep(
    experiment: Experiment,
    out: Path,
    resume_from: Path | None = None,
    progress: Progress | None = None,
    options: SweepOptions | None = None,
) -> SweepOutcome:
    """Measure every point of the experiment; with `resume_from`, do only the runs that this folder lacks.

    A run that fails is published as failed, and the sweep goes on. Raises a BufferlabError if the sweep cannot begin.
    Raises Interrupted if a signal arrives before the sweep's folder exists.
    """
    with sweep_log(progress or Silent()) as logged:
        return _run_sweep(experiment, out, resume_from, logged, options or SweepOptions())


def _run_sweep(
    experiment: Experiment, out: Path, resume_from: Path | None, progress: LoggedProgress, options: SweepOptions
) -> SweepOutcome:
    folder = resume.open_for_resume(resume_from)[0] if resume_from else None
    options = replace(options, blocks=resume.blocks_to_do(folder, options.blocks))
    out = folder.path.resolve().parent if folder else out.absolute()
    owner = servers_owner(experiment.engine)
    data_dir = _data_directory(experiment, options, out, folder)
    cache = storage.cache_root(owner)
    for said in restore_host():
        progress.warn(Problem(said, None, "a run that was killed had left it so"))
    guess = make(experiment, estimated_facts(experiment), options.blocks)
    _require_host(guess, out, data_dir, cache)
    found = preflight.look(guess)
    preflight.require(found)
    _say_found(progress, found)
    traces = page_trace_probe.planned(options.page_trace, guess, folder.plan if folder else None)
    options = replace(options, probes=(*options.probes, *page_trace_probe.asked(traces, options.page_trace)))
    _require_probes(options.probes, guess, data_dir)
    if traces.why_not:
        progress.say(f"no page trace: {traces.why_not}")
    with StopRequest() as stop, ExitStack() as stack:
        if _uses_this_host(guess):
            place = _measured_place(experiment, data_dir, cache)
            patience = Patience(options.device_wait_s, progress.say, stop.check)
            stack.enter_context(device_lock(place, share=options.share_device, patience=patience))
        if folder:
            stack.enter_context(storage.folder_lock(folder.path))
            folder.clean_temporaries()
        with storage.locked(out):
            storage.clean_temporaries(out)
        stack.enter_context(leftovers.noted(cache, data_dir, out))
        scratch = stack.enter_context(storage.scratch(data_dir, owner))
        sweep = _begin(experiment, options, out, cache, progress, stop)
        stack.callback(sweep.datasets.release)
        plan = _plan(sweep, guess, data_dir, cache)
        context = _context(sweep, plan, traces, folder, scratch, data_dir)
        progress.keep_in(context.folder.path)
        if folder is None:
            stack.enter_context(storage.folder_lock(context.folder.path))
        try:
            return _run_all(sweep, plan, context, predicts=traces.recorder is not None or traces.why_not is not None)
        finally:
            sweep.rates.save()


def prepare_estimate(experiment: Experiment, options: SweepOptions | None = None) -> tuple[Plan, SweepCost, Findings]:
    """Return the plan and its cost, both for a database of estimated size, and the checks of servers by URL.

    Loads and runs nothing. Raises SpecError for an impossible point, and for a setting that a server's version lacks.
    Raises EnvironmentLackingError if a point needs more memory than the host has, or a server that is named by path
    cannot be used. Raises the errors of `preflight.require`, and those of a probe that cannot record a point.
    """
    loaded, options = 0, options or SweepOptions()
    plan = make(experiment, estimated_facts(experiment), options.blocks)
    traces = page_trace_probe.planned(options.page_trace, plan, None)
    asked = page_trace_probe.asked(traces, options.page_trace)
    _require_probes((*options.probes, *asked), plan, options.data_dir or Path())
    fingerprint.require_memory(engines.declaration(experiment.engine), plan.points)
    _require_named_programs(plan)
    cache: Path | None = None
    with suppress(EnvironmentLackingError):  # If the engine is missing, its databases cannot be in the cache either.
        cache = storage.cache_root(servers_owner(experiment.engine))
        loaded = _cached(experiment, plan, cache)
        _require_versions(plan)
    found = preflight.look(plan)
    preflight.require(found)
    rates = _known_rates(experiment, cache or storage.cache_root())
    cost = estimate(plan, rates.now, loaded=loaded, predicts=_predicts(plan, traces), is_observed=rates.is_observed)
    return plan, cost, found


def _predicts(plan: Plan, traces: PlannedTraces) -> bool:
    """Return whether the sweep predicts its points: without a run, or from the page traces of its runs."""
    return traces.recorder is not None or (traces.why_not is not None and has_generator(plan))


def what_decides(experiment: Experiment) -> tuple[dict[str, str], list[str]]:
    """Return the versions on this host on which results depend, and the keys of the databases that the host would load.

    Hosts that share a sweep must agree in all of them. Loads nothing. Raises EnvironmentLackingError if the engine is
    missing.
    """
    plan = make(experiment, estimated_facts(experiment))
    cache = storage.cache_root(servers_owner(experiment.engine))
    datasets = _datasets(experiment, cache, StopRequest(), Silent(), _known_rates(experiment, cache))
    return _versions(experiment, plan), sorted({datasets.key(data) for data in _databases(plan)})


def _data_directory(experiment: Experiment, options: SweepOptions, out: Path, folder: SweepFolder | None) -> Path:
    """Return the folder for copies of databases. For a resumed sweep it is on the device on which the sweep began."""
    usual = storage.data_directory(options.data_dir, out, servers_owner(experiment.engine))
    if folder is None or not engines.declaration(experiment.engine).needs_disk:
        return usual
    return resume.data_directory(folder, options.data_dir, usual)


def _uses_this_host(plan: Plan) -> bool:
    """Return whether a run uses a device of this host. If no run does, other sweeps on this host need not wait."""
    behaviour = engines.behaviour(plan.experiment.engine)
    return any(behaviour.uses_this_host(point.knobs) for point in plan.points)


def _say_found(progress: Progress, found: Findings) -> None:
    """Show a line for each failed check of a running server that does not prevent runs."""
    for url, checks in found.items():
        for check in checks:
            if not check.ok:
                progress.say(f"{url}: {check.detail}")


def _require_versions(plan: Plan) -> None:
    """Raise SpecError for a point that needs a setting or a value that its server's version lacks.

    Raises EnvironmentLackingError if a server that a point names is missing. Does nothing for other engines.
    """
    engine = engines.declaration(plan.experiment.engine)
    if not engine.is_server:
        return
    behaviour = engines.behaviour(engine.name)
    known: dict[object, str] = {}

    def version_of(knobs: Values) -> str:
        if knobs["server"] not in known:
            known[knobs["server"]] = behaviour.server_version(knobs)
        return known[knobs["server"]]

    problems = lacking(engine, plan.points, version_of)
    if problems:
        raise SpecError.of(problems)


def _require_named_programs(plan: Plan) -> None:
    """Check the servers that are named by path or URL. Raises EnvironmentLackingError if one cannot be used.

    A server with another name may still be fetched before the runs begin.
    """
    behaviour = engines.behaviour(plan.experiment.engine)
    servers = {str(point.knobs.get("server")): point.knobs for point in plan.points}
    for knobs in (knobs for server, knobs in servers.items() if server.startswith("/") or is_url(server)):
        behaviour.server_version(knobs)


def _measured_place(experiment: Experiment, data_dir: Path, cache: Path) -> Path:
    """Return the folder or file that the runs read: their copies of the data, or data that they read in place."""
    if not engines.declaration(experiment.engine).data_is_read_only:
        return data_dir
    path = str(experiment.knobs.get("path", ""))
    return Path(path) if path.startswith("/") else cache


def _require_host(plan: Plan, out: Path, data_dir: Path, cache: Path) -> None:
    """Refuse, before any work, a host that lacks something: memory, the engine, a directory, a disk, direct I/O.

    Raises EnvironmentLackingError, and SpecError for a setting that a server's version lacks.
    """
    experiment = plan.experiment
    declaration, behaviour = engines.declaration(experiment.engine), engines.behaviour(experiment.engine)
    fingerprint.require_memory(declaration, plan.points)
    if not declaration.is_server:  # For a server engine, `_require_versions` finds the server that each point names.
        behaviour.find()
    _require_versions(plan)
    storage.require_directory(out, "the results", "--out")
    storage.require_directory(data_dir, "the data", "--data-dir or $BUFFERLAB_DATA")
    storage.require_directory(cache, "loaded databases", "$BUFFERLAB_CACHE")
    place = cache if declaration.data_is_read_only else data_dir
    if declaration.needs_disk:
        flag = "$BUFFERLAB_CACHE" if declaration.data_is_read_only else "--data-dir or $BUFFERLAB_DATA"
        storage.require_disk(place, flag)
    owner = servers_owner(experiment.engine)
    require_reachable(data_dir, owner, "the data", "--data-dir or $BUFFERLAB_DATA")
    require_reachable(cache, owner, "loaded databases", "$BUFFERLAB_CACHE")
    refused = {
        Problem(check.detail, f"{experiment.engine}: {check.name}", check.hint)
        for point in plan.points
        for check in behaviour.check_directory(place, point.knobs)
        if not check.ok
    }
    if refused:
        first, *more = sorted(refused, key=lambda problem: problem.what)
        raise EnvironmentLackingError(first.what, first.where, first.hint, more=more)


def _require_probes(probes: Sequence[AskedProbe], plan: Plan, data_dir: Path) -> None:
    """Raise SpecError or EnvironmentLackingError, before hours of runs, for a probe that cannot record a point."""
    engine = plan.experiment.engine
    database = str(data_dir / database_name(engines.declaration(engine)))
    for knobs in {tuple(point.knobs.items()) for point in plan.points}:
        for probe in probes:
            probe.require(engine, {"database": database, "knobs": dict(knobs)})


def _known_rates(experiment: Experiment, cache: Path) -> KnownRates:
    """Return the stored rates for this engine, workload, script, dump and number of connections."""
    workload = experiment.workload
    parts = [experiment.engine, workload.name]
    parts += [text.sha256[:12] for text in (workload.script, workload.dump) if text is not None]
    if engines.declaration(experiment.engine).is_server:
        connections = experiment.sweep.get("connections") or (experiment.asked["connections"],)
        parts.append(",".join(map(str, connections)))
    return KnownRates(cache, "/".join(parts), declared_rates(experiment))


def _begin(
    experiment: Experiment, options: SweepOptions, out: Path, cache: Path, progress: Progress, stop: StopRequest
) -> _Sweep:
    rates = _known_rates(experiment, cache)
    datasets = _datasets(experiment, cache, stop, progress, rates, keeps_restored=options.keeps_restored)
    return _Sweep(experiment, options, out, progress, stop, rates, datasets, estimated_facts(experiment))


def _datasets(
    experiment: Experiment,
    cache: Path,
    stop: StopRequest,
    progress: Progress,
    rates: KnownRates,
    *,
    keeps_restored: bool = False,
) -> Datasets:
    return Datasets(
        cache,
        experiment.engine,
        experiment.workload,
        stop=stop,
        progress=progress,
        rates=rates,
        silent_seconds=experiment.limits.worker_silent,
        keeps_restored=keeps_restored,
    )


def _cached(experiment: Experiment, plan: Plan, cache: Path) -> int:
    """Return how many of the plan's databases need no load: cached ones, and the user's own data."""
    datasets = _datasets(experiment, cache, StopRequest(), Silent(), _known_rates(experiment, cache))
    return sum(datasets.has(data) for data in _databases(plan))


def _databases(plan: Plan) -> list[DataKnobs]:
    """Return the plan's distinct databases: those that percentages refer to, then those of the points."""
    return list(dict.fromkeys([*needed_data(plan.experiment), *(point.data for point in plan.points)]))


def _plan(sweep: _Sweep, guess: Plan, data_dir: Path, cache: Path) -> Plan:
    """Check free space, load the databases that percentages refer to, and make the plan from their sizes.

    `guess` is the plan made from estimated sizes. If no setting is a percentage, it is returned unchanged.
    """
    experiment = sweep.experiment
    loaded = _cached(experiment, guess, cache)
    cost = estimate(guess, sweep.rates.now, loaded=loaded)
    storage.require_space(data_dir, cost.data_bytes, "a run's copy of the database", "--data-dir")
    storage.require_space(sweep.out, cost.results_bytes, "the results", "--out")
    sweep.pace = Pace(cost.load_seconds, (cost.seconds - cost.load_seconds) / len(guess.runs), guess.least_runs)
    sweep.datasets.on_load = _load_reporter(sweep, cost, len(_databases(guess)) - loaded)
    known = {data: _facts(sweep, data, cost) for data in needed_data(experiment)}
    return make(experiment, known_facts(experiment, known), sweep.options.blocks) if known else guess


def _facts(sweep: _Sweep, data: DataKnobs, cost: SweepCost) -> DataFacts:
    """Return the size and trees of a database, which is loaded first if the cache lacks it."""
    left_s = cost.load_seconds + sweep.pace.run_seconds * sweep.pace.runs
    sweep.progress.show(SweepStatus("verifying the database", 0, sweep.pace.runs, "", 0.0, left_s))
    dataset = sweep.datasets.get(data, sweep.estimated(data).allocated_bytes)
    return DataFacts(dataset.allocated_bytes, dataset.shape)


def _load_reporter(sweep: _Sweep, cost: SweepCost, databases: int) -> Callable[[float], None]:
    """Return a function that gets the completed fraction of one load, and shows the progress of the whole sweep."""
    runs, seconds = sweep.pace.runs, cost.load_seconds / max(1, databases)

    def on_load(share: float) -> None:
        done_s = min(cost.load_seconds, seconds * (sweep.datasets.loads + share))
        number = f"database {sweep.datasets.loads + 1} of {databases}" if databases > 1 else "the database"
        left = cost.load_seconds - done_s + sweep.pace.run_seconds * runs
        done = done_s / max(done_s + left, 1e-9)
        sweep.progress.show(SweepStatus(f"loading {number}", 0, runs, "", done, left))

    return on_load


def _context(
    sweep: _Sweep, plan: Plan, traces: PlannedTraces, folder: SweepFolder | None, scratch: Path, data_dir: Path
) -> SweepContext:
    experiment = sweep.experiment
    versions = _versions(experiment, plan)
    host_facts = fingerprint.fingerprint(data_dir)
    if folder is None:
        document: dict[str, Any] = {**plan.as_dict(), "versions": versions, page_trace_probe.KEY: traces.model_dump()}
        with storage.locked(sweep.out):
            known = stored_noise.attach(host_facts, sweep.progress)
            folder = SweepFolder.create(sweep.out, registry(), to_toml(experiment), document, known)
    else:
        resume.require_same_plan(folder, plan.as_dict())
        resume.lengthen_warm_up(folder, experiment)
        for problem in resume.version_warnings(folder, versions):
            sweep.progress.warn(problem)
        if begun_elsewhere := resume.set_aside_other_boots(folder, plan, host_facts, fingerprint.booted_at()):
            sweep.progress.warn(begun_elsewhere)
    return SweepContext(
        experiment=experiment,
        engine=engines.declaration(experiment.engine),
        folder=folder,
        scratch=scratch,
        method=probe_method(storage.cache_root(servers_owner(experiment.engine)), scratch),
        versions=versions,
        host_id=host_facts["host_id"],
        stop=sweep.stop,
        rates=sweep.rates,
        owner=servers_owner(experiment.engine),
        probes=sweep.options.probes,
    )


def _versions(experiment: Experiment, plan: Plan) -> dict[str, str]:
    """Return the version of each component on which results depend: bufferlab, its core, Python and the engine.

    For an engine that is a server, each build that a point uses has an entry.
    """
    behaviour = engines.behaviour(experiment.engine)
    if not engines.declaration(experiment.engine).is_server:
        found = behaviour.find()
        core, engine = found.core_version, {experiment.engine: found.version}
    else:
        core = native().core_version()
        builds = {point.knobs["server"]: point.knobs for point in plan.points}
        engine = {f"{experiment.engine} {name}": behaviour.server_version(knobs) for name, knobs in builds.items()}
    return {"bufferlab": __version__, "core": core, "python": platform.python_version(), **engine}


def _run_all(sweep: _Sweep, plan: Plan, context: SweepContext, *, predicts: bool) -> SweepOutcome:
    """Do all runs, with a prediction before and after them if `predicts`.

    The first prediction needs no run; the second replays the page traces of the runs. Ctrl-C or a signal during a
    prediction ends the sweep as it does during a run.
    """
    folder, outcome = context.folder, SweepOutcome(context.folder)
    backend = EngineBackend(context, lambda point: _dataset(sweep, point))
    note = partial(observe_other_stages, sweep.rates)
    runs = SweepRuns(plan, folder, backend, sweep.progress, sweep.stop, sweep.pace, looks=True, on_end=note)
    runs.begin()
    try:
        started = time.monotonic()
        if predicts and has_generator(plan) and _kept(folder) is None:
            _keep(folder, [], _generated(sweep, plan, context))
        before_s = time.monotonic() - started
        outcome = runs.do()
        if outcome.signal_number is None:
            started = time.monotonic()
            stored_noise.keep(folder, sweep.progress)
            _predict_again(sweep, plan, context)
            if predicts:
                sweep.rates.observe("predictions_per_s", 1, before_s + time.monotonic() - started)
    except Interrupted as error:
        outcome.signal_number = error.signal_number
    except KeyboardInterrupt:  # polars raises it for Ctrl-C during a query, although the signal has a handler.
        outcome.signal_number = signal.SIGINT
    return outcome


def _predict_again(sweep: _Sweep, plan: Plan, context: SweepContext) -> None:
    """Replay the page traces of the runs. Also predict, without a run, the pool sizes that these replays add."""
    folder = context.folder
    generated = _kept(folder)
    other = with_other_pools(plan, folder) if generated else None
    if generated and other and other.points:
        generated = with_points(generated, _generated(sweep, other, context))
    _keep(folder, _other_pools(folder, sweep), generated)


def _kept(folder: SweepFolder) -> GeneratedPoints | None:
    """Return the folder's predictions that were made without any run; None if it has none that can be read."""
    with suppress(DataFileError):  # A damaged file is written again.
        found = folder.other_pools()
        return found.generated if found else None
    return None


def _keep(folder: SweepFolder, of: list[PoolsOfTrace], generated: GeneratedPoints | None) -> None:
    if of or generated:
        folder.write_other_pools(OtherPools(of=of, generated=generated))


def _generated(sweep: _Sweep, plan: Plan, context: SweepContext) -> GeneratedPoints | None:
    """Predict the reads of the points without any run; show why some are missing. Return None if all are missing."""
    engine = context.engine
    # A plan with several servers is not predicted at all: no model has a setting for the server.
    build = f"{engine.name} {plan.points[0].knobs['server']}" if engine.is_server else engine.name
    server = Server(engine.name, context.versions[build])
    watch = _shower(sweep, "predicting the points without any run")
    found, why_not = generated_points(plan, server, watch, sweep.pace.run_seconds * sweep.pace.runs)
    for why in why_not:
        sweep.progress.say(f"no prediction without a run: {why}")
    return found


def _other_pools(folder: SweepFolder, sweep: _Sweep) -> list[PoolsOfTrace]:
    """Predict the reads of other pools from the traced runs; show why some are missing."""
    if not any(record.run.page_trace for record in folder.runs()):
        return []
    found, why_not = other_pools(folder, _shower(sweep, "replaying page traces for other pools"))
    for why in why_not:
        sweep.progress.say(f"no other pools: {why}")
    return found


def _shower(sweep: _Sweep, stage: str) -> Callable[[float], None]:
    """Return a function that shows a stage without runs, and raises Interrupted after a signal.

    The function gets the completed fraction of the stage.
    """
    started = time.monotonic()

    def show(share: float) -> None:
        sweep.stop.check()
        now_s = time.monotonic() - started
        left_s = now_s * (1 - share) / share if share else _STAGE_S
        sweep.progress.show(SweepStatus(stage, 0, 0, "", share, left_s))

    return show


def _dataset(sweep: _Sweep, point: GridPoint) -> Dataset:
    """Return the point's database. If its load failed before, raise the same error without trying again."""
    key = sweep.datasets.key(point.data)
    if key in sweep.load_failures:
        raise sweep.load_failures[key]
    try:
        return sweep.datasets.get(point.data, sweep.estimated(point.data).allocated_bytes)
    except Interrupted:
        raise
    except BufferlabError as error:
        sweep.load_failures[key] = error
        raise
