"""A control connection for settings, conditions and vacuum. psycopg, without TLS, like the core's own connections.

No hot path uses it; the core drives transactions over other connections.
"""

from __future__ import annotations

import socket as sockets
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from bufferlab.engines.servers.existing.address import AccessDenied

PORT = 5432
"""A part of the socket's name (.s.PGSQL.5432). Each server has its own folder, so any number will do."""
SYSTEM_DATABASE = "postgres"
_CONNECT_SECONDS = 10
_DENIED = ("password authentication failed", "does not exist", "no pg_hba.conf entry")

_SSL_REQUEST = struct.pack(">II", 8, 80877103)

Connection = psycopg.Connection[tuple[Any, ...]]


def connect(
    host: Path | str,
    user: str,
    password: str,
    database: str,
    *,
    port: int = PORT,
    statement_seconds: float = 0,
    search_path: str = "public",
) -> Connection:
    """Open a connection in autocommit; `host` is a name, or the folder of a socket.

    Raises psycopg.OperationalError while no server answers, and AccessDenied when the server refuses the user. A
    statement that takes longer than `statement_seconds` raises psycopg.Error; with 0 it may take any time. Names
    without a schema are looked for in pg_catalog first, then in `search_path`, whatever role and database have set.
    """
    try:
        return psycopg.connect(
            host=str(host),
            port=port,
            user=user,
            password=password,
            dbname=database,
            connect_timeout=_CONNECT_SECONDS,
            autocommit=True,
            application_name="bufferlab",
            # A path that cannot be: libpq warns on the terminal of one that is no plain file.
            passfile="/dev/null/none",
            gssencmode="disable",
            sslmode="disable",
            options=f"-c statement_timeout={round(statement_seconds * 1000)} -c idle_session_timeout=0"
            f" -c search_path={search_path}",
        )
    except psycopg.OperationalError as error:
        said = str(error)
        if any(words in said for words in _DENIED):
            raise AccessDenied(f"the server refuses the user {user} in {database}: {_last_line(said)}") from error
        raise


def greet(place: Path | tuple[str, int], seconds: float) -> None:
    """Ask the server for its first word, without logging in.

    `place` is its socket, or host and port. Raises OSError when the server says none within `seconds`. On SSLRequest a
    postmaster starts a process, which answers with one letter (protocol.h, postmaster.c).
    """
    with _line(place, seconds) as line:
        line.sendall(_SSL_REQUEST)
        line.recv(1)


def _line(place: Path | tuple[str, int], seconds: float) -> sockets.socket:
    if isinstance(place, tuple):
        return sockets.create_connection(place, seconds)
    line = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    line.settimeout(seconds)
    try:
        line.connect(str(place))
    except OSError:
        line.close()
        raise
    return line


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


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
