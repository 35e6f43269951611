"""Predicts one run by a model of the engine's buffer manager, from the page trace of another run. Starts nothing.

The run's window is that of the traced run, with the same transactions. Its clock stands still: a model of a buffer
manager knows no time, so that no rate can be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bufferlab.errors import Failure
from bufferlab.execute.run.backend import FilledRun, OnStage
from bufferlab.execute.stop import StopRequest
from bufferlab.models.predict import Target, predict
from bufferlab.plan import PlannedRun, Point
from bufferlab.registry import declared
from bufferlab.results.page_traces import Prediction
from bufferlab.results.schema import Measured, Run, StoredSetting

PROBE = "model"
_REPLAYING = "replaying the trace"
_AS_TRACED = ("transactions_committed", "transactions_rolled_back", "rows_returned", "page_gets")
"""Counters of the traced window that no pool changes."""


@dataclass(frozen=True)
class ModelBackend:
    """The backend that predicts."""

    target: Target
    folder: Path
    versions: dict[str, str]
    stop: StopRequest

    def begun(self, planned: PlannedRun, point: Point, /, **common: Any) -> Run:
        """Return a run with the model's numbers about the traced run's engine, data and transactions."""
        run = self.target.source.run
        return Run(
            **common,
            source="predicted",
            inputs="trace",
            interval_kind="none",
            clock="virtual",
            engine=run.engine,
            engine_version=run.engine_version,
            workload=run.workload,
            load=run.load,
            seed=run.seed,
            host=run.host,
            versions=self.versions,
            data_key=run.data_key,
            warm_up=run.warm_up,
            database=run.database,
        )

    @contextmanager
    def home(self, run_id: str) -> Iterator[Path]:
        """Context manager for the sweep's folder: a prediction needs no place of its own."""
        yield self.folder

    def do(self, planned: PlannedRun, point: Point, home: Path, filled: FilledRun, on_stage: OnStage) -> Failure | None:
        """Predict the point."""
        on_stage(_REPLAYING, 0.0)
        prediction = predict(self.target, point, self.stop.check)
        filled.ran(self._settings(point, prediction), prediction.traced.engine_version)
        filled.run.prediction = prediction
        filled.run.measured = Measured(seconds=0.0, transactions=prediction.traced.work["transaction"])
        filled.samples += list(self._samples(prediction))
        return None

    def leave(self, home: Path, filled: FilledRun) -> None:
        """Do nothing: a prediction changes nothing on this host."""

    def seconds_left(self, point: Point, stage: str, share: float, spent_s: float) -> float:
        """Return 0: a replay does not tell how far it is."""
        return 0.0

    def _settings(self, point: Point, prediction: Prediction) -> dict[str, StoredSetting]:
        """Return the settings of run.json: those that the model obeys as it played them, others as they were traced."""
        settings = point.stored()
        for name, setting in settings.items():
            played = prediction.values.get(name) if setting.planned is None else setting.planned
            setting.actual = self.target.source.setting(name).actual if played is None else played
        return settings

    def _samples(self, prediction: Prediction) -> Iterator[dict[str, Any]]:
        """Yield the rows of the window's two edges: each metric that the traced run sampled, or why it has none."""
        edges, counted = self.target.source.edges, _counted(prediction)
        for metric, subjects in edges.end.items():
            for subject in subjects:
                change = edges.change(metric, subject).value if metric in _AS_TRACED else None
                told = counted.pop(metric, None) if not subject else None
                yield from _rows(metric, subject, change if told is None else told, _why_null(prediction))
        for metric, number in counted.items():
            yield from _rows(metric, "", number, _why_null(prediction))


def _counted(prediction: Prediction) -> dict[str, float | None]:
    """Return what a model counts, by the names of the metrics that every engine may have."""
    found = prediction.found
    return {
        "pages_read": found.reads if found else None,
        "demand_misses": found.misses if found else None,
        "pages_created": found.creates if found else None,
        # A model reads whole pages alone.
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
