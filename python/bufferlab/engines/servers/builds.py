"""Builds of servers that can be run, and the cache of fetched ones. Starts no server and fetches nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from bufferlab.engines.servers.user import default_root
from bufferlab.errors import EnvironmentLackingError
from bufferlab.versions import numbers

Flavour = Literal["mysql", "mariadb", "postgres"]

Ask = Callable[[Path, Path | None], tuple[str, Flavour]]
"""Returns the (version, flavour) that a binary with these libraries prints; raises EnvironmentLackingError."""

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Build:
    """One server that can be run."""

    ALSO_PRINTED: ClassVar = ("untried",)

    name: str
    """The name by which the build was asked for: a fetched server's name, `path`, or the path of the binary."""
    flavour: Flavour
    version: str
    """The version as the server reports it: 5.7.22, 17.2."""
    binary: Path
    share: Path | None = None
    """For MySQL and MariaDB: the folder with english/errmsg.sys and the system tables' SQL; None: the server's own."""
    libraries: Path | None = None
    """The folder of shared libraries that came with the server, if it has one."""
    system_tables: Path | None = None
    """A data directory to copy the system tables from, for builds that cannot make them (MySQL 5.6)."""

    tried: str | None = None
    """The version that bufferlab was tried with, if the package may hold a newer one; None: it is always `version`."""
    script: Path | None = None
    """The script that was named in the binary's place; it is not run."""

    @property
    def untried(self) -> bool:
        """Whether bufferlab was only tried with another version of this package."""
        return self.tried not in (None, self.version)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version as numbers, for comparisons."""
        return numbers(self.version)


@dataclass(frozen=True)
class Listed:
    """A line of `bufferlab engines`: a build, or the reason why it is missing."""

    name: str
    where: str
    build: Build | None
    reason: str | None = None
    hint: str | None = None


def servers_root() -> Path:
    """Return the folder of all fetched servers. The user that servers run as must be able to reach it."""
    if own := os.environ.get("BUFFERLAB_CACHE"):
        return Path(own).absolute() / "servers"
    if root := default_root():
        return root / "cache" / "servers"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bufferlab" / "servers"


def folder(name: str) -> Path:
    """Return the folder that a server of that name is fetched into."""
    return servers_root() / name


def fetched(name: str) -> Build | None:
    """Return the fetched server of that name, from its manifest; None when it was not fetched.

    Raise EnvironmentLackingError when the manifest cannot be read.
    """
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
            told.get("tried"),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentLackingError(
            f"the fetched server cannot be used: {error}", str(kept), f"remove it and: bufferlab engines fetch {name}"
        ) from error


def newest_fetched(flavour: Flavour) -> Build | None:
    """Return the newest fetched server of a flavour; None when none was fetched."""
    return max(all_fetched(flavour), key=lambda build: build.numbers, default=None)


def all_fetched(flavour: Flavour) -> list[Build]:
    """Return every server of a flavour that was fetched."""
    there = [fetched(file.parent.name) for file in sorted(servers_root().glob(f"{flavour}-*/{MANIFEST}"))]
    return [build for build in there if build is not None]
