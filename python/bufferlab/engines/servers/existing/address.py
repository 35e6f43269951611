"""Parses the URL of a server that bufferlab did not start, with the options for its TLS.

`mysql://user@host:3306/schema`, or `mysql://user@localhost/schema?socket=/path`; `mysql://user@/schema` is the schema
at the usual socket of this host. A URL with a password is refused, because it would be visible in process lists, shell
histories and results; passwords.py finds the password.

The modes of TLS have libpq's meaning ("SSL Mode Descriptions"), on MySQL and MariaDB too. Connections over a Unix
socket never use TLS. libpq's default files (`~/.postgresql/root.crt` and others) are not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bufferlab.engines.servers.server_names import PLACES, SWITCHES, WORDS, url_pattern
from bufferlab.errors import EnvironmentLackingError

MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
_FILES = {"sslrootcert": "root_cert", "sslcert": "cert", "sslkey": "key", "server_public_key": "server_public_key"}


@dataclass(frozen=True)
class Security:
    """How connections to one server are protected. The core has the same fields (`security` of a job's target)."""

    mode: str = "prefer"
    """The TLS mode: one of MODES."""
    root_cert: str | None = None
    """The path of CA certificates (PEM), one of which must have signed the server's certificate.

    It is checked unless TLS is disabled.
    """
    cert: str | None = None
    """The path of the client's certificate (PEM); None if it sends none."""
    key: str | None = None
    """The path of the private key of `cert`; None if there is none."""
    server_public_key: str | None = None
    """The path of a MySQL server's RSA public key, which encrypts the password if TLS is not used."""
    get_server_public_key: bool = False
    """Whether to trust the RSA public key that the server sends."""
    allow_unverified_password: bool = False
    """Whether the password may be sent over TLS that does not verify the server's identity."""

    @property
    def verifies(self) -> bool:
        """Return whether one of the certificates in `root_cert` must have signed the server's certificate."""
        return self.mode != "disable" and self.root_cert is not None

    def job(self) -> dict[str, Any]:
        """Return the fields as the entry `security` of the core's target."""
        return asdict(self)


def security_of(options: Mapping[str, str]) -> Security:
    """Return the protection that a URL's options require; raise ValueError, with a sentence, if the options contradict
    each other or are unusable."""
    mode = options.get("sslmode", Security.mode)
    if mode not in MODES:
        raise ValueError(f"sslmode={mode} is none of {', '.join(MODES)}")
    files: dict[str, Any] = {name: options[word] for word, name in _FILES.items() if word in options}
    for word, name in _FILES.items():
        # Workers run in other folders, where a relative path would not be found.
        if name in files and not files[name].startswith("/"):
            raise ValueError(f"{word}={files[name]} is not an absolute path")
    if mode.startswith("verify") and "root_cert" not in files:
        raise ValueError(f"sslmode={mode} needs sslrootcert=/path, the certificate that signed the server's")
    if ("cert" in files) != ("key" in files):
        raise ValueError("sslcert and sslkey go together")
    for word in SWITCHES:
        if options.get(word, "false") not in ("true", "false"):
            raise ValueError(f"{word}={options[word]} is neither true nor false")
    switches: dict[str, Any] = {word: options.get(word) == "true" for word in SWITCHES}
    return Security(mode, **files, **switches)


PASSWORD = "BUFFERLAB_PASSWORD"
"""The environment variable that holds the password."""
CHANGE_SECONDS = 120.0
"""The time limit of a statement that changes bufferlab's schema.

The statement may wait for locks, by default for 50 s.
"""
ANSWER_SECONDS = 30.0
"""The time limit of a greeting or a query.

Neither waits for another session, so even overloaded servers need far less.
"""
LOOK_SECONDS = 10.0
"""The time limit of each query when a server is examined before a run."""
LOOK_LASTS_SECONDS = 18.0
"""The time limit of a server's whole examination before a run: after these seconds it sends no further query."""
TOO_SLOW = f"it answers too slowly: its first answers took {LOOK_LASTS_SECONDS:.0f} s"
_NO_LOGIN_PATH = "login_path"


class AccessDenied(Exception):
    """The error for a server that answers, but refuses the user, the password or the database."""


@dataclass(frozen=True)
class Address:
    """One schema of one server, and the account that reaches it."""

    url: str
    user: str
    host: str
    port: int
    schema: str
    """The schema (MySQL and MariaDB) or database (PostgreSQL) that holds the tables."""
    socket: str | None
    """The path of the Unix socket, or for PostgreSQL of its folder; None for TCP."""
    password_file: str | None
    secret: str | None = field(default=None, repr=False)
    """The password of a private server's account; None for a running server, for which passwords.py finds it."""
    security: Security = field(default_factory=Security)
    most_seconds: float | None = None
    """The time limit of every statement in seconds; None if only the caller's limit applies."""
    until_s: float | None = None
    """The time on the monotonic clock after which no statement is sent; None for no limit."""

    def limited(self, seconds: float | None) -> float | None:
        """Return the time limit of a statement in seconds if its caller allows `seconds`; None for no limit."""
        most = self.most_seconds
        return seconds if most is None else min(seconds or most, most)

    @property
    def is_private(self) -> bool:
        """Return whether bufferlab started the server, for its own data."""
        return self.secret is not None

    @property
    def server(self) -> str:
        """Return the server without its schema, as messages name it: its socket, or HOST:PORT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.socket or f"{host}:{self.port}"

    def target(self, secret: str, socket: str | None) -> dict[str, Any]:
        """Return the core's connection settings: socket or host and port, the account, and the TLS protection."""
        place = {"socket": socket} if socket else {"tcp": {"host": self.host, "port": self.port}}
        target = {"place": place, "user": self.user, "password": secret, "database": self.schema}
        if not self.is_private and (socket is None or self.security != Security()):
            target["security"] = self.security.job()
        return target

    @property
    def place(self) -> str:
        """Return server and schema as messages name them: HOST:PORT/SCHEMA, or SOCKET/SCHEMA."""
        return f"{self.server}/{self.schema}" if self.schema else self.server


def private(socket: str, user: str, secret: str, schema: str = "", port: int = 0) -> Address:
    """Return the address of a schema of a private server, which listens only on its socket."""
    return Address("", user, "localhost", port, schema, socket, None, secret=secret)


@dataclass(frozen=True)
class Form:
    """The form of a family's URLs: schemes, port, options, and the places of sockets and passwords."""

    schemes: tuple[str, ...]
    port: int
    """The default port of the URL."""
    schema: str
    """The family's word for the last part of the URL: schema or database."""
    longest_schema: int
    """The maximum length that the server allows for a schema's or database's name, in characters."""
    own_schemas: tuple[str, ...]
    """The server's system schemas, in which bufferlab may not put its tables."""
    socket: str
    """An example of a value of `?socket=`."""
    password_in: Callable[[Path, Address], tuple[str, Path] | None]
    """A function that returns the password for an address from a password file, and the file's path; None if there is
    none.

    It raises OSError and UnicodeDecodeError if the file cannot be read.
    """
    password_example: str
    usual_password: Callable[[Address], tuple[str, Path | str] | None]
    """A function that returns the password that the server's own clients would use, and its origin, or None."""
    usual_sockets: tuple[str, ...] = ()
    """The usual values of `?socket=`, the likeliest first."""
    socket_file: str = "{}"
    """The pattern of the socket's path, into which a value of `?socket=` and the port are inserted."""
    more_words: tuple[str, ...] = ()
    """The URL options of this family, besides those of every family (`WORDS`)."""

    @property
    def example(self) -> str:
        """Return an example of a URL over TCP."""
        return f"{self.schemes[0]}://user@host:{self.port}/{self.schema}"

    @property
    def usual_socket(self) -> str | None:
        """Return the first usual socket that exists, else the likeliest; None if the family has none."""
        there = (path for path in self.usual_sockets if Path(self.socket_file.format(path, self.port)).exists())
        return next(there, self.usual_sockets[0] if self.usual_sockets else None)


def is_url(server: object) -> bool:
    """Return whether a value of the knob `server` is the URL of a running server.

    >>> is_url("mysql://me@localhost/lab"), is_url("mysql-5.7")
    (True, False)
    """
    return isinstance(server, str) and "://" in server


def parse(url: str, form: Form) -> Address:
    """Return the address in a URL.

    Raise EnvironmentLackingError if it is malformed, or has a password or a wrong option.
    """
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
    _refuse_unknown(options, form, shown)
    schema = parts.path.removeprefix("/")
    try:
        port = form.port if parts.port is None else parts.port
    except ValueError:
        port = 0
    socket, password_file = (options.get(name) for name in PLACES)
    if not parts.hostname and socket is None:
        socket = form.usual_socket
    if (
        parts.scheme not in form.schemes
        or not parts.username
        or not (parts.hostname or socket)
        or not port
        or "" in options.values()
    ):
        raise EnvironmentLackingError("this is not the URL of a server", shown, hint)
    # bufferlab inserts the name into statements without escaping, and the server derives file names from it.
    if not re.fullmatch(rf"[A-Za-z0-9_]{{1,{form.longest_schema}}}", schema):
        raise EnvironmentLackingError(f"the URL names no {form.schema} of letters, digits and _", shown, hint)
    if schema.lower() in form.own_schemas:
        raise EnvironmentLackingError(f"{schema} is the server's own {form.schema}", shown, "name one for bufferlab")
    if not re.fullmatch(url_pattern(*form.schemes), url):
        raise EnvironmentLackingError("this is not the URL of a server", shown, hint)
    try:
        protection = security_of(options)
    except ValueError as error:
        raise EnvironmentLackingError(str(error), shown, "docs/existing-server.md has the words for TLS") from error
    return Address(
        url, parts.username, parts.hostname or "localhost", port, schema, socket, password_file, security=protection
    )


def _refuse_unknown(options: Mapping[str, str], form: Form, shown: str) -> None:
    """Raise EnvironmentLackingError, with the valid options, for an option that the family's URLs do not have."""
    known = (*WORDS, *form.more_words)
    if _NO_LOGIN_PATH in options:
        what = f"login_path={options[_NO_LOGIN_PATH]}: bufferlab does not read .mylogin.cnf"
        raise EnvironmentLackingError(what, shown, f"set {PASSWORD}, or name an option file by ?password_file=/path")
    for word in options:
        if word not in known:
            what = f'the URLs of {form.schemes[0]} servers have no option "{word[:40]}"'
            raise EnvironmentLackingError(what, shown, f"they have {', '.join(known)}")
