"""Where a server that bufferlab did not start is, and as whom it is reached: a URL without the password.

`mysql://user@host:3306/schema`, or `mysql://user@localhost/schema?socket=/path`; `?password_file=/path` names a file of
the server's own clients. A password in a URL would be in process lists, shell histories and results: it is refused, not
taken.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from bufferlab.errors import EnvironmentLackingError

PASSWORD = "BUFFERLAB_PASSWORD"
"""The environment variable that holds the password."""


@dataclass(frozen=True)
class Address:
    """One schema of one server."""

    url: str
    user: str
    host: str
    port: int
    schema: str
    """What the tables are in: of MySQL and MariaDB a schema, of PostgreSQL a database."""
    socket: str | None
    """The Unix socket; of PostgreSQL the folder that has it."""
    password_file: str | None

    @property
    def place(self) -> str:
        """The server and schema, as messages name them."""
        return f"{self.socket or f'{self.host}:{self.port}'}/{self.schema}"


@dataclass(frozen=True)
class Form:
    """What the URLs of a family look like."""

    schemes: tuple[str, ...]
    port: int
    """When the URL names none."""
    schema: str
    """What the family calls that which the URL names last."""
    longest_schema: int
    own_schemas: tuple[str, ...]
    """The server's own, which hold no data of ours."""
    socket: str
    """What `?socket=` names, as an example."""
    password_in: Callable[[str, Address], str | None]
    """The password for an address in the text of a password file; None when there is none."""
    password_example: str

    @property
    def example(self) -> str:
        """A URL over TCP."""
        return f"{self.schemes[0]}://user@host:{self.port}/{self.schema}"


def url_pattern(*schemes: str) -> str:
    """A URL as a regular expression, for a knob. Without a password: a URL is kept in results."""
    return rf"(?:{'|'.join(schemes)})://[^\s:/@?]+@[^\s:/@?]+(?::[0-9]{{1,5}})?/[A-Za-z0-9_]+(?:\?[^\s]*)?"


def is_url(server: object) -> bool:
    """Does a value of the knob `server` name a running server?

    >>> is_url("mysql://me@localhost/lab"), is_url("mysql-5.7")
    (True, False)
    """
    return isinstance(server, str) and "://" in server


def parse(url: str, form: Form) -> Address:
    """The address in a URL. EnvironmentLackingError when it is none, or holds a password."""
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    hint = f"write {form.example} or {form.schemes[0]}://user@localhost/{form.schema}?socket={form.socket}"
    if parts.password is not None:
        raise EnvironmentLackingError(
            "a password in a URL is seen in process lists, histories and results", shown, f"set {PASSWORD} instead"
        )
    options = dict(parse_qsl(parts.query))
    schema, unknown = parts.path.removeprefix("/"), sorted(options.keys() - {"socket", "password_file"})
    try:
        port = form.port if parts.port is None else parts.port
    except ValueError:
        port = 0
    if parts.scheme not in form.schemes or not parts.username or not parts.hostname or unknown or not port:
        raise EnvironmentLackingError("this is not the URL of a server", shown, hint)
    # Our own statements name it between quotes; files are named after tables.
    if not re.fullmatch(rf"[A-Za-z0-9_]{{1,{form.longest_schema}}}", schema):
        raise EnvironmentLackingError(f"the URL names no {form.schema} of letters, digits and _", shown, hint)
    if schema.lower() in form.own_schemas:
        raise EnvironmentLackingError(f"{schema} is the server's own {form.schema}", shown, "name one for bufferlab")
    return Address(
        url, parts.username, parts.hostname, port, schema, options.get("socket"), options.get("password_file")
    )


def password(address: Address, form: Form) -> str:
    """From the file the URL names, else the environment; "" when there is none."""
    if address.password_file is None:
        return os.environ.get(PASSWORD, "")
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
