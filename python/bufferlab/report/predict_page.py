"""Shows a prediction: for the terminal and as JSON."""

from __future__ import annotations

from typing import Any

from bufferlab.chapter.blocks import Column, Row, Table
from bufferlab.models.predict import PredictedPoint, Prediction
from bufferlab.models.source import Replayed
from bufferlab.report.curve_page import aligned
from bufferlab.results.metrics import WORK
from bufferlab.units import format_bytes, format_count

_READ = (
    "Reads per transaction of the source's window: predicted by the model, by LRU of the same bytes, and by OPT, "
    "which knows the future and is the least that any manager could read. One trace: no interval."
)


def text(prediction: Prediction) -> str:
    """Return the prediction for a terminal: where it comes from, the points, and what to doubt."""
    source, manager = prediction.source, prediction.manager
    lines = [
        f"Predicted from run {source.run.run_id} ({source.run.point.label}, {source.server.engine} "
        f"{source.server.version}) by the model {manager.name}, version {manager.version}.",
        f"{source.work['transaction']:,} transactions, {format_count(source.pages)} pages touched, "
        f"{source.frames:,} frames in {format_bytes(source.pool_bytes)}.",
        "",
        *aligned(table(prediction)),
        "",
        *_beside(prediction),
        *(f"All points: {verdict.sentence}." for verdict in prediction.verdicts),
        *(f"{point.label}: {one.sentence}." for point in prediction.points for one in point.verdicts),
        _READ,
    ]
    return "\n".join(lines)


def table(prediction: Prediction) -> Table:
    """Return a row per point."""
    new_orders = "new_order" in prediction.source.work
    names = ["Point", "Pool", "Frames", "Reads", "Misses of gets", "LRU", "OPT", "Measured", "Error"]
    if new_orders:
        names.insert(5, f"Reads per {WORK['new_order']}")
    rows = tuple(Row(tuple(_cells(prediction, point, new_orders=new_orders))) for point in prediction.points)
    return Table("predicted", "Predicted reads", tuple(map(Column, names)), rows, _READ)


def _cells(prediction: Prediction, point: PredictedPoint, *, new_orders: bool) -> list[str]:
    work = prediction.source.work

    def told(of: str, count: str) -> str:
        found = [point.predicted] if point.predicted else [end for _, end in point.ends]
        return " to ".join(f"{number:.4g}" for number in sorted({getattr(one, count) / work[of] for one in found}))

    cells = [point.label, format_bytes(point.pool_bytes), f"{point.frames:,}"]
    cells += [told("transaction", "reads"), told("transaction", "misses")]
    cells += [told("new_order", "reads")] if new_orders else []
    cells += [f"{one.reads / work['transaction']:.4g}" for one in (point.lru, point.opt)]
    if not point.is_source:
        return [*cells, "", ""]
    error = _error(prediction, point.predicted)
    return [*cells, f"{prediction.measured.reads / work['transaction']:.4g}", "" if error is None else _signed(error)]


def _beside(prediction: Prediction) -> list[str]:
    """Return the source's own point in a sentence: the measured reads, and how wrong model and yardstick are."""
    lines = []
    for point in prediction.points:
        of_model, of_lru = _error(prediction, point.predicted), _error(prediction, point.lru)
        if point.is_source and of_model is not None and of_lru is not None:
            lines.append(
                f"At the traced run's own point the model errs by {_signed(of_model)} of the measured reads, and LRU "
                f"by {_signed(of_lru)}."
            )
    return lines


def _error(prediction: Prediction, found: Replayed | None) -> float | None:
    measured = prediction.measured.reads
    return found.reads / measured - 1 if found and measured else None


def _signed(error: float) -> str:
    return f"{error:+.1%}".replace("%", " %")


def as_json(prediction: Prediction) -> dict[str, Any]:
    """Return the prediction for programs; docs/prediction.md explains the keys."""
    source, manager = prediction.source, prediction.manager
    trace = source.run.files["page-trace.parquet"]
    return {
        "status": "ok",
        "source": {
            "run_id": source.run.run_id,
            "point": source.run.point.label,
            "engine": source.server.engine,
            "engine_version": source.server.version,
            "page_trace_sha256": trace.sha256,
            "pool_bytes": source.pool_bytes,
            "pool_frames": source.frames,
            "page_size_bytes": source.page_size_bytes,
            "pages_touched": source.pages,
            "work": dict(source.work),
            "measured_reads": prediction.measured.reads,
        },
        "model": {"name": manager.name, "version": manager.version},
        "verdicts": [{"name": one.name, "sentence": one.sentence} for one in prediction.verdicts],
        "points": [_point_json(prediction, point) for point in prediction.points],
    }


def _point_json(prediction: Prediction, point: PredictedPoint) -> dict[str, Any]:
    def counts(found: Replayed) -> dict[str, Any]:
        work = prediction.source.work.items()
        return {
            "reads": found.reads,
            "misses": found.misses,
            "prefetch_reads": found.prefetch_reads,
            "creates": found.creates,
            "evictions": found.evictions,
            "made_young": found.made_young,
            "reads_per": {name: found.reads / count for name, count in work},
            "misses_per": {name: found.misses / count for name, count in work},
        }

    return {
        "label": point.label,
        "swept": dict(point.swept),
        "settings": dict(point.values),
        "pool_bytes": point.pool_bytes,
        "pool_frames": point.frames,
        "nominal_frames": point.nominal_frames,
        "predicted": counts(point.predicted) if point.predicted else None,
        "ends": {name: counts(end) for name, end in point.ends},
        "lru": counts(point.lru),
        "opt": counts(point.opt),
        "turnovers": point.turnovers,
        "is_source": point.is_source,
        "error": _error(prediction, point.predicted) if point.is_source else None,
        "verdicts": [{"name": one.name, "sentence": one.sentence} for one in point.verdicts],
    }
