"""The one database that is ours on somebody else's server: claimed by its comment, loaded, kept, loaded anew.

A database with tables but without our comment is somebody else's, and refused. The comment says which data there are
and whether transactions have changed them since: it is no table, which the workload's own queries would find.
"""

from __future__ import annotations

import re
from contextlib import closing

import psycopg
from psycopg import sql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.existing.connection import connect
from bufferlab.engines.servers.existing.address import Address

_COMMENT = re.compile(r"bufferlab: data ([0-9a-f]+), ([a-z]+)")
_RELATIONS = """
SELECT n.nspname, c.relname, c.relkind
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('e', 'i', 'a'))
ORDER BY 1, 2
"""
"""Tables, views and sequences that are no catalogue's, no extension's, and no column's."""
_KINDS = {"r": "TABLE", "p": "TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW", "S": "SEQUENCE", "f": "FOREIGN TABLE"}


def make_sure_of(address: Address) -> None:
    """It exists; EngineFailure when it does not and the account may not make it."""
    with closing(connect(address, control.SYSTEM_DATABASE)) as connection:
        if control.rows(connection, "SELECT 1 FROM pg_database WHERE datname = %s", (address.schema,)):
            return
        try:
            control.rows(connection, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(address.schema)))
        except psycopg.Error as error:
            raise EngineFailure(
                "environment",
                f"the database {address.schema} cannot be made: {str(error).strip()}",
                address.place,
                f"CREATE DATABASE {address.schema} OWNER {address.user}",
            ) from error


def claim(address: Address) -> None:
    """It is ours, and empty; EngineFailure when it is somebody else's."""
    make_sure_of(address)
    with closing(connect(address)) as connection:
        there = control.rows(connection, _RELATIONS)
        if there and _marked(connection) is None:
            raise EngineFailure(
                "usage",
                f"the database {address.schema} has tables that bufferlab did not make ({there[0][1]} and others)",
                address.place,
                "name a new or empty database in the URL; bufferlab drops and loads all tables of its own",
            )
        try:
            for schema, name, kind in there:
                # What hangs on a relation before it in the list has gone with it.
                drop = sql.SQL("DROP {} IF EXISTS {} CASCADE")
                control.rows(connection, drop.format(sql.SQL(_KINDS[kind]), sql.Identifier(schema, name)))
        except psycopg.Error as error:
            raise EngineFailure(
                "environment",
                f"the database {address.schema} cannot be made bufferlab's: {str(error).strip()}",
                address.place,
                f"ALTER DATABASE {address.schema} OWNER TO {address.user}",
            ) from error


def mark(address: Address, data_id: str, state: str) -> None:
    """Say which data the database holds, and what was done with them."""
    comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
    words = f"bufferlab: data {data_id}, {state}"
    with closing(connect(address)) as connection:
        control.rows(connection, comment.format(sql.Identifier(address.schema), sql.Literal(words)))


def marked(address: Address) -> tuple[str, str] | None:
    """(data, state) as marked; None where there is no mark."""
    with closing(connect(address)) as connection:
        return _marked(connection)


def _marked(connection: control.Connection) -> tuple[str, str] | None:
    query = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()"
    ((comment,),) = control.rows(connection, query)
    found = _COMMENT.fullmatch(comment or "")
    return (found[1], found[2]) if found else None
