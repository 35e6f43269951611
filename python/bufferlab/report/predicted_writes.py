"""The part of a predicted sweep's chapter on writes: a figure and a table of pages and bytes written per unit of work.

If the age of dirty pages depends on the load's speed, a pool's writes are a range, and the table has both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Curve, Dot, Figure, PointsPlot, Series, Table
from bufferlab.chapter.points_figure import Axis, dot, points_data
from bufferlab.registry import declared
from bufferlab.results.metrics import WORK, Work
from bufferlab.results.page_traces import PredictedWrites, Prediction, TracedRun, WritesEnd
from bufferlab.stats.estimate import Estimate
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
_GENERATED_CAPTION = (
    "Pages written to the data files in the window, as means of generated runs: for their frames (LRU: by a process in "
    "the background), for their age or number (flush list), by sessions that waited for a frame (single page), and by "
    "checkpoints. A range has two ends: the earliest and the latest age at which pages are written, or a slow and a "
    "fast load. Copies are those in the doublewrite buffer. Reads that wait are a lower bound."
)
_PARTS = ("LRU", "Flush list", "Single page", "Checkpoint", "Reads that wait", "Page bytes", "Copies", "Log")


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
    told = [(label, one.writes) for label, one in _one_of_each(found) if one.writes]
    for label, writes in told:
        for sentence in dict.fromkeys(filter(None, [writes.why_not, *(doubt.sentence for doubt in writes.doubts)])):
            where.setdefault(sentence, {})[label] = None
    every = len({label for label, _ in told})
    return [
        f"{'All points' if len(labels) == every else ', '.join(labels)}: {sentence}."
        for sentence, labels in where.items()
    ]


@dataclass(frozen=True)
class Row:
    """The predicted writes of one point: one prediction from a trace, or several generated runs."""

    label: str
    told: Sequence[Prediction]
    mean: Estimate | None
    """The mean of the pages written per unit of work; None if they are not predicted."""

    @property
    def writes(self) -> list[PredictedWrites]:
        """Return the writes of each run that has them."""
        return [one.writes for one in self.told if one.writes]


def _one_of_each(found: Iterable[tuple[str, Prediction]]) -> list[tuple[str, Prediction]]:
    """Return one prediction of each point: of a run whose writes are missing, if there is one, else of a run whose
    writes are doubtful.

    Generated runs of a point have nearly the same reasons, with slightly different numbers.
    """
    chosen: dict[str, Prediction] = {}
    for label, one in found:
        reasons = len(one.writes.doubts) + 2 * bool(one.writes.why_not) if one.writes else 0
        before = chosen.get(label)
        most = len(before.writes.doubts) + 2 * bool(before.writes.why_not) if before and before.writes else -1
        if reasons > most:
            chosen[label] = one
    return list(chosen.items())


def table(rows: Sequence[Row], unit: Work) -> Table | None:
    """Return the table of writes; None if no point has them, and if generated runs predict none."""
    rows = [row for row in rows if row.writes]
    writes = f"Writes per {WORK[unit]} (pages)"
    if any(row.told[0].generated for row in rows):
        if not any(one.ends for row in rows for one in row.writes):
            return None
        cells = [_generated_cells(row, unit) for row in rows]
        return Table.of(
            _ID,
            _TITLE,
            ("<Point", "Pool", "n", writes, *_PARTS, "Oldest dirty page"),
            cells,
            _GENERATED_CAPTION,
            brief=("Point", "Pool", "n", writes, "Reads that wait", "Page bytes", "Log"),
        )
    if not rows:
        return None
    heads = ("<Point", "Pool", writes, *_PARTS, "Oldest dirty page", "Measured", "Error", "Error at the own point")
    brief = ("Point", "Pool", writes, "Reads that wait", "Page bytes", "Log", "Measured", "Error")
    return Table.of(_ID, _TITLE, heads, [_cells(row, unit) for row in rows], _CAPTION, brief=brief)


def _generated_cells(row: Row, unit: Work) -> tuple[str, ...]:
    """Return the cells of a point as means over its generated runs."""
    pages = told_range(row.told, unit)
    is_range = any(one.least_pages != one.most_pages for one in row.writes)
    told = pages if is_range or row.mean is None else words.cell(declared(f"writes_per_{unit}"), row.mean)
    pool = format_bytes(row.told[0].pool_bytes)
    return (row.label, pool, str(len(row.told)), told, *_parts(row.told, unit))


def told_range(told: Sequence[Prediction], unit: Work) -> str:
    """Return the pages written per unit of work in words, as means over runs: a number, a range, or "not predicted"."""
    per = [one.writes_per for one in told]
    if not all(per):
        return "not predicted"
    ends = {fmean(one[name][unit] for one in per) for name in ("least", "most")}
    return " to ".join(words.four_digits(pages) for pages in sorted(ends))


def _parts(told: Sequence[Prediction], unit: Work) -> tuple[str, ...]:
    """Return the cells of the columns `_PARTS`, and of the oldest dirty page, as means over runs."""
    writes = [one.writes for one in told if one.writes]

    def per_work(of: Callable[[PredictedWrites], float | None]) -> float | None:
        found = [(of(one.writes), one.work[unit]) for one in told if one.writes]
        known = [number / count for number, count in found if number is not None]
        return fmean(known) if len(known) == len(found) else None

    def by_end(of: Callable[[WritesEnd], int]) -> str:
        def at(place: int) -> float | None:
            return per_work(lambda one: of(one.ends[place]) if place < len(one.ends) else None)

        at_end = (at(0), at(1))
        return " to ".join(dict.fromkeys(words.four_digits(number) for number in at_end if number is not None))

    def in_bytes(of: Callable[[PredictedWrites], int | None]) -> str:
        number = per_work(of)
        return words.NOTHING if number is None else format_bytes(round(number))

    shares = [one.waiting_share for one in writes]
    known = [share for share in shares if share is not None]
    ages = [end.age_bytes for end in (writes[0].ends if writes else []) if end.age_bytes is not None]
    return (
        by_end(lambda end: end.lru_writes),
        by_end(lambda end: end.flush_list_writes),
        by_end(lambda end: end.single_page_writes),
        by_end(lambda end: end.checkpoint_writes),
        words.share(fmean(known) if len(known) == len(shares) and known else None),
        in_bytes(lambda one: one.page_bytes),
        in_bytes(lambda one: one.copy_bytes),
        in_bytes(lambda one: one.redo_bytes),
        " to ".join(dict.fromkeys(format_bytes(age) for age in ages)),
    )


def _cells(row: Row, unit: Work) -> tuple[str, ...]:
    prediction = row.told[0]
    count, traced, writes = prediction.work[unit], prediction.traced, row.writes[0]
    is_own = prediction.is_traced_point and traced is not None and traced.measured_writes is not None
    return (
        row.label,
        format_bytes(prediction.pool_bytes),
        told_pages(writes, count),
        *_parts(row.told, unit),
        words.four_digits(traced.measured_writes / count) if is_own and traced and traced.measured_writes else "",
        words.signed_share(traced.own_writes_error) if is_own and traced else "",
        words.signed_share(traced.own_writes_error if traced else None),
    )


def figure(analysis: Analysis, unit: Work) -> Figure | None:
    """Return the figure of predicted writes over the points; None unless the points differ in exactly one number."""
    axis = Axis.of(analysis, analysis.points)
    if len(analysis.groups) > 1 or not axis.is_numeric:
        return None
    of_model, of_run, is_traced = [], [], False
    for point in analysis.points:
        told = [run.run.prediction for run in point.ok if run.run.prediction]
        if not told or told[0].writes is None:
            continue
        x, tick, per = axis.place(point), analysis.tick(point), [one.writes_per for one in told]
        if all(per):
            low, pages, high = (fmean(one[name][unit] for one in per) for name in ("least", "pages", "most"))
            if low == high and len(told) > 1:
                of_model.append(dot(analysis, f"writes_per_{unit}", point, x, tick))
            else:
                of_model.append(Dot(x, tick, (), pages, *((None, None) if low == high else (low, high))))
        prediction, traced = told[0], told[0].traced
        is_traced |= traced is not None
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
    caption = _CAPTION if is_traced else _GENERATED_CAPTION
    return Figure(_ID, title, alt, caption, plot, points_data(plot, _ID, title))
