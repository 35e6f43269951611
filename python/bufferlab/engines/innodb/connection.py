"""Connects to a private or running MySQL or MariaDB server, over its socket or over TCP, which may use TLS.

Reads passwords from the option files of MySQL's and MariaDB's clients, as their library does (mysys/my_default.cc):
groups, quotes, escapes, comments after values, `!include` and `!includedir`. `.mylogin.cnf` is not read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

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
from bufferlab.engines.servers.server_names import LOGIN_WORDS
from bufferlab.errors import EnvironmentLackingError

_USUAL_FILE = "~/.my.cnf"
_USUAL_GROUPS = ("client", "bufferlab")
_GROUPS = (*_USUAL_GROUPS, "mysql", "mariadb")
"""The option groups that are read from a file that a URL names.

They include the groups of the servers' own clients, for which the file may have been written.
"""
_DEEPEST_INCLUDE = 10
_SPACE = " \t\n\v\f\r"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", '"': '"', "'": "'", "\\": "\\"}


class OptionLine(NamedTuple):
    """One line of an option file: an option in a group, or a directive such as !include, whose group is "!"."""

    group: str
    name: str
    value: str | None
    """The option's value; None if the option has none."""


class Option(NamedTuple):
    """An option of MySQL's clients with its value, and the option file that has it."""

    name: str
    value: str | None
    file: Path


def lines(text: str) -> Iterator[OptionLine]:
    r"""Yield the options and directives of a text, up to the first line that the servers' own clients reject.

    >>> found = lines("[client]\nuser=me # not root\npassword = 'a # b\\''\n!include /etc/more.cnf")
    >>> [tuple(one) for one in found][1:]
    [('client', 'password', "a # b'"), ('!', 'include', '/etc/more.cnf')]
    """
    group = None
    for raw in text.split("\n"):
        line = raw.strip(_SPACE)
        if not line or line[0] in "#;":
            continue
        if line[0] == "!":
            if directive := re.fullmatch(rf"(include|includedir)[{_SPACE}]+(.+)", line[1:].lstrip(_SPACE)):
                yield OptionLine("!", directive[1], directive[2])
        elif line[0] == "[":
            if "]" not in line:
                return
            group = line[1 : line.index("]")].rstrip(_SPACE)
        elif group is None:
            return
        else:
            name, equals, value = _without_comment(line).partition("=")
            yield OptionLine(group, name.rstrip(_SPACE), _unquoted(value.strip(_SPACE)) if equals else None)


def options(path: Path, groups: Collection[str], depth: int = 0) -> Iterator[Option]:
    """Yield the options of these groups in a file and in the files it includes.

    If an option is repeated, the last counts.

    Raises OSError if `path` cannot be read, UnicodeDecodeError if it or an included file is not UTF-8. Like the
    clients, skips an included file that cannot be read or that all users may write.
    """
    for line in lines(path.read_text("utf-8")):
        if line.group in groups:
            yield Option(line.name, line.value, path)
        elif line.group == "!" and line.value and depth < _DEEPEST_INCLUDE:
            place = Path(line.value)
            found = sorted(place.glob("*.cnf")) if line.name == "includedir" else [place]
            for file in found:
                if _is_usable(file):
                    yield from options(file, groups, depth + 1)


def password_in(path: Path, address: Address) -> tuple[str, Path] | None:
    """Return the last `password` in a file that a URL names, and the file that has it; None if there is none."""
    return _last_password(path, _GROUPS)


def usual_password(address: Address) -> tuple[str, Path] | None:
    """Return the last `password` of the groups [client] and [bufferlab] in ~/.my.cnf, and its file; None if there is
    none.

    Also return None if the file's last `user` is a different account, because the password then belongs to that
    account; if this user may not read the file; or if all users may write it.
    """
    path = Path(_USUAL_FILE).expanduser()
    if not _is_usable(path):
        return None
    users = [option.value for option in options(path, _USUAL_GROUPS) if option.name == "user"]
    if users and users[-1] != address.user:
        return None
    return _last_password(path, _USUAL_GROUPS)


def _last_password(path: Path, groups: Collection[str]) -> tuple[str, Path] | None:
    found = None
    for option in options(path, groups):
        if option.name == "password":
            # An option `password` without a value makes a client prompt for the password.
            found = None if option.value is None else (option.value, option.file)
    return found


def _is_usable(path: Path) -> bool:
    """Return whether the servers' own clients would read this file."""
    return path.is_file() and os.access(path, os.R_OK) and not path.stat().st_mode & stat.S_IWOTH


def _without_comment(line: str) -> str:
    """Return a line of an option file up to the first # outside of quotes."""
    quote, escaped = "", False
    for place, letter in enumerate(line):
        if letter in "'\"" and not escaped and quote in ("", letter):
            quote = "" if quote else letter
        elif letter == "#" and not quote:
            return line[:place]
        escaped = bool(quote) and letter == "\\" and not escaped
    return line


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] in "'\"" and value[0] == value[-1]:
        value = value[1:-1]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), value, flags=re.DOTALL)


_ACCESS_DENIED = ("1044", "1045", "1698")
"""The codes of ER_DBACCESS_DENIED_ERROR, ER_ACCESS_DENIED_ERROR and MariaDB's form of the latter.

After these errors a retry cannot help; after others it may.
"""
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
"""The error codes of refused logins for which a retry cannot help."""
_SESSION = (
    "SET NAMES utf8mb4",
    "SET SESSION autocommit = 1, sql_mode = '', sql_select_limit = 18446744073709551615, sql_big_selects = 1, "
    "wait_timeout = 28800",
    "SET SESSION max_statement_time = 0",  # MariaDB.
    "SET SESSION max_execution_time = 0",  # MySQL from 5.7.8 on.
)
"""The first statements of bufferlab's sessions on a running server, whose own defaults might cut short or alter
answers."""
_UNKNOWN_VARIABLE = "1193"
_UNUSABLE = "the server cannot be used"
_LOCKED = "ALTER USER ... ACCOUNT UNLOCK would let it in"
_LIMITED = "wait, or raise the limit that was met: max_connections, or ALTER USER ... WITH MAX_USER_CONNECTIONS 0"
_EXPIRED = "log in once with the server's own client and give the account a new password by ALTER USER"
_DENIED = (
    f"is the password right ({PASSWORD}, or an option file by ?password_file=/path)? The server also says this if an "
    "anonymous account ''@'localhost' goes before name@'%' (make name@localhost, too), to an account with REQUIRE SSL "
    "on a socket or with sslmode=disable, and to one with REQUIRE X509 without ?sslcert= and sslkey="
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
    address: Address, database: str | None = None, *, seconds: float | None = ANSWER_SECONDS, name: str = "bufferlab"
) -> Client:
    """Open a connection in autocommit, to no schema unless one is named. The server shows `name` as its program_name.

    A statement may take `seconds`; None sets no limit. Raises EnvironmentLackingError if a running server refuses the
    login, does not answer, or cannot be protected as `address.security` requires. For a private server, raises
    AccessDenied if it refuses the user, ServerError or LostError while it does not answer.
    """
    seconds = address.limited(seconds)
    if not address.is_private:
        return passwords.logged_in(address, FORM, partial(_running, address, database, seconds, name))
    try:
        return _client(address, str(address.secret), database, seconds, name)
    except ServerError as error:
        if error.code in _ACCESS_DENIED:
            raise AccessDenied(f"the server refuses the user {address.user} (error {error.code})") from error
        raise


def _running(address: Address, database: str | None, seconds: float | None, name: str, secret: str) -> Client:
    try:
        return set_session(_client(address, secret, database, seconds, name), _SESSION)
    except RefusedError as error:
        raise RefusedError(f"{_UNUSABLE}: {error.what}", address.place, error.hint) from error
    except (ServerError, LostError) as error:
        code = error.code if isinstance(error, ServerError) else ""
        kind = DeniedError if code in _ACCESS_DENIED else LoginRefusedError if code in _NEVER else None
        hint = _HINTS.get(code, "is it running, and is this its socket or address?")
        raise (kind or EnvironmentLackingError)(f"{_UNUSABLE}: {error}", address.place, hint) from error


def set_session(connection: Client, statements: Sequence[str]) -> Client:
    """Execute these SET statements in a session; return it. Variables that the server does not know are skipped.

    Raises ServerError or LostError, and closes the session, when another statement fails.
    """
    try:
        for statement in statements:
            try:
                connection.rows(statement)
            except ServerError as error:
                if error.code != _UNKNOWN_VARIABLE:
                    raise
    except (ServerError, LostError):
        connection.close()
        raise
    return connection


def _client(address: Address, secret: str, database: str | None, seconds: float | None, name: str) -> Client:
    return Client(
        "mysql",
        {**address.target(secret, address.socket), "database": database or ""},
        login_seconds=min(seconds or ANSWER_SECONDS, ANSWER_SECONDS),
        seconds=seconds,
        name=name,
        until_s=address.until_s,
        most_answer_bytes=MOST_OF_OUR_OWN_BYTES if address.is_private else MOST_ANSWER_BYTES,
    )
