"""Does a whole predicted sweep: finds the traced run, makes the plan, and fills a sweep folder by a model."""

from __future__ import annotations

import platform
from contextlib import ExitStack
from pathlib import Path

from bufferlab import __version__
from bufferlab.engines.native import native
from bufferlab.execute import resume
from bufferlab.execute.data import leftovers
from bufferlab.execute.host import storage
from bufferlab.execute.progress import Pace, Progress, Silent
from bufferlab.execute.run.model_backend import ModelBackend
from bufferlab.execute.stop import StopRequest
from bufferlab.execute.sweep_runs import SweepOutcome, SweepRuns
from bufferlab.models import source
from bufferlab.models.predict import Target, target
from bufferlab.registry import registry
from bufferlab.results.store import SweepFolder
from bufferlab.spec import Overrides, to_toml

_POINT_S = 1.0
"""What a point takes before one has been timed."""


def predict_sweep(
    traced: Path,
    overrides: Overrides,
    out: Path,
    resume_from: Path | None = None,
    progress: Progress | None = None,
) -> SweepOutcome:
    """Predict every point of the traced run's experiment, changed by `overrides`, into a new sweep folder below `out`.

    With `resume_from`, do only the points that this folder lacks; it must have been predicted from the same trace by
    the same model. Raises a BufferlabError when the sweep cannot begin.
    """
    progress = progress or Silent()
    folder, stored = resume.open_for_resume(resume_from, predicted=True) if resume_from else (None, None)
    found = target(source.read(traced), overrides, stored)
    versions = _versions(found)
    document = {**found.plan.as_dict(), resume.PREDICTED_FROM: _predicted_from(found), "versions": versions}
    out = folder.path.parent if folder else out.absolute()
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
                host = {key: told for key, told in found.source.folder.host.items() if key != "noise"}
                folder = SweepFolder.create(out, registry(), to_toml(found.plan.experiment), document, host)
        pace = Pace(0.0, _POINT_S, len(found.plan.runs))
        backend = ModelBackend(found, folder.path, versions, stop)
        return SweepRuns(found.plan, folder, backend, progress, stop, pace).do()


def _predicted_from(found: Target) -> dict[str, object]:
    traced = found.traced
    return {
        "run_id": traced.run_id,
        "page_trace_sha256": traced.page_trace_sha256,
        "model": found.manager.name,
        "model_version": found.manager.version,
    }


def _versions(found: Target) -> dict[str, str]:
    """Return the version of each thing that a prediction depends on."""
    manager, server = found.manager, found.source.server
    return {
        "bufferlab": __version__,
        "core": native().core_version(),
        "python": platform.python_version(),
        f"model {manager.name}": str(manager.version),
        server.engine: server.version,
    }
