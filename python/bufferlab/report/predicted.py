"""What a report says of a predicted sweep: whose numbers they are, what to doubt, and the same for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.results.schema import Prediction, Replayed, Run, TracedRun
from bufferlab.results.store import SweepFolder

FORMAT_VERSION = 2
"""Of the object for programs. Version 1 had `ends`, two replays that are no range, in place of `replays`."""
NO_INTERVAL = "one trace predicts them, which gives no interval"


def predictions(analysis: Analysis) -> list[tuple[str, Prediction]]:
    """Return the label and the prediction of every point that a model filled, in the order of the report."""
    found = [(analysis.short_label(point), run.run.prediction) for point in analysis.points for run in point.ok]
    return [(label, prediction) for label, prediction in found if prediction]


def said(analysis: Analysis) -> str | None:
    """Return whose numbers a predicted sweep has, in a sentence; None for a measured one."""
    found = predictions(analysis)
    if not found:
        return None
    one, run = found[0][1], analysis.runs[0].run
    return (
        f"Predicted, not measured: the model {one.model}, version {one.model_version}, replayed the page trace of run "
        f"{one.traced.run_id} ({one.traced.point}; {run.engine} {one.traced.engine_version}). "
        "It knows reads alone, neither writes nor time."
    )


def doubts(analysis: Analysis) -> list[str]:
    """Return why not to believe a prediction, each reason in a sentence, with the points that it holds for."""
    found = predictions(analysis)
    where: dict[str, list[str]] = {}
    for label, prediction in found:
        for verdict in prediction.verdicts:
            where.setdefault(verdict.sentence, []).append(label)
    return [
        f"{'All points' if len(labels) == len(found) else ', '.join(labels)}: {sentence}."
        for sentence, labels in where.items()
    ]


def error(prediction: Prediction) -> float | None:
    """Return how far reads are from those that the engine counted, at the traced run's own point; 0.01 is 1 %."""
    return prediction.traced.own_error if prediction.is_traced_point else None


def own_point(prediction: Prediction) -> str:
    """Return what the model has at the traced run's own point, beside what the engine counted there, in a sentence."""
    traced = prediction.traced
    modelled, counted = (reads / traced.work["transaction"] for reads in (traced.modelled_reads, traced.measured_reads))
    error = "" if traced.own_error is None else f": {words.signed_share(traced.own_error)}"
    return (
        f"At the traced run's own point ({traced.point}) the model reads {words.number(modelled)} pages a transaction, "
        f"where the engine counted {words.number(counted)}{error}."
    )


def as_json(folder: SweepFolder) -> dict[str, Any]:
    """Return a predicted sweep for programs; docs/prediction.md explains the keys."""
    runs = sorted((record.run for record in folder.runs() if record.ok), key=lambda run: run.point.index)
    told = [(run, run.prediction) for run in runs if run.prediction]
    first = told[0][1] if told else None
    return {
        "format_version": FORMAT_VERSION,
        "sweep": str(folder.path),
        "status": "ok" if len(told) == len(folder.plan["points"]) else "interrupted",
        "source": _source(told[0][0].engine, first.traced) if first else None,
        "model": {"name": first.model, "version": first.model_version} if first else None,
        "points": [_point(run, prediction) for run, prediction in told],
    }


def _source(engine: str, traced: TracedRun) -> dict[str, Any]:
    return {"engine": engine, **traced.model_dump(), "own_error": traced.own_error}


def _point(run: Run, prediction: Prediction) -> dict[str, Any]:
    work = prediction.traced.work

    def counts(found: Replayed) -> dict[str, Any]:
        return {
            "reads": found.reads,
            **found.model_dump(),
            "reads_per": {name: found.reads / count for name, count in work.items()},
            "misses_per": {name: found.misses / count for name, count in work.items()},
        }

    return {
        "label": run.point.label,
        "swept": run.point.swept,
        "settings": prediction.values,
        "pool_bytes": prediction.pool_bytes,
        "pool_frames": prediction.pool_frames,
        "nominal_frames": prediction.nominal_frames,
        "predicted": counts(prediction.found) if prediction.found else None,
        "replays": {name: counts(found) for name, found in prediction.replays.items()},
        "lru": counts(prediction.lru),
        "opt": counts(prediction.opt),
        "turnovers": prediction.turnovers,
        "turnovers_before": prediction.turnovers_before,
        "is_traced_point": prediction.is_traced_point,
        "error": error(prediction),
        "verdicts": [one.model_dump() for one in prediction.verdicts],
    }


def told_range(counts: Sequence[float]) -> str:
    """Return a number, or the least and the most of several, for a cell: "5.2" or "5.2 to 7.9"."""
    return " to ".join(f"{number:.4g}" for number in sorted({min(counts), max(counts)}))
