"""Checks the workload's consistency conditions through a second client, psycopg, on tables that nobody changes.

First it checks the b-trees, by amcheck. The queries are those of workloads/<name>/consistency/; their folder postgres/
rewords those that PostgreSQL does not understand. Results have the same fields as the check of SQLite's files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from bufferlab.engines.postgres import control, extensions
from bufferlab.engines.postgres.relation_sizes import OWN_SCHEMAS
from bufferlab.engines.workload_conditions import NOT_OURS, POSTGRES, check_all, result_of_trees
from bufferlab.errors import DataFileError

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


def check(
    connection: control.Connection, workload: Mapping[str, Any], delivered: Sequence[Sequence[int]], database: Path
) -> dict[str, Any]:
    """Return the result of every condition: {"seconds", "conditions": [{"condition", "name", "passed", "violations",
    "example"}]}.

    A violated condition is a result, not an error. Raises DataFileError when the data are not the workload's. When a
    tree is damaged, the trees are the only result: a query's findings in them would mean nothing.
    """
    started = time.monotonic()
    found = [_trees(connection)]
    if found[0]["passed"]:
        try:
            with connection.cursor() as cursor:
                found += check_all(workload, delivered, database, POSTGRES, cursor, cursor.stream)
        except psycopg.ProgrammingError as error:
            raise DataFileError(
                f"the workload's conditions cannot be asked of this database: {error}", str(database), NOT_OURS
            ) from error
        except psycopg.DatabaseError as error:
            if connection.broken:
                raise
            raise DataFileError(f"the database cannot be read: {error}", str(database), "check the disk") from error
    return {"seconds": time.monotonic() - started, "conditions": found}


def _trees(connection: control.Connection) -> dict[str, Any]:
    """Check that every index is in order and has every row of its table. Without amcheck, read every table in whole."""
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
    return result_of_trees(f"the tables' b-trees are well formed ({how})", faults)
