"""What a report says of a predicted sweep: whose numbers they are, what to doubt, and the same for programs.

Its chapter shows the model's reads beside a yardstick, a floor, and the traced run's own count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.blocks import Column, Curve, Dot, Figure, PointsPlot, Row, Section, Series, Table
from bufferlab.chapter.points_figure import Axis, points_data
from bufferlab.results.metrics import WORK, Work
from bufferlab.results.page_traces import Prediction, Replayed, TracedRun, Verdict
from bufferlab.results.schema import Run
from bufferlab.results.store import SweepFolder
from bufferlab.units import format_bytes

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
    return verdicts_said([(label, prediction.verdicts) for label, prediction in predictions(analysis)], "All points")


def verdicts_said(found: Sequence[tuple[str, Sequence[Verdict]]], every: str) -> list[str]:
    """Return the verdicts on things by their labels, each sentence once; `every` is the label of all of them."""
    where: dict[str, list[str]] = {}
    for label, verdicts in found:
        for verdict in verdicts:
            where.setdefault(verdict.sentence, []).append(label)
    return [
        f"{every if len(labels) == len(found) else ', '.join(labels)}: {sentence}."
        for sentence, labels in where.items()
    ]


def error(prediction: Prediction) -> float | None:
    """Return how far reads are from those that the engine counted, at the traced run's own point; 0.01 is 1 %."""
    return prediction.traced.own_error if prediction.is_traced_point else None


def own_point(traced: TracedRun) -> str:
    """Return what the model has at the traced run's own point, beside what the engine counted there, in a sentence."""
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


_CAPTION = (
    "Pages read in the traced run's window: predicted by the model, by LRU of the same bytes, and by OPT, which knows "
    "the future and is the least that any manager could read. Measured is the traced run's own count. One trace: no "
    "interval."
)


def predicted(analysis: Analysis) -> Section | None:
    """Return the predicted reads of every point; None for a sweep that was measured."""
    found = predictions(analysis)
    if not found:
        return None
    unit: Work = analysis.unit_of_work if analysis.unit_of_work in found[0][1].traced.work else "transaction"
    reads = f"Reads per {WORK[unit]}"
    brief = ("Point", "Pool", reads, "LRU", "OPT", "Measured", "Error", "Error at the own point")
    heads = (brief[0], brief[1], "Frames", reads, "Misses of gets", *brief[3:])
    columns = tuple(Column(head, numeric=head != "Point") for head in heads)
    rows = tuple(Row(_cells(label, prediction, unit)) for label, prediction in found)
    table = Table("predicted", "Predicted reads", columns, rows, _CAPTION, brief=brief)
    figure = _figure(analysis, unit, reads)
    lead = " ".join([own_point(found[0][1].traced), *doubts(analysis)])
    return Section("predicted", "The prediction", lead, (*((figure,) if figure else ()), table))


def _cells(label: str, prediction: Prediction, unit: Work) -> tuple[str, ...]:
    work = prediction.traced.work[unit]
    told = [prediction.found] if prediction.found else list(prediction.replays.values())
    of_model, measured = error(prediction), prediction.traced.measured_reads
    return (
        label,
        format_bytes(prediction.pool_bytes),
        f"{prediction.pool_frames:,}",
        told_range([one.reads / work for one in told]),
        told_range([one.misses / work for one in told]),
        f"{prediction.lru.reads / work:.4g}",
        f"{prediction.opt.reads / work:.4g}",
        f"{measured / work:.4g}" if prediction.is_traced_point else "",
        words.signed_share(of_model) if of_model is not None else "",
        words.signed_share(prediction.traced.own_error),
    )


def _figure(analysis: Analysis, unit: Work, title: str) -> Figure | None:
    """Return lines through the points by model, LRU and OPT; None where they do not differ in one number alone."""
    axis = Axis.of(analysis, analysis.points)
    if len(analysis.groups) > 1 or not axis.is_numeric:
        return None
    places = [
        (axis.place(point), analysis.tick(point), prediction)
        for point in analysis.points
        for run in point.ok
        if (prediction := run.run.prediction)
    ]
    if len(places) < 2:
        return None

    def reads(found: Replayed | None, prediction: Prediction) -> float | None:
        return found.reads / prediction.traced.work[unit] if found else None

    def line(label: str, number: int, of: list[float | None]) -> tuple[Series, Curve]:
        told = [(x, tick, value) for (x, tick, _), value in zip(places, of, strict=True) if value is not None]
        dots = tuple(Dot(x, tick, (), value, None, None) for x, tick, value in told)
        curve = Curve("", tuple(x for x, _, _ in told), tuple(value for _, _, value in told), number)
        return Series(label, dots, joined=False), curve

    model = places[0][2].model
    lines = [
        line("LRU", 0, [reads(one.lru, one) for _, _, one in places]),
        line("OPT", 1, [reads(one.opt, one) for _, _, one in places]),
        line(f"model {model}", 2, [reads(one.found, one) for _, _, one in places]),
    ]
    series = [one for one, _ in lines if one.dots]
    measured = [
        Dot(x, tick, (), one.traced.measured_reads / one.traced.work[unit], None, None)
        for x, tick, one in places
        if one.is_traced_point
    ]
    if measured:
        series.append(Series("measured (the traced run)", tuple(measured), joined=False))
    plot = PointsPlot(
        x_label=axis.label,
        y_label=title,
        series=tuple(series),
        x_is_log=axis.is_log,
        y_is_log=False,
        x_in_bytes=axis.in_bytes,
        curves=tuple(curve for one, curve in lines if one.dots),
    )
    alt = f"Lines of {title[0].lower()}{title[1:]} by the model {model}, LRU and OPT over {axis.label}."
    return Figure("predicted-reads", title, alt, _CAPTION, plot, points_data(plot, "predicted-reads", title))
