"""The interface to one family of servers: how its servers are made, reached, set, asked and checked.

A family knows neither who starts a server nor when. There are two ways to meet one, each written once for all
families: a private server that bufferlab starts (behaviour.py), and one that runs already (hosts/running.py).
"""

from __future__ import annotations

import inspect
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from bufferlab import meminfo
from bufferlab.engines.behaviour import HostCheck, NativeKnobs, OwnedPages
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.child_process import failed
from bufferlab.engines.servers.client import FAILURES, Client
from bufferlab.engines.servers.data_folder import Identity, Sizes
from bufferlab.engines.servers.existing import passwords
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, AccessDenied, Address, Form
from bufferlab.engines.servers.look import Look
from bufferlab.engines.servers.memory_limit import MemoryLimit
from bufferlab.engines.servers.page_sites import PageSites
from bufferlab.engines.servers.restoring import Dump, Restorer
from bufferlab.engines.servers.run import FamilyRun
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.errors import EnvironmentLackingError
from bufferlab.knob import Native

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ReadBack:
    """The settings that a server runs with."""

    actual: dict[str, Native]
    """The value by the setting's name: of every knob that was asked for and can be read, and of a few more."""
    frames: int
    """The number of page frames in the pool."""
    confounds: list[str]
    """Sentences for the reader: where the server deviates from the asked settings, or does other work too."""
    notes: dict[str, str] = field(default_factory=dict)
    """By the setting's name, the reason why the server runs with another value than was asked for."""
    standing: dict[str, str] = field(default_factory=dict)
    """By the setting's name, those `confounds` that hold whether the setting was asked for or not."""


Work = Literal["run", "load", "check"]
"""The work that a private server is started for."""


class Family(ABC):
    """One family of servers, of one flavour: how private ones are made and used. It holds no connection and no state.

    Two parts are separate objects, which a family may lack: `run` and `look`.
    """

    declaration: EngineDeclaration
    """The declaration of the engine that this is used for."""
    form: Form
    """The form of the family's URLs."""
    find: Callable[[str], Build]
    """Returns a build that can be run: the one of that name, or for `path` the first one found.

    Raises EnvironmentLackingError without one, with the way to get one.
    """
    arguments: tuple[str, ...]
    """The arguments of the server's program, with places for {conf} and {data}: it reads no other option file."""

    run: FamilyRun | None = None
    """The part that runs on servers that run already; None if the family has no such runs."""
    look: Look | None = None
    """The part that observes such servers; None if the family has none."""
    deciding: ClassVar[Mapping[str, str]] = {"page_size_bytes": "page_size"}
    """The knobs that decide the bytes of loaded data, by the names that recipes have for them.

    A size has its unit in that name: another name would be another `data_key`.
    """
    system_database: str | None = None
    """The database that every server has and no user owns; None: connections enter no database by themselves."""
    socket_is_folder = False
    """Whether clients name the folder of a socket, not the socket."""
    stop_after_load_seconds = 300.0
    socket_name = "server.sock"
    """The file name of a private server's socket."""
    further_files: ClassVar[Mapping[str, str]] = {}
    """The names and texts of files that a private server needs besides its option file."""
    failure = staticmethod(failed)
    """Returns the failure with that text, explained by the exit code (None: it did not end) and the end of the log."""
    stop_signal = signal.SIGTERM
    """The signal that asks the server to stop cleanly."""
    own_ipc = False
    """Whether a private server gets a separate IPC namespace, where the host allows that."""
    page_size_hint = "load it for this page size"
    """The hint of the error about data with pages of another size."""
    page_trace_counters: ClassVar[Mapping[tuple[str, ...], tuple[str, ...]]] = {
        ("get",): ("page_gets",),
        ("read",): ("pages_read",),
    }
    program: Callable[[str, Mapping[str, Any], Path, int], dict[str, Any]] | None = None
    """Returns argv and env of an external load generator; None: the family's servers are not driven by any."""
    quiet: ClassVar[Mapping[str, str]] = {}
    """The variables with which a server writes no value of a row into its log."""

    @property
    def flavour(self) -> Flavour:
        """The flavour of the family's servers, which its engine is called after."""
        return cast(Flavour, self.declaration.name)

    @property
    def page_sites_table(self) -> Path:
        """The family's page_sites.toml."""
        return Path(inspect.getfile(type(self))).with_name("page_sites.toml")

    @property
    def running(self) -> FamilyRun:
        """The part `run`. Raises EnvironmentLackingError where the family has none."""
        if self.run is None:
            raise EnvironmentLackingError("this engine has no servers that run already", None)
        return self.run

    # A server, wherever it runs.

    @abstractmethod
    def connect(
        self, address: Address, database: str | None = None, *, seconds: float | None = ANSWER_SECONDS
    ) -> Client:
        """Open an autocommit connection, which the caller closes; a statement may take `seconds`, None: any time.

        Raises EnvironmentLackingError when a running server refuses it. A private one's refusal is AccessDenied; while
        it does not answer, its client's error passes through.
        """

    def greet(self, address: Address, seconds: float) -> None:
        """Ask the server for an answer that waits for no lock and no device, over a separate connection.

        Raises the client's error, OSError or EnvironmentLackingError when none came within `seconds`. Called from a
        second thread while a long statement runs.
        """
        self.connect(address, seconds=seconds).close()

    @property
    def unanswered(self) -> tuple[type[Exception], ...]:
        """The errors that `connect` and `greet` raise when no answer came."""
        return (*FAILURES, OSError, AccessDenied, EnvironmentLackingError)

    @abstractmethod
    def settings(self, build: Build, knobs: NativeKnobs, work: Work = "run") -> dict[str, str]:
        """Return the variables, by the server's names, that a server of this build is started with for this work.

        A load's settings that decide the data are those of a run; its others are chosen for speed. A check's knobs hold
        only the page size.
        """

    @abstractmethod
    def read_back(
        self, connection: Client, build: Build, knobs: NativeKnobs, limit_bytes: int | None = None
    ) -> ReadBack:
        """Return the settings that the server runs with, as a new connection sees them. Changes nothing.

        `limit_bytes` is the bound on memory around the server, which may restrict them.
        """

    def settle(self, address: Address) -> None:  # noqa: B027 - some have nothing left to do.
        """Finish a load, so that no run pays for it (vacuum, a clean shutdown). Called after the core's.

        After: stopping a private server leaves closed files that need no recovery.
        """

    @abstractmethod
    def sizes(self, connection: Client, build: Build, schema: str, *, trees: bool) -> Sizes:
        """Return the bytes that the schema's data and indexes have allocated; with `trees`, also how to count them."""

    @abstractmethod
    def conditions(self, address: Address, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        """Check the workload's consistency conditions in the schema; return {seconds, conditions}.

        Before: the run that `job` describes has ended, and the schema still holds its data.
        """

    # A private server and its data.

    @abstractmethod
    def configuration(
        self, build: Build, data: Path, home: Path, socket: Path, connections: int, settings: Mapping[str, str], *,
        own_ipc: bool,
    ) -> str:  # fmt: skip
        """Return the text of the option file: this many connections, then `settings` by the server's names.

        The server must listen on `socket` and on nothing else. Raises EngineFailure when it refuses a setting.
        """

    @abstractmethod
    def make_data(
        self, build: Build, database: Path, identity: Identity, knobs: NativeKnobs, settings: Mapping[str, str],
        owner: tuple[int, int] | None, on_wait: OnWait,
    ) -> tuple[str, str]:  # fmt: skip
        """Make the empty data directory `database`/data; return the (user, password) of its server's first login.

        Before: `database` exists, belongs to `owner`, and holds nothing. After: no server runs; one that is started
        with `settings` accepts the login. Raises EngineFailure when the data directory could not be made.
        """

    @abstractmethod
    def set_up(self, address: Address, identity: Identity, build: Build) -> None:
        """Make the account of `identity` and the workload's empty database on a new server.

        Before: the server answers at `address`, which has the login that `make_data` returned. After: it accepts
        `identity`, and the core can load into what `target` names.
        """

    @abstractmethod
    def restore(
        self, server: Restorer, build: Build, dump: Dump, identity: Identity, owner: tuple[int, int] | None,
        wait: OnWait,
    ) -> tuple[str, str]:  # fmt: skip
        """Restore a user's dump into the workload's empty database; return the login for every later connection.

        Before: `set_up` was called, and the server has the identity's login. After: no code of the dump can run with
        more rights than its schema needs, for any user of that login. Raises EngineFailure for a dump that
        this server cannot restore, without any value of its rows in the text.
        """

    # Only some families override these.

    def end_processes(self, data: Path, build: Build) -> None:  # noqa: B027 - most servers are one process.
        """Kill the processes that a killed server left: a stopped one does not see its end, and keeps its client."""

    def clean_up(self, data: Path, build: Build, *, own_ipc: bool) -> None:  # noqa: B027 - most leave nothing.
        """Remove the leftovers of a killed server outside its folders. Called after its first process is gone.

        After: no process of the server lives.
        """

    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return a check for each thing that these knobs need of a directory, such as direct I/O.

        Before: the directory exists and the server's user can reach it, which the caller has checked.
        """
        return []

    @contextmanager
    def bounded(self, knobs: NativeKnobs, database: Path) -> Iterator[MemoryLimit | None]:
        """Context manager for the memory limit that the knobs ask for; yields it, or None where they ask for none.

        Entered before the server starts and left after it has ended. Leaving must remove the limit.
        """
        yield None

    def require_traceable(self, sites: PageSites, build: Build, knobs: NativeKnobs) -> None:  # noqa: B027
        """Raise SpecError where these knobs make the build get pages at places that are not in `sites`."""

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[OwnedPages]:
        """Return the tables and indexes of the closed database, as `Behaviour.pages_of_objects` has them."""
        return []

    def uncounted_objects(self, database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
        """Return the objects of a page trace, by their place in `relations`, that the server's counters leave out."""
        return []

    # All families share these.

    def target(self, address: Address) -> dict[str, Any]:
        """Return the connection settings that the core needs: address, account, password and schema.

        A job has them as `target`.
        """
        return address.target(passwords.find(address, self.form).text, self.socket_of(address))

    def socket_of(self, address: Address) -> str | None:
        """Return the path of the address's socket; None where it has none."""
        return address.socket


def free_quarter(at_most_bytes: int, unit_bytes: int, at_least_bytes: int) -> int:
    """Return the bytes of a pool for loading and checking: a quarter of the free memory, within the bounds.

    It is rounded down to whole units, unless the lower bound decides.
    """
    available = meminfo.available_bytes() or 0
    return max(at_least_bytes, min(at_most_bytes, available // 4) // unit_bytes * unit_bytes)
