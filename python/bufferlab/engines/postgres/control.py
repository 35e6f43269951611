"""Questions over a control connection, for settings, conditions and vacuum; and the extensions that they use.

No hot path uses it; the core drives transactions over other connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bufferlab.engines.servers.client import Client, literal
from bufferlab.engines.servers.existing.address import CHANGE_SECONDS

PORT = 5432
"""A part of the socket's name (.s.PGSQL.5432). Each server has its own folder, so any number will do."""
SYSTEM_DATABASE = "postgres"
LATE_SECONDS = 5.0
"""How much longer than its statement_timeout a server is waited for."""
MAY_NOT = "42501"
"""insufficient_privilege."""


def identifier(*names: str) -> str:
    """Return a name, behind its schema's if there are two, as SQL has it; somebody's dump may have chosen it.

    >>> print(identifier("public", 'a"b'))
    "public"."a""b"
    """
    return ".".join('"' + name.replace("\0", "").replace('"', '""') + '"' for name in names)


def with_values(query: str, parameters: Sequence[Any] | None) -> str:
    """Return a query with the parameters in place of each %s."""
    if parameters is None:
        return query
    return query % tuple(quoted(value) for value in parameters)


def quoted(value: Any) -> str:
    """Return a value as SQL has it, whatever standard_conforming_strings is."""
    if not isinstance(value, str) or "\\" not in value:
        return literal(value, escapes=False)
    return f" E{literal(value, escapes=True)}"


def rows(connection: Client, query: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """Return all rows of a query, with the parameters in place of each %s; none for a statement that returns none."""
    return connection.ask(with_values(query, parameters))[1]


def change(connection: Client, statement: str) -> None:
    """Execute a statement that may wait for locks of others."""
    rows(connection, f"SET statement_timeout = {round(1000 * CHANGE_SECONDS)}")
    connection.ask(statement, CHANGE_SECONDS + LATE_SECONDS)


def settings(connection: Client) -> dict[str, tuple[str, str | None]]:
    """Return every row of pg_settings: name -> (setting, unit)."""
    return {
        str(name): (str(setting), unit)
        for name, setting, unit in rows(connection, "SELECT name, setting, unit FROM pg_settings")
        if setting is not None
    }


CHECKS = "amcheck"
COUNTERS = "pg_buffercache"


def make(connection: Client) -> None:
    """Make them in the connection's database. Raises ServerError (control.MAY_NOT) when the account may not."""
    there = {str(name) for (name,) in rows(connection, "SELECT name FROM pg_available_extensions")}
    for name in (CHECKS, COUNTERS):
        if name in there:
            rows(connection, f"CREATE EXTENSION IF NOT EXISTS {name}")


def has(connection: Client, name: str) -> bool:
    """Return whether the connection's database has the extension."""
    return bool(rows(connection, "SELECT 1 FROM pg_extension WHERE extname = %s", (name,)))
