"""The chapter that compares the measured reads of a query with those that theory expects from its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Section
from bufferlab.chapter.point_table import Heads, point_table
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.theory.index_scan import Plan, pages_read
from bufferlab.units import format_count

ID = "expected-reads"
_TABLE, _INDEX = "lineitem", "lineitem_by_shipdate"
_READS = "reads_per_transaction"
_NEAR = 0.01
"""If all points are within this share of the expected reads, the chapter says so."""
_FORMULAS = (
    "Expected before any run, from the sizes of table, index and pool alone: a sequential scan reads every page of the "
    "table once. An index scan reads the leaves of its part of the index, and a page for each row that does not find "
    "its page in the pool: rows × (1 − pool / table). A bitmap scan reads each page that holds a wanted row once."
)
_CAPTION = (
    "Pages per query. The formula takes the rows of a date to lie at random in the table. Lines of one order share a "
    "page and ship within four months of each other, so an index scan may read fewer pages than that."
)


@dataclass(frozen=True)
class _Expected:
    """The expected reads of a run's query in pages, and the sizes from which they are computed."""

    table_pages: int
    pool_pages: float
    rows: int
    reads: float


def expected_reads(analysis: Analysis) -> Section | None:
    """Return the chapter with expected and measured reads; None if runs lack a checked plan or the trees' sizes."""
    expected = {point.index: found for point in analysis.points if point.ok and (found := _of_run(point.ok[0]))}
    measured = {index: mean for index in expected if (mean := _mean(analysis, index))}
    if not measured:
        return None

    def shown(tell: Callable[[_Expected], str]) -> Callable[[PointRuns], str]:
        return lambda point: tell(expected[point.index]) if point.index in expected else words.NOTHING

    def off(point: PointRuns) -> str:
        both = point.index in measured and expected[point.index].reads
        return words.signed_share(measured[point.index] / expected[point.index].reads - 1) if both else words.NOTHING

    heads: Heads = {
        "Pages of the table": shown(lambda one: format_count(one.table_pages)),
        "Pages of the pool": shown(lambda one: format_count(one.pool_pages)),
        "Rows in the range": shown(lambda one: format_count(one.rows)),
        "Expected reads (pages)": shown(lambda one: format_count(one.reads)),
        "Measured reads (pages)": _READS,
        "Difference": off,
    }
    brief = ("Point", "Expected reads (pages)", "Measured reads (pages)", "Difference")
    table = point_table(analysis, f"{ID}-table", "Expected and measured reads", heads, _CAPTION, brief=brief)
    return Section(ID, "What theory expects of each plan", _intro(analysis, expected, measured), (table,))


def _mean(analysis: Analysis, index: int) -> float | None:
    point = next(point for point in analysis.points if point.index == index)
    found = analysis.mean(_READS, point)
    return found.value if found else None


def _intro(analysis: Analysis, expected: Mapping[int, _Expected], measured: Mapping[int, float]) -> str:
    """Return the formulas in words, and the error of the point that is furthest from them."""
    offs = {index: measured[index] / expected[index].reads - 1 for index in measured if expected[index].reads}
    if not offs:
        return _FORMULAS
    worst = max(offs, key=lambda index: abs(offs[index]))
    name = next(analysis.name_of(point) for point in analysis.points if point.index == worst)
    most = offs[worst]
    if abs(most) < _NEAR:
        return f"{_FORMULAS} Every point read within {words.share(_NEAR, 0)} of that."
    how = f"{words.two_digits(abs(most))} % {'fewer' if most < 0 else 'more'}"
    return f"{_FORMULAS} The point furthest from that ({name}) read {how}."


def _of_run(run: MeasuredRun) -> _Expected | None:
    """Return the reads that theory expects of a run; None if its plan or a size is unknown."""
    drawn, database = run.run.workload.get("drawn") or {}, run.run.database
    rows, pool = drawn.get("rows_in_range"), run.knob(run.engine.pool)
    plan: Plan | None = next((one for one in get_args(Plan) if one == drawn.get("plan")), None)
    shape = database.shape if database else None
    if plan is None or shape is None or not rows or not isinstance(pool, int):
        return None
    table = next((tree for tree in shape.trees if tree.kind == "table" and tree.name == _TABLE), None)
    index = next((tree for tree in shape.trees if tree.name == _INDEX), None)
    if table is None or index is None or not table.rows:
        return None
    pages = table.leaf_pages + table.interior_pages + table.overflow_pages
    frames = pool / shape.page_size_bytes
    reads = pages_read(plan, pages, table.rows, rows, index.leaf_pages, frames)
    return _Expected(pages, frames, rows, reads)
