"""Compares the measured numbers with those of the document (such as a paper) whose question the experiment asks.

experiments/NAME/document.toml has the document's words and numbers; NAME is that of the built-in experiment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bufferlab.catalog import EXPERIMENTS, builtin_experiments
from bufferlab.chapter import numbers_in_doubt, words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Row, Table
from bufferlab.report import predicted
from bufferlab.report.result_tables import verdict_cell
from bufferlab.stats.best import equivalence_set
from bufferlab.texts import parse_toml
from bufferlab.units import format_bytes

_ENDS = 2
#: The relative difference up to which a pool's share of the database counts as the same as the document's share.
_SAME = 0.03


@dataclass(frozen=True)
class SourceDocument:
    """A document: how to cite it, its conclusion, and its numbers at each value of the axis."""

    reference: str
    concluded: str
    note: str = ""
    """A sentence on how the document's numbers were obtained from it."""
    engines: Sequence[str] = ()
    """The engines with which the document is comparable; all engines if empty."""
    axis: str = ""
    of_database: bool = False
    """Whether values of the axis are shares of the loaded database."""
    columns: Sequence[str] = ()
    ratios: Sequence[str] = ()
    """The columns whose scale differs from the sweep's; tables show them as ratios to the first value."""
    note_of_ratios: str = ""
    scale: str = ""
    """The document's sizes and version, in words that follow "the document has"."""
    points: Sequence[Sequence[float]] = ()
    """The rows of numbers: the value of the axis, then a value of each metric of `columns`."""


_Near = tuple[Sequence[float], PointRuns]
"""A row of the document, and the sweep's point with the same value on the axis."""


def source_document(analysis: Analysis) -> SourceDocument | None:
    """Return the document that the sweep's experiment follows; None without one for this engine."""
    if analysis.sweep.experiment not in builtin_experiments():
        return None
    file = EXPERIMENTS / analysis.sweep.experiment / "document.toml"
    if not file.is_file():
        return None
    told: dict[str, Any] = parse_toml(file.read_text("utf-8"))
    found = SourceDocument(**told)
    return found if not found.engines or analysis.engine in found.engines else None


def beside(analysis: Analysis, document: SourceDocument) -> list[Table]:
    """Return the tables of the document's and the sweep's numbers, with a row for each value on the sweep's axis.

    The second table has ratios to the first value that both have. Metrics that the sweep lacks are left out. The list
    is empty if the sweep varies several settings, or a setting that the document does not vary.
    """
    if not document.points or analysis.axis != document.axis or len(analysis.groups) > 1:
        return []
    near = _both(analysis, document)
    rows: list[tuple[float, Sequence[float], PointRuns]] = [(values[0], values, point) for values, point in near]
    alone = [point for point in analysis.points if all(point.index != other.index for _, other in near)]
    rows += [(at, (), point) for point in alone if (at := _place(analysis, document, point)) is not None]
    rows.sort(key=lambda row: row[0])
    known = [name for name in document.columns if any(analysis.mean(name, point) for _, _, point in rows)]
    ours = "predicted" if predicted.said(analysis) else "measured"
    axis = "Pool / database" if document.of_database else document.axis.replace("_", " ").capitalize()
    shown = []
    if plain := [name for name in known if name not in document.ratios]:
        cells = [_row(analysis, document, row, plain, None) for row in rows]
        title = f"The document's numbers and the {ours} ones"
        shown.append(Table.of("document", title, _heads(analysis, axis, plain), cells, document.note))
    ratios = [name for name in known if name in document.ratios]
    if ratios and len(near) >= _ENDS:
        cells = [_row(analysis, document, row, ratios, near[0]) for row in rows]
        title = (
            f"The document's numbers and the {ours} ones, as ratios to {_axis_words(analysis, document, near[0][0][0])}"
        )
        doubts = numbers_in_doubt.caption(analysis.checks, map(analysis.metric, ratios))
        note = f"Ratios of means, without intervals. {document.note_of_ratios}".strip() + doubts
        shown.append(Table.of("document-ratios", title, _heads(analysis, axis, ratios), cells, note))
    return shown


def _heads(analysis: Analysis, axis: str, names: Sequence[str]) -> list[str]:
    labels = [analysis.metric(name).label for name in names]
    return [f"<{axis}", *(head for label in labels for head in (f"{label}: document", "here"))]


def _row(
    analysis: Analysis,
    document: SourceDocument,
    row: tuple[float, Sequence[float], PointRuns],
    names: Sequence[str],
    first: _Near | None,
) -> Row:
    """Return the row for one value of the axis: the numbers, or, if `first` is given, their ratios to the numbers of
    `first`."""
    at, values, point = row
    cells = [_axis_words(analysis, document, at)]
    for name in names:
        place, metric, mean = 1 + document.columns.index(name), analysis.metric(name), analysis.mean(name, point)
        if first is None:
            cells.append(words.cell(metric, values[place]) if values else words.NOTHING)
            cells.append(words.cell(metric, mean) if mean else words.NOTHING)
        else:
            base = analysis.mean(name, first[1])
            cells.append(f"{values[place] / first[0][place]:.2f}" if values else words.NOTHING)
            cells.append(f"{mean.value / base.value:.2f}" if mean and base and base.value else words.NOTHING)
    return Row(tuple(cells))


def against(analysis: Analysis, document: SourceDocument) -> str:
    """Return a sentence for each metric of the document: its change over the axis in the document, and in the sweep.

    Both changes have the unit of the sweep's verdict. They are from the first to the last value of the axis that both
    have. Return "" if they share fewer than two values.
    """
    both = _both(analysis, document)
    if len(both) < _ENDS or analysis.axis != document.axis or len(analysis.groups) > 1:
        return ""
    ((_, *before), a), ((_, *after), b) = both[0], both[-1]
    ends = f"from {analysis.short_label(a)} to {analysis.short_label(b)}"
    said = []
    for place, name in enumerate(document.columns):
        found = analysis.verdict(name, a.index, b.index)
        if found is None or not before[place]:
            continue
        metric = analysis.metric(name)
        in_points = found.contrast == "difference" and metric.is_share
        change = after[place] - before[place] if in_points else after[place] / before[place] - 1
        unit = words.POINTS if in_points else "%"
        there = f"{'rise' if change > 0 else 'fall'} by {words.two_digits(abs(change))} {unit}"
        here = (
            verdict_cell(analysis, name, a.index, b.index).replace("falls", "they fall").replace("rises", "they rise")
        )
        said.append(f"{metric.label}, {ends}: the document's {there}; here {here}.")
    return " ".join([*said, *_highest(analysis, document, both)])


def _highest(analysis: Analysis, document: SourceDocument, both: Sequence[_Near]) -> Iterator[str]:
    """Yield a sentence on the axis value with the document's highest throughput, and on the sweep's result there."""
    name = analysis.work_per_s
    if name not in document.columns or analysis.mean(name, both[0][1]) is None:
        return
    place = 1 + document.columns.index(name)
    top = max(document.points, key=lambda values: values[place])[0]
    title = analysis.metric(name).label
    there = f"The document's {title} are highest at {_axis_words(analysis, document, top)}, by single runs"
    if blocked := analysis.claim_blocked(name):
        yield f"{there}; here no value is shown to be best ({blocked})."
        return
    fit = analysis.fit(name)
    places = [point.index for point in analysis.points if fit and point.index in fit.points]
    if fit is None or len(places) < _ENDS:
        return
    members = equivalence_set(fit, "more", places).members
    named = [analysis.short_label(point) for point in analysis.points if point.index in members]
    yield f"{there}; here these may be the best: {words.listing(named)}."


def differences(analysis: Analysis, document: SourceDocument) -> str:
    """Return a sentence on the sizes and versions of the document and of the sweep; "" if the document names none."""
    if not document.scale or not analysis.runs:
        return ""
    run = analysis.runs[0]
    here = [
        *([f"{count} warehouses"] if (count := run.run.workload.get("warehouses")) else []),
        *(f"{what} of {format_bytes(size)}" for what, name in (("a pool", run.engine.pool), ("pages", "page_size"))
          if isinstance(size := run.knob(name), int)),
        run.engine_and_version,
    ]  # fmt: skip
    return f"Absolute numbers are of another scale: the document has {document.scale}; here {words.listing(here)}."


def _both(analysis: Analysis, document: SourceDocument) -> list[_Near]:
    """Return, in order, the document's rows whose axis value the sweep has too, each with the sweep's point."""
    placed = [(at, point) for point in analysis.points if (at := _place(analysis, document, point)) is not None]
    found = []
    for values in document.points:
        point = next((point for at, point in placed if abs(at / values[0] - 1) <= _SAME), None)
        if point is not None:
            found.append((values, point))
    return found


def _axis_words(analysis: Analysis, document: SourceDocument, at: float) -> str:
    if document.of_database:
        return words.share(at)
    return format_bytes(round(at)) if analysis.axis_in_bytes else f"{at:,.0f}"


def _place(analysis: Analysis, document: SourceDocument, point: PointRuns) -> float | None:
    """Return a point's value on the document's axis; None without a good run."""
    value, base = analysis.axis_value(point), point.ok[0].run.database if point.ok else None
    if value is None or base is None:
        return None
    return value / base.bytes_loaded if document.of_database else value
