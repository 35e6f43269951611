"""The interface to one family of servers: how its servers are created, connected to, configured, queried and checked.

A family does not know who starts a server, nor when. Two modules use families: behaviour.py starts private servers, and
hosts/running.py works on already running servers.
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

from bufferlab import procfs
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
    """The settings in effect on a server."""

    actual: dict[str, Native]
    """The value in effect by setting: of every knob that was set and can be read, and of a few more."""
    frames: int
    """The number of page frames in the pool."""
    confounds: list[str]
    """Sentences for the reader on deviations from the requested settings, and on other work of the server."""
    notes: dict[str, str] = field(default_factory=dict)
    """By setting, the reason why the server uses another value than the requested one."""
    standing: dict[str, str] = field(default_factory=dict)
    """By setting, the sentences of `confounds` that apply even if the setting was not requested."""


Work = Literal["run", "load", "check"]
"""The purpose for which a private server is started."""


class Family(ABC):
    """The servers of one flavour (MySQL, MariaDB or PostgreSQL): how bufferlab creates and uses private ones.

    A family holds no connection and no state. Its parts for already running servers, `run` and `look`, are separate
    objects; a family may lack them.
    """

    declaration: EngineDeclaration
    """The declaration of the engine that uses this family."""
    form: Form
    """The form of the family's URLs."""
    find: Callable[[str], Build]
    """A function that returns the build of that name, ready to run; for the name `path`, the first build on this host.

    It raises EnvironmentLackingError if there is none; the error's hint says how to get one.
    """
    arguments: tuple[str, ...]
    """The arguments of the server's program; {conf} stands for its only option file, {data} for its data directory."""

    run: FamilyRun | None = None
    """The part for runs on already running servers; None if the family does not support them."""
    look: Look | None = None
    """The part that observes already running servers; None if the family does not support it."""
    lesson: Lesson | None = None
    """The load with which unknown builds are learnt; None if they cannot be learnt."""
    deciding: ClassVar[Mapping[str, str]] = {"page_size_bytes": "page_size"}
    """The knobs that affect the bytes of loaded data, by their names in a data recipe.

    The names in a recipe enter the hash `data_key`: after a change of a name, all data would be loaded again.
    """
    system_database: str | None = None
    """The database that exists on every server and belongs to no user; None if connections need no database."""
    socket_is_folder = False
    """Whether clients expect the folder of the Unix socket instead of its path."""
    stop_after_load_seconds = 300.0
    socket_name = "server.sock"
    """The file name of a private server's socket."""
    further_files: ClassVar[Mapping[str, str]] = {}
    """The names and texts of files that a private server needs besides its option file."""
    failure = staticmethod(failed)
    """A function that returns an EngineFailure: the given text, the exit code (None: still running), and the log's
    end."""
    stop_signal = signal.SIGTERM
    """The signal that asks the server to stop cleanly."""
    own_ipc = False
    """Whether a private server gets its own IPC namespace, if the host allows that."""
    page_size_hint = "load it for this page size"
    """The hint in the error about data with another page size."""
    page_trace_counters: ClassVar[Mapping[tuple[str, ...], tuple[str, ...]]] = {
        ("get",): ("page_gets",),
        ("read",): ("pages_read",),
    }
    program: Callable[[str, Mapping[str, Any], Path, int], dict[str, Any]] | None = None
    """A function that returns argv and env of an external load generator; None if the family supports none."""
    quiet: ClassVar[Mapping[str, str]] = {}
    """The variables that keep the values of rows out of a server's log."""

    @property
    def flavour(self) -> Flavour:
        """Return the flavour of the family's servers; the engine has the same name."""
        return cast("Flavour", self.declaration.name)

    @property
    def page_sites_table(self) -> Path:
        """Return the path of the family's page_sites.toml."""
        return Path(inspect.getfile(type(self))).with_name("page_sites.toml")

    @property
    def running(self) -> FamilyRun:
        """Return `run`, the family's part for already running servers.

        Raises EnvironmentLackingError if it has none.
        """
        if self.run is None:
            raise EnvironmentLackingError("this engine has no servers that run already", None)
        return self.run

    # Methods for every server: private and already running ones.

    @abstractmethod
    def connect(
        self, address: Address, database: str | None = None, *, seconds: float | None = ANSWER_SECONDS
    ) -> Client:
        """Open an autocommit connection, which the caller closes. A statement may take `seconds`; None sets no limit.

        Raises EnvironmentLackingError if a running server refuses the connection, AccessDenied if a private one does.
        While a private server does not answer, its client's error passes through.
        """

    def greet(self, address: Address, seconds: float) -> None:
        """Request an answer of the server that waits for no lock and no device, over a separate connection.

        Raises the client's error, OSError or EnvironmentLackingError if no answer came within `seconds`. Called from a
        second thread while a long statement runs.
        """
        self.connect(address, seconds=seconds).close()

    @property
    def unanswered(self) -> tuple[type[Exception], ...]:
        """Return the exception types that `connect` and `greet` raise if no answer came."""
        return (*FAILURES, OSError, AccessDenied, EnvironmentLackingError)

    @abstractmethod
    def settings(self, build: Build, knobs: NativeKnobs, work: Work = "run") -> dict[str, str]:
        """Return the server variables with which a server of this build is started for this work.

        For a load, the settings that affect the data equal those of a run; the others are chosen for speed. For a
        check, `knobs` contains only the knobs that affected the data.
        """

    def chosen(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        """Return, by setting, notes on settings of a private server that bufferlab chose although no value was
        requested."""
        return {}

    @abstractmethod
    def read_back(
        self, connection: Client, build: Build, knobs: NativeKnobs, limit_bytes: int | None = None
    ) -> ReadBack:
        """Return the settings in effect on the server, as a new connection sees them. Changes nothing.

        `limit_bytes` is the memory limit of the server's cgroup, which may restrict its settings.
        """

    def settle(self, address: Address) -> None:  # noqa: B027 - some have nothing left to do.
        """Finish a load's background work after the core (vacuum, a clean shutdown), so that no run pays for it.

        Afterwards, once a private server has stopped, its files need no recovery.
        """

    @abstractmethod
    def sizes(self, connection: Client, build: Build, schema: str, *, trees: bool) -> Sizes:
        """Return the bytes allocated for the schema's data and indexes; with `trees`, also how to count their trees."""

    @abstractmethod
    def conditions(self, address: Address, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        """Check the workload's consistency conditions in the schema; return {seconds, conditions}.

        The run that `job` describes must have ended, and the schema must still hold its data.
        """

    # Methods for a private server and its data.

    @abstractmethod
    def configuration(
        self, build: Build, data: Path, home: Path, socket: Path, connections: int, settings: Mapping[str, str], *,
        own_ipc: bool,
    ) -> str:  # fmt: skip
        """Return the text of an option file that allows this many connections and has these `settings`.

        A server with these options must listen on `socket` only. Raises EngineFailure for a setting that is not
        allowed.
        """

    @abstractmethod
    def make_data(
        self, build: Build, database: Path, identity: Identity, knobs: NativeKnobs, settings: Mapping[str, str],
        owner: tuple[int, int] | None, on_wait: OnWait,
    ) -> tuple[str, str]:  # fmt: skip
        """Create the data directory `database`/data; return the (user, password) of its server's first login.

        `database` must exist, belong to `owner`, and be empty. Afterwards no server runs; one that is started with
        `settings` accepts the login. Raises EngineFailure if the data directory could not be created.
        """

    @abstractmethod
    def set_up(self, address: Address, identity: Identity, build: Build) -> None:
        """Create the account of `identity` and the workload's empty database on a new server.

        The server must answer at `address`, which has the login that `make_data` returned. Afterwards it accepts
        `identity`, and the core can load into the database of `target`.
        """

    @abstractmethod
    def restore(
        self, server: Restorer, build: Build, dump: Dump, identity: Identity, owner: tuple[int, int] | None,
        wait: OnWait,
    ) -> tuple[str, str]:  # fmt: skip
        """Restore a user's dump into the workload's empty database; return the login for every later connection.

        `set_up` must have been called, and the server must have the identity's login. Afterwards no code of the dump
        can run with more privileges than its schema needs, when that login uses it. Raises EngineFailure for a dump
        that this server cannot restore, without any value of its rows in the text.
        """

    # Only some families override the following methods.

    def end_processes(self, data: Path, build: Build) -> None:  # noqa: B027 - most servers are one process.
        """Kill the remaining processes of a killed server: a stopped one would keep its client waiting."""

    def clean_up(self, data: Path, build: Build, *, own_ipc: bool) -> None:  # noqa: B027 - most leave nothing.
        """Remove the leftovers of a killed server outside its folders. Called after the server's first process ended.

        Afterwards no process of the server runs.
        """

    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return a check for each thing that these knobs need of a directory, such as direct I/O.

        The directory must exist, and the caller has checked that the server's user can reach it.
        """
        return []

    @contextmanager
    def bounded(self, knobs: NativeKnobs, database: Path) -> Iterator[MemoryLimit | None]:
        """Context manager for the memory limit that the knobs request; yields it, or None if they request none.

        It is entered before the server starts and left after it has ended. Entering first evicts the database from the
        page cache, because a page cached earlier would not count towards the limit: it is charged to the cgroup of the
        process that read it. If the kernel killed the server for exceeding the limit, an EngineFailure says so.
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
        """Raise SpecError if these knobs make the build get pages at places that are not in `sites`."""

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[OwnedPages]:
        """Return the tables and indexes of the closed database with their pages (see `Behaviour.pages_of_objects`)."""
        return []

    def uncounted_objects(self, database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
        """Return the indexes in `relations` of those objects of a page trace whose accesses the server's counters leave
        out."""
        return []

    def job_entries(self, knobs: NativeKnobs, work: Work) -> dict[str, Any]:
        """Return the additional entries of the core's job for a load or a run."""
        return {}

    def memory(self, connect: Callable[[], Client], knobs: NativeKnobs) -> dict[str, Native]:
        """Return the server's own account of its memory at the end of a run, by names that reports know."""
        return {}

    # All families share the following methods.

    def decided(self, knobs: NativeKnobs) -> dict[str, Native]:
        """Return the knobs that affect the bytes of loaded data, by name."""
        return {name: knobs[name] for name in self.deciding.values() if name in knobs}

    def recipe(self, knobs: NativeKnobs) -> dict[str, Native]:
        """Return the knobs that affect the bytes of loaded data, by their names in a data recipe."""
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
    """Return a pool size in bytes for loading and checking: a quarter of the free memory, within the bounds.

    It is rounded down to whole units, unless the lower bound applies.
    """
    available = procfs.available_bytes() or 0
    return max(at_least_bytes, min(at_most_bytes, available // 4) // unit_bytes * unit_bytes)
