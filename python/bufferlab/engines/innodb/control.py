"""A control connection to a private server, for settings, accounts and conditions. PyMySQL, over the Unix socket.

No hot path uses it; the core drives transactions over other connections.
"""

from __future__ import annotations

import socket as sockets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql

_CONNECT_SECONDS = 10
STATEMENT_SECONDS = 120.0
"""The seconds that one of our statements that reads no tables may take; it may wait for locks, for 50 s by default."""
_ACCESS_DENIED = (1044, 1045, 1698)
"""ER_DBACCESS_DENIED_ERROR, ER_ACCESS_DENIED_ERROR and its MariaDB kin: never, where other errors say not yet."""


class AccessDenied(Exception):
    """The error that the server is there but refuses our user or our password."""


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
        return pymysql.connect(
            unix_socket=str(socket),
            user=user,
            password=password,
            database=database,
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=answer_seconds,
            autocommit=True,
            charset="utf8mb4",
            read_default_file=None,
        )
    except pymysql.MySQLError as error:
        if error.args and error.args[0] in _ACCESS_DENIED:
            raise AccessDenied(f"the server refuses the user {user} (error {error.args[0]})") from error
        raise


@contextmanager
def connected(socket: Path, user: str, password: str, database: str | None = None) -> Iterator[Any]:
    """Context manager for one connection: leaving closes it."""
    connection = connect(socket, user, password, database)
    try:
        yield connection
    finally:
        connection.close()


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
