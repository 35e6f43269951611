"""The types that describe builds of servers. This module starts no server and fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from bufferlab.versions import numbers

Flavour = Literal["mysql", "mariadb", "postgres"]

Ask = Callable[[Path, Path | None], tuple[str, Flavour]]
"""A function that returns the (version, flavour) that a binary prints, given its libraries.

It raises EnvironmentLackingError for a binary that is not such a server.
"""


@dataclass(frozen=True)
class Build:
    """One build of a server that can be run: its flavour, version and files."""

    ALSO_PRINTED: ClassVar = ("untried",)

    name: str
    """The name that selects the build: a fetched server's name, `path`, or the path of the binary."""
    flavour: Flavour
    version: str
    """The version as the server reports it: 5.7.22, 17.2, 19rc1."""
    binary: Path
    share: Path | None = None
    """For MySQL and MariaDB: the folder with english/errmsg.sys and the system tables' SQL; None for the default."""
    libraries: Path | None = None
    """The folder of shared libraries that are part of the package; None if it has none."""
    system_tables: Path | None = None
    """A data directory to copy the system tables from; None for builds that create them, which MySQL 5.6 cannot do."""

    tried: str | None = None
    """The version with which bufferlab was tested, if the package may hold a newer one; None if it is `version`."""
    script: Path | None = None
    """The script that the user named in place of the binary, and that is not run; None if the user named the binary."""

    @property
    def untried(self) -> bool:
        """Whether bufferlab was tested only with another version of this package."""
        return self.tried not in (None, self.version)

    @property
    def is_release(self) -> bool:
        """Return whether the version is a final release, not a beta or release candidate."""
        return not re.search(r"[0-9](?:alpha|beta|rc|devel)", self.version)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the version as numbers, for comparisons."""
        return numbers(self.version)


@dataclass(frozen=True)
class Listed:
    """A line of `bufferlab engines`: a build, or the reason why it is missing."""

    name: str
    where: str
    build: Build | None
    reason: str | None = None
    hint: str | None = None
