"""The accounts of a private server: bufferlab's own, one for external programs, and no others.

The load creates them once, over a socket that only the server's user and root can reach. `expand` replaces the
placeholders in the command line of an external load generator by the server's socket and account. It runs nothing.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.data_folder import DATABASE, Identity
from bufferlab.engines.servers.user import make_folder_for

PROGRAM_USER = "bufferlab_ext"
"""The account of programs that take a password only on their command line. It has no password and sees one database."""
#: The server's own accounts. They are locked, and parts of the server need them.
_INTERNAL = ("mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys")


def make(connection: Client, identity: Identity, build: Build) -> None:
    """Create bufferlab's accounts on a new private server; remove root, anonymous accounts and the test database."""
    how = _how(build)
    connection.rows(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    for name, password in ((identity.user, identity.password), (PROGRAM_USER, "")):
        connection.rows(f"CREATE USER '{name}'@'localhost' {how} BY %s", (password,))
    connection.rows(f"GRANT ALL PRIVILEGES ON *.* TO '{identity.user}'@'localhost' WITH GRANT OPTION")
    connection.rows(f"GRANT ALL PRIVILEGES ON {DATABASE}.* TO '{PROGRAM_USER}'@'localhost'")
    kept = (*_INTERNAL, identity.user, PROGRAM_USER)
    for told in connection.rows("SELECT user, host FROM mysql.user"):
        user, host = map(control.text, told)
        if user not in kept:
            connection.rows("DROP USER %s@%s", (user, host))
    connection.rows("DROP DATABASE IF EXISTS test")
    connection.rows("FLUSH PRIVILEGES")


def make_restorer(connection: Client, login: tuple[str, str], build: Build) -> None:
    """Create the account that restores a dump: it may do anything in the workload's database, and nothing elsewhere."""
    user, password = login
    connection.rows(f"CREATE USER '{user}'@'localhost' {_how(build)} BY %s", (password,))
    connection.rows(f"GRANT ALL PRIVILEGES ON {DATABASE}.* TO '{user}'@'localhost'")


def _how(build: Build) -> str:
    # MySQL 8.0's default plugin needs a key exchange unless the socket is used. Every client supports this plugin.
    native = build.flavour == "mysql" and (5, 7, 6) <= build.numbers < (8, 4)
    return "IDENTIFIED WITH mysql_native_password" if native else "IDENTIFIED"


_PLACES = "{socket}, {user}, {database}, {connections}, {defaults_file}, {folder}"


def expand(command: str, target: Mapping[str, Any], folder: Path, connections: int = 1) -> dict[str, Any]:
    """Return {"argv", "env"} of the command, for a server at `target`.

    The program may write in `folder`, which is private.

    {user} is an account without a password; it can be reached only through its socket, which is in a private folder.
    {password} is refused, because every user could read it on the command line in /proc. {defaults_file} is an option
    file with a [client] group for programs that read one. Raises EngineFailure for a command that is empty, or that has
    {password} or an unknown placeholder.
    """
    make_folder_for(folder, None)
    places = {
        "socket": str(target["place"]["socket"]),
        "user": PROGRAM_USER,
        "database": str(target["database"]),
        "connections": str(connections),
        "defaults_file": str(folder / "client.cnf"),
        "folder": str(folder),
    }
    try:
        words = [_filled(word, places) for word in shlex.split(command)]
    except (KeyError, ValueError, IndexError) as error:
        what = "passwords do not belong on a command line" if error.args == ("password",) else "it cannot be understood"
        raise EngineFailure(
            "usage",
            f"the program's command: {what} ({error})",
            command,
            f"places that are filled in: {_PLACES}; {{user}} has no password",
        ) from error
    if not words:
        raise EngineFailure("usage", "the program's command is empty", None, '[program] exec = "sysbench ..."')
    _write_defaults(folder / "client.cnf", places)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ", "LUA_PATH") if name in os.environ}
    return {"argv": words, "env": {**kept, "TMPDIR": str(folder)}}


def _filled(word: str, places: Mapping[str, str]) -> str:
    return word.format_map(places) if "{" in word else word


def _write_defaults(path: Path, places: Mapping[str, str]) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"[client]\nsocket={json.dumps(places['socket'])}\nuser={places['user']}\n")
