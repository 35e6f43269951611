"""Defines a backend, which fills a run, and does one run with it.

The backend of an engine measures the run; the backend of a model predicts it.


The steps around a run are the same for both. Each run is published; a failed run is published with its failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from bufferlab.errors import BufferlabError, Failure, Interrupted, causes, is_full
from bufferlab.execute.run.supervise import interrupted
from bufferlab.execute.stop import StopRequest
from bufferlab.plan import GridPoint, PlannedRun
from bufferlab.results import schema
from bufferlab.results.keys import actual_key
from bufferlab.results.schema import Run, StoredFailure, StoredSetting
from bufferlab.results.store import RunRecord, SweepFolder, new_run_id

_LOG = logging.getLogger(__name__)

OnStage = Callable[[str, float], None]
"""A function that gets the stage of a run, and the completed fraction (0 to 1) of this stage."""


@dataclass
class FilledRun:
    """The results of a run so far. They are published even if the run fails."""

    run: Run
    """The future content of run.json. It is validated as a whole when it is published."""
    samples: list[dict[str, Any]] = field(default_factory=list)
    latency: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    beside: dict[str, str] = field(default_factory=dict)
    """The texts of additional files of the run folder, by file name."""
    tables: dict[str, Path] = field(default_factory=dict)
    """The paths, before publication, of additional Parquet files of the run folder, by file name."""

    def end(self, failure: Failure | None) -> None:
        """Record how the run ended: ok without a failure, else interrupted or failed by the failure's kind."""
        ended_badly: Literal["failed", "interrupted"] = "failed"
        if failure is not None and failure.kind == "interrupted":
            ended_badly = "interrupted"
        self.run.status = "ok" if failure is None else ended_badly
        self.run.failure = StoredFailure(**asdict(failure)) if failure else None

    def ran(self, settings: dict[str, StoredSetting], engine_version: str) -> None:
        """Record the settings in effect, the engine's version, and the key of both."""
        run = self.run
        run.settings, run.engine_version = settings, engine_version
        run.actual_key = actual_key(
            engine=run.engine,
            engine_version=engine_version,
            workload=run.workload,
            knobs_actual={name: one.actual for name, one in settings.items()},
        )


class Backend(Protocol):
    """An engine or a model, ready for the runs of one sweep."""

    def begun(self, planned: PlannedRun, point: GridPoint, /, **common: Any) -> Run:
        """Return the content of run.json when a run begins: the `common` fields, and those of this backend."""

    def home(self, run_id: str) -> AbstractContextManager[Path]:
        """Context manager for the folder that a run may work in; leaving always removes the folder."""

    def do(
        self, planned: PlannedRun, point: GridPoint, home: Path, filled: FilledRun, on_stage: OnStage
    ) -> Failure | None:
        """Do the run and store its results. Return why it cannot be used; None if it can.

        Raises BufferlabError or OSError if the run ends early: it is published as failed or interrupted.
        """

    def leave(self, home: Path, filled: FilledRun) -> None:
        """Clean up after the run, before it is published, however it ended."""

    def seconds_left(self, point: GridPoint, stage: str, share: float, spent_s: float) -> float:
        """Return the seconds that a run still needs, `spent_s` into a stage of which a fraction (`share`) is done."""


def execute_run(
    backend: Backend, folder: SweepFolder, planned: PlannedRun, point: GridPoint, on_stage: OnStage, stop: StopRequest
) -> RunRecord:
    """Do the run and publish it as ok, failed or interrupted. Raises only if the run cannot be published."""
    run = backend.begun(
        planned,
        point,
        run_id=new_run_id(),
        experiment=folder.experiment,
        point_key=point.point_key,
        point=schema.Point(index=point.index, label=point.label, swept=point.swept),
        repetition=planned.repetition,
        block=planned.block,
        order=planned.order,
        settings=point.stored(),
        status="failed",
        failure=StoredFailure(kind="internal", what="the run did not end"),
        started_at=(now := _now()),
        ended_at=now,
    )
    filled = FilledRun(run)
    on_stage("preparing", 0.0)
    with backend.home(run.run_id) as home:
        try:
            filled.end(backend.do(planned, point, home, filled, on_stage))
        except Interrupted:
            filled.end(interrupted(stop))
        except BufferlabError as error:
            _LOG.debug("the run's error, with its causes:\n%s", causes(error))
            filled.end(error.failure)
        except OSError as error:
            _LOG.debug("the run's error, with its causes:\n%s", causes(error))
            filled.end(_refused_by_disk(error, home.parent))
        finally:
            backend.leave(home, filled)
        filled.run.ended_at = _now()
        on_stage("publishing", 0.0)
        return folder.publish_run(filled.run, filled.samples, filled.latency, filled.log, filled.beside, filled.tables)


def _refused_by_disk(error: OSError, folder: Path) -> Failure:
    """Return the failure of a run whose copy of the database could not be written to the disk."""
    if is_full(error):
        what = "no space left for the run's copy of the database"
        return Failure(what, str(folder), "free some space, or choose another directory with --data-dir", "full_disk")
    return Failure(str(error), str(folder), None, "io")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
