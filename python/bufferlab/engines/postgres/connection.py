"""Connects to a PostgreSQL server, private or running: psycopg, over its socket or TCP, there with libpq's TLS."""

from __future__ import annotations

import socket as sockets
import struct
from functools import partial

import psycopg

from bufferlab.engines.postgres.client import Client
from bufferlab.engines.postgres.client_passwords import password_in, usual_password
from bufferlab.engines.postgres.control import PORT, SYSTEM_DATABASE, Connection
from bufferlab.engines.servers.existing import passwords, tls
from bufferlab.engines.servers.existing.address import PASSWORD, STATEMENT_SECONDS, AccessDenied, Address, Form
from bufferlab.engines.servers.existing.passwords import DeniedError
from bufferlab.engines.servers.existing.security import Security
from bufferlab.errors import EnvironmentLackingError

_CONNECT_SECONDS = 10
_LATE_SECONDS = 10.0
"""How much longer than its statement_timeout a server is waited for."""
_SSL_REQUEST = struct.pack(">II", 8, 80877103)
_NOWHERE = "/dev/null/none"
"""A path that cannot be: libpq reads its own default file where it is given none, and warns of one that is no file."""
_REFUSED = ("password authentication failed", "does not exist", "no pg_hba.conf entry")
_LOGINS = "scram-sha-256,md5,none"
"""The ways to log in that the core has; none: by trust, the socket's user or a client's certificate."""
_DENIED = f"set {PASSWORD}, or name a password file (.pgpass) with ?password_file=/path"
_HINTS = {
    "no pg_hba.conf entry": "pg_hba.conf needs a line for this user, database and address: `host`, or `hostssl` for "
    "connections with TLS (?sslmode=require)",
    "does not exist": "make the role with a password, and a database that it owns",
    tls.CLEAR_TEXT_REFUSED: "let pg_hba.conf say scram-sha-256 for this account, and not password, ldap or pam",
    "unsupported startup parameter": "a pooler such as pgbouncer answers: name the server itself (poolers: untested)",
    "too many connections": "wait, or raise the server's max_connections",
}


FORM = Form(
    schemes=("postgres", "postgresql"),
    port=PORT,
    schema="database",
    longest_schema=63,
    own_schemas=(SYSTEM_DATABASE, "template0", "template1"),
    socket="/folder",
    password_in=password_in,
    password_example="host:port:database:user:password",
    usual_password=usual_password,
    usual_sockets=("/var/run/postgresql", "/tmp"),
    socket_file="{}/.s.PGSQL.{}",
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
    EnvironmentLackingError when a running server refuses it, does not answer, or is not what `address.security` asks
    for. Of a private one raises AccessDenied when it refuses the user, and psycopg.OperationalError while it does not
    answer.
    """
    if address.is_private:
        return _private(address, database or address.schema, search_path, str(address.secret))
    path = "pg_catalog" if database == SYSTEM_DATABASE else search_path
    attempt = partial(_running, address, database or address.schema, path, round((seconds or 0) * 1000))
    return passwords.logged_in(address, FORM, attempt)


def _private(address: Address, database: str, search_path: str, secret: str) -> Connection:
    try:
        return _connect(address, database, search_path, 0, secret)
    except psycopg.OperationalError as error:
        if any(words in str(error) for words in _REFUSED):
            refused = f"the server refuses the user {address.user} in {database}: {_last_line(str(error))}"
            raise AccessDenied(refused) from error
        raise


def _running(address: Address, database: str, search_path: str, milliseconds: int, secret: str) -> Connection:
    security = address.security
    try:
        if address.socket is None and security.requires_tls:
            tls.prove(address.host, address.port, security, ask_for_tls, _CONNECT_SECONDS)
        return _connect(address, database, search_path, milliseconds, secret)
    except tls.TlsRefusedError as error:
        what = f"the server cannot be used: {error.what}"
        raise EnvironmentLackingError(what, error.where or address.place, error.hint) from error
    except (psycopg.Error, OSError) as error:
        raise _refused(error, address, database) from error


def _connect(address: Address, database: str, search_path: str, milliseconds: int, secret: str) -> Client:
    on_tcp = not address.is_private and address.socket is None
    security = address.security if on_tcp else Security("disable")
    made = Client.connect(
        # A name, or the folder of a socket.
        host=address.socket or address.host,
        port=address.port,
        user=address.user,
        password=secret,
        dbname=database,
        connect_timeout=_CONNECT_SECONDS,
        autocommit=True,
        application_name="bufferlab",
        passfile=_NOWHERE,
        gssencmode="disable",
        sslmode=security.mode,
        sslrootcert=security.root_cert or _NOWHERE,
        sslcert=security.cert or _NOWHERE,
        sslkey=security.key or _NOWHERE,
        ssl_min_protocol_version="TLSv1.2",
        channel_binding="prefer",
        require_auth=_LOGINS,
        options=f"-c statement_timeout={milliseconds} -c idle_session_timeout=0 -c search_path={search_path}",
    )
    made.answer_seconds = milliseconds / 1000 + _LATE_SECONDS if milliseconds else None
    return made


def _refused(error: Exception, address: Address, database: str) -> EnvironmentLackingError:
    is_denied = isinstance(error, psycopg.OperationalError) and any(words in str(error) for words in _REFUSED)
    # libpq tells the error first, and then its own reading of it.
    text = str(error)
    if "server requested a cleartext password" in text:
        text = tls.CLEAR_TEXT_REFUSED
    elif is_denied:
        text = f"the server refuses the user {address.user} in {database}: {_last_line(text)}"
    said = (text.strip().splitlines() or ["it said nothing"])[0].removeprefix("connection failed: ")
    known = next((hint for words, hint in _HINTS.items() if words in text), None)
    denied = _DENIED if is_denied or "password" in text else None
    kind = DeniedError if "password authentication failed" in text or "no password supplied" in text else None
    return (kind or EnvironmentLackingError)(
        f"the server cannot be used: {said}",
        address.place,
        known or denied or "is it running, and is this its address, or the folder of its socket?",
    )


def ask_for_tls(line: sockets.socket) -> bool:
    """Ask for TLS (SSLRequest); return whether the server has it. Raises OSError when it says something else."""
    line.sendall(_SSL_REQUEST)
    answer = line.recv(1)
    if answer not in (b"S", b"N"):
        raise ConnectionError("the server does not say whether it has TLS")
    return answer == b"S"


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
