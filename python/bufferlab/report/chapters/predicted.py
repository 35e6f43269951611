"""The chapter of a predicted sweep: the model's reads beside a yardstick, a floor, and the traced run's own count."""

from __future__ import annotations

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.blocks import Column, Curve, Dot, Figure, PointsPlot, Row, Section, Series, Table
from bufferlab.chapter.points_figure import Axis, points_data
from bufferlab.report.predicted import doubts, error, own_point, predictions, told_range
from bufferlab.results.metrics import WORK, Work
from bufferlab.results.schema import Prediction, Replayed
from bufferlab.units import format_bytes

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
    lead = " ".join([own_point(found[0][1]), *doubts(analysis)])
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
