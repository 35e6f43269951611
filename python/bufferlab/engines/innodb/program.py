"""Fills the private server's places into the command line of an external load generator. Runs nothing."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb.accounts import PROGRAM_USER
from bufferlab.engines.servers.user import make_folder_for

_PLACES = "{socket}, {user}, {database}, {connections}, {defaults_file}, {folder}"


def expand(command: str, target: Mapping[str, Any], folder: Path, connections: int = 1) -> dict[str, Any]:
    """Return {"argv", "env"} of the command, for a server at `target`.

    The program may write in `folder`, which is private.

    {user} is an account without a password: only its socket's folder, which is private, leads to it. Everybody could
    read a password on a command line in /proc, so {password} is refused. {defaults_file} is an option file with a
    [client] group for programs that read one.
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
