"""Reads a workload's consistency conditions from the files of its folder, and checks them in one order for all engines.

A condition is a query in workloads/<name>/consistency/condition_NN.sql. It returns one row per violation. Its first
line says what must hold, and its variables are the workload's parameters. A subfolder named after an SQL dialect
rewords the queries that need it; the shared ones are SQLite's. The file expect.toml says which rows must exist at all.

This module asks no database. Files named consistency_by_ and their client do: one in execute/, one in each server
family.
"""

from __future__ import annotations

import importlib.resources
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from bufferlab.errors import DataFileError, InternalError

TREES = 0
"""The number of the condition that every database must meet; a workload's conditions begin at 1."""
NOT_OURS = "is this the workload's database? load it again with the command that made it"
VARIABLE = r"(?<![:\w]):([a-z_]+)"
"""The regular expression of a variable in a query: :rows, but not the cast ::int."""


@dataclass(frozen=True)
class Condition:
    """One consistency condition of a workload's specification."""

    number: int
    name: str
    query: str

    @property
    def code(self) -> str:
        """The query without its comments and its final semicolon.

        >>> Condition(1, "b", "-- a: b\\nSELECT 1;").code
        'SELECT 1'
        """
        return re.sub(r"(?m)^--.*\n?", "", self.query).strip().rstrip(";")

    @property
    def variables(self) -> set[str]:
        """The :names the query uses."""
        return set(re.findall(VARIABLE, self.code))


@dataclass(frozen=True)
class Expectation:
    """The rows that data must have before a workload's conditions mean anything; expect.toml explains each field."""

    rows: Mapping[str, str]
    values: Mapping[str, int]
    delivered: bool


def expectation(workload: str) -> Expectation:
    """Return the workload's expect.toml. A workload without one expects nothing."""
    file = _folder(workload).joinpath("expect.toml")
    told = tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
    return Expectation(told.get("rows", {}), told.get("values", {}), told.get("delivered", False))


def conditions(workload: str, dialect: str = "sqlite") -> list[Condition]:
    """Return the conditions of a workload, in the specification's order; none if it has no folder of them."""
    shared = _folder(workload)
    files = {
        file.name: file
        for folder in (shared, shared.joinpath(dialect))
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    }
    return [_parsed(name, file.read_text("utf-8")) for name, file in sorted(files.items())]


def check_all(
    workload: Mapping[str, Any],
    database: Path,
    dialect: str,
    count: Callable[[str], int],
    give_deliveries: Callable[[], None],
    ask: Callable[[Condition, Mapping[str, Any]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Check every condition of the workload, and return what `ask` returns for each.

    `count` returns the rows of a table, `give_deliveries` makes the table `delivered`. Raises DataFileError for a
    database without data, or of another size than asked for: no condition breaks in empty tables.
    """
    expected = expectation(workload["name"])
    for table, parameter in expected.rows.items():
        found = count(table)
        if found != workload[parameter]:
            raise DataFileError(
                f"the database has {found} {parameter} where {workload[parameter]} are expected",
                str(database),
                NOT_OURS,
            )
    if expected.delivered:
        give_deliveries()
    variables = {**expected.values, **workload}
    return [ask(condition, variables) for condition in conditions(workload["name"], dialect)]


def result_of(condition: Condition, violations: int, columns: Sequence[str], first: Any) -> dict[str, Any]:
    """Return the result of a condition, with the first row that violates it, or None, as the example."""
    example = None if first is None else dict(zip(columns, map(_plain, first), strict=True))
    return _result(condition.number, condition.name, violations, example)


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
    """Return the value as JSON can hold it: amounts and dates as text."""
    return value if isinstance(value, int | float | str | None) else str(value)


def _folder(workload: str) -> Traversable:
    return importlib.resources.files("bufferlab.workloads").joinpath(workload, "consistency")


def _parsed(file_name: str, query: str) -> Condition:
    number = re.fullmatch(r"condition_(\d+)\.sql", file_name)
    name = re.match(r"-- .*?: (.+)\n", query)
    if number is None or name is None:
        raise InternalError(
            f"{file_name} is not a consistency condition: its name must be condition_NN.sql and its first line "
            "`-- CLAUSE: what must hold`",
            file_name,
        )
    return Condition(int(number[1]), name[1], query)
