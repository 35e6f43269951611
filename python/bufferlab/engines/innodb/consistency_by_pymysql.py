"""Checks the workload's consistency conditions on tables that do not change.

A private server is checked through a second client, PyMySQL. A running server, which may require TLS, is checked
through the core's own sessions. The b-trees are checked first, by CHECK TABLE. The queries are those of
workloads/<name>/consistency/; files in the folder mysql/ replace those that MySQL does not understand. Results have the
same fields as the check of SQLite's files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.connection import connect
from bufferlab.engines.servers.client import Cursor, ServerError
from bufferlab.engines.servers.data_folder import DATABASE
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.workload_conditions import MYSQL, NOT_OURS, check_on_server, result_of_trees
from bufferlab.errors import DataFileError


def check(address: Address, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
    """Check every condition; return the results as `check_on_server` does.

    Raises DataFileError if the tables are not the workload's.
    """

    def explained(error: Exception) -> DataFileError | None:
        if not isinstance(error, pymysql.ProgrammingError | ServerError):
            return None
        what = f"the workload's conditions cannot be asked of this database: {error.args[-1]}"
        return DataFileError(what, str(database), NOT_OURS)

    return check_on_server(lambda: _cursor(address), _trees, job, database, MYSQL, explained)


@contextmanager
def _cursor(address: Address) -> Iterator[Any]:
    """Context manager for a cursor in the tables' schema.

    The cursor either reads row by row, or fails on a large result.
    """
    if not address.is_private:
        with closing(connect(address, address.schema, seconds=None)) as client:
            yield Cursor(client)
        return
    # The client sets no time limit, because a check reads all tables.
    with (
        pymysql.connect(
            unix_socket=address.socket, user=address.user, password=str(address.secret), database=DATABASE
        ) as connection,
        connection.cursor(SSCursor) as cursor,
    ):
        yield cursor


def _trees(cursor: Any) -> dict[str, Any]:
    """Check that every index of every table is in order and has as many entries as the table has rows."""
    cursor.execute("SHOW TABLES")
    tables = [str(name) for (name,) in cursor]
    if not tables:
        faults = ["there are no tables"]
    else:
        cursor.execute("CHECK TABLE " + ", ".join(map(control.quoted, tables)))
        faults = [
            f"{table}: {text}"
            for table, _, kind, text in cursor
            if kind == "error" or (kind == "status" and text not in ("OK", "Table is already up to date"))
        ]
    return result_of_trees("the tables' b-trees are well formed (CHECK TABLE)", faults)
