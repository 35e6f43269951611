"""Does a whole predicted sweep: finds the traced run or the experiment, and fills a sweep folder by a model.

The page accesses were recorded in a traced run, or are generated. A model of a buffer manager has no clock, so it
predicts no rate.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bufferlab import __version__
from bufferlab.catalog import FILE_NAME
from bufferlab.engines import registry as engines
from bufferlab.engines.native import native
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.errors import EnvironmentLackingError, Failure, SpecError
from bufferlab.execute import resume
from bufferlab.execute.data import leftovers
from bufferlab.execute.host import storage
from bufferlab.execute.progress import Pace, Progress, Silent
from bufferlab.execute.stop import StopRequest
from bufferlab.execute.sweep_log import LoggedProgress, sweep_log
from bufferlab.execute.sweep_runs import FilledRun, OnStage, SweepOutcome, SweepRuns
from bufferlab.models import source
from bufferlab.models.ahead import Ahead, Watch, threads_for
from bufferlab.models.generated import LEAST_RUNS, Generated, generated, rules_for
from bufferlab.models.managers.declaration import Server
from bufferlab.models.predict import Predicted, Target, target
from bufferlab.plan import GridPoint, PlannedRun
from bufferlab.registry import declared, registry
from bufferlab.results.page_traces import Prediction
from bufferlab.results.schema import Measured, Run, StoredSetting
from bufferlab.results.store import PREDICTED_FROM, SweepFolder
from bufferlab.spec import Experiment, Overrides, load, to_toml

PROBE = "model"
_RUN_S = 1.0
"""The assumed duration of a run, in seconds, until one has been timed."""
_VERSION = re.compile(r"[a-z]+-([0-9].*)")
"""Matches the version in a build's name, such as mysql-5.7."""


Origin = Target | Generated
"""The points to predict, and the source of their page accesses: a traced run, or accesses that are generated."""


def predict_sweep(
    asked: Path | None,
    overrides: Overrides,
    out: Path,
    resume_from: Path | None = None,
    progress: Progress | None = None,
) -> SweepOutcome:
    """Predict every point of an experiment, changed by `overrides`, into a new sweep folder below `out`.

    `asked` is the folder of a traced run, whose accesses are replayed, or the name or path of an experiment, whose
    accesses are generated. With `resume_from`, do only the runs that this folder lacks; it must have been predicted
    from the same accesses by the same model. A folder of generated runs needs no `asked`. Raises a BufferlabError if
    the sweep cannot begin.
    """
    with sweep_log(progress or Silent()) as logged:
        return _predict_sweep(asked, overrides, out, resume_from, logged)


def _predict_sweep(
    asked: Path | None, overrides: Overrides, out: Path, resume_from: Path | None, progress: LoggedProgress
) -> SweepOutcome:
    folder, stored = resume.open_for_resume(resume_from, predicted=True) if resume_from else (None, None)
    origin = _origin(asked, overrides, folder, stored)
    if isinstance(origin, Target) and origin.source.trace.choice:
        progress.say(origin.source.trace.choice)
    versions = _versions(origin)
    document = {**origin.plan.as_dict(), PREDICTED_FROM: origin.identity, "versions": versions}
    out = folder.path.resolve().parent if folder else out.absolute()
    with StopRequest() as stop, ExitStack() as stack:
        cache = storage.cache_root()
        storage.require_directory(out, "the results", "--out")
        storage.require_directory(cache, "the note of where a sweep works", "$BUFFERLAB_CACHE")
        if folder:
            stack.enter_context(storage.folder_lock(folder.path))
            folder.clean_temporaries()
            resume.require_same_plan(folder, document)
            for problem in resume.version_warnings(folder, versions):
                progress.warn(problem)
        stack.enter_context(leftovers.noted(cache, out))
        with storage.locked(out):
            storage.clean_temporaries(out)
            if folder is None:
                experiment = to_toml(origin.plan.experiment)
                folder = SweepFolder.create(out, registry(), experiment, document, origin.host)
                stack.enter_context(storage.folder_lock(folder.path))
        progress.keep_in(folder.path)
        todo = resume.to_do(origin.plan, folder)
        threads, why_fewer = threads_for(len(todo), origin.prediction_bytes)
        if why_fewer:
            progress.say(why_fewer)

        def predicted(run: PlannedRun, watch: Watch) -> Predicted:
            return origin.predicted(run, origin.plan.points[run.point], watch)

        pace = Pace(0.0, _RUN_S / threads, len(origin.plan.runs))
        with Ahead(predicted, todo, threads) as ahead:
            backend = ModelBackend(origin, folder.path, versions, ahead, stop)
            return SweepRuns(origin.plan, folder, backend, progress, stop, pace).do()


def _origin(asked: Path | None, overrides: Overrides, folder: SweepFolder | None, stored: Experiment | None) -> Origin:
    """Return the traced run or the experiment that `asked` names.

    A folder with results takes precedence over an experiment.


    Raises SpecError if neither is given, or if the options do not fit `asked` or the resumed folder.
    """
    given = overrides != Overrides()
    if asked is None and (folder is None or stored is None):
        raise SpecError("no run and no experiment given", "argument RUN", "see `bufferlab predict --help`")
    if folder and given and (asked is None or _is_of_results(asked)):
        what, where = "a resumed sweep is predicted as it was begun", f"--resume {folder.path}"
        raise SpecError(what, where, "leave the other options out, or begin a new sweep")
    if asked is None and folder and stored:
        if "rules" not in folder.plan[PREDICTED_FROM]:
            hint = f"bufferlab predict RUN --resume {folder.path}"
            raise SpecError("the runs of this sweep were predicted from a trace", str(folder.path), hint)
        return generated(stored, _server(stored), overrides, stored)
    assert asked is not None
    if _is_of_results(asked):
        _require_for_trace(asked, overrides)
        return target(source.read(asked), overrides, stored)
    experiment = load(asked, overrides).with_fixed_blocks
    if experiment.design.most < LEAST_RUNS:
        experiment = load(asked, replace(overrides, repetitions=LEAST_RUNS))
    if folder and stored:
        resume.require_same_experiment(stored, experiment, folder.path, "predict")
    base = load(asked, replace(overrides, set_knobs=(), sweep=())).with_fixed_blocks
    return generated(experiment, _server(experiment), overrides, base)


def _require_for_trace(asked: Path, overrides: Overrides) -> None:
    """Raise SpecError for options that are allowed only with an experiment, not with a traced run (--engine, --seed, a
    profile)."""
    told = {
        "--engine": overrides.engine,
        "--warehouses": overrides.warehouses,
        "--transactions": overrides.transactions,
        "--seed": overrides.seed,
        f"--{overrides.profile}": overrides.profile,
    }
    if flags := [flag for flag, value in told.items() if value is not None]:
        what = f"{' and '.join(flags)} cannot be with a traced run, whose transactions are replayed"
        hint = "leave them out, or name an experiment in place of the run's folder"
        if flags == ["--transactions"]:
            hint = "leave it out: reads are per transaction of the recorded window; to predict another, record it first"
        raise SpecError(what, str(asked), hint)


def _is_of_results(asked: Path) -> bool:
    """Return whether a folder is a run's or a sweep's, which contains an experiment.toml too."""
    return asked.is_dir() and ((asked / "plan.json").exists() or not (asked / FILE_NAME).exists())


def _server(experiment: Experiment) -> Server:
    """Return the server of an experiment.

    A build's name may contain the version; otherwise the build is run to print it.


    Raises SpecError unless there is a single private server, EnvironmentLackingError if it is not installed here.
    """
    rules_for(experiment)
    engine, knob = engines.declaration(experiment.engine), experiment.knobs.get("server")
    if not engine.is_server:
        return Server(engine.name, engines.behaviour(engine.name).find().version)
    named = ", ".join(name for name in engines.fetchable_servers() if name.startswith(f"{engine.name}-"))
    if knob is None or is_url(knob.asked):
        what = "a server that runs already is not predicted" if knob else "each server is predicted for itself"
        raise SpecError(what, f"server {knob}" if knob else "--sweep server", f"--server {named}")
    if version := _VERSION.fullmatch(knob.asked):
        return Server(engine.name, version[1])
    try:
        return Server(engine.name, engines.behaviour(engine.name).server_version({"server": knob.asked}))
    except EnvironmentLackingError as error:
        hint = f"name a version, of which no server need be here: --server {named}"
        raise EnvironmentLackingError(error.what, error.where, hint) from error


def _versions(origin: Origin) -> dict[str, str]:
    """Return the version of each component that a prediction depends on."""
    manager, server = origin.manager, origin.server
    return {
        "bufferlab": __version__,
        "core": native().core_version(),
        "python": platform.python_version(),
        f"model {manager.name}": str(manager.version),
        server.engine: server.version,
    }


@dataclass(frozen=True)
class ModelBackend:
    """The backend that fills runs with an origin's predictions; it starts no engine."""

    origin: Origin
    folder: Path
    versions: dict[str, str]
    ahead: Ahead[PlannedRun, Predicted]
    """Predicts the runs on all cores; this backend waits for each run in its turn."""
    stop: StopRequest

    def begun(self, planned: PlannedRun, point: GridPoint, /, **common: Any) -> Run:
        """Return a predicted run of the origin's engine, data and transactions."""
        described = self.origin.described(planned, point)
        return Run(**common, source="predicted", clock="virtual", versions=self.versions, **described)

    @contextmanager
    def home(self, run_id: str) -> Iterator[Path]:
        """Context manager for the sweep's folder: a prediction needs no separate folder."""
        yield self.folder

    def do(
        self, planned: PlannedRun, point: GridPoint, home: Path, filled: FilledRun, on_stage: OnStage
    ) -> Failure | None:
        """Wait for the prediction of the point, and fill the run with it.

        Return None: a prediction is always usable.
        """

        def watch(stage: str, share: float) -> None:
            self.stop.check()
            on_stage(stage, share)

        predicted = self.ahead.result(planned, watch)
        prediction = predicted.prediction
        filled.ran(_settings(point, predicted), prediction.accesses.engine_version)
        filled.run.prediction, filled.run.warm_up = prediction, predicted.warm_up
        filled.run.measured = Measured(seconds=0.0, transactions=prediction.work["transaction"])
        filled.samples += list(_samples(predicted))
        return None

    def leave(self, home: Path, filled: FilledRun) -> None:
        """Do nothing: a prediction changes nothing on this host."""

    def seconds_left(self, point: GridPoint, stage: str, share: float, spent_s: float) -> float:
        """Return the seconds that a stage still needs, given its completed fraction; 0 if it reports no progress."""
        return spent_s / share - spent_s if share else 0.0


def _settings(point: GridPoint, predicted: Predicted) -> dict[str, StoredSetting]:
    """Return the settings of run.json: those that the model uses with the replayed values, others as planned."""
    settings = point.stored()
    for name, setting in settings.items():
        played = predicted.prediction.values.get(name) if setting.planned is None else setting.planned
        setting.actual = predicted.actual.get(name) if played is None else played
    return settings


def _samples(predicted: Predicted) -> Iterator[dict[str, Any]]:
    """Yield the rows of the window's two edges: each metric that a measured run samples, or why it is null."""
    counted, prediction = _counted(predicted.prediction), predicted.prediction
    for metric, subject, change in predicted.counted:
        told = counted.pop(metric, None) if not subject else None
        yield from _rows(metric, subject, change if told is None else told, _why_null(prediction, metric))
    for metric, number in counted.items():
        yield from _rows(metric, "", number, _why_null(prediction, metric))


def _counted(prediction: Prediction) -> dict[str, float | None]:
    """Return a model's counts, by the names of the metrics that every engine may have."""
    found, writes = prediction.found, prediction.writes
    return {
        **({"pages_written": writes.pages} if writes else {}),
        "pages_read": found.reads if found else None,
        "demand_misses": found.misses if found else None,
        "pages_created": found.creates if found else None,
        # A model reads only whole pages.
        "db_other_reads": 0,
        "pool_frames_used": found.frames_used if found else None,
        "pool_frames": prediction.pool_frames,
    }


def _why_null(prediction: Prediction, metric: str) -> str:
    writes = prediction.writes
    if writes and metric == "pages_written" and writes.why_not:
        return f"not predicted: {writes.why_not}"
    speed = next((one.sentence for one in prediction.verdicts if one.name == "depends_on_speed"), None)
    knows = "pages read and written, and no time" if writes and writes.ends else "reads, and neither writes nor time"
    return speed or f"not predicted: the model {prediction.model} knows {knows}"


def _rows(metric: str, subject: str, number: float | None, why: str) -> Iterator[dict[str, Any]]:
    is_counter = declared(metric).kind == "counter"
    for edge in ("start", "end"):
        row = {"t_s": 0.0, "phase": "measure", "edge": edge, "metric": metric, "subject": subject, "probe": PROBE}
        if number is None:
            yield {**row, "reason": why}
        elif is_counter:
            yield {**row, "count": int(number) if edge == "end" else 0}
        else:
            yield {**row, "value": float(number)}
