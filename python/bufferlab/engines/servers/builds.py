"""A server that can be run, and the cache of those that were fetched. Asks no server and fetches nothing."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bufferlab.engines.servers.user import default_root
from bufferlab.errors import EnvironmentLackingError
from bufferlab.versions import numbers

Flavour = Literal["mysql", "mariadb", "postgres"]

ON_PATH = "path"
"""As a name: the first server of the flavour on $PATH, or, without one, the newest that was fetched."""

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Build:
    """One server that can be run."""

    name: str
    """How it was asked for: a fetched one's name, `path`, or the path of its binary."""
    flavour: Flavour
    version: str
    """As it says itself: 5.7.22, 17.2."""
    binary: Path
    share: Path | None = None
    """Of MySQL and MariaDB: the folder with english/errmsg.sys and the SQL of the system tables; None: its own idea."""
    libraries: Path | None = None
    """Further shared libraries that came with it."""
    system_tables: Path | None = None
    """A data directory to copy the system tables from, for builds that cannot make them (MySQL 5.6)."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version as numbers, to be compared."""
        return numbers(self.version)


@dataclass(frozen=True)
class Listed:
    """A line of `bufferlab engines`: a build, or the reason why there is none."""

    name: str
    where: str
    build: Build | None
    reason: str | None = None
    hint: str | None = None


def servers_root() -> Path:
    """Where fetched servers are kept: they must be reachable by the user they run as."""
    if own := os.environ.get("BUFFERLAB_CACHE"):
        return Path(own).absolute() / "servers"
    if root := default_root():
        return root / "cache" / "servers"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bufferlab" / "servers"


def folder(name: str) -> Path:
    """Where the server of that name is kept, once it was fetched."""
    return servers_root() / name


def fetched(name: str) -> Build | None:
    """A server that was fetched, from its manifest; None when it was not."""
    kept = folder(name)
    try:
        told = json.loads((kept / MANIFEST).read_text())
        return Build(
            name,
            told["flavour"],
            told["version"],
            kept / told["binary"],
            kept / told["share"] if told["share"] else None,
            kept / told["libraries"] if told.get("libraries") else None,
            kept / told["system_tables"] if told.get("system_tables") else None,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentLackingError(
            f"the fetched server cannot be used: {error}", str(kept), f"remove it and: bufferlab engines fetch {name}"
        ) from error


def newest_fetched(flavour: Flavour) -> Build | None:
    """The newest of a flavour that was fetched; None when none was."""
    there = [fetched(file.parent.name) for file in servers_root().glob(f"{flavour}-*/{MANIFEST}")]
    return max((build for build in there if build is not None), key=lambda build: build.numbers, default=None)
