"""The one schema that is ours on somebody else's server: claimed by a marker table, loaded, kept, loaded anew.

A schema with tables but without the marker is somebody else's, and refused. The marker says which data there are and
whether transactions have changed them since.
"""

from __future__ import annotations

from typing import Any

import pymysql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control
from bufferlab.engines.servers.existing.address import Address

MARKER = "bufferlab_marker"
"""Also in the loader (crates/bufferlab-load/src/mysql/loader.rs), which counts other tables as somebody's."""


def claim(connection: Any, address: Address) -> None:
    """The schema, made if need be, ours, and empty but for the marker. EngineFailure when it is somebody else's."""
    schema = address.schema
    try:
        with connection.cursor() as cursor:
            if not control.rows(connection, "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", schema):
                cursor.execute(f"CREATE DATABASE `{schema}`")
            tables = tables_of(connection, schema)
            if tables and MARKER not in tables:
                raise EngineFailure(
                    "usage",
                    f"the schema {schema} has tables that bufferlab did not make ({tables[0]} and others)",
                    address.place,
                    "name a new or empty schema in the URL; bufferlab drops and loads all tables of its own",
                )
            cursor.execute(f"USE `{schema}`")
            for table in tables:
                if table != MARKER:
                    cursor.execute(f"DROP TABLE `{table}`")
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {MARKER} (id TINYINT PRIMARY KEY, data_id VARCHAR(64) NOT NULL, "
                "state VARCHAR(16) NOT NULL) ENGINE = InnoDB"
            )
    except pymysql.MySQLError as error:
        raise EngineFailure(
            "environment",
            f"the schema {schema} cannot be made bufferlab's: {error.args[-1]}",
            address.place,
            f"GRANT ALL PRIVILEGES ON {schema}.* TO the user of the URL",
        ) from error


def tables_of(connection: Any, schema: str) -> list[str]:
    """The names of all tables and views of a schema."""
    found = control.rows(
        connection, "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1", schema
    )
    return [str(name) for (name,) in found]


def mark(connection: Any, schema: str, data_id: str, state: str) -> None:
    """Say which data the schema holds, and what was done with them."""
    with connection.cursor() as cursor:
        cursor.execute(f"REPLACE INTO `{schema}`.{MARKER} VALUES (1, %s, %s)", (data_id, state))


def marked(connection: Any, schema: str) -> tuple[str, str] | None:
    """(data, state) as marked; None where there is no marker."""
    if MARKER not in tables_of(connection, schema):
        return None
    found = control.rows(connection, f"SELECT data_id, state FROM `{schema}`.{MARKER} WHERE id = 1")
    return (str(found[0][0]), str(found[0][1])) if found else None
