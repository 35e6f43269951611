"""Checks the workload's consistency conditions through a second client, PyMySQL, on tables that nobody changes.

First it checks the b-trees, by CHECK TABLE. The queries are those of workloads/<name>/consistency/; their folder mysql/
rewords those that MySQL does not understand. Results have the same fields as the check of SQLite's files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from bufferlab.engines.innodb import control
from bufferlab.engines.servers.identity import DATABASE
from bufferlab.engines.workload_conditions import MYSQL, NOT_OURS, check_all, result_of_trees
from bufferlab.errors import DataFileError


def check(
    connection: Any,
    workload: Mapping[str, Any],
    delivered: Sequence[Sequence[int]],
    database: Path,
    schema: str = DATABASE,
) -> dict[str, Any]:
    """Return the result of every condition: {"seconds", "conditions": [{"condition", "name", "passed", "violations",
    "example"}]}.

    A violated condition is a result, not an error. Raises DataFileError when the data are not the workload's. When a
    tree is damaged, the trees are the only result: a query's findings in them would mean nothing.
    """
    started = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute(f"USE `{schema}`")
    found = [_trees(connection)]
    if found[0]["passed"]:
        try:
            # Unbuffered.
            with connection.cursor(SSCursor) as cursor:
                found += check_all(workload, delivered, database, MYSQL, cursor)
        except pymysql.ProgrammingError as error:
            raise DataFileError(
                f"the workload's conditions cannot be asked of this database: {error.args[-1]}",
                str(database),
                NOT_OURS,
            ) from error
    return {"seconds": time.monotonic() - started, "conditions": found}


def _trees(connection: Any) -> dict[str, Any]:
    """Check that every index of every table is in order and has as many entries as the table has rows."""
    tables = [str(name) for (name,) in control.rows(connection, "SHOW TABLES")]
    if not tables:
        faults = ["there are no tables"]
    else:
        checked = control.rows(connection, "CHECK TABLE " + ", ".join(map(control.quoted, tables)))
        faults = [
            f"{table}: {text}"
            for table, _, kind, text in checked
            if kind == "error" or (kind == "status" and text not in ("OK", "Table is already up to date"))
        ]
    return result_of_trees("the tables' b-trees are well formed (CHECK TABLE)", faults)
