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
    """An engine that can be used on this machine: its version, the core's, and where it is."""

    version: str
    core_version: str
    where: str


@dataclass(frozen=True)
class HostCheck:
    """The result of one check: whether a thing can be used, the findings, and what to do if it cannot."""

    name: str
    ok: bool
    detail: str
    hint: str | None = None


@dataclass(frozen=True)
class ServerCheck(HostCheck):
    """One finding of the checks at a server that runs already: whether runs can work there, and why not."""

    refuses: Literal["", "usage", "environment"] = ""
    """Why no run can work, if the check is not ok: the request, or the environment. "": runs can work."""


@dataclass(frozen=True)
class Wanted:
    """The parts of a plan that decide what an existing server must provide for its runs."""

    points: tuple[NativeKnobs, ...] = ()
    """The values of the engine's knobs, for each point of a plan."""
    has_program: bool = False
    """Whether an external program makes the transactions."""
    load_bytes: int | None = None
    """The estimated bytes of the data to load; None: nothing would be loaded."""


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
        """Return the engine's versions and place; raise EnvironmentLackingError when it cannot be used here."""

    @abstractmethod
    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return everything that decides the bytes of the loaded database; its hash is `data_key`.

        `workload` is that of the load job, with its version. Of a script's text, only the setup may enter the recipe.
        """

    @abstractmethod
    def allocated_bytes(self, database: Path) -> int:
        """Return the bytes that data and indexes have allocated in the closed database."""

    @abstractmethod
    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Load a new database; return the core's answer.

        Before: nothing is at job["database"]. After: the database is there, closed, and needs no recovery. After an
        error `execute` removes the database. Must send events often: `execute` takes a silent worker for dead.
        """

    @abstractmethod
    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Do one run: open, warm up, measure, close; return the core's answer with the settings read back.

        job["probes"], if present, goes to the core unchanged: further probes, on the device that the run reads.
        Before: job["database"] is a copy for this run alone, or data that no run writes. After, also on an error:
        no process of the run lives, and the host's settings are as they were.
        """

    @abstractmethod
    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Check the workload's consistency conditions on the closed database; return {seconds, conditions}.

        It uses another client than the run, so that neither client can hide the other's mistakes.
        """

    # Only some engines override the following methods.

    def cancel(self) -> None:
        """Ask the running load, run or check to stop soon. Called from another thread; returns at once."""
        native().cancel()

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return a check of each thing in the existing `directory` that a run with these knobs needs."""
        return []

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Return the pages per level of the closed database's trees (run.json's `database.shape`); None: not known."""
        return None

    makes_its_device = False
    """Whether a run reads a device that it makes itself, such as a loop device, and not the database's device."""

    page_trace_counters: Mapping[tuple[str, ...], tuple[str, ...]] = {}
    """Kinds of page access -> the engine's counters that count these kinds together, the best counter first. A trace is
    compared with the first counter that the server's version has."""

    def require_page_trace(self, knobs: NativeKnobs) -> None:
        """Raise SpecError when accesses to this engine's pages cannot be recorded with these knobs."""
        what = "accesses to this engine's pages cannot be recorded"
        raise SpecError(what, "--probe page-trace", "leave it out, or use --engine sqlite")

    def page_trace_cost_is_shown(self, knobs: NativeKnobs) -> bool:
        """Return whether docs/benchmarks.md shows the cost of a page trace for a run with these knobs."""
        return False

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[OwnedPages]:
        """Return the tables and indexes of the closed database, each with its pages.

        A page's number is its object's number in the trace times 2^32, plus its number in the object. `touched` has the
        numbers in the trace. `relations`: tablespace, database, relation and fork of each object, if the trace has
        them.
        """
        return []

    def uncounted_objects(self, database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
        """Return the objects of a page trace, by their place in `relations`, that the engine's counters leave out."""
        return []

    def server_version(self, knobs: NativeKnobs) -> str:
        """Return the version of the build that these knobs name; raise EnvironmentLackingError when it is missing."""
        return self.find().version

    def server_user(self) -> tuple[int, int] | None:
        """Return the (uid, gid) that servers run as when bufferlab is root; None if they run as bufferlab's user.

        The caller must then keep databases in directories that this user may pass.
        """
        return None

    def data_in_place(self, knobs: NativeKnobs) -> tuple[Path, int] | None:
        """Return the path and bytes of the user's own data that these knobs name; None if data must be loaded.

        Such data are read in place: bufferlab does not write, copy or remove them, and `load` is not called.
        """
        return None

    def abilities(self, directory: Path) -> list[HostCheck]:
        """Return, for `bufferlab doctor`, a check of each thing that points may ask for beyond the defaults.

        Must leave nothing changed.
        """
        return []

    def restore_host(self) -> list[str]:
        """Put back the host settings that dead processes left changed; return a sentence for each of them."""
        return []

    @property
    def url_schemes(self) -> tuple[str, ...]:
        """The schemes, such as mysql, in the URLs of this engine's servers that run already; () if it has none."""
        return ()

    def uses_this_host(self, knobs: NativeKnobs) -> bool:
        """Return whether a run with these knobs uses this host's devices; a server by URL may be on another host."""
        return True

    def engine_of(self, server: str) -> str:
        """Return the name of the engine of the server at this URL; raise EnvironmentLackingError when none answers."""
        raise EnvironmentLackingError("this engine has no servers that run already", server)

    def preflight(self, server: str, wanted: Wanted) -> list[ServerCheck]:
        """Return the findings at the server of this URL, without any change to it or to this host.

        Raises EnvironmentLackingError when the server cannot be asked.
        """
        raise EnvironmentLackingError("this engine has no servers that run already", server)


class EngineFailure(BufferlabError):
    """The error that an engine's load, run or check raises inside the worker; the core's error has the same fields."""

    def __init__(self, kind: FailureKind, what: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where, hint, kind=kind)


def failure_of(error: Exception) -> Failure:
    """Return the failure in an error of bufferlab, the core or the system; any other error is a bug."""
    if isinstance(error, BufferlabError):
        return error.failure
    if isinstance(error, OSError):
        return Failure(str(error.strerror or error), error.filename, None, "full_disk" if is_full(error) else "io")
    return failure_of_core(error) or Failure(f"{type(error).__name__}: {error}")
