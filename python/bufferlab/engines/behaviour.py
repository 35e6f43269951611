"""What every engine's behaviour.py offers to `execute` and to `bufferlab doctor`.

The generic half (caching, copying, supervising, publishing) is `execute`'s; here is only what differs
between engines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bufferlab.errors import BufferlabError, Failure, FailureKind, Problem, is_full

OnEvent = Callable[[str], None]
"""Takes one event, a JSON object as text."""

NativeKnobs = Mapping[str, int | str]
"""Knob values as the core takes them, keyed by native name."""


@dataclass(frozen=True)
class Found:
    """An engine that can be used here."""

    version: str
    core_version: str
    where: str


@dataclass(frozen=True)
class HostCheck:
    """One thing `doctor` looked at: can it be used, and if not why and what to do."""

    name: str
    ok: bool
    detail: str
    hint: str | None = None


class Behaviour(ABC):
    """What drives one engine. `load`, `run`, `check` and `cancel` are called inside the worker process."""

    # What every engine does in its own way.

    @abstractmethod
    def find(self) -> Found:
        """Return the engine as it is here; raise EnvironmentLackingError when it cannot be used."""

    @abstractmethod
    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return what a run with these knobs needs of a directory, and whether it has it; the directory exists."""

    @abstractmethod
    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return everything that decides the bytes of the loaded database; its hash is `data_key`.

        `workload` is the load job's, with its version: of a script's text only the setup decides.
        """

    @abstractmethod
    def allocated_bytes(self, database: Path) -> int:
        """Return the bytes of data and indexes that the closed database has allocated."""

    @abstractmethod
    def shape(self, database: Path) -> dict[str, Any] | None:
        """Return the closed database's trees as run.json's `database.shape` has them; None if it cannot be told."""

    @abstractmethod
    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Load a new database; return the core's answer.

        Before: nothing is at job["database"]. After: the database is there, closed, and needs no recovery. On an error
        what is there is not used; `execute` removes it.
        """

    @abstractmethod
    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Do one run: open, warm up, measure, close; return the core's answer with the settings read back.

        job["probes"], if it is there, goes to the core as it is: further probes, on the device that the run reads.
        Before: job["database"] is a copy that nobody else uses, or data that are only read. After, also on an error:
        no process of the run lives, and the host's settings are as they were.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Ask the running load, run or check to stop soon. Called from another thread; returns at once."""

    # What only some engines have.

    makes_its_device = False
    """Whether a run reads a device that it makes itself, such as a loop device; else it reads the database's."""

    def server_version(self, knobs: NativeKnobs) -> str:
        """Return the version of the build these knobs name; raise EnvironmentLackingError when it is not here."""
        return self.find().version

    def server_user(self) -> tuple[int, int] | None:
        """Return the (uid, gid) that servers run as when we are root; None where the engine runs as we do.

        Whoever gets one can read the data only in directories which that user may pass.
        """
        return None

    def data_in_place(self, knobs: NativeKnobs) -> tuple[Path, int] | None:
        """Return the user's own data that these knobs name, and their bytes; None where data are loaded.

        Such data exist before, are never written, copied or removed, and `load` is not called.
        """
        return None

    def abilities(self, directory: Path) -> list[HostCheck]:
        """Return, for `bufferlab doctor`, what points may ask for beyond the defaults; nothing is left changed."""
        return []

    def restore_host(self) -> list[str]:
        """Put back host settings that dead processes left changed; return a sentence for each that was."""
        return []

    def put_back(self, servers: Collection[str] | None = None) -> list[tuple[str, list[str] | Problem]]:
        """Put back settings that dead runs left changed on running servers, of these URLs or of all that are noted.

        Return each URL with the variables that were put back, or with the reason why one was not: that one stays noted,
        and the next call tries again. What somebody else has changed since is left as it is.
        """
        return []

    def reserved(self, servers: Collection[str]) -> AbstractContextManager[list[tuple[str, list[str]]]]:
        """Context manager for the right of one sweep to change the settings of running servers, as long as it lasts.

        Yields what earlier runs had left changed and was put back: URLs, and names of variables. Entering raises
        EnvironmentLackingError when another sweep has the right.
        """
        return nullcontext([])


class ChecksItself(Protocol):
    """An engine whose files no second client reads checks the workload's conditions itself."""

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """The consistency conditions on the closed database: {seconds, conditions}."""
        ...


class EngineFailure(Exception):
    """What an engine's load or run raises inside the worker; the core's own error has the same fields."""

    def __init__(self, kind: FailureKind, what: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(kind, what, where, hint)
        self.kind, self.what, self.where, self.hint = kind, what, where, hint


def failure_of(error: Exception) -> Failure:
    """Return the failure that an error means: ours, an engine's, the core's, the system's; of any other a bug."""
    if isinstance(error, BufferlabError):
        return error.failure
    if isinstance(error, EngineFailure):
        return Failure(error.what, error.where, error.hint, error.kind)
    if isinstance(error, OSError):
        return Failure(str(error.strerror or error), error.filename, None, "full_disk" if is_full(error) else "io")
    if len(error.args) == 4 and all(isinstance(part, str | None) for part in error.args):
        return Failure.told(dict(zip(("kind", "what", "where", "hint"), error.args, strict=True)))
    return Failure(f"{type(error).__name__}: {error}")
