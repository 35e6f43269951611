"""Connects to a MySQL or MariaDB server, private or running: by PyMySQL over its socket or TCP, there with TLS."""

from __future__ import annotations

import socket as sockets
import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pymysql

from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.client import Client, ask_for_tls
from bufferlab.engines.innodb.client_options import password_in, usual_password
from bufferlab.engines.servers.existing import passwords, tls
from bufferlab.engines.servers.existing.address import (
    ANSWER_SECONDS,
    PASSWORD,
    STATEMENT_SECONDS,
    AccessDenied,
    Address,
    Form,
)
from bufferlab.engines.servers.existing.passwords import DeniedError, LoginRefusedError
from bufferlab.engines.servers.existing.security import LOGIN_WORDS
from bufferlab.errors import EnvironmentLackingError

_CONNECT_SECONDS = 10
_ACCESS_DENIED = (1044, 1045, 1698)
"""ER_DBACCESS_DENIED_ERROR, ER_ACCESS_DENIED_ERROR and its MariaDB kin: never, where other errors say not yet."""
_NEVER = (
    *_ACCESS_DENIED,
    1049,  # ER_BAD_DB_ERROR
    1129,  # ER_HOST_IS_BLOCKED
    1130,  # ER_HOST_NOT_PRIVILEGED
    1524,  # ER_PLUGIN_IS_NOT_LOADED
    1862,  # ER_MUST_CHANGE_PASSWORD_LOGIN
    2059,  # CR_AUTH_PLUGIN_CANNOT_LOAD
    3118,  # ER_ACCOUNT_HAS_BEEN_LOCKED of MySQL
    3955,  # ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK
    4151,  # ER_ACCOUNT_HAS_BEEN_LOCKED of MariaDB
)
"""The refusals of a login that the next login would meet too."""
_SESSION = (
    "SET SESSION sql_mode = '', sql_select_limit = 18446744073709551615, sql_big_selects = 1, wait_timeout = 28800",
    "SET SESSION max_statement_time = 0",  # MariaDB.
    "SET SESSION max_execution_time = 0",  # MySQL from 5.7.8 on.
)
"""What a session of ours on a running server begins with: what a server gives new sessions may cut or alter answers."""
_UNKNOWN_VARIABLE = 1193
_UNUSABLE = "the server cannot be used"
_OTHER_WAY = (
    "the account's way to log in is not known here: make one IDENTIFIED WITH caching_sha2_password, or on MariaDB and "
    "before MySQL 8.0 IDENTIFIED VIA (WITH) mysql_native_password"
)
_LOCKED = "ALTER USER ... ACCOUNT UNLOCK would let it in"
_LIMITED = "wait, or raise the limit that was met: max_connections, or ALTER USER ... WITH MAX_USER_CONNECTIONS 0"
_EXPIRED = "log in once with the server's own client and give the account a new password by ALTER USER"
_DENIED = (
    f"is the password right ({PASSWORD}, or an option file by ?password_file=/path)? The server also says this to an "
    "account with REQUIRE SSL on a socket, or with sslmode=disable, and with REQUIRE X509 without ?sslcert= and sslkey="
)
_UNPROVED = (
    "?sslmode=verify-ca&sslrootcert=/path proves it; ?sslmode=disable&server_public_key=/path, the server's RSA key, "
    "hides it; allow_unverified_password=true sends it all the same"
)
_HINTS = {
    1044: "grant the account its schema: GRANT ALL ON schema.* TO the user",
    1045: _DENIED,
    1698: _DENIED,
    1040: _LIMITED,
    1129: "FLUSH HOSTS on the server would let this host in again",
    1130: "the account must be for this host: CREATE USER 'name'@'host', or '%'",
    1184: "the server's init_connect has a mistake, which its error log names; accounts with SUPER skip it",
    1203: _LIMITED,
    1226: _LIMITED,
    1820: _EXPIRED,
    1862: _EXPIRED,
    3032: "SET GLOBAL offline_mode = OFF would let it in; accounts with SUPER or CONNECTION_ADMIN are let in",
    3118: _LOCKED,
    4151: _LOCKED,
    2026: tls.NO_TLS_HINT,
    2059: _OTHER_WAY,
    3159: "leave sslmode=disable out (the server's TLS may be too old for us), or name its socket by ?socket=/path",
}
_SENTENCE_HINTS = {
    tls.PASSWORD_REFUSED: _UNPROVED,
    tls.CLEAR_TEXT_REFUSED: "make the account IDENTIFIED WITH caching_sha2_password, or mysql_native_password",
}


FORM = Form(
    schemes=("mysql", "mariadb"),
    port=3306,
    schema="schema",
    longest_schema=64,
    own_schemas=("mysql", "information_schema", "performance_schema", "sys"),
    socket="/path",
    password_in=password_in,
    password_example="a line [client], and below it password = ...",
    usual_password=usual_password,
    usual_sockets=("/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"),
    more_words=LOGIN_WORDS,
)


def connect(
    address: Address, schema: str | None = None, *, seconds: float | None = STATEMENT_SECONDS, name: str = "bufferlab"
) -> Any:
    """Open a connection in autocommit, to no schema unless one is named. The server shows `name` as its program_name.

    A statement may take `seconds`, None: any time. Raises EnvironmentLackingError when a running server refuses it,
    does not answer, or is not what `address.security` asks for. Of a private one raises AccessDenied when it refuses
    the user, and MySQLError or OSError while it does not answer.
    """
    seconds = address.limited(seconds)
    try:
        if address.is_private:
            return _private(address, schema, seconds, name)
        return passwords.logged_in(address, FORM, partial(_running, address, schema, seconds, name))
    except tls.TlsRefusedError as error:
        raise EnvironmentLackingError(f"{_UNUSABLE}: {error.what}", error.where or address.place, error.hint) from error


def _private(address: Address, schema: str | None, seconds: float | None, name: str) -> Any:
    # PyMySQL does not close the socket of a failed attempt, and there may be many while a server starts.
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        probe.connect(str(address.socket))
    try:
        return _client(address, str(address.secret), schema, seconds, name, None)
    except pymysql.MySQLError as error:
        if error.args and error.args[0] in _ACCESS_DENIED:
            raise AccessDenied(f"the server refuses the user {address.user} (error {error.args[0]})") from error
        raise


def _running(address: Address, schema: str | None, seconds: float | None, name: str, secret: str) -> Any:
    try:
        return set_session(_logged_in(address, schema, seconds, name, secret), _SESSION)
    except (pymysql.MySQLError, OSError) as error:
        raise _refused(error, address) from error


def set_session(connection: Client, statements: Sequence[str]) -> Client:
    """Return the session with these settings. A variable that the server does not know is left out.

    Raises MySQLError or OSError, and closes the session, when another statement fails.
    """
    try:
        for statement in statements:
            try:
                control.rows(connection, statement)
            except pymysql.MySQLError as error:
                if error.args[0] != _UNKNOWN_VARIABLE:
                    raise
    except (pymysql.MySQLError, OSError):
        connection._force_close()
        raise
    return connection


def _logged_in(address: Address, schema: str | None, seconds: float | None, name: str, secret: str) -> Client:
    security = address.security
    has_tls = address.socket is None and security.mode != "disable"
    try:
        return _client(address, secret, schema, seconds, name, tls.context(security) if has_tls else None)
    except pymysql.MySQLError as error:
        cause = getattr(error, "original_exception", None)
        if not isinstance(cause, ssl.SSLError):
            raise
        if security.requires_tls:
            raise tls.refused(cause, address.host, address.port, security, ask_for_tls, _CONNECT_SECONDS) from error
        return _client(address, secret, schema, seconds, name, None)


def _client(
    address: Address,
    secret: str,
    schema: str | None,
    seconds: float | None,
    name: str,
    context: ssl.SSLContext | None,
) -> Client:
    place = {"unix_socket": address.socket} if address.socket else {"host": address.host, "port": address.port}
    key = address.security.server_public_key
    made = Client(
        address.security,
        context,
        None if address.is_private else min(seconds or ANSWER_SECONDS, ANSWER_SECONDS),
        _public_key(key) if key else None,
        **place,
        user=address.user,
        password=secret.encode(),
        database=schema,
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=seconds,
        autocommit=True,
        charset="utf8mb4",
        program_name=name,
    )
    made.until_s = address.until_s
    return made


def _public_key(path: str) -> bytes:
    """Return the PEM of a server's RSA key; raise TlsRefusedError when the file has none."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        text = Path(path).read_bytes()
        if not isinstance(load_pem_public_key(text), RSAPublicKey):
            raise ValueError("it is no RSA key")
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "it holds no public key (PEM) of RSA"
        raise tls.TlsRefusedError(f"the file of server_public_key cannot be used: {said}", path) from error
    return text


def _refused(error: Exception, address: Address) -> EnvironmentLackingError:
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    said = str(error.args[-1]) if error.args else str(error)
    usual = "is it running, and is this its socket or address?"
    kind = DeniedError if number in _ACCESS_DENIED else LoginRefusedError if number in _NEVER else None
    return (kind or EnvironmentLackingError)(
        f"{_UNUSABLE}: {said}", address.place, _SENTENCE_HINTS.get(said) or _HINTS.get(number, usual)
    )
