"""The workload's consistency conditions, asked of a server: its own second client, PyMySQL, on tables nobody changes.

The queries are those of workloads/<name>/consistency/, with MySQL's words in their folder mysql/ where SQLite's are not
understood; results have the fields that the check of SQLite's files has. First the b-trees, by CHECK TABLE.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from bufferlab.engines.innodb import control
from bufferlab.engines.servers.conditions import NOT_OURS, TREES, VARIABLE, Condition, conditions, expected, folder_of
from bufferlab.engines.servers.identity import DATABASE
from bufferlab.errors import DataFileError

_DIALECT = "mysql"


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
        folder = folder_of(workload["name"])
        wanted = expected(folder)
        try:
            _expect_rows(connection, wanted.get("rows", {}), workload, database)
            if wanted.get("delivered", False):
                _give_deliveries(connection, delivered)
            variables = {**wanted.get("values", {}), **workload}
            found += [_row(connection, condition, variables) for condition in conditions(folder, _DIALECT)]
        except pymysql.ProgrammingError as error:
            raise DataFileError(
                f"the workload's conditions cannot be asked of this database: {error.args[-1]}",
                str(database),
                NOT_OURS,
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
        "condition": TREES,
        "name": "the tables' b-trees are well formed (CHECK TABLE)",
        "passed": not faults,
        "violations": len(faults),
        "example": {"message": faults[0]} if faults else None,
    }


def _row(connection: Any, condition: Condition, variables: Mapping[str, Any]) -> dict[str, Any]:
    # Unbuffered: a database that breaks everywhere must not fill memory with its violations.
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(*_with_parameters(condition, variables))
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


def _with_parameters(condition: Condition, variables: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The query with PyMySQL's placeholders, without the comments, and the variables it names.

    >>> _with_parameters(Condition(1, "b", "-- a: b\\nSELECT 1 WHERE 2 > :rows;"), {"rows": 3, "seed": 1})
    ('SELECT 1 WHERE 2 > %(rows)s', {'rows': 3})
    """
    code = re.sub(VARIABLE, r"%(\1)s", condition.code.replace("%", "%%"))
    return code, {name: variables[name] for name in condition.variables}


def _plain(value: Any) -> Any:
    """As JSON can hold it: amounts and dates as text."""
    return value if isinstance(value, int | float | str | None) else str(value)


def _expect_rows(connection: Any, rows: Mapping[str, str], workload: Mapping[str, Any], database: Path) -> None:
    """That there is data at all, and of the size asked for: nothing breaks in empty tables."""
    for table, parameter in rows.items():
        ((found,),) = control.rows(connection, f"SELECT count(*) FROM {table}")
        if found != workload[parameter]:
            raise DataFileError(
                f"the database has {found} {parameter} where {workload[parameter]} are expected",
                str(database),
                NOT_OURS,
            )


def _give_deliveries(connection: Any, delivered: Sequence[Sequence[int]]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE delivered (w_id INT, d_id INT, orders BIGINT, PRIMARY KEY (w_id, d_id))")
        if delivered:
            cursor.executemany(
                "INSERT INTO delivered VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE orders = orders + VALUES(orders)",
                [tuple(row) for row in delivered],
            )
