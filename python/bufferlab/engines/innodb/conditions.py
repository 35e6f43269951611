"""The workload's consistency conditions, asked of a server: its own second client, PyMySQL, on tables nobody changes.

The queries are those of workloads/<name>/consistency/, with MySQL's words in their folder mysql/ where SQLite's are not
understood; results have the fields that the check of SQLite's files has. First the b-trees, by CHECK TABLE.
"""

from __future__ import annotations

import importlib.resources
import re
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.accounts import DATABASE
from bufferlab.errors import DataFileError, InternalError

_TREES = 0
"""The number of the condition that holds for every database; the workloads' own begin at 1."""
_DIALECT = "mysql"
_NOT_OURS = "is this the workload's database? load it again with the command that made it"


@dataclass(frozen=True)
class _Condition:
    number: int
    name: str
    query: str


def check(
    connection: Any,
    workload: Mapping[str, Any],
    delivered: Sequence[Sequence[int]],
    database: Path,
    schema: str = DATABASE,
) -> dict[str, Any]:
    """Every condition: {"seconds", "conditions": [{"condition", "name", "passed", "violations", "example"}]}.

    A violated condition is a result, not an error; DataFileError is for data that is not the workload's. Trees that are
    not sound are the only result: what a query finds in them means nothing.
    """
    started = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute(f"USE `{schema}`")
    found = [_trees(connection)]
    if found[0]["passed"]:
        folder = importlib.resources.files("bufferlab.workloads").joinpath(workload["name"], "consistency")
        expected = _expected(folder)
        try:
            _expect_rows(connection, expected.get("rows", {}), workload, database)
            if expected.get("delivered", False):
                _give_deliveries(connection, delivered)
            variables = {**expected.get("values", {}), **workload}
            found += [_row(connection, condition, variables) for condition in _conditions(folder)]
        except pymysql.ProgrammingError as error:
            raise DataFileError(
                f"the workload's conditions cannot be asked of this database: {error.args[-1]}",
                str(database),
                _NOT_OURS,
            ) from error
    return {"seconds": time.monotonic() - started, "conditions": found}


def _trees(connection: Any) -> dict[str, Any]:
    """Every index of every table is in order and has as many entries as the table has rows."""
    tables = [str(name) for (name,) in control.rows(connection, "SHOW TABLES")]
    if not tables:
        faults = ["there are no tables"]
    else:
        checked = control.rows(connection, "CHECK TABLE " + ", ".join(f"`{name}`" for name in tables))
        faults = [
            f"{table}: {text}"
            for table, _, kind, text in checked
            if kind == "error" or (kind == "status" and text not in ("OK", "Table is already up to date"))
        ]
    return {
        "condition": _TREES,
        "name": "the tables' b-trees are well formed (CHECK TABLE)",
        "passed": not faults,
        "violations": len(faults),
        "example": {"message": faults[0]} if faults else None,
    }


def _row(connection: Any, condition: _Condition, variables: Mapping[str, Any]) -> dict[str, Any]:
    # Unbuffered: a database that breaks everywhere must not fill memory with its violations.
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(*_with_parameters(condition.query, variables))
        first = cursor.fetchone()
        violations = 0 if first is None else 1 + sum(1 for _ in cursor)
        columns = [column[0] for column in cursor.description]
    return {
        "condition": condition.number,
        "name": condition.name,
        "passed": violations == 0,
        "violations": violations,
        "example": None if first is None else dict(zip(columns, map(_plain, first), strict=True)),
    }


def _with_parameters(query: str, variables: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The query with PyMySQL's placeholders, without the comments, and the variables it names.

    >>> _with_parameters("-- a: b\\nSELECT 1 WHERE 2 > :rows;", {"rows": 3, "seed": 1})
    ('SELECT 1 WHERE 2 > %(rows)s', {'rows': 3})
    """
    code = re.sub(r"(?m)^--.*\n?", "", query).strip().rstrip(";").replace("%", "%%")
    names = set(re.findall(r"(?<![:\w]):([a-z_]+)", code))
    return re.sub(r"(?<![:\w]):([a-z_]+)", r"%(\1)s", code), {name: variables[name] for name in names}


def _plain(value: Any) -> Any:
    """As JSON can hold it: amounts and dates as text."""
    return value if isinstance(value, int | float | str | None) else str(value)


def _expected(folder: Traversable) -> dict[str, Any]:
    file = folder.joinpath("expect.toml")
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}


def _conditions(folder: Traversable) -> list[_Condition]:
    """In the specification's order; each in the dialect's words where it has any."""
    if not folder.is_dir():
        return []
    shared = {file.name: file for file in folder.iterdir() if file.name.endswith(".sql")}
    own = folder.joinpath(_DIALECT)
    if own.is_dir():
        shared |= {file.name: file for file in own.iterdir() if file.name.endswith(".sql")}
    return [_parsed(name, file.read_text("utf-8")) for name, file in sorted(shared.items())]


def _parsed(file_name: str, query: str) -> _Condition:
    number, name = re.fullmatch(r"condition_(\d+)\.sql", file_name), re.match(r"-- .*?: (.+)\n", query)
    if number is None or name is None:
        raise InternalError(f"{file_name} is not a consistency condition", file_name)
    return _Condition(int(number[1]), name[1], query)


def _expect_rows(connection: Any, rows: Mapping[str, str], workload: Mapping[str, Any], database: Path) -> None:
    """That there is data at all, and of the size asked for: nothing breaks in empty tables."""
    for table, parameter in rows.items():
        ((found,),) = control.rows(connection, f"SELECT count(*) FROM {table}")
        if found != workload[parameter]:
            raise DataFileError(
                f"the database has {found} {parameter} where {workload[parameter]} are expected",
                str(database),
                _NOT_OURS,
            )


def _give_deliveries(connection: Any, delivered: Sequence[Sequence[int]]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE delivered (w_id INT, d_id INT, orders BIGINT, PRIMARY KEY (w_id, d_id))")
        if delivered:
            cursor.executemany(
                "INSERT INTO delivered VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE orders = orders + VALUES(orders)",
                [tuple(row) for row in delivered],
            )
