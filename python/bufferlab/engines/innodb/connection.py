"""Connects to a MySQL or MariaDB server, private or running. PyMySQL, over its socket or TCP."""

from __future__ import annotations

import json
import re
import socket as sockets
from typing import Any

import pymysql

from bufferlab.engines.native import ask_host, native
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
_ACCESS_DENIED = (1044, 1045, 1698)
"""ER_DBACCESS_DENIED_ERROR, ER_ACCESS_DENIED_ERROR and its MariaDB kin: never, where other errors say not yet."""
_SECTIONS = ("client", "mysql", "mariadb", "bufferlab")
_UNUSABLE = "the server cannot be used"
_OTHER_WAY = (
    "the account's way to log in is not known here: make one IDENTIFIED WITH caching_sha2_password, "
    "or before MySQL 8.0 mysql_native_password"
)
_NO_TLS = "bufferlab speaks no TLS"
_DENIED = (
    f"is the password right ({PASSWORD}, or an option file by ?password_file=/path)? The server also says this to an "
    f"account with REQUIRE SSL (SHOW CREATE USER tells): {_NO_TLS}; ALTER USER ... REQUIRE NONE"
)
_HINTS = {
    1044: "grant the account its schema: GRANT ALL ON schema.* TO the user",
    1045: _DENIED,
    1698: _DENIED,
    2059: _OTHER_WAY,
    3159: f"{_NO_TLS}: connect by the server's socket (?socket=/path), or SET GLOBAL require_secure_transport = OFF",
}


def password_in(text: str, address: Address) -> str | None:
    """Return the last `password` in the sections that clients read, of an option file of the server's own clients."""
    section, found = "", None
    for line in text.splitlines():
        stripped = line.strip()
        if head := re.fullmatch(r"\[([^\]]+)\]", stripped):
            section = head[1].strip()
        elif section in _SECTIONS and (pair := re.fullmatch(r"password\s*=\s*(.*)", stripped)):
            value = pair[1]
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found = value[1:-1] if quoted else value
    return found


FORM = Form(
    schemes=("mysql", "mariadb"),
    port=3306,
    schema="schema",
    longest_schema=64,
    own_schemas=("mysql", "information_schema", "performance_schema", "sys"),
    socket="/path",
    password_in=password_in,
    password_example="[client]\npassword = ...",
)


def connect(
    address: Address, schema: str | None = None, *, seconds: float | None = STATEMENT_SECONDS, name: str = "bufferlab"
) -> Any:
    """Open a connection in autocommit, to no schema unless one is named. The server shows `name` as its program_name.

    A statement may take `seconds`, None: any time. Raises EnvironmentLackingError when a running server refuses it or
    does not answer. Of a private one raises AccessDenied when it refuses the user, and MySQLError or OSError while it
    does not answer.
    """
    secret = password(address, FORM)
    try:
        return _connect(address, secret, schema, seconds, name)
    except RuntimeError:
        # PyMySQL cannot send an encrypted password; the core can. Afterwards a server with caching_sha2_password knows
        # the password, and is content with the proof that PyMySQL gives.
        target = json.dumps(address.target(secret, address.socket))
        ask_host(_UNUSABLE, lambda: native().log_in("mysql", target))
    except (pymysql.MySQLError, OSError) as error:
        if not address.is_private:
            raise _refused(error, address) from error
        if error.args and error.args[0] in _ACCESS_DENIED:
            raise AccessDenied(f"the server refuses the user {address.user} (error {error.args[0]})") from error
        raise
    try:
        return _connect(address, secret, schema, seconds, name)
    except (pymysql.MySQLError, OSError, RuntimeError) as error:
        raise _refused(error, address) from error


def _connect(address: Address, secret: str, schema: str | None, seconds: float | None, name: str) -> Any:
    """Open a connection by PyMySQL. Raise RuntimeError where the server wants the password itself, encrypted."""
    if address.is_private:
        # PyMySQL does not close the socket of a failed attempt, and there may be many while a server starts.
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
            probe.settimeout(_CONNECT_SECONDS)
            probe.connect(str(address.socket))
    place = {"unix_socket": address.socket} if address.socket else {"host": address.host, "port": address.port}
    return pymysql.connect(
        **place,
        user=address.user,
        password=secret,
        database=schema,
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=seconds,
        autocommit=True,
        charset="utf8mb4",
        read_default_file=None,
        program_name=name,
    )


def _refused(error: Exception, address: Address) -> EnvironmentLackingError:
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    said = str(error.args[-1]) if error.args else str(error)
    usual = _OTHER_WAY if isinstance(error, RuntimeError) else "is it running, and is this its socket or address?"
    return EnvironmentLackingError(f"{_UNUSABLE}: {said}", address.place, _HINTS.get(number, usual))
