"""What a look needs of one family of servers: how to connect, its facts, its counters, its pool.

It holds no connection. It is handed `query`, which runs one statement and returns rows as dictionaries with keys
in lower case. `query` raises `Refused` for one statement that the server refuses, and `Lost` when the connection is
gone.
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
    """The facts that a server gives once, at the connection."""

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
    """Why the time of reads is not known, with the line that would change that; empty where it is."""
    uptime_s: float
    """The age of the server at these facts."""
    thread: int | None = None
    """The number of our session's thread or process at the server's host; None where it is not known."""
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
    """When the server started: a slow answer may make it earlier, and a restart alone makes it later."""
    reset_s: float | None = None
    """The last reset of the counters, on a clock of the server; None without one, or if it is not known."""
    read_s: Mapping[str, float] = field(default_factory=dict)
    """The times of counts that were read after `t_s`, by their names: a busy host may read them seconds later."""


@dataclass(frozen=True)
class Unpublished:
    """Sessions whose work may be in no count: they publish their counts when their transaction ends."""

    sessions: int = 0
    """Sessions that worked in a transaction older than the look."""
    hidden: int = 0
    """Sessions of which the account may not see whether they worked so."""
    readers: tuple[int, ...] = ()
    """The processes that read for `sessions`, as the server numbers them; empty where not all are known."""
    read_bytes: int | None = None
    """Bytes that read calls of these processes returned in the look; None where they cannot be read from here."""


@dataclass(frozen=True)
class PoolLevels:
    """The pool at one moment: numbers by a name with its unit, and why others are not known."""

    values: Mapping[str, float]
    why_not: Mapping[str, str]


@dataclass(frozen=True)
class LargeObject:
    """A table, an index or a database that is larger than the pool, as far as it can be scanned."""

    rows_read: int
    """Rows that were read of it one after another since the server's start, or more."""
    pool_rows: float
    """The rows on as many pages as the pool has, or fewer. If fewer rows were read, no scan has read more pages than
    that."""
    remedy: str | None = None
    """The line by which these rows would be known; None where they are, or none exists."""


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
        """Open a session that is read only, named and limited in time. Raises EnvironmentLackingError."""

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
        """Return an interval's counts, those of `Counts`, from the growth of the counters."""
        return dict(grown)

    def pool(self, query: Query, facts: Facts) -> PoolLevels:
        """Return the state of the pool at this moment."""
        return PoolLevels({"pool_size_bytes": facts.pool_size_bytes}, {})

    def own_total(self, query: Query) -> Mapping[str, float]:
        """Return what our session alone did, of quantities that samples do not subtract; asked once, at the end."""
        return {}

    def data(self, query: Query, facts: Facts) -> DataSize | NotTold:
        """Return how large the data are, or why that is not known."""
        return NotTold("the server does not tell how large its data are")

    def unpublished(self, query: Query, seconds: float) -> Unpublished:
        """Return which sessions worked in transactions older than a look of that many seconds, which ends now."""
        return Unpublished()
