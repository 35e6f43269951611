"""A control connection to a private server: settings, accounts, conditions. PyMySQL, over the Unix socket.

Nothing hot comes through here; the core drives transactions over connections of its own.
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
"""How long a statement of ours that reads no tables may take; it may wait for locks, for 50 s by default."""
_ACCESS_DENIED = (1044, 1045, 1698)
"""ER_DBACCESS_DENIED_ERROR, ER_ACCESS_DENIED_ERROR and its MariaDB kin: never, where other errors say not yet."""


class AccessDenied(Exception):
    """The server is there, and knows neither our user nor our password."""


def connect(
    socket: Path,
    user: str,
    password: str,
    database: str | None = None,
    *,
    answer_seconds: float | None = STATEMENT_SECONDS,
) -> Any:
    """An open connection, in autocommit. MySQLError or OSError: no server yet; AccessDenied: not for this user.

    An answer that takes longer than `answer_seconds` is a MySQLError; None: a statement may take as long as it likes.
    """
    # Tried by ourselves first: PyMySQL does not close the socket of an attempt that fails, and there may be many.
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
    """A connection for a while."""
    connection = connect(socket, user, password, database)
    try:
        yield connection
    finally:
        connection.close()


def rows(connection: Any, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


def pairs(connection: Any, query: str) -> dict[str, str]:
    """SHOW GLOBAL VARIABLES or STATUS as a dictionary, names in lower case."""
    return {str(name).lower(): str(value) for name, value in rows(connection, query)}


def variables(connection: Any) -> dict[str, str]:
    """Every global variable, as the server says it."""
    return pairs(connection, "SHOW GLOBAL VARIABLES")


def status(connection: Any, like: str) -> dict[str, str]:
    """Global status counters whose name is LIKE this."""
    return {str(name).lower(): str(value) for name, value in rows(connection, "SHOW GLOBAL STATUS LIKE %s", (like,))}
