"""Each condition of hot_rows notices one wrong row of sysbench's table, which the test makes from its definition."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bufferlab.engines.sqlite.consistency_by_sqlite3 import check
from bufferlab.engines.workload_conditions import TREES, conditions
from support.corrupted import corrupt, corrupt_behind_the_index, failed

ROWS = 400
HOT_ROWS = {"name": "hot_rows", "rows": ROWS, "load_seed": 1}
INDEX = "CREATE INDEX k_1 ON sbtest1(k)"


def digits(generator: random.Random, groups: int) -> str:
    return "-".join(f"{generator.randrange(10**11):011}" for _ in range(groups))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path, generator = tmp_path / "hot.db", random.Random(3)
    rows = [
        (number, generator.randint(1, ROWS), digits(generator, 10), digits(generator, 5))
        for number in range(1, ROWS + 1)
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE sbtest1"
            "(id INTEGER PRIMARY KEY, k INTEGER NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)"
        )
        connection.executemany("INSERT INTO sbtest1 VALUES (?, ?, ?, ?)", rows)
        connection.execute(INDEX)
    return path


def test_sysbenchs_table_as_loaded_passes_every_condition(table: Path) -> None:
    result = check(table, HOT_ROWS, [])
    assert [row["condition"] for row in result["conditions"]] == [TREES, 1, 2, 3, 4, 5]
    assert failed(result) == set(), result


HOT_CASES = {
    "a lost row": ("DELETE FROM sbtest1 WHERE id = 7", {1}),
    "a row too many": (f"INSERT INTO sbtest1 SELECT {ROWS + 1}, k, c, pad FROM sbtest1 WHERE id = 7", {1}),
    "a row under another id": (f"UPDATE sbtest1 SET id = {ROWS + 1} WHERE id = {ROWS}", {1}),
    "an id of zero": ("UPDATE sbtest1 SET id = 0 WHERE id = 1", {1}),
    "a k below the range": ("UPDATE sbtest1 SET k = 0 WHERE id = 7", {2}),
    "a k above the range": (f"UPDATE sbtest1 SET k = {ROWS + 1} WHERE id = 7", {2}),
    "a k that is no whole number": ("UPDATE sbtest1 SET k = 2.5 WHERE id = 7", {2}),
    "a short c": ("UPDATE sbtest1 SET c = substr(c, 2) WHERE id = 7", {3}),
    "a c with something behind it": ("UPDATE sbtest1 SET c = c || '1' WHERE id = 7", {3}),
    "a c without a hyphen": ("UPDATE sbtest1 SET c = replace(c, '-', '0') WHERE id = 7", {3}),
    "a letter in c": ("UPDATE sbtest1 SET c = 'x' || substr(c, 2) WHERE id = 7", {3}),
    "an empty c": ("UPDATE sbtest1 SET c = '' WHERE id = 7", {3}),
    "a pad in the form of c": ("UPDATE sbtest1 SET pad = c WHERE id = 7", {4}),
    "a space in pad": ("UPDATE sbtest1 SET pad = ' ' || substr(pad, 2) WHERE id = 7", {4}),
}


@pytest.mark.parametrize(("statement", "expected"), HOT_CASES.values(), ids=HOT_CASES.keys())
def test_one_wrong_row_of_sysbenchs_table_breaks_its_condition_alone(
    table: Path, statement: str, expected: set[int]
) -> None:
    corrupt(table, statement)
    assert failed(check(table, HOT_ROWS, [])) == expected


def test_an_empty_table_breaks_the_number_of_rows(table: Path) -> None:
    with closing(sqlite3.connect(table)) as connection, connection:
        connection.execute("DELETE FROM sbtest1")
    assert failed(check(table, HOT_ROWS, [])) == {1}


@pytest.mark.parametrize(
    ("statement", "fault", "violations"),
    [
        ("UPDATE sbtest1 SET k = k + 1 WHERE id = 7", "not in the index", 1),
        ("DELETE FROM sbtest1 WHERE id = 400", "entries and rows differ", 1),
        (f"INSERT INTO sbtest1 SELECT {ROWS + 1}, k, c, pad FROM sbtest1 WHERE id = 7", "not in the index", 2),
    ],
)
def test_an_index_that_missed_a_change_is_found(table: Path, statement: str, fault: str, violations: int) -> None:
    corrupt_behind_the_index(table, "k_1", statement)
    rows = {row["condition"]: row for row in check(table, HOT_ROWS, [])["conditions"]}
    assert rows[TREES]["passed"], "the trees are sound, each for itself"
    assert (rows[5]["violations"], rows[5]["example"]["fault"]) == (violations, fault)


def test_every_condition_of_hot_rows_is_broken_by_some_case() -> None:
    assert {number for _, expected in HOT_CASES.values() for number in expected} | {5} == {
        condition.number for condition in conditions("hot_rows")
    }
