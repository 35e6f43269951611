"""A control connection to a private server, for settings, accounts and conditions. PyMySQL, over the Unix socket.

No hot path uses it; the core drives transactions over other connections.
"""

from __future__ import annotations

import socket as sockets
from pathlib import Path
from typing import Any

import pymysql

from bufferlab.engines.servers.existing.address import STATEMENT_SECONDS, AccessDenied

_CONNECT_SECONDS = 10
_ACCESS_DENIED = (1044, 1045, 1698)
"""ER_DBACCESS_DENIED_ERROR, ER_ACCESS_DENIED_ERROR and its MariaDB kin: never, where other errors say not yet."""


def connect(
    socket: Path,
    user: str,
    password: str,
    database: str | None = None,
    *,
    answer_seconds: float | None = STATEMENT_SECONDS,
) -> Any:
    """Open a connection in autocommit.

    Raises MySQLError or OSError while no server answers, and AccessDenied when the server refuses the user. A statement
    that takes longer than `answer_seconds` raises MySQLError; with None it may take any time.
    """
    # We try the socket first: PyMySQL does not close the socket of a failed attempt, and there may be many.
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        probe.connect(str(socket))
    try:
        return opened(answer_seconds, unix_socket=str(socket), user=user, password=password, database=database)
    except pymysql.MySQLError as error:
        if error.args and error.args[0] in _ACCESS_DENIED:
            raise AccessDenied(f"the server refuses the user {user} (error {error.args[0]})") from error
        raise


def opened(answer_seconds: float | None, **where: Any) -> Any:
    """Open a connection in autocommit; `where` are pymysql's place, account and schema. Raises PyMySQL's errors."""
    return pymysql.connect(
        **where,
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=answer_seconds,
        autocommit=True,
        charset="utf8mb4",
        read_default_file=None,
    )


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
