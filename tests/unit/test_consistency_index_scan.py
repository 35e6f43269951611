"""Each condition of index_scan notices one wrong line of TPC-H's LINEITEM; the test's table has the columns that they
read."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bufferlab.engines.sqlite.consistency_by_sqlite3 import check
from bufferlab.engines.workload_conditions import TREES
from support.corrupted import corrupt, corrupt_behind_the_index, failed

INDEX_SCAN = {"name": "index_scan", "scale_factor": 0.01}
BY_SHIPDATE = "CREATE INDEX lineitem_by_shipdate ON lineitem(l_shipdate)"


@pytest.fixture
def lineitem(tmp_path: Path) -> Path:
    path, generator = tmp_path / "lineitem.db", random.Random(5)
    rows = [
        (order, line, generator.randint(8036, 10561))
        for order in range(1, 200)
        for line in range(1, generator.randint(1, 7) + 1)
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE lineitem(l_orderkey INTEGER NOT NULL, l_linenumber INTEGER NOT NULL, "
            "l_shipdate INTEGER NOT NULL, l_comment TEXT NOT NULL DEFAULT 'none', "
            "PRIMARY KEY (l_orderkey, l_linenumber)) WITHOUT ROWID"
        )
        rows += [(200, 1, 9000), (200, 2, 9001)]
        connection.executemany("INSERT INTO lineitem (l_orderkey, l_linenumber, l_shipdate) VALUES (?, ?, ?)", rows)
        connection.execute(BY_SHIPDATE)
    return path


def test_lineitem_as_loaded_passes_every_condition(lineitem: Path) -> None:
    result = check(lineitem, INDEX_SCAN, [])
    assert [row["condition"] for row in result["conditions"]] == [TREES, 1, 2]
    assert failed(result) == set(), result


LINE_CASES = {
    "a lost first line": "DELETE FROM lineitem WHERE l_orderkey = 200 AND l_linenumber = 1",
    "a gap": "UPDATE lineitem SET l_linenumber = 3 WHERE l_orderkey = 200 AND l_linenumber = 2",
    "a number that does not exist": "UPDATE lineitem SET l_linenumber = 8 WHERE l_orderkey = 200 AND l_linenumber = 2",
}


@pytest.mark.parametrize("statement", LINE_CASES.values(), ids=LINE_CASES.keys())
def test_one_wrong_line_of_lineitem_is_found(lineitem: Path, statement: str) -> None:
    corrupt(lineitem, statement)
    assert failed(check(lineitem, INDEX_SCAN, [])) == {1}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lineitem SET l_shipdate = l_shipdate + 1 WHERE l_orderkey = 200 AND l_linenumber = 1",
        "DELETE FROM lineitem WHERE l_orderkey = 200 AND l_linenumber = 2",
    ],
)
def test_an_index_on_the_ship_date_that_missed_a_change_is_found(lineitem: Path, statement: str) -> None:
    corrupt_behind_the_index(lineitem, "lineitem_by_shipdate", statement)
    assert failed(check(lineitem, INDEX_SCAN, [])) == {2}
