"""Does a whole predicted sweep: finds the traced run or the experiment, and fills a sweep folder by a model."""

from __future__ import annotations

import platform
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bufferlab import __version__
from bufferlab.catalog import FILE_NAME
from bufferlab.engines import families
from bufferlab.engines import registry as engines
from bufferlab.engines.native import native
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.execute import resume
from bufferlab.execute.data import leftovers
from bufferlab.execute.host import storage
from bufferlab.execute.progress import Pace, Progress, Silent
from bufferlab.execute.run.model_backend import ModelBackend, Origin
from bufferlab.execute.stop import StopRequest
from bufferlab.execute.sweep_log import LoggedProgress, sweep_log
from bufferlab.execute.sweep_runs import SweepOutcome, SweepRuns
from bufferlab.models import source
from bufferlab.models.ahead import Ahead, Watch, threads_for
from bufferlab.models.generated import LEAST_RUNS, generated, rules_for
from bufferlab.models.managers.declaration import Server
from bufferlab.models.predict import Predicted, target
from bufferlab.plan import PlannedRun
from bufferlab.registry import registry
from bufferlab.results.store import PREDICTED_FROM, SweepFolder
from bufferlab.spec import Experiment, Overrides, load, to_toml

_RUN_S = 1.0
"""The assumed seconds of a run before one has been timed."""
_VERSION = re.compile(r"[a-z]+-([0-9].*)")
"""The version in a build's name, such as mysql-5.7."""


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
    from the same accesses by the same model. A folder of generated runs needs no `asked`. Raises a BufferlabError when
    the sweep cannot begin.
    """
    with sweep_log(progress or Silent()) as logged:
        return _predict_sweep(asked, overrides, out, resume_from, logged)


def _predict_sweep(
    asked: Path | None, overrides: Overrides, out: Path, resume_from: Path | None, progress: LoggedProgress
) -> SweepOutcome:
    folder, stored = resume.open_for_resume(resume_from, predicted=True) if resume_from else (None, None)
    origin = _origin(asked, overrides, folder, stored)
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
    """Return the traced run or the experiment that `asked` names. A folder of results wins over an experiment."""
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
    """Refuse options that only an experiment can have. Raises SpecError."""
    told = {"--engine": overrides.engine, "--seed": overrides.seed, f"--{overrides.profile}": overrides.profile}
    if flags := [flag for flag, value in told.items() if value is not None]:
        what = f"{' and '.join(flags)} cannot be with a traced run, whose transactions are replayed"
        raise SpecError(what, str(asked), "leave them out, or name an experiment in place of the run's folder")


def _is_of_results(asked: Path) -> bool:
    """Return whether a folder is a run's or a sweep's, which has an experiment.toml too."""
    return asked.is_dir() and ((asked / "plan.json").exists() or not (asked / FILE_NAME).exists())


def _server(experiment: Experiment) -> Server:
    """Return the server of an experiment. A build's name contains the version; any other build is asked for it.

    Raises SpecError unless there is a single private server, EnvironmentLackingError for one that is not here.
    """
    rules_for(experiment)
    engine, knob = engines.declaration(experiment.engine), experiment.knobs.get("server")
    if not engine.is_server:
        return Server(engine.name, engines.behaviour(engine.name).find().version)
    named = ", ".join(name for name in families.names() if name.startswith(f"{engine.name}-"))
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
    """Return the version of each thing that a prediction depends on."""
    manager, server = origin.manager, origin.server
    return {
        "bufferlab": __version__,
        "core": native().core_version(),
        "python": platform.python_version(),
        f"model {manager.name}": str(manager.version),
        server.engine: server.version,
    }
