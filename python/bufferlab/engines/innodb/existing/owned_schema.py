"""The one schema that bufferlab owns on an existing server.

A marker table claims it; loads fill it, keep it or replace it.

A schema with tables that are not in the marker's list of names belongs to somebody else, in whole or in part. bufferlab
refuses it and touches nothing in it. The marker says which data the schema holds, whether transactions have changed
them since, and which of the server's settings a run has changed.
"""

from __future__ import annotations

import json
from typing import Any

import pymysql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.existing.connection import FORM
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.existing.mark import Mark, parts_of, require_none

MARKER = "bufferlab_marker"
"""The marker table's name.

The loader (crates/bufferlab-drive/src/mysql/loader.rs) knows it too: it counts other tables as somebody else's.
"""
_UNKNOWN_COLUMN = 1054
_DROPS = {"VIEW": "VIEW", "SEQUENCE": "SEQUENCE"}
"""The words of DROP by type in information_schema, for types other than tables."""


def claim(connection: Any, address: Address) -> None:
    """Claim the schema: make it if need be, and empty it but for the marker.

    Raises EngineFailure if somebody else owns it.
    """
    schema = address.schema
    try:
        with connection.cursor() as cursor:
            query = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
            if not control.rows(connection, query, (schema,)):
                cursor.execute(f"CREATE DATABASE `{schema}`")
            mark, there = marked(connection, schema), _relations(connection, schema)
            ours = _names(connection, schema, mark.made if mark else ())
            require_none([name for name in there if name not in ours], address, FORM)
            cursor.execute(f"USE `{schema}`")
            for kind in ("VIEW", "SEQUENCE", "TABLE"):
                names = [f"`{name}`" for name, is_a in there.items() if name != MARKER and is_a == kind]
                if names:
                    cursor.execute(f"DROP {kind} {', '.join(names)}")
            if mark is None and MARKER in there:
                # Tables of a load that had not marked anything yet, or of another version of bufferlab.
                cursor.execute(f"DROP TABLE {MARKER}")
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {MARKER} (id TINYINT PRIMARY KEY, data_id VARCHAR(64) NOT NULL, "
                "state VARCHAR(16) NOT NULL, made MEDIUMTEXT NOT NULL, changed MEDIUMTEXT) "
                "ENGINE = InnoDB DEFAULT CHARACTER SET utf8"
            )
    except pymysql.MySQLError as error:
        raise EngineFailure(
            "environment",
            f"the schema {schema} cannot be made bufferlab's: {error.args[-1]}",
            address.place,
            f"GRANT ALL PRIVILEGES ON {schema}.* TO the user of the URL",
        ) from error


def mark(connection: Any, schema: str, mark: Mark) -> None:
    """Record in the marker which data the schema holds, what was done with them, and what was made for them."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO `{schema}`.{MARKER} (id, data_id, state, made) VALUES (1, %s, %s, %s) "
            "ON DUPLICATE KEY UPDATE data_id = VALUES(data_id), state = VALUES(state), made = VALUES(made)",
            (mark.data_id, mark.state, json.dumps(mark.made)),
        )


def marked(connection: Any, schema: str) -> Mark | None:
    """Return the mark; None where there is none, or one of another version."""
    if MARKER not in _relations(connection, schema):
        return None
    try:
        found = control.rows(connection, f"SELECT data_id, state, made FROM `{schema}`.{MARKER} WHERE id = 1")
    except pymysql.MySQLError as error:
        if error.args[0] == _UNKNOWN_COLUMN:
            return None
        raise
    return Mark(str(found[0][0]), str(found[0][1]), tuple(json.loads(found[0][2]))) if found else None


def records(connection: Any) -> dict[str, str]:
    """Return the records of changed settings, by schema, from every marker that the account may read."""
    query = "SELECT table_schema FROM information_schema.columns WHERE table_name = %s AND column_name = 'changed'"
    found = {}
    for (schema,) in control.rows(connection, query, (MARKER,)):
        for (text,) in control.rows(connection, f"SELECT changed FROM `{schema}`.{MARKER} WHERE changed IS NOT NULL"):
            found[str(schema)] = str(text)
    return found


def record(connection: Any, schema: str, text: str | None) -> None:
    """Replace the record of changed settings in a marker; None removes it."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE `{schema}`.{MARKER} SET changed = %s WHERE id = 1", (text,))


def _relations(connection: Any, schema: str) -> dict[str, str]:
    """Return every table and view of a schema with the word that drops it."""
    found = control.rows(
        connection,
        "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = %s ORDER BY 1",
        (schema,),
    )
    return {str(name): _DROPS.get(str(kind), "TABLE") for name, kind in found}


def _names(connection: Any, schema: str, made: tuple[str, ...]) -> set[str]:
    """Return the names of what bufferlab made, as the server names the tables of these statements; the marker too."""
    ((folds,),) = control.rows(connection, "SELECT @@lower_case_table_names")
    whole = [parts_of(name, folds=bool(folds)) for name in made]
    return {MARKER, *(parts[-1] for parts in whole if parts[:-1] in ((), (schema,)))}
