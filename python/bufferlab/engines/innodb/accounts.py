"""The accounts of a private server: one of ours with a random password, one for external programs, and no others.

Made once, when the data is loaded, over a socket that only the server's user and root can reach; kept in auth.json
beside the data, which only its owner may read. A password is never an argument, never in a log, never in a report.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bufferlab.engines.innodb.find import Build
from bufferlab.engines.innodb.user import give
from bufferlab.errors import DataFileError

USER = "bufferlab"
PROGRAM_USER = "bufferlab_ext"
"""For a program that can be given a password on its command line only: it has none, and sees one database."""
DATABASE = "bufferlab"
_FILE = "auth.json"
_FORMAT = "bufferlab-server-data"
#: Accounts of the server itself: they are locked, and parts of the server want them.
_INTERNAL = ("mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys")


@dataclass(frozen=True)
class Identity:
    """Whose data a directory is: which server made it, and how to log in."""

    user: str
    password: str = field(repr=False)
    server: str
    """The build's name, as it was asked for."""
    binary: str
    flavour: str
    version: str
    page_size_bytes: int


def new_identity(build: Build, page_size_bytes: int) -> Identity:
    """An identity with a password nobody has seen."""
    password = secrets.token_urlsafe(24)
    return Identity(USER, password, build.name, str(build.binary), build.flavour, build.version, page_size_bytes)


def make(connection: Any, identity: Identity, build: Build) -> None:
    """Our accounts, and nobody else's: root, the anonymous ones and the test database go."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        # 8.0's own default asks for a key exchange when a program is not on the socket; this one is in every client.
        native = build.flavour == "mysql" and (5, 7, 6) <= build.numbers < (8, 4)
        how = "IDENTIFIED WITH mysql_native_password" if native else "IDENTIFIED"
        for name, password in ((identity.user, identity.password), (PROGRAM_USER, "")):
            cursor.execute(f"CREATE USER '{name}'@'localhost' {how} BY %s", (password,))
        cursor.execute(f"GRANT ALL PRIVILEGES ON *.* TO '{identity.user}'@'localhost' WITH GRANT OPTION")
        cursor.execute(f"GRANT ALL PRIVILEGES ON {DATABASE}.* TO '{PROGRAM_USER}'@'localhost'")
        cursor.execute("SELECT user, host FROM mysql.user")
        kept = (*_INTERNAL, identity.user, PROGRAM_USER)
        others = [(_text(user), _text(host)) for user, host in cursor.fetchall()]
        for user, host in others:
            if user not in kept:
                cursor.execute("DROP USER %s@%s", (user, host))
        cursor.execute("DROP DATABASE IF EXISTS test")
        cursor.execute("FLUSH PRIVILEGES")


def store(database: Path, identity: Identity, user: tuple[int, int] | None) -> None:
    """Write auth.json, readable by its owner alone from its first byte on."""
    path = database / _FILE
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"format": _FORMAT, "format_version": 1, **asdict(identity)}, file, indent=1)
        file.write("\n")
    give(path, user)


def read(database: Path) -> Identity:
    """The identity of a loaded data directory; DataFileError when there is none."""
    path = database / _FILE
    try:
        told = json.loads(path.read_text("utf-8"))
        if told.pop("format") != _FORMAT:
            raise ValueError("it is of another program")
        told.pop("format_version")
        return Identity(**told)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise DataFileError(
            f"this is not a data directory that bufferlab loaded: {why}", str(path), "delete it; it is loaded again"
        ) from error


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
