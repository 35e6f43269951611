"""Reads that theory expects for a query's plan, from the sizes that a run reports, compared with the run's reads."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.results.schema import Database, Shape, Tree
from support.synthetic import BUFFER_SIZE, Sweep, build

#: The package has the chapter's function under the same name as the module.
chapter = import_module("bufferlab.report.chapters.expected_reads")


def tree(name: str, kind: str, rows: int, leaves: int, interior: int) -> Tree:
    return Tree(
        name=name, table="lineitem", kind=cast("Any", kind), rows=rows, leaf_pages=leaves, interior_pages=interior,
        overflow_pages=0, height=2, level_pages=[interior, leaves], payload_bytes=1, unused_bytes=0,
    )  # fmt: skip


TREES = [
    tree("lineitem", "table", 80_000, 990, 10),
    tree("sqlite_autoindex_lineitem_1", "index", 80_000, 400, 2),
    tree("lineitem_by_shipdate", "index", 80_000, 200, 1),
]


def run(plan: str = "index_scan", pool_bytes: object = 100 * 8192, trees: list[Tree] | None = None) -> MeasuredRun:
    shape = Shape(page_size_bytes=8192, pages=1300, free_pages=0, trees=TREES if trees is None else trees)
    told = SimpleNamespace(
        workload={"drawn": {"plan": plan, "rows_in_range": 40_000}}, database=Database(bytes_loaded=1, shape=shape)
    )
    found = SimpleNamespace(run=told, knob=lambda name: pool_bytes, engine=SimpleNamespace(pool="pool_size"))
    return cast("MeasuredRun", found)


@pytest.mark.parametrize(("plan", "reads"), [("sequential", 1000), ("index_scan", 36_100), ("bitmap", 1100)])
def test_what_is_expected_of_a_run_counts_the_whole_table_its_pool_and_the_index_on_the_date(
    plan: str, reads: float
) -> None:
    found = chapter._of_run(run(plan))
    assert found is not None
    assert (found.table_pages, found.pool_pages, found.rows) == (1000, 100, 40_000)
    assert found.reads == pytest.approx(reads, rel=0.001)


@pytest.mark.parametrize(
    "unknown", [run("a_new_plan"), run(pool_bytes=None), run(trees=[]), run(trees=TREES[:2])], ids=range(4)
)
def test_nothing_is_expected_where_a_plan_or_a_size_is_not_known(unknown: MeasuredRun) -> None:
    assert chapter._of_run(unknown) is None


def test_a_sweep_without_plans_has_no_such_chapter(tmp_path: Path) -> None:
    assert chapter.expected_reads(Analysis.of(build(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=1)))) is None
