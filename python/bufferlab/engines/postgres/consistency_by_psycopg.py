"""Checks the workload's consistency conditions on tables that do not change.

A private server is checked through a second client, psycopg. A running server, which may require TLS, is checked
through the core's own sessions. The b-trees are checked first, by amcheck. The queries are those of
workloads/<name>/consistency/; files in the folder postgres/ replace those that PostgreSQL does not understand. Results
have the same fields as the check of SQLite's files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.connection import connect
from bufferlab.engines.postgres.relation_sizes import OWN_SCHEMAS
from bufferlab.engines.servers.client import Cursor, ServerError
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.workload_conditions import NOT_OURS, POSTGRES, check_on_server, result_of_trees
from bufferlab.errors import DataFileError

_NOT_UNDERSTOOD = "42"
"""The SQLSTATE class of errors in a statement, such as a missing table or column."""
_INDEXES = f"""
SELECT c.oid::bigint, c.relname
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
WHERE c.relnamespace IN ({OWN_SCHEMAS}) AND c.relkind = 'i' AND a.amname = 'btree' AND i.indisvalid
ORDER BY c.relname
"""
_TABLES = f"""
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.oid IN ({OWN_SCHEMAS}) AND c.relkind = 'r'
"""


def check(address: Address, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
    """Check every condition; return the results as `check_on_server` does.

    Raises DataFileError if the tables are not the workload's, or cannot be read.
    """

    def explained(error: Exception) -> DataFileError | None:
        code = _code(error) if isinstance(error, psycopg.DatabaseError | ServerError) else ""
        if code.startswith(_NOT_UNDERSTOOD):
            what = f"the workload's conditions cannot be asked of this database: {error}"
            return DataFileError(what, str(database), NOT_OURS)
        return DataFileError(f"the database cannot be read: {error}", str(database), "check the disk") if code else None

    return check_on_server(lambda: _cursor(address), _trees, job, database, POSTGRES, explained)


@contextmanager
def _cursor(address: Address) -> Iterator[Any]:
    """Context manager for a cursor in the tables' database.

    The cursor either reads row by row, or fails on a large result.
    """
    if not address.is_private:
        with closing(connect(address, seconds=None)) as client:
            yield Cursor(client)
        return
    with (
        psycopg.connect(
            host=address.socket, port=address.port, user=address.user, password=address.secret, dbname=address.schema,
            autocommit=True, client_encoding="UTF8", options="-c statement_timeout=0 -c search_path=public",
        ) as connection,
        connection.cursor() as cursor,
    ):  # fmt: skip
        yield cursor


def _code(error: Exception) -> str:
    """Return the code (SQLSTATE) of the server's error; "" if the session has ended."""
    return str(getattr(error, "code", None) or getattr(error, "sqlstate", None) or "")


def _trees(cursor: Any) -> dict[str, Any]:
    """Check that every index is in order and has every row of its table.

    Without amcheck, read every table completely.
    """
    cursor.execute(f"SELECT 1 FROM pg_extension WHERE extname = '{control.CHECKS}'")
    has = bool(list(cursor))
    cursor.execute(_TABLES)
    tables = [str(name) for (name,) in cursor]
    faults = [] if tables else ["there are no tables"]
    how = "bt_index_check, heapallindexed" if has else "read whole; this server has no amcheck"
    questions = [(name, f"SELECT count(*) FROM {name}") for name in tables]
    if has:
        cursor.execute(_INDEXES)
        questions = [(str(name), f"SELECT bt_index_check({oid}::oid::regclass, true)") for oid, name in cursor]
    for name, question in questions:
        try:
            cursor.execute(question)
        except (psycopg.DatabaseError, ServerError) as error:
            if not _code(error):
                raise
            faults.append(f"{name}: {error}")
    return result_of_trees(f"the tables' b-trees are well formed ({how})", faults)
