"""Questions over a control connection, for settings, conditions and vacuum.

No hot path uses it; the core drives transactions over other connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

PORT = 5432
"""A part of the socket's name (.s.PGSQL.5432). Each server has its own folder, so any number will do."""
SYSTEM_DATABASE = "postgres"

Connection = psycopg.Connection[tuple[Any, ...]]


def rows(
    connection: Connection, query: str | sql.Composed, parameters: Sequence[Any] | None = None
) -> list[tuple[Any, ...]]:
    """Return all rows of a query; none for a statement that returns none."""
    cursor = connection.execute(query, parameters)
    return cursor.fetchall() if cursor.description else []


def settings(connection: Connection) -> dict[str, tuple[str, str | None]]:
    """Return every row of pg_settings: name -> (setting, unit)."""
    return {
        str(name): (str(setting), unit)
        for name, setting, unit in rows(connection, "SELECT name, setting, unit FROM pg_settings")
        if setting is not None
    }
