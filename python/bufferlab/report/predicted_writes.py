"""The part of a predicted sweep's chapter on writes: a figure and a table of pages and bytes written per unit of work.

If the age of dirty pages depends on the load's speed, a pool's writes are a range, and the table has both ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Curve, Dot, Figure, PointsPlot, Series, Table
from bufferlab.chapter.points_figure import Axis, points_data
from bufferlab.results.metrics import WORK, Work
from bufferlab.results.page_traces import Prediction, TracedRun
from bufferlab.results.predicted_writes import PredictedWrites
from bufferlab.units import format_bytes

_TITLE = "Predicted writes"
_ID = "predicted-writes"
_CAPTION = (
    "Pages written to the data files in the traced run's window, predicted by the model: for their frames (LRU: by a "
    "process in the background), for their age or number (flush list), by sessions that waited for a frame (single "
    "page), and by checkpoints. A range has two ends, for a slower and a faster load; the points name them. Copies "
    "are those in the doublewrite buffer; a redo log has the traced run's bytes. Reads that wait are a lower bound. "
    "Measured is the traced run's own count."
)


def told_pages(writes: PredictedWrites, count: int) -> str:
    """Return the pages written per unit of work in words: a number, a range, or "not predicted"."""
    least, most = writes.least_pages, writes.most_pages
    if writes.pages is None or least is None or most is None:
        return "not predicted"
    return " to ".join(words.four_digits(pages / count) for pages in sorted({least, most}))


def own_point(traced: TracedRun, unit: Work) -> str:
    """Return a sentence with the model's writes and the engine's count at the traced run's own point, or ""."""
    if traced.modelled_writes is None or traced.measured_writes is None:
        return ""
    modelled, counted = (pages / traced.work[unit] for pages in (traced.modelled_writes, traced.measured_writes))
    error = "" if traced.own_writes_error is None else f": {words.signed_share(traced.own_writes_error)}"
    return (
        f"There the model writes {words.number(modelled)} pages a {WORK[unit]}, where the engine counted "
        f"{words.number(counted)}{error}."
    )


def why_not(found: Iterable[tuple[str, Prediction]]) -> list[str]:
    """Return the reasons why predicted writes are missing or doubtful, each with its points."""
    where: dict[str, dict[str, None]] = {}
    told = [(label, one.writes) for label, one in found if one.writes]
    for label, writes in told:
        for sentence in dict.fromkeys(filter(None, [writes.why_not, *(doubt.sentence for doubt in writes.doubts)])):
            where.setdefault(sentence, {})[label] = None
    every = len({label for label, _ in told})
    return [
        f"{'All points' if len(labels) == every else ', '.join(labels)}: {sentence}."
        for sentence, labels in where.items()
    ]


def table(found: Sequence[tuple[str, Prediction]], unit: Work) -> Table | None:
    """Return the table of writes; None if no point has them."""
    rows = [_cells(label, one, one.writes, unit) for label, one in found if one.writes]
    if not rows:
        return None
    writes = f"Writes per {WORK[unit]} (pages)"
    heads = ("<Point", "Pool", writes, "LRU", "Flush list", "Single page", "Checkpoint", "Reads that wait",
             "Page bytes", "Copies", "Log", "Oldest dirty page", "Measured", "Error",
             "Error at the own point")  # fmt: skip
    brief = ("Point", "Pool", writes, "Reads that wait", "Page bytes", "Log", "Measured", "Error")
    return Table.of(_ID, _TITLE, heads, rows, _CAPTION, brief=brief)


def _cells(label: str, prediction: Prediction, writes: PredictedWrites, unit: Work) -> tuple[str, ...]:
    count, traced, ends = prediction.work[unit], prediction.traced, writes.ends

    def by_end(pages: Iterable[int]) -> str:
        return " to ".join(dict.fromkeys(words.four_digits(one / count) for one in pages))

    def in_bytes(number: int | None) -> str:
        return words.NOTHING if number is None else format_bytes(round(number / count))

    is_own = prediction.is_traced_point and traced is not None and traced.measured_writes is not None
    return (
        label,
        format_bytes(prediction.pool_bytes),
        told_pages(writes, count),
        by_end(end.lru_writes for end in ends),
        by_end(end.flush_list_writes for end in ends),
        by_end(end.single_page_writes for end in ends),
        by_end(end.checkpoint_writes for end in ends),
        words.share(writes.waiting_share),
        in_bytes(writes.page_bytes),
        in_bytes(writes.copy_bytes),
        in_bytes(writes.redo_bytes),
        " to ".join(dict.fromkeys(format_bytes(end.age_bytes) for end in ends if end.age_bytes is not None)),
        words.four_digits(traced.measured_writes / count) if is_own and traced and traced.measured_writes else "",
        words.signed_share(traced.own_writes_error) if is_own and traced else "",
        words.signed_share(traced.own_writes_error if traced else None),
    )


def figure(analysis: Analysis, unit: Work) -> Figure | None:
    """Return the figure of predicted writes over the points; None unless the points differ in exactly one number."""
    axis = Axis.of(analysis, analysis.points)
    if len(analysis.groups) > 1 or not axis.is_numeric:
        return None
    of_model, of_run = [], []
    for point in analysis.points:
        prediction = next((run.run.prediction for run in point.ok if run.run.prediction), None)
        if prediction is None or prediction.writes is None:
            continue
        x, tick = axis.place(point), analysis.tick(point)
        if per := prediction.writes_per:
            low, high = (per[name][unit] for name in ("least", "most"))
            ends = (None, None) if low == high else (low, high)
            of_model.append(Dot(x, tick, (), per["pages"][unit], *ends))
        traced = prediction.traced
        if prediction.is_traced_point and traced and traced.measured_writes is not None:
            of_run.append(Dot(x, tick, (), traced.measured_writes / traced.work[unit], None, None))
    if len(of_model) < 2:
        return None
    title, metric = _TITLE, analysis.metric(f"writes_per_{unit}")
    series = [Series("model", tuple(of_model), joined=False)]
    if of_run:
        series.append(Series("measured", tuple(of_run), joined=False))
    plot = PointsPlot(
        x_label=axis.label,
        y_label=words.axis_title(metric),
        series=tuple(series),
        x_is_log=axis.is_log,
        y_is_log=False,
        x_in_bytes=axis.in_bytes,
        curves=(Curve("", tuple(one.x for one in of_model), tuple(one.mean for one in of_model), 0),),
        names_at_ends=True,
    )
    alt = f"The line of {words.lowered(metric.label)} by the model over {axis.label}, with ranges."
    return Figure(_ID, title, alt, _CAPTION, plot, points_data(plot, _ID, title))
