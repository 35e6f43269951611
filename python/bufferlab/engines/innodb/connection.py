"""Connects to a MySQL or MariaDB server, private or running, over its socket or TCP, there with TLS."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.client_options import password_in, usual_password
from bufferlab.engines.servers.client import (
    MOST_ANSWER_BYTES,
    MOST_OF_OUR_OWN_BYTES,
    Client,
    LostError,
    RefusedError,
    ServerError,
)
from bufferlab.engines.servers.existing import passwords
from bufferlab.engines.servers.existing.address import (
    ANSWER_SECONDS,
    PASSWORD,
    AccessDenied,
    Address,
    Form,
)
from bufferlab.engines.servers.existing.passwords import DeniedError, LoginRefusedError
from bufferlab.engines.servers.existing.security import LOGIN_WORDS
from bufferlab.errors import EnvironmentLackingError

_ACCESS_DENIED = ("1044", "1045", "1698")
"""ER_DBACCESS_DENIED_ERROR, ER_ACCESS_DENIED_ERROR and its MariaDB kin: never, where other errors say not yet."""
_NEVER = (
    *_ACCESS_DENIED,
    "1049",  # ER_BAD_DB_ERROR
    "1129",  # ER_HOST_IS_BLOCKED
    "1130",  # ER_HOST_NOT_PRIVILEGED
    "1524",  # ER_PLUGIN_IS_NOT_LOADED
    "1862",  # ER_MUST_CHANGE_PASSWORD_LOGIN
    "3118",  # ER_ACCOUNT_HAS_BEEN_LOCKED of MySQL
    "3955",  # ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK
    "4151",  # ER_ACCOUNT_HAS_BEEN_LOCKED of MariaDB
)
"""The refusals of a login that the next login would meet too."""
_SESSION = (
    "SET NAMES utf8mb4",
    "SET SESSION autocommit = 1, sql_mode = '', sql_select_limit = 18446744073709551615, sql_big_selects = 1, "
    "wait_timeout = 28800",
    "SET SESSION max_statement_time = 0",  # MariaDB.
    "SET SESSION max_execution_time = 0",  # MySQL from 5.7.8 on.
)
"""What a session of ours on a running server begins with: what a server gives new sessions may cut or alter answers."""
_UNKNOWN_VARIABLE = "1193"
_UNUSABLE = "the server cannot be used"
_LOCKED = "ALTER USER ... ACCOUNT UNLOCK would let it in"
_LIMITED = "wait, or raise the limit that was met: max_connections, or ALTER USER ... WITH MAX_USER_CONNECTIONS 0"
_EXPIRED = "log in once with the server's own client and give the account a new password by ALTER USER"
_DENIED = (
    f"is the password right ({PASSWORD}, or an option file by ?password_file=/path)? The server also says this to an "
    "account with REQUIRE SSL on a socket, or with sslmode=disable, and with REQUIRE X509 without ?sslcert= and sslkey="
)
_HINTS = {
    "1044": "grant the account its schema: GRANT ALL ON schema.* TO the user",
    "1045": _DENIED,
    "1698": _DENIED,
    "1040": _LIMITED,
    "1129": "FLUSH HOSTS on the server would let this host in again",
    "1130": "the account must be for this host: CREATE USER 'name'@'host', or '%'",
    "1184": "the server's init_connect has a mistake, which its error log names; accounts with SUPER skip it",
    "1203": _LIMITED,
    "1226": _LIMITED,
    "1820": _EXPIRED,
    "1862": _EXPIRED,
    "3032": "SET GLOBAL offline_mode = OFF would let it in; accounts with SUPER or CONNECTION_ADMIN are let in",
    "3118": _LOCKED,
    "4151": _LOCKED,
    "3159": "leave sslmode=disable out (the server's TLS may be too old for us), or name its socket by ?socket=/path",
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
    address: Address, schema: str | None = None, *, seconds: float | None = ANSWER_SECONDS, name: str = "bufferlab"
) -> Client:
    """Open a connection in autocommit, to no schema unless one is named. The server shows `name` as its program_name.

    A statement may take `seconds`, None: any time. Raises EnvironmentLackingError when a running server refuses it,
    does not answer, or is not what `address.security` asks for. Of a private one raises AccessDenied when it refuses
    the user, ServerError or LostError while it does not answer.
    """
    seconds = address.limited(seconds)
    if not address.is_private:
        return passwords.logged_in(address, FORM, partial(_running, address, schema, seconds, name))
    try:
        return _client(address, str(address.secret), schema, seconds, name)
    except ServerError as error:
        if error.code in _ACCESS_DENIED:
            raise AccessDenied(f"the server refuses the user {address.user} (error {error.code})") from error
        raise


def _running(address: Address, schema: str | None, seconds: float | None, name: str, secret: str) -> Client:
    try:
        return set_session(_client(address, secret, schema, seconds, name), _SESSION)
    except RefusedError as error:
        raise RefusedError(f"{_UNUSABLE}: {error.what}", address.place, error.hint) from error
    except (ServerError, LostError) as error:
        code = error.code if isinstance(error, ServerError) else ""
        kind = DeniedError if code in _ACCESS_DENIED else LoginRefusedError if code in _NEVER else None
        hint = _HINTS.get(code, "is it running, and is this its socket or address?")
        raise (kind or EnvironmentLackingError)(f"{_UNUSABLE}: {error}", address.place, hint) from error


def set_session(connection: Client, statements: Sequence[str]) -> Client:
    """Return the session with these settings. A variable that the server does not know is left out.

    Raises ServerError or LostError, and closes the session, when another statement fails.
    """
    try:
        for statement in statements:
            try:
                control.rows(connection, statement)
            except ServerError as error:
                if error.code != _UNKNOWN_VARIABLE:
                    raise
    except (ServerError, LostError):
        connection.close()
        raise
    return connection


def _client(address: Address, secret: str, schema: str | None, seconds: float | None, name: str) -> Client:
    return Client(
        "mysql",
        {**address.target(secret, address.socket), "database": schema or ""},
        login_seconds=min(seconds or ANSWER_SECONDS, ANSWER_SECONDS),
        seconds=seconds,
        name=name,
        until_s=address.until_s,
        most_answer_bytes=MOST_OF_OUR_OWN_BYTES if address.is_private else MOST_ANSWER_BYTES,
    )
