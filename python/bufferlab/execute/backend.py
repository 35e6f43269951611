"""Defines a backend: whatever fills a run. An engine measures, a model predicts; all around a run is the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bufferlab.errors import Failure
from bufferlab.plan import PlannedRun, Point

OnStage = Callable[[str, float], None]
"""A function that is told the stage of a run, and the share (0-1) of this stage that is done."""


@dataclass
class Gathered:
    """Everything a run has delivered so far. It is published even when the run fails."""

    run: dict[str, Any]
    samples: list[dict[str, Any]] = field(default_factory=list)
    latency: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    beside: dict[str, str] = field(default_factory=dict)
    """Texts of further files of the run folder, by file name."""
    tables: dict[str, Path] = field(default_factory=dict)
    """Paths, before publication, of further Parquet files of the run folder, by file name."""

    def end(self, failure: Failure | None) -> None:
        """Note how the run ended: ok without a failure, else interrupted or failed by the failure's kind."""
        if failure is None:
            self.run |= {"status": "ok", "failure": None}
        else:
            status = "interrupted" if failure.kind == "interrupted" else "failed"
            self.run |= {"status": status, "failure": asdict(failure)}


class Backend(Protocol):
    """An engine or a model, ready for the runs of one sweep."""

    def identity(self, planned: PlannedRun, point: Point) -> dict[str, Any]:
        """Return what run.json says of the source of a run's numbers, before the run has begun."""
        ...

    def home(self, run_id: str) -> AbstractContextManager[Path]:
        """Context manager for the folder that a run may work in: gone afterwards, in every case."""
        ...

    def do(
        self, planned: PlannedRun, point: Point, home: Path, gathered: Gathered, on_stage: OnStage
    ) -> Failure | None:
        """Do the run and gather what it delivers. Return why it cannot be used; None if it can.

        Raises BufferlabError or OSError when the run ends early: it is published as failed or interrupted.
        """
        ...

    def leave(self, home: Path, gathered: Gathered) -> None:
        """Put right, before publication, what the run may have left on this host, however it ended."""
        ...

    def seconds_left(self, point: Point, stage: str, share: float, spent_s: float) -> float:
        """Return the seconds that a run still needs, `spent_s` into a stage of which a share is done."""
        ...
