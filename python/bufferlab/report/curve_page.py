"""Makes the answer of `curve`, which every format shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bufferlab.chapter.elements import (
    Banner,
    Curve,
    Dot,
    Figure,
    Mark,
    PointsPlot,
    Section,
    Series,
    Table,
    TimePlot,
    Trace,
)
from bufferlab.report.document import Note, Report, stamped
from bufferlab.traces.curve import CurveStep, MissCurve, working_set
from bufferlab.traces.page_trace import Accesses, MeasuredPool, TraceReading
from bufferlab.units import MIB, format_bytes, format_percent

if TYPE_CHECKING:
    from bufferlab.models.foreign_trace import PlayedTrace

_GUIDE = (
    "LRU is a guide, not a prediction of a server: a server keeps part of its pool free and replaces pages by rules of "
    "its own, so that it may read more than LRU of the same bytes, or less."
)
#: The number of sizes at which the line of the curve is drawn; more would look the same.
_DRAWN = 400
_FIRST_DRAWN = 0.01
"""The smallest drawn pool, as a share of all pages.

The first dot is at this size too, because the dots determine the axes' ends.
"""


@dataclass(frozen=True)
class CurvePool:
    """One pool size of a curve."""

    pool_pages: int
    lru_misses: int


@dataclass(frozen=True)
class OfTable:
    """A table's or index's gets (page accesses), and its misses at each pool size."""

    accesses: int
    misses: tuple[int, ...]


@dataclass(frozen=True)
class WorkingSet:
    """The number of pages touched in one part of the trace, with the time at which the part ends."""

    end_s: float
    pages: int


@dataclass(frozen=True)
class CurveResult:
    """The result of `curve` for programs: the misses of pools of each size, by LRU and by a model."""

    curve: tuple[CurvePool, ...]
    """The misses of LRU pools of the requested sizes."""
    lru: MissCurve
    model: PlayedTrace | None
    """The result of replaying the trace in a model, with misses in the order of `curve`; None if no model was
    requested."""
    measured: MeasuredPool | None
    by_table: dict[str, OfTable]
    working_set: tuple[WorkingSet, ...]
    read: TraceReading | None
    """The way in which a file was read; None for the trace of a run."""
    first_s: float
    """`first_s` and `last_s` are the times of the first and the last touch of a page."""
    last_s: float


def as_report(
    name: str,
    accesses: Accesses,
    curve: MissCurve,
    sizes: Sequence[int],
    page_size_bytes: int | None,
    objects: Mapping[str, Sequence[int]] | None = None,
    model: PlayedTrace | None = None,
    how: Sequence[str] = (),
) -> Report:
    """Return the curve as the document that every output format shows.

    `sizes` are pools in pages, ascending. `objects` has the gets of each table or index, and its misses at each size.
    `model` has the misses of a buffer manager's model at each size. `how` has sentences on how the file was read.
    """
    measured = accesses.measured
    facts = [*how, f"{curve.accesses:,} gets", f"{curve.pages:,} pages", "exact LRU, every size from one pass"]
    if measured:
        facts.append(_beside(curve, measured, page_size_bytes))
    report = Report(
        title="curve",
        question=f"How many of the accesses in {name} would each size of the buffer pool miss?",
        answer=answer(curve, page_size_bytes),
        facts=tuple(facts),
        banners=tuple(Banner("warning", f"{model.name}: {doubt}") for doubt in model.doubts) if model else (),
        headline=_figure(curve, page_size_bytes, measured),
        steps=table(curve, sizes, page_size_bytes, model),
        limits=(_GUIDE,),
        sections=(
            *((_by_object(objects, sizes, page_size_bytes),) if objects else ()),
            _over_time(accesses, page_size_bytes),
        ),
        parts=("notes", "answer", "facts", "", "tables", "limits"),
        notes=tuple(map(Note, how)),
        data=_result(accesses, curve, sizes, objects or {}, model),
    )
    return stamped(report, f"{name} · {curve.accesses:,} gets · bufferlab")


def _result(
    accesses: Accesses,
    curve: MissCurve,
    sizes: Sequence[int],
    objects: Mapping[str, Sequence[int]],
    model: PlayedTrace | None,
) -> CurveResult:
    ends, touched = working_set(accesses)
    time_s = accesses.touches.time_s
    return CurveResult(
        tuple(CurvePool(size, int(curve.misses[size])) for size in sizes),
        curve,
        model,
        accesses.measured,
        {name: OfTable(gets, tuple(misses)) for name, (gets, *misses) in objects.items()},
        tuple(WorkingSet(float(end), int(pages)) for end, pages in zip(ends, touched, strict=True)),
        accesses.reading,
        float(time_s[0]),
        float(time_s[-1]),
    )


def _beside(curve: MissCurve, measured: MeasuredPool, page_size_bytes: int | None) -> str:
    """Return in words the misses that the run counted, and the misses of LRU with a pool of the same size."""
    misses = int(curve.misses[min(measured.pages, curve.pages)])
    return (
        f"the run's pool of {pool(measured.pages, page_size_bytes)} missed {measured.misses:,} times, "
        f"LRU of that size misses {misses:,} times"
    )


def _by_object(objects: Mapping[str, Sequence[int]], sizes: Sequence[int], page_size_bytes: int | None) -> Section:
    """Return the section with the misses of each table and index, those with the most gets first."""
    heads = ("<Table or index", "Gets", *(pool(size, page_size_bytes) for size in sizes))
    found = sorted(((name, counts) for name, counts in objects.items() if counts[0]), key=lambda one: -one[1][0])
    rows = ((name, *(f"{count:,}" for count in counts)) for name, counts in found)
    caption = "Gets, and misses in LRU pools that all tables and indexes share."
    table = Table.of("misses-by-table", "Misses by table and index", heads, rows, brief=True)
    return Section("by-table", "Tables and indexes", caption, (table,))


def answer(curve: MissCurve, page_size_bytes: int | None) -> str:
    """Return the answer: the curve's knee, its step, or that it has neither; and the misses that remain in any pool."""
    whole = _ratio(curve, curve.pages) if curve.misses[-1] else "none"
    knee, step = curve.knee_pages, curve.step
    if knee:
        found = (
            f"The knee is at {pool(knee, page_size_bytes)}, {format_percent(knee / curve.pages)} of the pages touched: "
            f"in smaller pools misses rise fastest. An LRU pool of that size misses {_ratio(curve, knee)} of the gets, "
            f"and one that holds every page {whole}."
        )
        return f"{found} {_stepping(step, page_size_bytes)}" if step else found
    if step:
        share = format_percent(step.pages / curve.pages)
        return (
            f"{_stepping(step, page_size_bytes)} That size has {share} of the pages touched. A pool that holds every "
            f"page misses {whole} of the gets. The curve has no knee."
        )
    if curve.misses[min(1, curve.pages)] == curve.misses[-1]:
        every = int(curve.misses[-1])
        return f"There is no knee: an LRU pool of any size misses {every:,} of {curve.accesses:,} gets."
    return (
        f"There is neither a knee nor a step: an LRU pool of 1 page misses {_ratio(curve, 1)} of the gets, one that "
        f"holds every page {whole}, and the curve is nowhere far below the straight line between the two."
    )


def _stepping(step: CurveStep, page_size_bytes: int | None) -> str:
    """Return a sentence on a step of the curve."""
    below = pool(step.pages - 1, page_size_bytes)
    return (
        f"Misses fall in a step at {pool(step.pages, page_size_bytes)}: an LRU pool of {below} misses "
        f"{step.misses_below:,} times, and one of that size {step.misses:,} times."
    )


def table(
    curve: MissCurve, sizes: Sequence[int], page_size_bytes: int | None, model: PlayedTrace | None = None
) -> Table:
    """Return the table of misses at the chosen sizes, by LRU and by a model if one is given."""
    rows = (
        (pool(size, page_size_bytes), _ratio(curve, size), f"{int(curve.misses[size]):,}",
         format_percent(size / max(1, curve.pages)), *((f"{model.misses[place]:,}",) if model else ()))
        for place, size in enumerate(sizes)
    )  # fmt: skip
    heads = ("Pool", "Gets missed", "Misses", "Of the pages touched", *((f"Misses of {model.name}",) if model else ()))
    return Table.of("misses", "Misses of an LRU pool", heads, rows, _GUIDE, brief=True)


def pool(pages: int, page_size_bytes: int | None) -> str:
    """Return a pool's size as text: "1,024 pages (8 MiB)"; without bytes if the page size is unknown."""
    size = f" ({format_bytes(pages * page_size_bytes)})" if page_size_bytes else ""
    return f"{pages:,} page{'' if pages == 1 else 's'}{size}"


def _over_time(accesses: Accesses, page_size_bytes: int | None) -> Section:
    """Return the section on the working set: the pages touched in each of several equal parts of the trace."""
    ends, pages = working_set(accesses)
    unit = (page_size_bytes or MIB) / MIB
    label = "Working set (MiB)" if page_size_bytes else "Working set (pages)"
    start_s = float(accesses.touches.time_s[0])
    shown = Trace(
        label="",
        t_s=tuple((ends - start_s).tolist()),
        values=tuple((pages * unit).tolist()),
        window_start_s=accesses.window_s[0] - start_s if accesses.window_s else None,
    )
    length_s = float(ends[-1] - start_s) / len(ends)
    intro = f"The pages touched in each part of {length_s:.3g} s: what a pool must hold to read none of them twice."
    rows = ((f"{end - start_s:.3f}", f"{count:,}") for end, count in zip(ends, pages, strict=True))
    data = Table.of("working-set-pages", "Working set over time", ("End (s)", "Pages"), rows, intro)
    alt = f"A line over time between {int(pages.min()):,} and {int(pages.max()):,} pages."
    caption = "Grey: before the measured window." if accesses.window_s else ""
    plot = TimePlot(("",), label, ((shown,),))
    return Section("working-set", "Working set", intro, (Figure("working-set", data.title, alt, caption, plot, data),))


def how_read(accesses: Accesses, *notes: str | None) -> list[str]:
    """Return sentences on how a file was read, then the notes; only the notes for the trace of a run."""
    how, time_s = accesses.reading, accesses.touches.time_s
    found = [how.sentence(float(time_s[0]), float(time_s[-1])), *how.notes] if how else []
    return [*found, *filter(None, notes)]


def _ratio(curve: MissCurve, pages: int) -> str:
    return format_percent(_miss_ratio(curve, pages))


def _figure(curve: MissCurve, page_size_bytes: int | None, measured: MeasuredPool | None) -> Figure:
    """Return the figure: a line over all sizes, dots at round shares of the pages, marks at the knee and the step."""
    unit, step = page_size_bytes or 1, curve.step
    marked = {f"knee: {pool(knee, page_size_bytes)}": knee for knee in (curve.knee_pages,) if knee}
    if step and step.pages not in marked.values():
        marked[f"step: {pool(step.pages, page_size_bytes)}"] = step.pages
    first = max(1, int(curve.pages * _FIRST_DRAWN))
    places = np.unique(np.geomspace(first, max(first, curve.pages), _DRAWN).astype(np.int64))
    shares = sorted({max(first, curve.pages * percent // 100) for percent in (1, 2, 5, 10, 20, 40, 60, 80, 100)})
    dots = tuple(
        Dot(float(size * unit), pool(size, page_size_bytes), (), 100 * _miss_ratio(curve, size), None, None)
        for size in shares
    )
    missed = tuple(100 * _miss_ratio(curve, int(size)) for size in places)
    line = Curve("", tuple(map(float, places * unit)), missed, 0)
    series = [Series("LRU", dots, joined=False)]
    if measured:
        percent = 100 * measured.misses / curve.accesses
        dot = Dot(float(measured.pages * unit), pool(measured.pages, page_size_bytes), (), percent, None, None)
        series.append(Series("measured", (dot,), joined=False))
    plot = PointsPlot(
        x_label="Buffer pool" if page_size_bytes else "Buffer pool (pages)",
        y_label="Gets missed (%)",
        series=tuple(series),
        # The knee is the size at which the curve is farthest below its chord, which a logarithmic axis would not show.
        x_is_log=False,
        y_is_log=False,
        x_in_bytes=page_size_bytes is not None,
        curves=(line,),
        marks=tuple(Mark(float(pages * unit), label, 1, dashed=True) for label, pages in marked.items()),
        names_at_ends=True,
    )
    title = "Misses of an LRU pool, by its size"
    alt = f"A line that never rises. {answer(curve, page_size_bytes)}"
    caption = "Line: every size. Dots: round shares of the pages touched. Counted, not estimated: no interval."
    return Figure("curve", title, alt, caption, plot, table(curve, shares, page_size_bytes))


def _miss_ratio(curve: MissCurve, pages: int) -> float:
    return int(curve.misses[pages]) / curve.accesses
