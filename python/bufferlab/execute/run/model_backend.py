"""Predicts one run by a model of the engine's buffer manager, from page accesses. Starts nothing.

The accesses were recorded in a traced run, or are generated. The clock of a predicted run stands still: a model of a
buffer manager knows no time, so it predicts no rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bufferlab.errors import Failure
from bufferlab.execute.run.backend import FilledRun, OnStage
from bufferlab.execute.stop import StopRequest
from bufferlab.models.ahead import Ahead, Watch
from bufferlab.models.managers.declaration import BufferManager, Server
from bufferlab.models.predict import Predicted
from bufferlab.plan import GridPoint, Plan, PlannedRun
from bufferlab.registry import declared
from bufferlab.results.page_traces import Prediction
from bufferlab.results.schema import Measured, Run, StoredSetting

PROBE = "model"


class Origin(Protocol):
    """The source of page accesses, and the points to predict from them."""

    @property
    def plan(self) -> Plan:
        """Return the points and their runs."""

    @property
    def server(self) -> Server:
        """Return the server that is predicted."""

    @property
    def manager(self) -> BufferManager:
        """Return the model that plays the accesses."""

    @property
    def host(self) -> Mapping[str, Any]:
        """Return the description of the host for host.json."""

    @property
    def identity(self) -> dict[str, Any]:
        """Return all that decides the predictions besides experiment and plan."""

    @property
    def prediction_bytes(self) -> int:
        """Return the bytes of memory that a prediction takes, at most."""

    def described(self, planned: PlannedRun, point: GridPoint, /) -> dict[str, Any]:
        """Return the fields of run.json about engine, data and transactions."""

    def predicted(self, planned: PlannedRun, point: GridPoint, watch: Watch, /) -> Predicted:
        """Predict a run. Raises a BufferlabError, and the errors of `watch`."""


@dataclass(frozen=True)
class ModelBackend:
    """The backend that predicts."""

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
        """Context manager for the sweep's folder: a prediction needs no other place."""
        yield self.folder

    def do(
        self, planned: PlannedRun, point: GridPoint, home: Path, filled: FilledRun, on_stage: OnStage
    ) -> Failure | None:
        """Wait for the prediction of the point."""

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
        """Return the seconds that a stage still needs, by its share; 0 for one that does not report its progress."""
        return spent_s / share - spent_s if share else 0.0


def _settings(point: GridPoint, predicted: Predicted) -> dict[str, StoredSetting]:
    """Return the settings of run.json: as replayed if the model obeys them, others as planned."""
    settings = point.stored()
    for name, setting in settings.items():
        played = predicted.prediction.values.get(name) if setting.planned is None else setting.planned
        setting.actual = predicted.actual.get(name) if played is None else played
    return settings


def _samples(predicted: Predicted) -> Iterator[dict[str, Any]]:
    """Yield the rows of the window's two edges: each metric that a measured run samples, or why it has none."""
    counted, why = _counted(predicted.prediction), _why_null(predicted.prediction)
    for metric, subject, change in predicted.counted:
        told = counted.pop(metric, None) if not subject else None
        yield from _rows(metric, subject, change if told is None else told, why)
    for metric, number in counted.items():
        yield from _rows(metric, "", number, why)


def _counted(prediction: Prediction) -> dict[str, float | None]:
    """Return a model's counts, by the names of the metrics that every engine may have."""
    found = prediction.found
    return {
        "pages_read": found.reads if found else None,
        "demand_misses": found.misses if found else None,
        "pages_created": found.creates if found else None,
        # A model reads only whole pages.
        "db_other_reads": 0,
        "pool_frames_used": found.frames_used if found else None,
        "pool_frames": prediction.pool_frames,
    }


def _why_null(prediction: Prediction) -> str:
    speed = next((one.sentence for one in prediction.verdicts if one.name == "depends_on_speed"), None)
    return speed or f"not predicted: the model {prediction.model} knows reads, and neither writes nor time"


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
