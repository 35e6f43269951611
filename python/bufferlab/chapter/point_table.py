"""The table with one row per point that every chapter uses: means with their intervals, or why runs failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.blocks import Column, Row, Table

_UNITS_IN_HEADS = {"us": "µs", "pages": "pages", "gets": "gets"}

#: Titles of columns, each with what it shows of a point: a metric by its name, or the text that a function makes.
Heads = Mapping[str, str | Callable[[PointRuns], str]]


def point_table(
    analysis: Analysis,
    id: str,
    title: str,
    heads: Heads,
    caption: str,
    *,
    known_only: bool = False,
    name: Callable[[PointRuns], str] | None = None,
    brief: tuple[str, ...] = (),
    folded: bool = False,
) -> Table:
    """Return a table with one row per point: means with their intervals, or the reason why runs failed.

    `known_only` leaves out columns of metrics that no run has, and all rows where no column is left. `name` says how
    a point is called here.
    """
    if known_only and analysis.runs:
        heads = {head: of for head, of in heads.items() if not isinstance(of, str) or analysis.fit(of) is not None}
    name = name or analysis.name_of

    def row(point: PointRuns) -> Row:
        cells = (analysis.cell(of, point) if isinstance(of, str) else of(point) for of in heads.values())
        return Row((name(point), str(len(point.ok)), *cells))

    columns = (Column("Point", numeric=False), Column("n"), *map(Column, heads))
    rows = point_rows(analysis.points, len(columns), row, name) if heads else ()
    return Table(id, title, columns, rows, caption, folded, brief)


def point_rows(
    points: Sequence[PointRuns], width: int, row: Callable[[PointRuns], Row], name: Callable[[PointRuns], str]
) -> tuple[Row, ...]:
    """Return a row for every point that ran, and one with the reason for every point with failed runs."""
    rows = []
    for point in points:
        rows += [row(point)] if point.ok else []
        rows += [_failure_row(point, width, name(point))] if point.status != "ok" else []
    return tuple(rows)


def headed(analysis: Analysis, metrics: Iterable[str]) -> dict[str, str]:
    """Return heads for metrics: their titles without the unit of work, with the unit of what is counted."""
    heads = {}
    for metric in metrics:
        declared = analysis.metric(metric)
        unit, title = _UNITS_IN_HEADS.get(declared.top_unit), words.heading(declared)
        heads[f"{title} ({unit})" if unit else title] = metric
    return heads


def _failure_row(point: PointRuns, width: int, name: str) -> Row:
    count = f"{len(point.failures)} of {len(point.records)} runs " if point.records else ""
    text = f"{count}{point.status}: {point.reason}"
    return Row((name, str(len(point.ok)), text, *("",) * (width - 3)), "failed")
