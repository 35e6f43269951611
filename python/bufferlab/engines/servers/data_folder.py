"""The files auth.json and sizes.json, next to a private server's data in its database folder.

auth.json has the identity: which server created the data, and bufferlab's account there, with a random password. Only
the file's owner may read it. The password is never in an argument, a log or a report. sizes.json has the sizes of the
tables and of their trees. innodb/table_sizes.py and postgres/relation_sizes.py query the servers for them, and read
each tree's pages from the data files of the stopped server.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.user import give, write_for
from bufferlab.errors import DataFileError
from bufferlab.knob import Native

USER = "bufferlab"
DATABASE = "bufferlab"
_AUTH = "auth.json"
_AUTH_FORMAT = "bufferlab-server-data"


@dataclass(frozen=True)
class Identity:
    """The server that created a data directory, its version and page size, and bufferlab's account there."""

    user: str
    password: str = field(repr=False)
    server: str
    """The name by which the user selected the build."""
    binary: str
    flavour: str
    version: str
    page_size_bytes: int
    restored: bool = False
    """Whether the data come from a user's dump: its server then has no network, and writes no values into its log."""
    deciding: Mapping[str, Native] = field(default_factory=dict)
    """The knobs that affected the data when they were created, by name."""

    @property
    def knobs(self) -> dict[str, Native]:
        """Return the knobs with which a server can be started on the data."""
        return {"page_size": self.page_size_bytes, **self.deciding}


def new_identity(build: Build, page_size_bytes: int, deciding: Mapping[str, Native] | None = None) -> Identity:
    """Return the identity of data that this build will create; bufferlab's account gets a new random password.

    `deciding` are the knobs that affect the data.
    """
    password, made_by = secrets.token_urlsafe(24), (build.name, str(build.binary), build.flavour, build.version)
    return Identity(USER, password, *made_by, page_size_bytes, deciding=dict(deciding or {}))


def store_identity(database: Path, identity: Identity, user: tuple[int, int] | None) -> None:
    """Write auth.json and give it to `user`. The file must not exist yet, and other users can never read it."""
    path = database / _AUTH
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"format": _AUTH_FORMAT, "format_version": 1, **asdict(identity)}, file, indent=1)
        file.write("\n")
    give(path, user)


def read_identity(database: Path) -> Identity:
    """Return the identity of a loaded data directory; raise DataFileError if it is missing, damaged or foreign."""
    path = database / _AUTH
    try:
        told = json.loads(path.read_text("utf-8"))
        if told.pop("format") != _AUTH_FORMAT:
            raise ValueError("it is of another program")
        told.pop("format_version")
        return Identity(**told)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise DataFileError(
            f"this is not a data directory that bufferlab loaded: {why}", str(path), "delete it; it is loaded again"
        ) from error


def require_version(build: Build, identity: Identity) -> None:
    """Raise EngineFailure unless this version created the data.

    A newer server would upgrade the data, and an older one would refuse them.
    """
    if (build.flavour, build.version) != (identity.flavour, identity.version):
        raise EngineFailure(
            "data",
            f"the data is of {identity.flavour} {identity.version}, the server is {build.flavour} {build.version}",
            str(build.binary),
            "load it with this server",
        )


def require_page_size(identity: Identity, asked_bytes: int, database: Path, hint: str) -> None:
    """Raise EngineFailure, with `hint`, unless the data have pages of this size."""
    if asked_bytes != identity.page_size_bytes:
        raise EngineFailure(
            "data",
            f"page_size = {asked_bytes} bytes needs other data: this was loaded with pages of "
            f"{identity.page_size_bytes}",
            str(database),
            hint,
        )


_SIZES = "sizes.json"
_SIZES_FORMAT = "bufferlab-server-sizes"


@dataclass(frozen=True)
class Sizes:
    """The sizes of loaded tables from the server, and the function that counts trees in the closed files."""

    allocated_bytes: int
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The server's answer, which is stored in sizes.json."""
    count: Callable[[Path], dict[str, Any]] | None = None
    """A function that returns the trees in a closed data directory; None if bufferlab cannot read its files."""

    def store(self, database: Path) -> None:
        """Count the trees in the closed files and write sizes.json. The server must have stopped cleanly."""
        shape = self.count and self.count(database / "data")
        head = {"format": _SIZES_FORMAT, "format_version": 1, "allocated_bytes": self.allocated_bytes, "shape": shape}
        # The folder belongs to the server's user, who may have put a symbolic link there.
        write_for(database / _SIZES, json.dumps({**head, **self.asked}, indent=1) + "\n", None)


def store_where_known(sizes: Sizes, database: Path) -> None:
    """Write sizes.json of a user's own tables, without the trees if their files cannot be counted.

    They may be uncountable because compressed and encrypted tables have other page formats, and because some tables
    have other names in the file system.
    """
    try:
        sizes.store(database)
    except (OSError, ValueError, LookupError, struct.error):
        replace(sizes, count=None).store(database)


@dataclass
class StoredTree:
    """A b-tree whose pages were counted one by one in a server's closed files."""

    levels: Counter[int] = field(default_factory=Counter)
    """The number of pages by level; leaves have level 0."""
    rows: int = 0
    payload_bytes: int = 0
    unused_bytes: int = 0

    @property
    def level_pages(self) -> list[int]:
        """Return the number of pages in each level of the tree, the root first."""
        return [self.levels[level] for level in reversed(range(max(self.levels, default=-1) + 1))]

    def shape(self, name: str, table: str, levels: Sequence[int], overflow_pages: int = 0) -> dict[str, Any]:
        """Return the tree as an entry of run.json's `database.shape`.

        `levels` has the pages of each level on the path to a row; the last is the level of the row itself.
        """
        leaf_pages = levels[-1] if levels else 0
        return {
            "name": name,
            "table": table,
            "kind": "table" if name == table else "index",
            "rows": self.rows,
            "leaf_pages": leaf_pages,
            "interior_pages": sum(levels) - leaf_pages,
            "overflow_pages": overflow_pages,
            "height": len(levels),
            "level_pages": list(levels),
            "payload_bytes": self.payload_bytes,
            "unused_bytes": self.unused_bytes,
        }


def read_sizes(database: Path) -> dict[str, Any]:
    """Return the content of sizes.json; raise DataFileError if it is missing, damaged or of another program."""
    path = database / _SIZES
    try:
        document: dict[str, Any] = json.loads(path.read_text())
        if document["format"] != _SIZES_FORMAT:
            raise ValueError("it is of another program")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataFileError(
            f"this is not a data directory that bufferlab loaded: {error}", str(path), "delete it; it is loaded again"
        ) from error
    return document
