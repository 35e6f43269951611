"""The interface that every engine's behaviour.py implements for `execute` and `bufferlab doctor`.

It holds only what differs between engines; `execute` does the rest (caching, copying, supervising, publishing).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from bufferlab.engines.native import failure_of_core, native
from bufferlab.errors import BufferlabError, EnvironmentLackingError, Failure, FailureKind, SpecError, is_full
from bufferlab.knob import Values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OnEvent = Callable[[str], None]
"""A function that takes one event: a JSON object as text."""

NativeKnobs = Values
"""The values of the engine's knobs, by the knobs' names."""


@dataclass(frozen=True)
class Found:
    """An engine that can be used on this machine: its version, the core's version, and its path."""

    version: str
    core_version: str
    where: str


@dataclass(frozen=True)
class HostCheck:
    """The result of one check: whether something can be used, the findings, and a hint if it cannot be used."""

    name: str
    ok: bool
    detail: str
    hint: str | None = None


@dataclass(frozen=True)
class ServerCheck(HostCheck):
    """One result of the checks on an already running server: whether runs can work there, and why not."""

    refuses: Literal["", "usage", "environment"] = ""
    """The kind of error if no run can work: a wrong request ("usage") or the environment. "" if runs can work."""


@dataclass(frozen=True)
class Wanted:
    """The parts of a plan that determine the requirements on an already running server."""

    points: tuple[NativeKnobs, ...] = ()
    """The values of the engine's knobs, for each point of a plan."""
    has_program: bool = False
    """Whether an external load generator runs the transactions."""
    load_bytes: int | None = None
    """The estimated bytes of the data to load; None if nothing has to be loaded."""


class OwnedPages(NamedTuple):
    """The pages of one table, index or other object of an engine."""

    name: str
    pages: NDArray[np.uint64]
    interior: NDArray[np.uint64]
    """The pages above the leaves of a B-tree; they are also in `pages`."""


class Behaviour(ABC):
    """The interface to one engine. `load`, `run`, `check` and `cancel` are called inside the worker process."""

    # Every engine implements the following methods.

    @abstractmethod
    def find(self) -> Found:
        """Return the engine's version and path; raise EnvironmentLackingError if it cannot be used here."""

    @abstractmethod
    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return everything that determines the bytes of the loaded database; its hash is `data_key`.

        `workload` is that of the load job, with its version. Of a script's text, only the setup section may enter the
        recipe.
        """

    @abstractmethod
    def allocated_bytes(self, database: Path) -> int:
        """Return the bytes that data and indexes occupy in the closed database."""

    @abstractmethod
    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Load a new database; return the core's answer.

        Before the call, job["database"] does not exist. After it, the database is there, closed, and needs no recovery.
        If an exception is raised, `execute` removes the database. The method must send events often: `execute` treats a
        silent worker as dead.
        """

    @abstractmethod
    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Do one run: open, warm up, measure, close; return the core's answer with the settings read back.

        job["probes"], if present, goes to the core unchanged: it names further probes on the device that the run reads.
        Before the call, job["database"] is a copy for this run alone, or data that no run writes. After it, also after
        an exception, all processes of the run have ended, and the host's settings are restored.
        """

    @abstractmethod
    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Check the workload's consistency conditions on the closed database; return {seconds, conditions}.

        It uses a different client than the run, so that neither client can hide the other's mistakes.
        """

    # Only some engines override the following methods.

    def cancel(self) -> None:
        """Ask the running load, run or check to stop soon. Called from another thread; returns at once."""
        native().cancel()

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Check everything in the existing `directory` that a run with these knobs needs."""
        return []

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Return the pages per level of the closed database's trees (run.json's `database.shape`); None if unknown."""
        return None

    makes_its_device = False
    """Whether a run creates the device that it reads, such as a loop device, instead of using the database's."""

    page_trace_counters: Mapping[tuple[str, ...], tuple[str, ...]] = {}
    """The engine's counters for each group of page access kinds, the most accurate first.

    A trace is compared with the first of these counters that the server's version has.
    """

    def require_page_trace(self, knobs: NativeKnobs) -> None:
        """Raise SpecError when accesses to this engine's pages cannot be recorded with these knobs."""
        what = "accesses to this engine's pages cannot be recorded"
        raise SpecError(what, "--probe page-trace", "leave it out, or use --engine sqlite")

    def page_trace_cost_is_shown(self, knobs: NativeKnobs) -> bool:
        """Return whether docs/benchmarks.md has a measurement of a page trace's cost for a run with these knobs."""
        return False

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[OwnedPages]:
        """Return the tables and indexes of the closed database, each with its pages.

        A page's number is its object's number in the trace times 2^32, plus its number in the object. `touched` are the
        page numbers in the trace. `relations` has tablespace, database, relation and fork of each object, if the trace
        has them.
        """
        return []

    def uncounted_objects(self, database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
        """Return the indexes in `relations` of the objects that the engine's counters do not count."""
        return []

    def server_version(self, knobs: NativeKnobs) -> str:
        """Return the version of the build that these knobs name; raise EnvironmentLackingError when it is missing."""
        return self.find().version

    def server_user(self) -> tuple[int, int] | None:
        """Return the (uid, gid) that servers run as when bufferlab is root; None if they run as bufferlab's user.

        The caller must then keep databases in directories that this user can traverse.
        """
        return None

    def data_in_place(self, knobs: NativeKnobs) -> tuple[Path, int] | None:
        """Return path and size in bytes of the user's own data that these knobs name; None if bufferlab must load data.

        Such data are read in place: bufferlab does not write, copy or remove them, and `load` is not called.
        """
        return None

    def abilities(self, directory: Path) -> list[HostCheck]:
        """Return for `bufferlab doctor` a check of each optional feature that a point may use.

        Must leave nothing changed.
        """
        return []

    def restore_host(self) -> list[str]:
        """Restore the host settings that dead processes left changed; return a sentence for each of them."""
        return []

    @property
    def url_schemes(self) -> tuple[str, ...]:
        """The URL schemes, such as mysql, of this engine's running servers; () if the engine has none."""
        return ()

    def uses_this_host(self, knobs: NativeKnobs) -> bool:
        """Return whether a run with these knobs uses this host's devices; a server by URL may be on another host."""
        return True

    def engine_of(self, server: str) -> str:
        """Return the engine of the server at this URL; raise EnvironmentLackingError if no server answers."""
        raise EnvironmentLackingError("this engine has no servers that run already", server)

    def preflight(self, server: str, wanted: Wanted) -> list[ServerCheck]:
        """Check the server at this URL, without changing it or this host; return the findings.

        Raises EnvironmentLackingError if the server cannot be queried.
        """
        raise EnvironmentLackingError("this engine has no servers that run already", server)


class EngineFailure(BufferlabError):
    """The error that an engine's load, run or check raises inside the worker; the core's error has the same fields."""

    def __init__(self, kind: FailureKind, what: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where, hint, kind=kind)


def failure_of(error: Exception) -> Failure:
    """Return the failure that an exception of bufferlab, the core or the system describes.

    Any other exception is a bug: its failure has its type and text.
    """
    if isinstance(error, BufferlabError):
        return error.failure
    if isinstance(error, OSError):
        return Failure(str(error.strerror or error), error.filename, None, "full_disk" if is_full(error) else "io")
    return failure_of_core(error) or Failure(f"{type(error).__name__}: {error}")
