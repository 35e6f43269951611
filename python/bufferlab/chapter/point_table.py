"""Makes the table with one row per point that every chapter uses: means with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bufferlab.chapter import numbers_in_doubt, words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Row, Table

#: Title of a column -> its content for a point: a metric's name, or a function that makes the text.
Heads = Mapping[str, str | Callable[[PointRuns], str]]


def means_over_runs(analysis: Analysis) -> str:
    """Return the beginning of a caption: whether numbers are means over a point's runs, or of a single run."""
    if all(len(point.ok) < 2 for point in analysis.points):
        return "One run of each point: no interval"
    return "Means over runs with 95 % intervals for the mean of many such runs"


def claims_blocked(analysis: Analysis, metric: str, what: str = "") -> str:
    """Return a sentence for a caption with the reason why this metric allows no claim; "" if it does.

    The sentence begins with a space. `what` names the numbers, with a space before it: " of throughput".
    """
    blocked = analysis.claim_blocked(metric)
    return f" Differences{what} are not claimed ({blocked})." if blocked else ""


def point_table(
    analysis: Analysis,
    id: str,
    title: str,
    heads: Heads,
    caption: str,
    *,
    known_only: bool = False,
    brief: tuple[str, ...] = (),
    folded: bool = False,
) -> Table:
    """Return a table with one row per point: means with their intervals, dashes if no run of the point ended well.

    `known_only` leaves out columns of metrics that no run has, and all rows if no column is left. The caption also says
    which metrics are in doubt, and which have fewer runs than others.
    """
    if known_only and analysis.runs:
        heads = {head: of for head, of in heads.items() if not isinstance(of, str) or analysis.fit(of) is not None}

    def cell(of: str | Callable[[PointRuns], str], point: PointRuns) -> str:
        return words.cell(analysis.metric(of), analysis.mean(of, point)) if isinstance(of, str) else of(point)

    def row(point: PointRuns) -> Row:
        return Row((analysis.name_of(point), str(len(point.ok)), *(cell(of, point) for of in heads.values())))

    shown = [analysis.metric(of) for of in heads.values() if isinstance(of, str)]
    caption += numbers_in_doubt.caption(analysis.checks, shown) + _fewer(analysis, heads.values())
    rows = point_rows(analysis.points, len(heads) + 2, row, analysis.name_of) if heads else ()
    return Table.of(id, title, ("<Point", "n", *heads), rows, caption, folded=folded, brief=brief)


def _fewer(analysis: Analysis, columns: Iterable[str | Callable[[PointRuns], str]]) -> str:
    """Return a sentence that names the metrics that some good run lacks, so that their n is smaller; or ""."""
    names = (of for of in columns if isinstance(of, str))
    fewer = [
        words.lowered(analysis.metric(name).label)
        for name in names
        if any((mean := analysis.mean(name, point)) and mean.n < len(point.ok) for point in analysis.points)
    ]
    return f" Of fewer runs than n: {words.listing(fewer)}." if fewer else ""


def point_rows(
    points: Sequence[PointRuns], width: int, row: Callable[[PointRuns], Row], name: Callable[[PointRuns], str]
) -> tuple[Row, ...]:
    """Return a row of `width` cells for every point; no rows if no run of any point ended well.

    A row's second cell is the number of the point's good runs: "2 of 3" if one failed. The table of failures has the
    reasons.
    """
    if not any(point.ok for point in points):
        return ()
    return tuple(_counted(point, row(point)) if point.ok else _without_runs(width, name(point)) for point in points)


def headed(analysis: Analysis, metrics: Iterable[str]) -> dict[str, str]:
    """Return column's head -> metric. Heads are titles without the unit of work, but with the unit of the count."""
    declared = {metric: analysis.metric(metric) for metric in metrics}
    return {words.with_unit(words.heading(one), one): metric for metric, one in declared.items()}


def _counted(point: PointRuns, row: Row) -> Row:
    """Return the row of a point, with failed runs added to the cell of runs: "2 of 3"."""
    if not point.failures:
        return row
    name, _, *rest = row.cells
    return Row((name, f"{len(point.ok)} of {len(point.ok) + len(point.failures)}", *rest), row.mark)


def _without_runs(width: int, name: str) -> Row:
    return Row((name, "0", *(words.NOTHING,) * (width - 2)), "failed")
