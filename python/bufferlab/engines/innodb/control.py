"""Queries over a control connection, for settings, accounts and conditions.

No hot path uses it; the core runs transactions over other connections.
"""

from __future__ import annotations

from bufferlab.engines.servers.client import Client


def quoted(name: str) -> str:
    """Return a name as an SQL identifier; it may come from a user's dump."""
    return "`" + name.replace("`", "``") + "`"


def pairs(connection: Client, query: str, *values: str) -> dict[str, str]:
    """Return the rows of SHOW GLOBAL VARIABLES or STATUS as a dictionary, names in lower case."""
    return {str(name).lower(): str(value) for name, value in connection.rows(query, values or None)}


def variables(connection: Client) -> dict[str, str]:
    """Return the value of every global variable as the server shows it, by its name in lower case."""
    return pairs(connection, "SHOW GLOBAL VARIABLES")


def status(connection: Client, like: str) -> dict[str, str]:
    """Return the global status counters whose names match this LIKE pattern, by their names in lower case."""
    return pairs(connection, "SHOW GLOBAL STATUS LIKE %s", like)


def text(value: str | bytes) -> str:
    """Return the text of a name, which some servers return as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
