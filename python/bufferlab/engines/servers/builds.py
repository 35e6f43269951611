"""Builds of servers that can be run: the types. Starts no server and fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from bufferlab.versions import numbers

Flavour = Literal["mysql", "mariadb", "postgres"]

Ask = Callable[[Path, Path | None], tuple[str, Flavour]]
"""Returns the (version, flavour) that a binary with these libraries prints; raises EnvironmentLackingError."""


@dataclass(frozen=True)
class Build:
    """One build of a server that can be run: its flavour, version and files."""

    ALSO_PRINTED: ClassVar = ("untried",)

    name: str
    """The name by which the build was asked for: a fetched server's name, `path`, or the path of the binary."""
    flavour: Flavour
    version: str
    """The version as the server reports it: 5.7.22, 17.2, 19rc1."""
    binary: Path
    share: Path | None = None
    """For MySQL and MariaDB: the folder with english/errmsg.sys and the system tables' SQL; None: the server's own."""
    libraries: Path | None = None
    """The folder of shared libraries that came with the server; None if none came with it."""
    system_tables: Path | None = None
    """A data directory to copy the system tables from; None for builds that make them, which MySQL 5.6 cannot."""

    tried: str | None = None
    """The version that bufferlab was tried with, if the package may hold a newer one; None: it is always `version`."""
    script: Path | None = None
    """The script that was named in the binary's place, and is not run; None if the binary was named."""

    @property
    def untried(self) -> bool:
        """Whether bufferlab was only tried with another version of this package."""
        return self.tried not in (None, self.version)

    @property
    def is_release(self) -> bool:
        """Whether the version is a release, and no beta or release candidate of one."""
        return not re.search(r"[0-9](?:alpha|beta|rc|devel)", self.version)

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
