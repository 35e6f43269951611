"""Parses the URL of a server that bufferlab did not start, and finds the password, which is never in the URL.

`mysql://user@host:3306/schema`, or `mysql://user@localhost/schema?socket=/path`; `?password_file=/path` names a file in
the format of the server's clients. A password in a URL would be in process lists, shell histories and results, so such
a URL is refused.

`?admin_user=name` names a second account, which changes settings and enters no schema of ours, so that the URL's user
needs no rights beyond its schema; its password is found in the same two ways.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bufferlab.errors import EnvironmentLackingError

PASSWORD = "BUFFERLAB_PASSWORD"
"""The environment variable that holds the password."""
ADMIN_PASSWORD = "BUFFERLAB_ADMIN_PASSWORD"
"""The environment variable that holds the password of the URL's `admin_user`."""
STATEMENT_SECONDS = 120.0
"""The seconds that one of our statements that reads no tables may take; it may wait for locks, for 50 s by default."""
ANSWER_SECONDS = 30.0
"""How long a server may take for what waits for nobody, a greeting or a ping: far beyond an overloaded one's."""
_OPTIONS = ("socket", "password_file", "admin_user", "admin_password_file")


class AccessDenied(Exception):
    """The error that a server is there but refuses our user, our password or the database."""


@dataclass(frozen=True)
class Address:
    """One schema of one server, and the account that reaches it."""

    url: str
    user: str
    host: str
    port: int
    schema: str
    """The name of the place for the tables: a schema in MySQL and MariaDB, a database in PostgreSQL."""
    socket: str | None
    """The path of the Unix socket; for PostgreSQL, of the folder that has it. None: TCP."""
    password_file: str | None
    admin_user: str | None = None
    """The account that changes the server's settings; None: `user` does."""
    admin_password_file: str | None = None
    is_admin: bool = False
    """Whether `user` is the `admin_user` of the URL."""
    secret: str | None = field(default=None, repr=False)
    """The password of a private server's account; None: the server runs already, and `password` finds it."""

    @property
    def is_private(self) -> bool:
        """Whether bufferlab started the server, for its own data."""
        return self.secret is not None

    @property
    def admin(self) -> Address:
        """The same server and schema, reached as the account that changes settings."""
        if self.admin_user is None:
            return self
        return replace(self, user=self.admin_user, password_file=self.admin_password_file, is_admin=True)

    @property
    def server(self) -> str:
        """The server alone, as messages name it."""
        return self.socket or f"{self.host}:{self.port}"

    def target(self, secret: str, socket: str | None) -> dict[str, Any]:
        """Return what the core needs to connect: a socket or a host with its port, and the account."""
        place = {"socket": socket} if socket else {"tcp": {"host": self.host, "port": self.port}}
        return {"place": place, "user": self.user, "password": secret, "database": self.schema}

    def at(self, schema: str) -> str:
        """Return the URL of another schema of the same server, as the same account."""
        parts = urlsplit(self.url)
        return parts._replace(path=f"/{schema}").geturl()

    @property
    def place(self) -> str:
        """The server and schema, as messages name them."""
        return f"{self.server}/{self.schema}"


def private(socket: str, user: str, secret: str, schema: str = "", port: int = 0) -> Address:
    """Return the address of a schema of a private server, which listens on its socket alone."""
    return Address("", user, "localhost", port, schema, socket, None, secret=secret)


@dataclass(frozen=True)
class Form:
    """The form of a family's URLs."""

    schemes: tuple[str, ...]
    port: int
    """The port when the URL names none."""
    schema: str
    """The family's word for the last part of the URL: schema or database."""
    longest_schema: int
    """The most characters the server allows in that name."""
    own_schemas: tuple[str, ...]
    """The server's system schemas, which may not hold our data."""
    socket: str
    """An example of what `?socket=` names."""
    password_in: Callable[[str, Address], str | None]
    """The password for an address in the text of a password file; None when there is none."""
    password_example: str

    @property
    def example(self) -> str:
        """An example of a URL over TCP."""
        return f"{self.schemes[0]}://user@host:{self.port}/{self.schema}"


def url_pattern(*schemes: str) -> str:
    """Return the regular expression of a URL, for a knob. It allows no password, because results keep the URL."""
    label, option = "[A-Za-z0-9_-]{1,63}", rf"(?:{'|'.join(_OPTIONS)})=[^\s&=\x00-\x1f\x7f-\x9f]+"
    return (
        rf"(?:{'|'.join(schemes)})://[^\s:/@?#\[\]\x00-\x1f\x7f-\x9f]{{1,64}}@{label}(?:\.{label}){{0,7}}(?::[0-9]{{1,5}})?"
        rf"/[A-Za-z0-9_]+(?:\?{option}(?:&{option})*)?"
    )


def is_url(server: object) -> bool:
    """Return whether a value of the knob `server` is the URL of a running server.

    >>> is_url("mysql://me@localhost/lab"), is_url("mysql-5.7")
    (True, False)
    """
    return isinstance(server, str) and "://" in server


def parse(url: str, form: Form) -> Address:
    """Return the address in a URL; raise EnvironmentLackingError when it is none, or holds a password."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise EnvironmentLackingError(f"this is not the URL of a server: {error}", None, form.example) from error
    shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    hint = f"write {form.example} or {form.schemes[0]}://user@localhost/{form.schema}?socket={form.socket}"
    if parts.password is not None:
        raise EnvironmentLackingError(
            "a password in a URL is seen in process lists, histories and results", shown, f"set {PASSWORD} instead"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema, unknown = parts.path.removeprefix("/"), sorted(options.keys() - set(_OPTIONS))
    try:
        port = form.port if parts.port is None else parts.port
    except ValueError:
        port = 0
    if (
        parts.scheme not in form.schemes
        or not parts.username
        or not parts.hostname
        or unknown
        or not port
        or "" in options.values()
    ):
        raise EnvironmentLackingError("this is not the URL of a server", shown, hint)
    # Our statements quote the name; the server names files after it.
    if not re.fullmatch(rf"[A-Za-z0-9_]{{1,{form.longest_schema}}}", schema):
        raise EnvironmentLackingError(f"the URL names no {form.schema} of letters, digits and _", shown, hint)
    if schema.lower() in form.own_schemas:
        raise EnvironmentLackingError(f"{schema} is the server's own {form.schema}", shown, "name one for bufferlab")
    if not re.fullmatch(url_pattern(*form.schemes), url):
        raise EnvironmentLackingError("this is not the URL of a server", shown, hint)
    socket, password_file, admin_user, admin_password_file = (options.get(name) for name in _OPTIONS)
    if admin_password_file and not admin_user:
        raise EnvironmentLackingError("admin_password_file is of no use without admin_user", shown, hint)
    return Address(
        url, parts.username, parts.hostname, port, schema, socket, password_file, admin_user, admin_password_file
    )


def password(address: Address, form: Form) -> str:
    """Return the password from the file that the URL names, else from the environment; "" when there is none.

    Raise EnvironmentLackingError when the file cannot be read, has no password for this address, or others may read it.
    """
    if address.secret is not None:
        return address.secret
    if address.password_file is None:
        return os.environ.get(ADMIN_PASSWORD if address.is_admin else PASSWORD, "")
    path = Path(address.password_file)
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise EnvironmentLackingError("others may read this password file", str(path), f"chmod 600 {path}")
        found = form.password_in(path.read_text("utf-8"), address)
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentLackingError(
            f"the password file cannot be read: {getattr(error, 'strerror', None) or error}", str(path)
        ) from error
    if found is None:
        raise EnvironmentLackingError("there is no password in this file", str(path), form.password_example)
    return found
