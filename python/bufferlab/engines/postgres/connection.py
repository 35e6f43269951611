"""Connects to a private or running PostgreSQL server, over its socket or over TCP, which may use TLS.

Finds passwords where PostgreSQL's clients do: service file, PGPASSWORD, .pgpass (libpq, conninfo_add_defaults).
PGSERVICE names the entry in the service file; only its password is used here.
"""

from __future__ import annotations

import os
import re
import secrets
import socket as sockets
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bufferlab.engines.postgres.control import PORT, SYSTEM_DATABASE
from bufferlab.engines.servers.client import (
    LATE_SECONDS,
    MOST_ANSWER_BYTES,
    MOST_OF_OUR_OWN_BYTES,
    Client,
    LostError,
    RefusedError,
    ServerError,
)
from bufferlab.engines.servers.existing import passwords
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, PASSWORD, AccessDenied, Address, Form
from bufferlab.engines.servers.existing.passwords import DeniedError, LoginRefusedError
from bufferlab.engines.servers.look import MISFITS, NOT_A_SERVER, NOT_UNDERSTOOD
from bufferlab.errors import EnvironmentLackingError


def password_in(path: Path, address: Address) -> tuple[str, Path] | None:
    """Return the first password in a password file that matches the address, and the file; None if none matches."""
    found = password_of_line(path.read_text("utf-8"), address)
    return None if found is None else (found, path)


def password_of_line(text: str, address: Address) -> str | None:
    r"""Return the first matching password from lines host:port:database:user:password (libpq, "The Password File").

    A field is `*` or the value itself; a `:` or a backslash in it has a backslash before it. For a socket the host is
    the socket's folder, or localhost.

    >>> address = Address("", "me", "db", 5432, "lab", None, None)
    >>> password_of_line("# mine\ndb:5432:other:me:no\n*:*:lab:me:a\\:b", address)
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


def password_of_service(text: str, service: str) -> str | None:
    r"""Return the password in a service's entry; None if the entry has none (fe-connect.c, parseServiceFile).

    >>> password_of_service("[other]\npassword=no\n[mine]\n# a comment\nhost=db\npassword=a b\n", "mine")
    'a b'
    """
    inside = False
    for line in (raw.strip() for raw in text.splitlines()):
        if line.startswith("["):
            if inside:
                return None
            inside = line.startswith(f"[{service}]")
        elif inside and line.startswith("password="):
            return line.removeprefix("password=")
    return None


def usual_password(address: Address) -> tuple[str, Path | str] | None:
    """Return the password of the service's entry, else PGPASSWORD, else that of the password file, with its origin.

    Return None if none of them has one for this address.
    """
    if service := os.environ.get("PGSERVICE"):
        own = Path(os.environ.get("PGSERVICEFILE") or Path.home() / ".pg_service.conf")
        folder = os.environ.get("PGSYSCONFDIR")
        for path in (own, *([Path(folder) / "pg_service.conf"] if folder else [])):
            if path.is_file() and (found := password_of_service(path.read_text("utf-8"), service)) is not None:
                return found, path
    if found := os.environ.get("PGPASSWORD"):
        return found, "the environment variable PGPASSWORD"
    path = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    return password_in(path, address) if path.is_file() else None


_SSL_REQUEST = struct.pack(">II", 8, 80877103)
_UNUSABLE = "the server cannot be used"
_WRONG_PASSWORD = "28P01"
_NO_SUCH_SETTING = "42704"
_FOR_EVER = {"idle_session_timeout": "0"}
"""The setting that stops the server from closing an idle session (version 14 and later)."""
_PASSES = ("53300", "57P01", "57P02", "57P03", "08P01")
"""The codes of temporary refusals: too many connections, a server that starts or stops, a pooler's error."""
_MARK = "bufferlab.session"
"""A setting that no server defines, and that bufferlab's login sends.

If the session shows it, the server accepted the login's settings.
"""
_DENIED = f"set {PASSWORD}, or name a password file (.pgpass) with ?password_file=/path"
_WRONG = "is the password from {source} right, and is the role's time not over (VALID UNTIL in pg_roles)?"
_NOT_A_POOLER = "name the server itself, by its own port"
_OF_THE_DATABASE = "the server answers and refuses: a login trigger of the database may; name another, such as postgres"
_HINTS = {
    "28000": "the role needs LOGIN, and pg_hba.conf a line for this user, database and address: `host`, or `hostssl` "
    "with TLS (?sslmode=require), for a client's certificate ?sslcert=/path&sslkey=/path",
    "3D000": "make the database, or name another",
    "42501": "GRANT CONNECT ON DATABASE would let it, or a login trigger of the database refuses it",
    "53300": "wait, or raise the limit that was met: max_connections, or CONNECTION LIMIT of the role or the database",
    "55000": "ALTER DATABASE ... ALLOW_CONNECTIONS true would let it, or name another database",
    "57P03": "it starts or shuts down: try again when it is ready; a standby answers with hot_standby = on alone",
    "08P01": f"a pooler such as pgbouncer answers: {_NOT_A_POOLER}",
}
"""The hint for the user, by the SQLSTATE of a refused login."""
_SAID_HINTS = {
    "unsupported startup parameter": _HINTS["08P01"],
    "asked for TLS": "a tunnel that speaks TLS itself may answer: ?sslmode=disable",
}
"""Hints by words in the error's text, for errors without a code: those that bufferlab raises, and those of one
pooler."""


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
    seconds: float | None = ANSWER_SECONDS,
    search_path: str = "public",
    settings: Mapping[str, str] | None = None,
    name: str = "bufferlab",
    prepares: bool = False,
) -> Client:
    """Open a connection in autocommit, to the address's database or another.

    A statement may take `seconds`; None sets no limit. Private servers have no limit. Names without a schema are looked
    up in pg_catalog first, then in `search_path`, even if the role or the database has another setting. The session has
    `settings` from its login on, and shows `name` as its application_name. Texts are UTF-8. With `prepares` the server
    plans each statement once. With `settings` a pooler that answers in place of the server is refused. For a private
    server only `database` and `search_path` are used.

    Raises EnvironmentLackingError if a running server refuses the login, does not answer, cannot be protected as
    `address.security` requires, or does not give the session these settings. For a private server, raises AccessDenied
    if it refuses the user, ServerError or LostError while it does not answer.
    """
    database = database or address.schema
    if address.is_private:
        return _private(address, database, search_path)
    path = "pg_catalog" if database == SYSTEM_DATABASE else search_path
    seconds = address.limited(seconds)
    # A role's default settings may contain `role`, which would turn its sessions into another role's.
    session = {
        "role": "none",
        "statement_timeout": str(round((seconds or 0) * 1000)),
        "search_path": path,
        **(settings or {}),
    }
    attempt = partial(
        _running, address, database, session, name, seconds, is_direct=settings is not None, prepares=prepares
    )
    return passwords.logged_in(address, FORM, attempt)


def _private(address: Address, database: str, search_path: str) -> Client:
    session = {"statement_timeout": "0", "search_path": search_path}
    attempt = partial(_connect, address, database, name="bufferlab", seconds=None, secret=str(address.secret))
    try:
        try:
            return attempt({**session, **_FOR_EVER})
        except ServerError as error:
            # Versions up to 13 do not end idle sessions.
            if error.code != _NO_SUCH_SETTING:
                raise
            return attempt(session)
    except ServerError as error:
        if error.code in _PASSES:
            raise
        refused = f"the server refuses the user {address.user} in {database}: {error.message}"
        raise AccessDenied(refused) from error


def _running(
    address: Address,
    database: str,
    session: Mapping[str, str],
    name: str,
    seconds: float | None,
    secret: str,
    *,
    is_direct: bool,
    prepares: bool,
) -> Client:
    mark = secrets.token_hex(8)
    try:
        settings = {**session, **_FOR_EVER, _MARK: mark}
        made = _connect(address, database, settings, name, seconds, secret, prepares=prepares)
    except RefusedError as error:
        raise RefusedError(f"{_UNUSABLE}: {error.what}", address.place, error.hint) from error
    except ServerError as error:
        raise _refused(error, address, database) from error
    except LostError as error:
        usual = "is it running, and is this its address, or the folder of its socket?"
        hint = next((hint for words, hint in _SAID_HINTS.items() if words in str(error)), usual)
        raise EnvironmentLackingError(f"{_UNUSABLE}: {error}", address.place, hint) from error
    try:
        _require_ours(made, mark, address, is_direct=is_direct)
    except BaseException:
        made.close()
        raise
    return made


def _require_ours(connection: Client, mark: str, address: Address, *, is_direct: bool) -> None:
    """Raise EnvironmentLackingError unless the session has the settings that bufferlab's login sent.

    A pooler may drop these settings. It may also run each transaction in another session, which other clients use too.
    With `is_direct` every pooler is refused: its cancel key is not the PID of the server process.
    """
    try:
        told = connection.rows(f"SELECT pg_catalog.current_setting('{_MARK}', true), pg_catalog.pg_backend_pid()")
    except (ServerError, LostError) as error:
        hint = "is this a PostgreSQL server, and does it work?"
        raise EnvironmentLackingError(f"{_UNUSABLE}: {error}", address.place, hint) from error
    except MISFITS as error:
        raise EnvironmentLackingError(NOT_UNDERSTOOD, address.place, NOT_A_SERVER) from error
    if [row[:1] for row in told] != [(mark,)]:
        what = "the session lacks the settings that were sent with its login: a pooler such as pgbouncer answers"
        raise EnvironmentLackingError(what, address.place, _NOT_A_POOLER)
    if is_direct and told[0][1:] != (connection.id,):
        raise EnvironmentLackingError("a pooler, such as pgbouncer, answers", address.place, _NOT_A_POOLER)


def _connect(
    address: Address,
    database: str,
    session: Mapping[str, str],
    name: str,
    seconds: float | None,
    secret: str,
    *,
    prepares: bool = False,
) -> Client:
    options = " ".join(f"-c {key}={value}" for key, value in session.items())
    return Client(
        "postgres",
        {**address.target(secret, socket_file(address)), "database": database},
        login_seconds=min(seconds or ANSWER_SECONDS, ANSWER_SECONDS),
        # The client's limit is longer than statement_timeout, so that the server ends a statement first.
        seconds=seconds and seconds + LATE_SECONDS,
        name=name,
        until_s=address.until_s,
        most_answer_bytes=MOST_OF_OUR_OWN_BYTES if address.is_private else MOST_ANSWER_BYTES,
        startup=[("options", options)],
        prepares=prepares,
    )


def _refused(error: ServerError, address: Address, database: str) -> EnvironmentLackingError:
    """Return the error for a refused login, with the hint for its code."""
    said = f"the server refuses the user {address.user} in {database}: {error.message}"
    is_denied = error.code == _WRONG_PASSWORD
    kind = EnvironmentLackingError if error.code in _PASSES else DeniedError if is_denied else LoginRefusedError
    hint = next((hint for words, hint in _SAID_HINTS.items() if words in error.message), _OF_THE_DATABASE)
    if is_denied:
        source = passwords.find(address, FORM).source
        hint = _WRONG.format(source=source) if source else _DENIED
    return kind(f"{_UNUSABLE}: {said}", address.place, _HINTS.get(error.code, hint))


def socket_file(address: Address) -> str | None:
    """Return the path of the address's socket; None over TCP."""
    return f"{address.socket.rstrip('/')}/.s.PGSQL.{address.port}" if address.socket else None


def greet(address: Address, seconds: float) -> None:
    """Request a first answer from the server, without logging in. Raises OSError if none comes within `seconds`.

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
        line.connect(str(socket_file(address)))
    except OSError:
        line.close()
        raise
    return line
