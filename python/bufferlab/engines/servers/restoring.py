"""Code for restoring a user's dump that all families share: whether the server can do it, disk space, the dump file.

bufferlab treats a dump as an untrusted program. So the server that restores it, and every later one on the restored
data, runs without a network; and the dump's code runs as an account that has no privileges outside its schema.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.dump_head import DumpHead, misfit, read_head, sha256_of
from bufferlab.errors import SpecError
from bufferlab.units import MIB, format_bytes

LOADER_VERSION = 1
"""The version of the restoring code.

Increase it if that code changes, so that data restored earlier are not used again.
"""
USER = "bufferlab_dump"
"""The account that restores the dump, and that owns its stored code."""
_LEAST_FREE_BYTES = 256 * MIB


class Restorer(Protocol):
    """The methods of a private server that a restore needs."""

    home: Path
    """The server's own folder, next to the data."""
    socket: Path

    def connect(self, database: str | None = None, *, patient: bool = False) -> Client:
        """Open a control connection with the current login; `patient` removes the time limit of statements."""

    def log_in_as(self, user: str, password: str) -> None:
        """Set the login for all later connections."""


@dataclass(frozen=True)
class Dump:
    """The dump file that a load's job names, with its SHA-256 at the beginning of the experiment."""

    path: Path
    sha256: str

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> Dump | None:
        """Return the dump of a load's job; None if the job loads no dump."""
        told = job["workload"].get("dump")
        return cls(Path(told["path"]), told["sha256"]) if told else None

    def head(self, build: Build) -> DumpHead:
        """Return the head of the dump. Raises EngineFailure if this server cannot restore it."""
        try:
            head = read_head(self.path)
        except SpecError as error:
            raise EngineFailure("usage", error.what, error.where, error.hint) from error
        require_restorable(head, build, self.path)
        return head

    def require_unchanged(self) -> None:
        """Raise EngineFailure if the file cannot be read, or if its SHA-256 has changed since the experiment began."""
        try:
            is_same = sha256_of(self.path) == self.sha256
        except OSError as error:
            what, hint = f"the dump cannot be read: {error.strerror}", "begin a new sweep once it is there again"
            raise EngineFailure("io", what, str(self.path), hint) from error
        if not is_same:
            what = "the dump is not the file that the experiment began with: its SHA-256 differs"
            raise EngineFailure("usage", what, str(self.path), "begin a new sweep with the new dump")


def require_restorable(head: DumpHead, build: Build, path: Path) -> None:
    """Raise EngineFailure if the dump is of another family, or of a newer server."""
    if wrong := misfit(head, build.flavour, build.version):
        what, hint = wrong
        raise EngineFailure("usage", what, str(path), hint)


class RoomWatch:
    """A watch on the free disk space while a server restores: a full disk would stop this server, and others on it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.is_full = False
        """Whether `look` has found too little free space."""

    def look(self) -> bool:
        """Return whether too little disk space is free, now or at an earlier call."""
        self.is_full = self.is_full or shutil.disk_usage(self._folder).free < _LEAST_FREE_BYTES
        return self.is_full

    def failure(self) -> EngineFailure:
        """Return the failure of a restore that was aborted because the disk was nearly full."""
        what = f"the dump does not fit: its restore was ended with less than {format_bytes(_LEAST_FREE_BYTES)} free"
        return EngineFailure("full_disk", what, str(self._folder), "free some space, or set BUFFERLAB_CACHE=DIR")
