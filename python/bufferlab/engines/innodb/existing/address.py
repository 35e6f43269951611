"""Where a server that bufferlab did not start is, and as whom it is reached: a URL without the password.

`mysql://user@host:3306/schema`, or `mysql://user@localhost/schema?socket=/path`; `?password_file=/path` names an option
file. A password in a URL would be in process lists, shell histories and results: it is refused, not taken.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pymysql

from bufferlab.engines.innodb import control
from bufferlab.errors import EnvironmentLackingError

PASSWORD = "BUFFERLAB_PASSWORD"
"""The environment variable that holds the password."""
_SECTIONS = ("client", "mysql", "mariadb", "bufferlab")
_HINTS = {
    1044: "grant the account its schema: GRANT ALL ON schema.* TO the user",
    1045: f"set {PASSWORD}, or name an option file with ?password_file=/path",
    1698: f"set {PASSWORD}, or name an option file with ?password_file=/path",
    2059: "the account's way to log in is not known here: make one IDENTIFIED WITH mysql_native_password",
}


@dataclass(frozen=True)
class Address:
    """One schema of one server."""

    url: str
    user: str
    host: str
    port: int
    schema: str
    socket: str | None
    password_file: str | None

    @property
    def place(self) -> str:
        """The server and schema, as messages name them."""
        return f"{self.socket or f'{self.host}:{self.port}'}/{self.schema}"

    @property
    def name(self) -> str:
        """A file name for what is kept of this server."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:24]


def is_url(server: object) -> bool:
    """Does a value of the knob `server` name a running server?

    >>> is_url("mysql://me@localhost/lab"), is_url("mysql-5.7")
    (True, False)
    """
    return isinstance(server, str) and "://" in server


def parse(url: str) -> Address:
    """The address in a URL. EnvironmentLackingError when it is none, or holds a password."""
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    form = "write mysql://user@host:3306/schema or mysql://user@localhost/schema?socket=/path"
    if parts.password is not None:
        raise EnvironmentLackingError(
            "a password in a URL is seen in process lists, histories and results", shown, f"set {PASSWORD} instead"
        )
    options = dict(parse_qsl(parts.query))
    schema, unknown = parts.path.removeprefix("/"), sorted(options.keys() - {"socket", "password_file"})
    try:
        port = 3306 if parts.port is None else parts.port
    except ValueError:
        port = 0
    if parts.scheme not in ("mysql", "mariadb") or not parts.username or not parts.hostname or unknown or not port:
        raise EnvironmentLackingError("this is not the URL of a server", shown, form)
    # Our own statements name the schema in backquotes; files are named after tables.
    if not re.fullmatch(r"[A-Za-z0-9_]{1,64}", schema):
        raise EnvironmentLackingError("the URL names no schema of letters, digits and _", shown, form)
    if schema.lower() in ("mysql", "information_schema", "performance_schema", "sys"):
        raise EnvironmentLackingError(f"{schema} is the server's own schema", shown, "name one for bufferlab alone")
    return Address(
        url, parts.username, parts.hostname, port, schema, options.get("socket"), options.get("password_file")
    )


def password(address: Address) -> str:
    """From the option file the URL names, else the environment; "" when there is none."""
    if address.password_file is None:
        return os.environ.get(PASSWORD, "")
    path = Path(address.password_file)
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise EnvironmentLackingError("others may read this password file", str(path), f"chmod 600 {path}")
        return _password_in(path.read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentLackingError(
            f"the password file cannot be read: {getattr(error, 'strerror', None) or error}", str(path)
        ) from error


def _password_in(text: str, path: Path) -> str:
    """The last `password` of the sections that clients read, as in an option file of the server's own clients."""
    section, found = "", None
    for line in text.splitlines():
        stripped = line.strip()
        if head := re.fullmatch(r"\[([^\]]+)\]", stripped):
            section = head[1].strip()
        elif section in _SECTIONS and (pair := re.fullmatch(r"password\s*=\s*(.*)", stripped)):
            value = pair[1]
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found = value[1:-1] if quoted else value
    if found is None:
        raise EnvironmentLackingError("there is no password in this file", str(path), "[client]\npassword = ...")
    return found


def connect(
    address: Address, *, patient: bool = False, answer_seconds: float | None = control.STATEMENT_SECONDS
) -> Any:
    """An open connection, in autocommit; a patient one waits for any statement. Or EnvironmentLackingError."""
    secret = password(address)
    try:
        return pymysql.connect(
            **({"unix_socket": address.socket} if address.socket else {"host": address.host, "port": address.port}),
            user=address.user,
            password=secret,
            connect_timeout=10,
            read_timeout=None if patient else answer_seconds,
            autocommit=True,
            charset="utf8mb4",
            read_default_file=None,
        )
    except (pymysql.MySQLError, OSError, RuntimeError) as error:
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        said = str(error.args[-1]) if error.args else str(error)
        raise EnvironmentLackingError(
            f"the server cannot be used: {said}",
            address.place,
            _HINTS.get(number, "is it running, and is this its socket or address?"),
        ) from None
