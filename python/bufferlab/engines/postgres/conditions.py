"""The workload's consistency conditions, asked of a server: its own second client, psycopg, on tables nobody changes.

The queries are those of workloads/<name>/consistency/, with PostgreSQL's words in their folder postgres/ where SQLite's
are not understood; results have the fields that the check of SQLite's files has. First the b-trees, by amcheck.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from bufferlab.engines.postgres import control, extensions
from bufferlab.engines.servers.conditions import NOT_OURS, TREES, VARIABLE, Condition, conditions, expected, folder_of
from bufferlab.errors import DataFileError

DIALECT = "postgres"

_INDEXES = """
SELECT c.oid::bigint, c.relname
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
WHERE c.relnamespace = 'public'::regnamespace AND a.amname = 'btree' AND i.indisvalid
ORDER BY c.relname
"""
_TABLES = "SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"


def check(
    connection: control.Connection, workload: Mapping[str, Any], delivered: Sequence[Sequence[int]], database: Path
) -> dict[str, Any]:
    """Every condition: {"seconds", "conditions": [{"condition", "name", "passed", "violations", "example"}]}.

    A violated condition is a result, not an error; DataFileError is for data that is not the workload's. Trees that are
    not sound are the only result: what a query finds in them means nothing.
    """
    started = time.monotonic()
    found = [_trees(connection)]
    if found[0]["passed"]:
        folder = folder_of(workload["name"])
        wanted = expected(folder)
        try:
            _expect_rows(connection, wanted.get("rows", {}), workload, database)
            if wanted.get("delivered", False):
                _give_deliveries(connection, delivered)
            variables = {**wanted.get("values", {}), **workload}
            found += [_row(connection, condition, variables) for condition in conditions(folder, DIALECT)]
        except psycopg.ProgrammingError as error:
            raise DataFileError(
                f"the workload's conditions cannot be asked of this database: {error}", str(database), NOT_OURS
            ) from error
        except psycopg.DatabaseError as error:
            if connection.broken:
                raise
            raise DataFileError(f"the database cannot be read: {error}", str(database), "check the disk") from error
    return {"seconds": time.monotonic() - started, "conditions": found}


def with_values(condition: Condition, variables: Mapping[str, Any]) -> str:
    """The query with the whole numbers it names in their places.

    >>> with_values(Condition(1, "b", "-- a: b\\nSELECT k::int WHERE 2 > :rows;"), {"rows": 3})
    'SELECT k::int WHERE 2 > 3'
    """
    return re.sub(VARIABLE, lambda found: str(int(variables[found[1]])), condition.code)


def _trees(connection: control.Connection) -> dict[str, Any]:
    """Every index is in order and has every row of its table; without amcheck, every table can be read whole."""
    has = extensions.has(connection, extensions.CHECKS)
    tables = [str(name) for (name,) in control.rows(connection, _TABLES)]
    faults = [] if tables else ["there are no tables"]
    how = "bt_index_check, heapallindexed" if has else "read whole; this server has no amcheck"
    questions = (
        [(str(name), f"SELECT bt_index_check({oid}::oid::regclass, true)") for oid, name in
         control.rows(connection, _INDEXES)]
        if has
        else [(name, f"SELECT count(*) FROM {name}") for name in tables]
    )  # fmt: skip
    for name, question in questions:
        try:
            control.rows(connection, question)
        except psycopg.DatabaseError as error:
            if connection.broken:
                raise
            faults.append(f"{name}: {error}")
    return {
        "condition": TREES,
        "name": f"the tables' b-trees are well formed ({how})",
        "passed": not faults,
        "violations": len(faults),
        "example": {"message": faults[0]} if faults else None,
    }


def _row(connection: control.Connection, condition: Condition, variables: Mapping[str, Any]) -> dict[str, Any]:
    first, violations = None, 0
    with connection.cursor() as cursor:
        # Row by row: a database that breaks everywhere must not fill memory with its violations.
        for row in cursor.stream(with_values(condition, variables)):
            if first is None and cursor.description:
                names = [column.name for column in cursor.description]
                first = dict(zip(names, map(_plain, row), strict=True))
            violations += 1
    return {
        "condition": condition.number,
        "name": condition.name,
        "passed": violations == 0,
        "violations": violations,
        "example": first,
    }


def _plain(value: Any) -> Any:
    """As JSON can hold it: amounts and dates as text."""
    return value if isinstance(value, int | float | str | None) else str(value)


def _expect_rows(
    connection: control.Connection, rows: Mapping[str, str], workload: Mapping[str, Any], database: Path
) -> None:
    """That there is data at all, and of the size asked for: nothing breaks in empty tables."""
    for table, parameter in rows.items():
        ((found,),) = control.rows(connection, f"SELECT count(*) FROM {table}")
        if found != workload[parameter]:
            raise DataFileError(
                f"the database has {found} {parameter} where {workload[parameter]} are expected",
                str(database),
                NOT_OURS,
            )


def _give_deliveries(connection: control.Connection, delivered: Sequence[Sequence[int]]) -> None:
    control.rows(
        connection, "CREATE TEMPORARY TABLE delivered (w_id INT, d_id INT, orders BIGINT, PRIMARY KEY (w_id, d_id))"
    )
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO delivered VALUES (%s, %s, %s) "
            "ON CONFLICT (w_id, d_id) DO UPDATE SET orders = delivered.orders + excluded.orders",
            [tuple(row) for row in delivered],
        )
