"""Questions over a control connection, for settings, accounts and conditions.

No hot path uses it; the core drives transactions over other connections.
"""

from __future__ import annotations

from typing import Any


def quoted(name: str) -> str:
    """Return a name as SQL has it; somebody's dump may have chosen it."""
    return "`" + name.replace("`", "``") + "`"


def rows(connection: Any, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


def pairs(connection: Any, query: str) -> dict[str, str]:
    """Return the rows of SHOW GLOBAL VARIABLES or STATUS as a dictionary, names in lower case."""
    return {str(name).lower(): str(value) for name, value in rows(connection, query)}


def variables(connection: Any) -> dict[str, str]:
    """Return every global variable, as the server tells it."""
    return pairs(connection, "SHOW GLOBAL VARIABLES")


def status(connection: Any, like: str) -> dict[str, str]:
    """Return the global status counters whose name is LIKE this."""
    return {str(name).lower(): str(value) for name, value in rows(connection, "SHOW GLOBAL STATUS LIKE %s", (like,))}


def text(value: str | bytes) -> str:
    """Return a name of an account, which some servers tell as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
