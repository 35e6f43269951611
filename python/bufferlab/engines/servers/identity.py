"""The identity of a private server's data: which server made them, and our account there, with a random password.

It is kept in the database's auth.json, which only its owner may read. The password is never in an argument, a log or a
report.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.user import give
from bufferlab.errors import DataFileError

USER = "bufferlab"
DATABASE = "bufferlab"
_FILE = "auth.json"
_FORMAT = "bufferlab-server-data"


@dataclass(frozen=True)
class Identity:
    """The server that made a data directory, its version and page size, and the account to log in with."""

    user: str
    password: str = field(repr=False)
    server: str
    """The name that the build was asked for by."""
    binary: str
    flavour: str
    version: str
    page_size_bytes: int
    restored: bool = False
    """Whether the data are a user's, from a dump: its server then has no network, and writes no values into its log."""


def new_identity(build: Build, page_size_bytes: int) -> Identity:
    """Return an identity with a new random password."""
    password = secrets.token_urlsafe(24)
    return Identity(USER, password, build.name, str(build.binary), build.flavour, build.version, page_size_bytes)


def store(database: Path, identity: Identity, user: tuple[int, int] | None) -> None:
    """Write auth.json and give it to `user`. It must not exist, and only its owner may read it, at any moment."""
    path = database / _FILE
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"format": _FORMAT, "format_version": 1, **asdict(identity)}, file, indent=1)
        file.write("\n")
    give(path, user)


def read(database: Path) -> Identity:
    """Return the identity of a loaded data directory; raise DataFileError when there is none."""
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


def require_version(build: Build, identity: Identity) -> None:
    """Raise EngineFailure unless this version made the data: a newer one would upgrade, an older one refuse them."""
    if (build.flavour, build.version) != (identity.flavour, identity.version):
        raise EngineFailure(
            "data",
            f"the data is of {identity.flavour} {identity.version}, the server is {build.flavour} {build.version}",
            str(build.binary),
            "load it with this server",
        )


def require_page_size(identity: Identity, asked_bytes: int, database: Path, hint: str) -> None:
    """Raise EngineFailure, with `hint`, unless the data have pages of that size."""
    if asked_bytes != identity.page_size_bytes:
        raise EngineFailure(
            "data",
            f"page_size = {asked_bytes} bytes needs other data: this was loaded with pages of "
            f"{identity.page_size_bytes}",
            str(database),
            hint,
        )
