"""Connects to a PostgreSQL server, private or running: psycopg, over its socket or TCP, there with libpq's TLS.

libpq does not tell the code of a refused login. Then the core logs in once more, which tells it.
"""

from __future__ import annotations

import json
import re
import secrets
import socket as sockets
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import psycopg

from bufferlab.engines.native import failure_of_core, native
from bufferlab.engines.postgres.client import Client
from bufferlab.engines.postgres.client_passwords import password_in, usual_password
from bufferlab.engines.postgres.control import PORT, SYSTEM_DATABASE, Connection
from bufferlab.engines.servers.existing import passwords, tls
from bufferlab.engines.servers.existing.address import PASSWORD, STATEMENT_SECONDS, AccessDenied, Address, Form
from bufferlab.engines.servers.existing.passwords import DeniedError, LoginRefusedError
from bufferlab.engines.servers.existing.security import Security
from bufferlab.engines.servers.questions import MISFITS, NOT_A_SERVER, NOT_UNDERSTOOD
from bufferlab.errors import EnvironmentLackingError

_CONNECT_SECONDS = 10
_LATE_SECONDS = 5.0
"""How much longer than its statement_timeout a server is waited for."""
_REFUSES_WITHIN_SECONDS = 5.0
_SSL_REQUEST = struct.pack(">II", 8, 80877103)
_NOWHERE = "/dev/null/none"
"""A path that cannot be: libpq reads its own default file where it is given none, and warns of one that is no file."""
_REFUSED = ("password authentication failed", "does not exist", "no pg_hba.conf entry")
"""What a private server says, in our own locale."""
_WRONG_PASSWORD = "28P01"
_PASSES = ("53300", "57P01", "57P02", "57P03", "08P01")
"""The codes of refusals that pass by themselves: too many connections, a server that starts or ends, a pooler's."""
_CODE = re.compile(r"connecting to the server: FATAL ([0-9A-Z]{5}): ")
_MARK = "bufferlab.session"
"""A setting of no server: a session has it if the server took what we sent with the login."""
_LOGINS = "scram-sha-256,md5,none"
"""The ways to log in that the core has; none: by trust, the socket's user or a client's certificate."""
_DENIED = f"set {PASSWORD}, or name a password file (.pgpass) with ?password_file=/path"
_WRONG = "is the password from {source} right, and is the role's time not over (VALID UNTIL in pg_roles)?"
_NOT_A_POOLER = "name the server itself, by its own port"
_OTHER_METHOD = "let pg_hba.conf say scram-sha-256 for this account: gss, password, ldap and pam are refused"
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
"""What to do by the code of a refused login."""
_SAID_HINTS = {
    tls.CLEAR_TEXT_REFUSED: _OTHER_METHOD,
    "authentication method requirement": _OTHER_METHOD,
    "unsupported startup parameter": _HINTS["08P01"],
    "during SSL exchange": "a tunnel that speaks TLS itself may answer: ?sslmode=disable",
}
"""What to do by what libpq says, or the one pooler that has no code."""


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
    settings: Mapping[str, str] | None = None,
    name: str = "bufferlab",
) -> Connection:
    """Open a connection in autocommit, to the address's database or another.

    A statement may take `seconds`, None: any time; on a private server any statement may. Names without a schema are
    looked for in pg_catalog first, then in `search_path`, whatever role and database have set. The session has
    `settings` from its login on, and shows `name` as its application_name. Texts are UTF-8.
    With `settings` the server's own session must answer, and no pooler's.

    Raises EnvironmentLackingError when a running server refuses it, does not answer, is not what `address.security`
    asks for, or does not give the session these settings. Of a private one raises AccessDenied when it refuses the
    user, and psycopg.OperationalError while it does not answer.
    """
    database = database or address.schema
    if address.is_private:
        return _private(address, database, search_path, str(address.secret))
    path = "pg_catalog" if database == SYSTEM_DATABASE else search_path
    seconds = address.limited(seconds)
    # A role's own setting `role` would make its sessions another's.
    session = {
        "role": "none",
        "statement_timeout": str(round((seconds or 0) * 1000)),
        "search_path": path,
        **(settings or {}),
    }
    attempt = partial(_running, address, database, session, name, is_direct=settings is not None)
    return passwords.logged_in(address, FORM, attempt)


def _private(address: Address, database: str, search_path: str, secret: str) -> Connection:
    try:
        return _connect(address, database, {"statement_timeout": "0", "search_path": search_path}, "bufferlab", secret)
    except psycopg.OperationalError as error:
        if any(words in str(error) for words in _REFUSED):
            refused = f"the server refuses the user {address.user} in {database}: {_message(str(error))}"
            raise AccessDenied(refused) from error
        raise


def _running(
    address: Address, database: str, session: Mapping[str, str], name: str, secret: str, *, is_direct: bool
) -> Connection:
    security = address.security
    mark, begun_s = secrets.token_hex(8), time.monotonic()
    try:
        if address.socket is None and security.requires_tls:
            tls.prove(address.host, address.port, security, ask_for_tls, _CONNECT_SECONDS)
        made = _connect(address, database, {**session, _MARK: mark}, name, secret)
    except tls.TlsRefusedError as error:
        what = f"the server cannot be used: {error.what}"
        raise EnvironmentLackingError(what, error.where or address.place, error.hint) from error
    except (psycopg.Error, OSError) as error:
        # Whoever refuses does so at once; a silent server would be waited for once more.
        may_ask = time.monotonic() - begun_s < _REFUSES_WITHIN_SECONDS
        raise _refused(error, address, database, secret if may_ask else None) from error
    try:
        _require_ours(made, mark, address, is_direct=is_direct)
    except BaseException:
        made.close()
        raise
    return made


def _require_ours(connection: Client, mark: str, address: Address, *, is_direct: bool) -> None:
    """Raise EnvironmentLackingError unless the server that answers has the settings of our login.

    A pooler may drop them, and may answer each transaction by another session, which others use too. With `is_direct`
    refuse every pooler: it gives a number of its own as the key to cancel by.
    """
    ask = f"SELECT pg_catalog.current_setting('{_MARK}', true), pg_catalog.pg_backend_pid()"
    try:
        told = connection.execute(ask.encode()).fetchall()
    except (psycopg.Error, OSError) as error:
        what = f"the server cannot be used: {str(error).strip()}"
        raise EnvironmentLackingError(what, address.place, "is this a PostgreSQL server, and does it work?") from error
    except MISFITS as error:
        raise EnvironmentLackingError(NOT_UNDERSTOOD, address.place, NOT_A_SERVER) from error
    if [row[:1] for row in told] != [(mark,)]:
        what = "the session lacks the settings that were sent with its login: a pooler such as pgbouncer answers"
        raise EnvironmentLackingError(what, address.place, _NOT_A_POOLER)
    if is_direct and told[0][1:] != (connection.info.backend_pid,):
        raise EnvironmentLackingError("a pooler, such as pgbouncer, answers", address.place, _NOT_A_POOLER)


def _connect(address: Address, database: str, session: Mapping[str, str], name: str, secret: str) -> Client:
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
        application_name=name,
        client_encoding="UTF8",
        passfile=_NOWHERE,
        gssencmode="disable",
        sslmode=security.mode,
        sslrootcert=security.root_cert or _NOWHERE,
        sslcert=security.cert or _NOWHERE,
        sslkey=security.key or _NOWHERE,
        ssl_min_protocol_version="TLSv1.2",
        channel_binding="prefer",
        require_auth=_LOGINS,
        options=" ".join(f"-c {key}={value}" for key, value in {"idle_session_timeout": "0", **session}.items()),
    )
    milliseconds = int(session["statement_timeout"])
    made.answer_seconds = milliseconds / 1000 + _LATE_SECONDS if milliseconds else None
    made.until_s = address.until_s
    return made


def _refused(error: Exception, address: Address, database: str, secret: str | None) -> EnvironmentLackingError:
    """Return what a failed login means. Its code is asked for by another login, unless `secret` is None."""
    # libpq tells the error first, and then its own reading of it.
    text = str(error)
    lacks_password = bool(getattr(getattr(error, "pgconn", None), "needs_password", False))
    code = "" if lacks_password or secret is None else _code_of_refusal(error, address, database, secret)
    if "server requested a cleartext password" in text:
        text = tls.CLEAR_TEXT_REFUSED
    elif code:
        text = f"the server refuses the user {address.user} in {database}: {_message(text)}"
    said = (text.strip().splitlines() or ["it said nothing"])[0].removeprefix("connection failed: ")
    is_denied = lacks_password or code == _WRONG_PASSWORD
    lasts = code and code not in _PASSES
    kind = DeniedError if is_denied else LoginRefusedError if lasts else EnvironmentLackingError
    usual = "is it running, and is this its address, or the folder of its socket?"
    hint = next((hint for words, hint in _SAID_HINTS.items() if words in text), _OF_THE_DATABASE if code else usual)
    if is_denied:
        source = passwords.find(address, FORM).source
        hint = _WRONG.format(source=source) if source else _DENIED
    return kind(f"the server cannot be used: {said}", address.place, _HINTS.get(code, hint))


def _code_of_refusal(error: Exception, address: Address, database: str, secret: str) -> str:
    """Return the code (SQLSTATE) with which the server refuses the login; "" when it does not, or did not answer."""
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, psycopg.errors.ConnectionTimeout):
        return ""
    job = json.dumps(replace(address, schema=database).target(secret, socket_file(address)))
    codes: list[str] = []

    def ask() -> None:
        try:
            native().log_in("postgres", job)
        except Exception as refusal:
            failure = failure_of_core(refusal)
            found = _CODE.match(failure.what) if failure else None
            codes.append(found[1] if found else "")

    # A server that begins to answer and stops would be waited for.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_REFUSES_WITHIN_SECONDS)
    return next(iter(codes), "")


def socket_file(address: Address) -> str | None:
    """Return the path of the address's socket; None over TCP."""
    return f"{address.socket.rstrip('/')}/.s.PGSQL.{address.port}" if address.socket else None


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
        line.connect(str(socket_file(address)))
    except OSError:
        line.close()
        raise
    return line


def _message(text: str) -> str:
    """Return the server's words and its detail, without those that libpq puts before them and other lines."""
    lines = text.strip().splitlines() or [""]
    told = next((line for line in lines if "FATAL:" in line), lines[0]).rpartition("FATAL:")[2].strip()
    detail = next((line.removeprefix("DETAIL:").strip() for line in lines if line.startswith("DETAIL:")), "")
    return f"{told}: {detail}" if detail else told
