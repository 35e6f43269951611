"""The one database that bufferlab owns on an existing server.

Its comment claims it; loads fill it, keep it or replace it.

A database with relations that are not in the comment's list of names belongs to somebody else, in whole or in part.
bufferlab refuses it and touches nothing in it. The comment says which data the database holds, whether transactions
have changed them since, and which of the server's settings a run has changed. It is not a table because the workload's
own queries would find that, and every account may read a comment.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.existing.connection import FORM, connect
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.existing.mark import Mark, parts_of, require_none

_BEGIN = "bufferlab: "
_RELATIONS = """
SELECT n.nspname, c.relname, c.relkind
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('e', 'i', 'a'))
ORDER BY 1, 2
"""
"""Tables, views and sequences that belong to no catalogue, no extension and no column."""
_KINDS = {"v": "VIEW", "m": "MATERIALIZED VIEW", "f": "FOREIGN TABLE", "r": "TABLE", "p": "TABLE", "S": "SEQUENCE"}
"""The kinds in the order in which they can be dropped."""


def make_sure_of(address: Address) -> None:
    """Make the database if it does not exist. Raises EngineFailure when the account may not."""
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
    """Claim the database and empty it. Raises EngineFailure when somebody else owns it, or something in it."""
    make_sure_of(address)
    with closing(connect(address)) as connection:
        mark = marked(connection, address.schema)
        there = {(str(schema), str(name)): str(kind) for schema, name, kind in control.rows(connection, _RELATIONS)}
        ours = _names(connection, mark.made if mark else ())
        require_none([name for schema, name in there if (schema, name) not in ours], address, FORM)
        try:
            # All or nothing; an object that somebody else made on our tables (a function, a rule) is not dropped with
            # them.
            with connection.transaction():
                for word in dict.fromkeys(_KINDS.values()):
                    if names := [sql.Identifier(*name) for name, kind in there.items() if _KINDS[kind] == word]:
                        control.rows(connection, sql.SQL(f"DROP {word} {{}}").format(sql.SQL(", ").join(names)))
        except psycopg.errors.DependentObjectsStillExist as error:
            what = f"something that bufferlab did not make needs its tables: {error.diag.message_detail or error}"
            raise EngineFailure("usage", what, address.place, "drop it, or name a new database in the URL") from error
        except psycopg.Error as error:
            raise EngineFailure(
                "environment",
                f"the database {address.schema} cannot be made bufferlab's: {str(error).strip()}",
                address.place,
                f"ALTER DATABASE {address.schema} OWNER TO {address.user}",
            ) from error


def mark(connection: control.Connection, database: str, mark: Mark) -> None:
    """Record in the comment which data the database holds, what was done with them, and what was made for them."""
    told = {"data_id": mark.data_id, "state": mark.state, "made": mark.made}
    _write(connection, database, {**_comments(connection).get(database, {}), **told})


def marked(connection: control.Connection, database: str) -> Mark | None:
    """Return the mark; None where there is none, or one of another version."""
    told = _comments(connection).get(database, {})
    try:
        return Mark(str(told["data_id"]), str(told["state"]), tuple(map(str, told["made"])))
    except (KeyError, TypeError):
        return None


def records(connection: control.Connection) -> dict[str, str]:
    """Return the records of changed settings, by database."""
    return {name: str(told["changed"]) for name, told in _comments(connection).items() if "changed" in told}


def record(connection: control.Connection, database: str, text: str | None) -> None:
    """Replace the record of changed settings in a comment; None removes it."""
    told = {name: value for name, value in _comments(connection).get(database, {}).items() if name != "changed"}
    _write(connection, database, {**told, **({} if text is None else {"changed": text})})


def _comments(connection: control.Connection) -> dict[str, dict[str, Any]]:
    """Return bufferlab's comments, by database."""
    found = {}
    query = "SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database"
    for name, comment in control.rows(connection, query):
        if str(comment).startswith(_BEGIN):
            try:
                told = json.loads(str(comment).removeprefix(_BEGIN))
            except ValueError:
                continue
            if isinstance(told, dict):
                found[str(name)] = told
    return found


def _write(connection: control.Connection, database: str, told: dict[str, Any]) -> None:
    comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
    words = sql.Literal(_BEGIN + json.dumps(told))
    control.rows(connection, comment.format(sql.Identifier(database), words))


def _names(connection: control.Connection, made: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Return (schema, name) of what bufferlab made.

    A name without a schema was made in the first on a session's search path.
    """
    ((first,),) = control.rows(connection, "SELECT current_schema()")
    whole = [parts_of(name, folds=True) for name in made]
    return {parts if len(parts) > 1 else (str(first), *parts) for parts in whole}
