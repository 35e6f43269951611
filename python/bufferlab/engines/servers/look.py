"""The interface of a look to one family of servers: how to connect, the server's facts, its counters, its pool.

An implementation holds no connection. It gets `query`, which runs one statement and returns rows as dictionaries with
keys in lower case. `query` raises `Refused` for one statement that the server refuses, and `Lost` when the connection
is gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.questions import NotTold
from bufferlab.versions import SERVERS

NAME = "bufferlab-observe"
"""The name of our sessions at the server (program_name, application_name)."""
STATEMENT_SECONDS = 5
LOCK_SECONDS = 2

Query = Callable[[str], list[dict[str, Any]]]


class Refused(Exception):
    """The error of one statement that the server refused: a right, a name, a limit of time. The session lives."""


class Lost(Exception):
    """The error of a connection that is gone."""


@dataclass(frozen=True)
class Facts:
    """The facts that a server gives once, when a look connects."""

    flavour: Flavour
    version: str
    numbers: tuple[int, ...]
    """The version's first numbers."""
    identity: str
    """A text that stays the same over a restart, and differs on another server."""
    page_size_bytes: int
    pool_size_bytes: int
    transactions: str
    """The unit that the count `transactions` counts: "transaction", or "explicit commit"."""
    no_time: str
    """Why the time of reads is not known, with the line that would change that; empty if it is known."""
    uptime_s: float
    """The seconds that the server had run when it gave these facts."""
    thread: int | None = None
    """The number of our session's thread or process at the server's host; None if it is not known."""
    data_directory: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def engine(self) -> str:
        """The flavour, as people write it."""
        return SERVERS[self.flavour]


@dataclass(frozen=True)
class Sample:
    """One reading of a server's counters."""

    t_s: float
    """The time on the observer's monotonic clock."""
    counters: Mapping[str, int]
    """Counters that only grow between resets."""
    levels: Mapping[str, float]
    own: Mapping[str, int]
    """The part of each counter that our own session added since the observation began."""
    started_s: float
    """The start of the server, as computed. A slow answer may make it earlier; only a restart makes it later."""
    reset_s: float | None = None
    """The time of the last reset of the counters, on a clock of the server; None without a reset, or if not known."""
    read_s: Mapping[str, float] = field(default_factory=dict)
    """The times of counts that were read after `t_s`, by their names: a busy host may read them seconds later."""


@dataclass(frozen=True)
class Unpublished:
    """The sessions whose work no count may hold yet: they publish their counts when their transaction ends."""

    sessions: int = 0
    """How many sessions worked in a transaction older than the look."""
    hidden: int = 0
    """How many other sessions may have worked in such a transaction: the account may not see whether they did."""
    readers: tuple[int, ...] = ()
    """The processes that read for `sessions`, as the server numbers them; empty if not all are known."""
    read_bytes: int | None = None
    """The bytes that read calls of these processes returned during the look; None if they cannot be read from here."""


@dataclass(frozen=True)
class PoolLevels:
    """The state of the pool at one moment: values by names with units, and by name why a value is missing."""

    values: Mapping[str, float]
    why_not: Mapping[str, str]


@dataclass(frozen=True)
class LargeObject:
    """A table, an index or a database that is larger than the pool, as far as it can be scanned."""

    rows_read: int
    """How many rows of the object were read one after another since the server's start, at most."""
    pool_rows: float
    """The least number of rows that fill as many pages as the pool has. If fewer were read, no scan read that many."""
    remedy: str | None = None
    """The line that would make the number of rows read known; None if it is known, or if no line would help."""


@dataclass(frozen=True)
class DataSize:
    """The data of all databases, which share the pool."""

    size_bytes: int
    larger: Mapping[str, LargeObject]
    """The objects larger than the pool, by name."""


class Look(ABC):
    """The way to look at one family of servers."""

    @abstractmethod
    def watch(self, address: Address) -> Client:
        """Open a session that is read only, named and limited in time. Raises EnvironmentLackingError without one."""

    def own_at_start(self, connection: Client) -> int:
        """Return how many statements the server has counted of this session so far, this question included."""
        return 0

    @abstractmethod
    def facts(self, query: Query) -> Facts:
        """Return the server's facts, asked once."""

    @abstractmethod
    def sample(self, query: Query, facts: Facts, t_s: float, own: Callable[[], int]) -> Sample:
        """Read the counters. `own` returns the number of the look's statements so far."""

    def derive(self, grown: Mapping[str, int], facts: Facts) -> dict[str, float]:
        """Return the counts of an interval, by the names of `Counts`, from the growth of the counters."""
        return dict(grown)

    def pool(self, query: Query, facts: Facts) -> PoolLevels:
        """Return the state of the pool at this moment."""
        return PoolLevels({"pool_size_bytes": facts.pool_size_bytes}, {})

    def own_total(self, query: Query) -> Mapping[str, float]:
        """Return our session's part of quantities from which samples do not subtract it; asked once, at the end."""
        return {}

    def data(self, query: Query, facts: Facts) -> DataSize | NotTold:
        """Return how large the data are, or why that is not known."""
        return NotTold("the server does not tell how large its data are")

    def unpublished(self, query: Query, seconds: float) -> Unpublished:
        """Return which sessions worked in transactions older than a look of that many seconds, which ends now."""
        return Unpublished()
