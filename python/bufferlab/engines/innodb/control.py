"""Questions over a control connection, for settings, accounts and conditions.

No hot path uses it; the core drives transactions over other connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bufferlab.engines.servers.client import Client, literal
from bufferlab.engines.servers.existing.address import CHANGE_SECONDS


def quoted(name: str) -> str:
    """Return a name as SQL has it; somebody's dump may have chosen it."""
    return "`" + name.replace("`", "``") + "`"


def rows(connection: Client, query: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """Return all rows of a query, with the parameters in place of each %s."""
    return connection.ask(with_values(query, parameters))[1]


def change(connection: Client, statement: str, parameters: Sequence[Any] | None = None) -> None:
    """Execute a statement that may wait for locks of others."""
    connection.ask(with_values(statement, parameters), CHANGE_SECONDS)


def with_values(query: str, parameters: Sequence[Any] | None) -> str:
    """Return a query with the parameters in place of each %s."""
    if parameters is None:
        return query
    return query % tuple(literal(value, escapes=True) for value in parameters)


def pairs(connection: Client, query: str) -> dict[str, str]:
    """Return the rows of SHOW GLOBAL VARIABLES or STATUS as a dictionary, names in lower case."""
    return {str(name).lower(): str(value) for name, value in rows(connection, query)}


def variables(connection: Client) -> dict[str, str]:
    """Return every global variable, as the server tells it."""
    return pairs(connection, "SHOW GLOBAL VARIABLES")


def status(connection: Client, like: str) -> dict[str, str]:
    """Return the global status counters whose name is LIKE this."""
    return {str(name).lower(): str(value) for name, value in rows(connection, "SHOW GLOBAL STATUS LIKE %s", (like,))}


def text(value: str | bytes) -> str:
    """Return a name of an account, which some servers tell as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
