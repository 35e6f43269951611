"""Reads a workload's consistency conditions from the files of its folder, and checks them in one order for all engines.

A condition is a query in workloads/<name>/consistency/condition_NN.sql. It returns one row per violation. Its first
line says what must hold, and its variables are the workload's parameters. The shared queries are in SQLite's dialect;
subfolders, one for all servers and one per dialect, replace queries that need another form. The file expect.toml says
which rows the data must have at all.

This module opens no database. The files named consistency_by_CLIENT do: SQLite's, and one in each server family.
"""

from __future__ import annotations

import importlib.resources
import re
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from bufferlab.errors import DataFileError, InternalError

TREES = 0
"""The number of the condition that every database must meet; a workload's conditions begin at 1."""
NOT_OURS = "is this the workload's database? load it again with the command that made it"
_VARIABLE = r"(?<![:\w]):([a-z_]+)"
"""The regular expression of a variable in a query: it matches :rows, but not the cast ::int."""
_ROWS_OF_A_STATEMENT = 1000


@dataclass(frozen=True)
class Dialect:
    """The SQL dialect of the conditions for one engine: the folders whose queries replace others, and its words for a
    join in fixed order."""

    folders: tuple[str, ...]
    join_in_order: str


SQLITE = Dialect((), "CROSS JOIN")
MYSQL = Dialect(("servers", "mysql"), "STRAIGHT_JOIN")
POSTGRES = Dialect(("servers", "postgres"), "JOIN")


@dataclass(frozen=True)
class WorkloadCondition:
    """One consistency condition of a workload's specification."""

    number: int
    name: str
    query: str

    @property
    def code(self) -> str:
        """Return the query without its comments and its final semicolon.

        >>> WorkloadCondition(1, "b", "-- a: b\\nSELECT 1;").code
        'SELECT 1'
        """
        return re.sub(r"(?m)^--.*\n?", "", self.query).strip().rstrip(";")

    def with_values(self, variables: Mapping[str, Any]) -> str:
        """Return the query with each variable replaced by its integer value.

        >>> WorkloadCondition(1, "b", "-- a: b\\nSELECT k::int WHERE 2 > :rows;").with_values({"rows": 3})
        'SELECT k::int WHERE 2 > 3'
        """
        return re.sub(_VARIABLE, lambda found: str(int(variables[found[1]])), self.code)


@dataclass(frozen=True)
class Expectation:
    """The rows that data must have before a workload's conditions are meaningful; expect.toml explains each field."""

    rows: Mapping[str, str]
    values: Mapping[str, int]
    delivered: bool


def expectation(workload: str) -> Expectation:
    """Return the content of the workload's expect.toml; a workload without this file expects no rows."""
    file = _folder(workload).joinpath("expect.toml")
    told = tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
    return Expectation(told.get("rows", {}), told.get("values", {}), told.get("delivered", False))


def conditions(workload: str, dialect: Dialect = SQLITE) -> list[WorkloadCondition]:
    """Return the conditions of a workload, in the specification's order; [] if it has none."""
    shared = _folder(workload)
    files = {
        file.name: file
        for folder in (shared, *map(shared.joinpath, dialect.folders))
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    }
    return [
        _parsed(name, file.read_text("utf-8").replace("CROSS JOIN", dialect.join_in_order))
        for name, file in sorted(files.items())
    ]


def check_by_two(
    sessions: Callable[[], AbstractContextManager[Any]],
    trees: Callable[[Any], dict[str, Any]],
    some: Callable[[Any, Iterator[WorkloadCondition]], list[dict[str, Any]]],
    parts: Sequence[WorkloadCondition],
) -> list[dict[str, Any]]:
    """Check the trees in one session and the conditions in another at the same time; return all results.

    When the trees are done, their session helps with the remaining conditions; `some` takes these one by one. If a tree
    is damaged, only the result of the trees is returned: answers and errors of the conditions are then meaningless.
    """
    left, found = iter(parts), list[dict[str, Any]]()
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            with sessions() as session:
                found.extend(some(session, left))
        except BaseException as error:  # It is raised again below, even KeyboardInterrupt and SystemExit.
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        with sessions() as session:
            first = trees(session)
            rest = some(session, left) if first["passed"] else []
    finally:
        for _ in left:  # After an error, skip the remaining conditions.
            pass
        thread.join()
    if not first["passed"]:
        return [first]
    if failed:
        raise failed[0]
    return [first, *sorted([*found, *rest], key=lambda row: int(row["condition"]))]


def check_on_server(
    cursors: Callable[[], AbstractContextManager[Any]],
    trees: Callable[[Any], dict[str, Any]],
    job: Mapping[str, Any],
    database: Path,
    dialect: Dialect,
    explained: Callable[[Exception], DataFileError | None],
) -> dict[str, Any]:
    """Check every condition in the order of its number; return the results and the seconds.

    The result is {"seconds", "conditions": [{"condition", "name", "passed", "violations", "example"}]}. `cursors` opens
    a session, `job` is that of a check. A violated condition is a result, not an error. `explained` returns the
    DataFileError for a client's error, or None for an error that does not concern the data, which is then raised.
    """
    started = time.monotonic()

    def some(cursor: Any, left: Iterator[WorkloadCondition]) -> list[dict[str, Any]]:
        try:
            # psycopg's cursor has a method `stream`, which returns rows one by one; other clients have none.
            ask = getattr(cursor, "stream", None)
            return check_some(left, job["workload"], job["delivered_orders"], database, cursor, ask)
        except Exception as error:
            if (explanation := explained(error)) is None:
                raise
            raise explanation from error

    found = check_by_two(cursors, trees, some, conditions(job["workload"]["name"], dialect))
    return {"seconds": time.monotonic() - started, "conditions": found}


def check_some(
    left: Iterator[WorkloadCondition],
    workload: Mapping[str, Any],
    delivered: Sequence[Sequence[int]],
    database: Path,
    cursor: Any,
    ask: Callable[[str], Iterator[Any]] | None = None,
) -> list[dict[str, Any]]:
    """Check the remaining conditions through a DB-API cursor, and return their results.

    `delivered` is [warehouse, district, orders delivered since the load]. `ask` returns the rows of a query one by one,
    if the cursor's `execute` would keep all of them. Raises DataFileError for a database without data, or of another
    size than requested: empty tables violate no condition.
    """

    def rows(query: str) -> Iterator[Any]:
        if ask is not None:
            return ask(query)
        cursor.execute(query)
        return iter(cursor)

    expected = expectation(workload["name"])
    for table, parameter in expected.rows.items():
        ((found,),) = rows(f"SELECT count(*) FROM {table}")
        if found != workload[parameter]:
            raise DataFileError(
                f"the database has {found} {parameter} where {workload[parameter]} are expected",
                str(database),
                NOT_OURS,
            )
    if expected.delivered:
        _give_deliveries(cursor, delivered)
    results = []
    for condition in left:
        # Read rows one by one: a completely broken database must not fill the memory with its violations.
        violations = rows(condition.with_values({**expected.values, **workload}))
        first = next(violations, None)
        number = 0 if first is None else 1 + sum(1 for _ in violations)
        columns = [column[0] for column in cursor.description or ()]
        example = None if first is None else dict(zip(columns, map(_plain, first), strict=True))
        results.append(_result(condition.number, condition.name, number, example))
    return results


def _give_deliveries(cursor: Any, delivered: Sequence[Sequence[int]]) -> None:
    orders: Counter[tuple[int, int]] = Counter()
    for warehouse, district, count in delivered:
        orders[int(warehouse), int(district)] += int(count)
    cursor.execute("CREATE TEMPORARY TABLE delivered (w_id INT, d_id INT, orders BIGINT, PRIMARY KEY (w_id, d_id))")
    rows = [f"({warehouse}, {district}, {count})" for (warehouse, district), count in orders.items()]
    for first in range(0, len(rows), _ROWS_OF_A_STATEMENT):
        cursor.execute(f"INSERT INTO delivered VALUES {', '.join(rows[first : first + _ROWS_OF_A_STATEMENT])}")


def result_of_trees(name: str, faults: Sequence[str]) -> dict[str, Any]:
    """Return the result of the check of the b-trees, with the first fault as the example."""
    return _result(TREES, name, len(faults), {"message": faults[0]} if faults else None)


def _result(number: int, name: str, violations: int, example: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "condition": number,
        "name": name,
        "passed": violations == 0,
        "violations": violations,
        "example": example,
    }


def _plain(value: Any) -> Any:
    """Return the value in a form that JSON supports: amounts and dates as text."""
    return value if isinstance(value, int | float | str | None) else str(value)


def _folder(workload: str) -> Traversable:
    return importlib.resources.files("bufferlab.workloads").joinpath(workload, "consistency")


def _parsed(file_name: str, query: str) -> WorkloadCondition:
    number = re.fullmatch(r"condition_(\d+)\.sql", file_name)
    name = re.match(r"-- .*?: (.+)\n", query)
    if number is None or name is None:
        raise InternalError(
            f"{file_name} is not a consistency condition: its name must be condition_NN.sql and its first line "
            "`-- CLAUSE: what must hold`",
            file_name,
        )
    return WorkloadCondition(int(number[1]), name[1], query)
