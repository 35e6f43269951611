"""Defines a backend: whatever fills a run. An engine measures, a model predicts; all around a run is the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from bufferlab.errors import Failure
from bufferlab.plan import PlannedRun, Point
from bufferlab.results.keys import actual_key
from bufferlab.results.schema import Run, StoredFailure, StoredSetting

OnStage = Callable[[str, float], None]
"""A function that is told the stage of a run, and the share (0-1) of this stage that is done."""


@dataclass
class FilledRun:
    """Everything a run has delivered so far. It is published even when the run fails."""

    run: Run
    """What run.json will say. It is checked as a whole when it is published."""
    samples: list[dict[str, Any]] = field(default_factory=list)
    latency: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    beside: dict[str, str] = field(default_factory=dict)
    """Texts of further files of the run folder, by file name."""
    tables: dict[str, Path] = field(default_factory=dict)
    """Paths, before publication, of further Parquet files of the run folder, by file name."""

    def end(self, failure: Failure | None) -> None:
        """Note how the run ended: ok without a failure, else interrupted or failed by the failure's kind."""
        ended_badly: Literal["failed", "interrupted"] = "failed"
        if failure is not None and failure.kind == "interrupted":
            ended_badly = "interrupted"
        self.run.status = "ok" if failure is None else ended_badly
        self.run.failure = StoredFailure(**asdict(failure)) if failure else None

    def ran(self, settings: dict[str, StoredSetting], engine_version: str) -> None:
        """Note the settings that ran, in which version of the engine, and their key."""
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

    def begun(self, planned: PlannedRun, point: Point, /, **common: Any) -> Run:
        """Return run.json of a run that begins: what is common to all backends, and the source of its numbers."""

    def home(self, run_id: str) -> AbstractContextManager[Path]:
        """Context manager for the folder that a run may work in: gone afterwards, in every case."""

    def do(self, planned: PlannedRun, point: Point, home: Path, filled: FilledRun, on_stage: OnStage) -> Failure | None:
        """Do the run and gather what it delivers. Return why it cannot be used; None if it can.

        Raises BufferlabError or OSError when the run ends early: it is published as failed or interrupted.
        """

    def leave(self, home: Path, filled: FilledRun) -> None:
        """Put right, before publication, what the run may have left on this host, however it ended."""

    def seconds_left(self, point: Point, stage: str, share: float, spent_s: float) -> float:
        """Return the seconds that a run still needs, `spent_s` into a stage of which a share is done."""
