"""Sets the numbers of the document whose question an experiment asks next to the measured numbers.

experiments/NAME/document.toml has the document's words and numbers, by the built-in experiment's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bufferlab.catalog import EXPERIMENTS, builtin_experiments
from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Row, Table
from bufferlab.texts import parse_toml
from bufferlab.units import format_bytes

_ENDS = 2
#: The relative distance up to which a share of the database is the document's share.
_SAME = 0.03


@dataclass(frozen=True)
class SourceDocument:
    """A document: how to cite it, its conclusion, and its numbers at each value of the axis."""

    reference: str
    concluded: str
    note: str = ""
    """A sentence on how its numbers were read."""
    engines: Sequence[str] = ()
    """The engines that it is comparable with; empty: any."""
    axis: str = ""
    of_database: bool = False
    """Whether values of the axis are shares of the loaded database."""
    columns: Sequence[str] = ()
    points: Sequence[Sequence[float]] = ()
    """The rows of numbers: the value of the axis, then a value of each metric of `columns`."""


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


def beside(analysis: Analysis, document: SourceDocument) -> Table | None:
    """Return the table of the document's numbers and the measured ones, a row for each value of the axis.

    None if the sweep varies another setting than the document, or several.
    """
    if not document.points or analysis.axis != document.axis or len(analysis.groups) > 1:
        return None
    measured = {at: point for point in analysis.points if (at := _place(analysis, document, point)) is not None}
    rows: list[tuple[float, Sequence[float], PointRuns | None]] = []
    for values in document.points:
        near = next((at for at in measured if abs(at / values[0] - 1) <= _SAME), None)
        rows.append((values[0], values, measured.pop(near) if near is not None else None))
    rows += [(at, (), point) for at, point in measured.items()]
    metrics = [analysis.metric(name) for name in document.columns]
    shown: list[Row] = []
    for at, numbers, point in sorted(rows, key=lambda row: row[0]):
        cells = [_axis_words(analysis, document, at)]
        for place, metric in enumerate(metrics, 1):
            cells.append(words.cell(metric, numbers[place]) if numbers else words.NOTHING)
            cells.append(words.cell(metric, analysis.mean(metric.name, point)) if point else words.NOTHING)
        shown.append(Row(tuple(cells)))
    heads = [f"<{'Pool / database' if document.of_database else document.axis.replace('_', ' ').capitalize()}"]
    heads += [head for one in metrics for head in (f"{one.label}: document", "here")]
    return Table.of("document", "The document's numbers and the measured ones", heads, shown, document.note)


def against(analysis: Analysis, document: SourceDocument) -> str:
    """Return a sentence for each number of the document: how it changes over the axis there, and how here.

    The ends are the first and the last value that both have; "" if they share fewer than two.
    """
    near: dict[float, PointRuns] = {}
    for values in document.points:
        for point in analysis.points:
            at = _place(analysis, document, point)
            if at is not None and abs(at / values[0] - 1) <= _SAME:
                near[values[0]] = point
    both = [values for values in document.points if values[0] in near]
    if len(both) < _ENDS or analysis.axis != document.axis or len(analysis.groups) > 1:
        return ""
    (first, *before), (last, *after) = both[0], both[-1]
    said = []
    for place, name in enumerate(document.columns):
        found = analysis.verdict(name, near[first].index, near[last].index)
        if found is None or not before[place]:
            continue
        metric = analysis.metric(name)
        change = after[place] - before[place] if metric.is_share else after[place] / before[place] - 1
        unit = "percentage points" if metric.is_share else "%"
        ends = f"from {analysis.short_label(near[first])} to {analysis.short_label(near[last])}"
        there = f"{'rise' if change > 0 else 'fall'} by {words.two_digits(abs(change))} {unit}"
        here = (
            words.verdict(found, words.unit_of_change(metric))
            .replace("falls", "they fall")
            .replace("rises", "they rise")
        )
        said.append(f"{metric.label}, {ends}: the document's {there}; here {here}.")
    return " ".join(said)


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
