"""The interface to one family of servers: how its servers are made, reached, set, asked and checked.

A family does not know who starts a server, nor when. Two modules use families: behaviour.py starts private servers,
and hosts/running.py works on servers that run already.
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
from bufferlab.engines.behaviour import EngineFailure, HostCheck, NativeKnobs, OwnedPages
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.child_process import failed
from bufferlab.engines.servers.client import FAILURES, Client
from bufferlab.engines.servers.data_folder import Identity, Sizes
from bufferlab.engines.servers.existing import passwords
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, AccessDenied, Address, Form
from bufferlab.engines.servers.lesson import Lesson
from bufferlab.engines.servers.look import Look
from bufferlab.engines.servers.memory_limit import MemoryLimit, drop_cached
from bufferlab.engines.servers.page_sites import PageSites
from bufferlab.engines.servers.restoring import Dump, Restorer
from bufferlab.engines.servers.run import FamilyRun
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.errors import EnvironmentLackingError
from bufferlab.knob import Native
from bufferlab.units import format_bytes

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
    """The servers of one flavour (MySQL, MariaDB or PostgreSQL): how bufferlab makes and uses private ones.

    A family holds no connection and no state. Its parts for servers that run already, `run` and `look`, are separate
    objects; a family may lack them.
    """

    declaration: EngineDeclaration
    """The declaration of the engine that uses this family."""
    form: Form
    """The form of the family's URLs."""
    find: Callable[[str], Build]
    """Returns the build of that name, ready to run; for the name `path`, the first build found on this host.

    Raises EnvironmentLackingError when there is none, and says how to get one.
    """
    arguments: tuple[str, ...]
    """The arguments of the server's program; {conf} stands for its only option file, {data} for its data directory."""

    run: FamilyRun | None = None
    """The part that runs on servers that run already; None if the family has no such runs."""
    look: Look | None = None
    """The part that observes servers that run already; None if the family cannot."""
    lesson: Lesson | None = None
    """The load with which unknown builds are learnt; None if they cannot be."""
    deciding: ClassVar[Mapping[str, str]] = {"page_size_bytes": "page_size"}
    """By the name in a data recipe, the knob that decides the bytes of loaded data.

    The names in a recipe enter the hash `data_key`: a new name would mean that all data are loaded again.
    """
    system_database: str | None = None
    """The database that exists on every server and belongs to no user; None: a connection needs to name none."""
    socket_is_folder = False
    """Whether clients take the folder of the Unix socket instead of its path."""
    stop_after_load_seconds = 300.0
    socket_name = "server.sock"
    """The file name of a private server's socket."""
    further_files: ClassVar[Mapping[str, str]] = {}
    """The names and texts of files that a private server needs besides its option file."""
    failure = staticmethod(failed)
    """Returns an EngineFailure: the given text, explained by the exit code (None: still running) and the log's end."""
    stop_signal = signal.SIGTERM
    """The signal that asks the server to stop cleanly."""
    own_ipc = False
    """Whether a private server gets a separate IPC namespace, if the host allows that."""
    page_size_hint = "load it for this page size"
    """The hint of the error about data with pages of another size."""
    page_trace_counters: ClassVar[Mapping[tuple[str, ...], tuple[str, ...]]] = {
        ("get",): ("page_gets",),
        ("read",): ("pages_read",),
    }
    program: Callable[[str, Mapping[str, Any], Path, int], dict[str, Any]] | None = None
    """Returns argv and env of an external load generator; None: no external program can drive these servers."""
    quiet: ClassVar[Mapping[str, str]] = {}
    """The variables that keep the values of rows out of a server's log."""

    @property
    def flavour(self) -> Flavour:
        """The flavour of the family's servers; the engine has the same name."""
        return cast(Flavour, self.declaration.name)

    @property
    def page_sites_table(self) -> Path:
        """The family's page_sites.toml."""
        return Path(inspect.getfile(type(self))).with_name("page_sites.toml")

    @property
    def running(self) -> FamilyRun:
        """The family's part for servers that run already, `run`. Raises EnvironmentLackingError if it has none."""
        if self.run is None:
            raise EnvironmentLackingError("this engine has no servers that run already", None)
        return self.run

    # Methods for every server: private ones, and servers that run already.

    @abstractmethod
    def connect(
        self, address: Address, database: str | None = None, *, seconds: float | None = ANSWER_SECONDS
    ) -> Client:
        """Open an autocommit connection, which the caller closes. A statement may take `seconds`; None: any time.

        Raises EnvironmentLackingError when a running server refuses the connection, AccessDenied when a private one
        does. While a private server does not answer, its client's error passes through.
        """

    def greet(self, address: Address, seconds: float) -> None:
        """Ask the server for an answer that waits for no lock and no device, over a separate connection.

        Raises the client's error, OSError or EnvironmentLackingError when no answer came within `seconds`. Called from
        a second thread while a long statement runs.
        """
        self.connect(address, seconds=seconds).close()

    @property
    def unanswered(self) -> tuple[type[Exception], ...]:
        """The errors that `connect` and `greet` raise when no answer came."""
        return (*FAILURES, OSError, AccessDenied, EnvironmentLackingError)

    @abstractmethod
    def settings(self, build: Build, knobs: NativeKnobs, work: Work = "run") -> dict[str, str]:
        """Return the variables, by the server's names, that a server of this build is started with for this work.

        For a load, the settings that decide the data equal those of a run; the others are chosen for speed. For a
        check, `knobs` holds only what decided the data.
        """

    def chosen(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        """Return notes on the settings that bufferlab chose for a private server unasked, by the setting's name."""
        return {}

    @abstractmethod
    def read_back(
        self, connection: Client, build: Build, knobs: NativeKnobs, limit_bytes: int | None = None
    ) -> ReadBack:
        """Return the settings that the server runs with, as a new connection sees them. Changes nothing.

        `limit_bytes` is the memory limit of the server's cgroup, which may restrict its settings.
        """

    def settle(self, address: Address) -> None:  # noqa: B027 - some have nothing left to do.
        """Finish a load after the core has, so that no run pays for work left over (vacuum, a clean shutdown).

        After: once a private server has stopped, its files need no recovery.
        """

    @abstractmethod
    def sizes(self, connection: Client, build: Build, schema: str, *, trees: bool) -> Sizes:
        """Return the bytes allocated for the schema's data and indexes; with `trees`, also how to count their trees."""

    @abstractmethod
    def conditions(self, address: Address, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        """Check the workload's consistency conditions in the schema; return {seconds, conditions}.

        Before: the run that `job` describes has ended, and the schema still holds its data.
        """

    # Methods for a private server and its data.

    @abstractmethod
    def configuration(
        self, build: Build, data: Path, home: Path, socket: Path, connections: int, settings: Mapping[str, str], *,
        own_ipc: bool,
    ) -> str:  # fmt: skip
        """Return the text of an option file that allows this many connections and has these `settings`.

        A server with these options must listen on `socket` only. Raises EngineFailure for a setting that is refused.
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

    # Only some families override the following methods.

    def end_processes(self, data: Path, build: Build) -> None:  # noqa: B027 - most servers are one process.
        """Kill what remains of a killed server: a stopped child does not see its end, and keeps its client waiting."""

    def clean_up(self, data: Path, build: Build, *, own_ipc: bool) -> None:  # noqa: B027 - most leave nothing.
        """Remove the leftovers of a killed server outside its folders. Called after the server's first process ended.

        After: no process of the server lives.
        """

    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return a check for each thing that these knobs need of a directory, such as direct I/O.

        Before: the directory exists and the server's user can reach it, which the caller has checked.
        """
        return []

    @contextmanager
    def bounded(self, knobs: NativeKnobs, database: Path) -> Iterator[MemoryLimit | None]:
        """Context manager for the memory limit that the knobs ask for; yields it, or None if they ask for none.

        Entered before the server starts and left after it has ended. It evicts the database from the page cache first:
        a page that is cached already belongs to the process that read it, and would not count. An EngineFailure says
        so if the kernel killed the server for the limit.
        """
        limit = MemoryLimit.asked(knobs)
        if limit is None:
            yield None
            return
        with limit:
            drop_cached(database)
            try:
                yield limit
            except EngineFailure as error:
                if not limit.ran_out():
                    raise
                too_small = f"the memory limit of {format_bytes(limit.actual_bytes)} was too small for the server"
                what = f"{too_small}: the kernel ended it"
                raise EngineFailure("engine", what, error.where, limit.hint) from error

    def require_traceable(self, sites: PageSites, build: Build, knobs: NativeKnobs) -> None:  # noqa: B027
        """Raise SpecError when these knobs make the build get pages at places that are not in `sites`."""

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[OwnedPages]:
        """Return the tables and indexes of the closed database with their pages (see `Behaviour.pages_of_objects`)."""
        return []

    def uncounted_objects(self, database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
        """Return the objects of a page trace, by their place in `relations`, that the server's counters leave out."""
        return []

    def job_entries(self, knobs: NativeKnobs, work: Work) -> dict[str, Any]:
        """Return the further entries of the core's job of a load or a run."""
        return {}

    def memory(self, connect: Callable[[], Client], knobs: NativeKnobs) -> dict[str, Native]:
        """Return the server's own account of its memory at the end of a run, by names that reports know."""
        return {}

    # All families share the following methods.

    def decided(self, knobs: NativeKnobs) -> dict[str, Native]:
        """Return the knobs that decide the bytes of loaded data, by name."""
        return {name: knobs[name] for name in self.deciding.values() if name in knobs}

    def recipe(self, knobs: NativeKnobs) -> dict[str, Native]:
        """Return the same values by their names in a data recipe."""
        return {word: knobs[name] for word, name in self.deciding.items() if name in knobs}

    def target(self, address: Address) -> dict[str, Any]:
        """Return the connection settings that the core needs: address, account, password and schema.

        They are the entry `target` of a job.
        """
        return address.target(passwords.find(address, self.form).text, self.socket_of(address))

    def socket_of(self, address: Address) -> str | None:
        """Return the path of the address's socket; None if it has none."""
        return address.socket


def free_quarter(at_most_bytes: int, unit_bytes: int, at_least_bytes: int) -> int:
    """Return the bytes of a pool for loading and checking: a quarter of the free memory, within the bounds.

    It is rounded down to whole units, unless the lower bound decides.
    """
    available = meminfo.available_bytes() or 0
    return max(at_least_bytes, min(at_most_bytes, available // 4) // unit_bytes * unit_bytes)
