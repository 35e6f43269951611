"""Connects to a PostgreSQL server, private or running: psycopg, over its socket or TCP, without TLS as the core."""

from __future__ import annotations

import re
import socket as sockets
import struct

import psycopg

from bufferlab.engines.postgres.control import PORT, SYSTEM_DATABASE, Connection
from bufferlab.engines.servers.existing.address import (
    PASSWORD,
    STATEMENT_SECONDS,
    AccessDenied,
    Address,
    Form,
    password,
)
from bufferlab.errors import EnvironmentLackingError

_CONNECT_SECONDS = 10
_SSL_REQUEST = struct.pack(">II", 8, 80877103)
_REFUSED = ("password authentication failed", "does not exist", "no pg_hba.conf entry")
_DENIED = f"set {PASSWORD}, or name a password file (.pgpass) with ?password_file=/path"
_HINTS = {
    "no pg_hba.conf entry": "bufferlab connects without TLS: let pg_hba.conf have a line `host` for this address",
    "does not exist": "make the role with a password, and a database that it owns",
    "unsupported startup parameter": "a pooler such as pgbouncer answers: name the server itself (poolers: untested)",
    "too many connections": "wait, or raise the server's max_connections",
}


def password_in(text: str, address: Address) -> str | None:
    r"""Return the first password that fits, from lines host:port:database:user:password (libpq, "The Password File").

    A field is `*` or the value itself; a `:` or a backslash in it has a backslash before it. Of a socket the host is
    its folder, or localhost.

    >>> address = Address("", "me", "db", 5432, "lab", None, None)
    >>> password_in("# mine\ndb:5432:other:me:no\n*:*:lab:me:a\\:b", address)
    'a:b'
    """
    hosts = ("localhost", address.socket.rstrip("/")) if address.socket else (address.host,)
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        fields = [re.sub(r"\\(.)", r"\1", part) for part in re.findall(r"(?:\A|:)((?:[^:\\]|\\.)*)", line)]
        if len(fields) != 5:
            continue
        fits = (fields[0] in ("*", *hosts), fields[1] in ("*", str(address.port)),
                fields[2] in ("*", address.schema), fields[3] in ("*", address.user))  # fmt: skip
        if all(fits):
            return fields[4]
    return None


FORM = Form(
    schemes=("postgres", "postgresql"),
    port=PORT,
    schema="database",
    longest_schema=63,
    own_schemas=(SYSTEM_DATABASE, "template0", "template1"),
    socket="/folder",
    password_in=password_in,
    password_example="host:port:database:user:password",
)


def connect(
    address: Address,
    database: str | None = None,
    *,
    seconds: float | None = STATEMENT_SECONDS,
    search_path: str = "public",
) -> Connection:
    """Open a connection in autocommit, to the address's database or another.

    A statement may take `seconds`, None: any time; on a private server any statement may. Names without a schema are
    looked for in pg_catalog first, then in `search_path`, whatever role and database have set. Raises
    EnvironmentLackingError when a running server refuses it or does not answer. Of a private one raises AccessDenied
    when it refuses the user, and psycopg.OperationalError while it does not answer.
    """
    in_system = not address.is_private and database == SYSTEM_DATABASE
    milliseconds = round((seconds or 0) * 1000) if not address.is_private else 0
    try:
        return psycopg.connect(
            # A name, or the folder of a socket.
            host=address.socket or address.host,
            port=address.port,
            user=address.user,
            password=password(address, FORM),
            dbname=database or address.schema,
            connect_timeout=_CONNECT_SECONDS,
            autocommit=True,
            application_name="bufferlab",
            # A path that cannot be: libpq warns on the terminal of one that is no plain file.
            passfile="/dev/null/none",
            gssencmode="disable",
            sslmode="disable",
            options=f"-c statement_timeout={milliseconds} -c idle_session_timeout=0"
            f" -c search_path={'pg_catalog' if in_system else search_path}",
        )
    except (psycopg.Error, OSError) as error:
        refused = f"the server refuses the user {address.user} in {database or address.schema}: "
        is_denied = isinstance(error, psycopg.OperationalError) and any(words in str(error) for words in _REFUSED)
        if address.is_private:
            if is_denied:
                raise AccessDenied(refused + _last_line(str(error))) from error
            raise
        # libpq tells the error first, and then its own reading of it.
        text = refused + _last_line(str(error)) if is_denied else str(error)
        said = (text.strip().splitlines() or ["it said nothing"])[0].removeprefix("connection failed: ")
        known = next((hint for words, hint in _HINTS.items() if words in text), None)
        denied = _DENIED if is_denied or "password" in text else None
        raise EnvironmentLackingError(
            f"the server cannot be used: {said}",
            address.place,
            known or denied or "is it running, and is this its address, or the folder of its socket?",
        ) from error


def greet(address: Address, seconds: float) -> None:
    """Ask the server for its first word, without logging in. Raises OSError when it says none within `seconds`.

    On SSLRequest a postmaster starts a process, which answers with one letter (protocol.h, postmaster.c).
    """
    with _line(address, seconds) as line:
        line.sendall(_SSL_REQUEST)
        line.recv(1)


def _line(address: Address, seconds: float) -> sockets.socket:
    if address.socket is None:
        return sockets.create_connection((address.host, address.port), seconds)
    line = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    line.settimeout(seconds)
    try:
        line.connect(f"{address.socket}/.s.PGSQL.{address.port}")
    except OSError:
        line.close()
        raise
    return line


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
