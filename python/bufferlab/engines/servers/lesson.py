"""The load and the queries with which bufferlab learns a build on a private server: its counters and resident pages."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.errors import EnvironmentLackingError

Page = tuple[int, ...]
"""A page. PostgreSQL: tablespace, database, relation, fork and block. InnoDB: tablespace and page number."""
SCAN, CHECKPOINT, WITH_DROP = "scan", "checkpoint", "load with DROP"
"""The names of the measuring windows with a scan, with a checkpoint alone, and in which a table is dropped."""


class Counted(NamedTuple):
    """The server's counters at one moment, in pages since the server's start."""

    get: int
    read: int
    create: int | None
    evict: int | None
    """Pages evicted to make room for others; None if the server counts neither evictions nor creations."""
    write: int | None = None
    """Pages written to their files; None if this is not compared. See `counts_sessions_writes`."""
    change: int | None = None
    """Rows inserted, updated and deleted; each changes at least one page. None if `write` is None."""


class Settled(NamedTuple):
    """Counters, with the earliest and the latest moment, on the monotonic clock, to which they may belong."""

    begun_ns: int
    ended_ns: int
    counted: Counted


class Lesson(ABC):
    """A family's load for the private server on which a build is learnt, and the queries about the load's effect on the
    pool.

    The load includes the hard cases: dirty pages, pinned pages, a pool much smaller than the data, several sessions,
    and a table that is dropped.
    """

    programs: ClassVar[tuple[str, ...]]
    """The names of the programs of a build that are copied for learning; the server's is first."""
    page_size_bytes: ClassVar[int]
    make: ClassVar[tuple[str, ...]]
    """The statements that create the load's tables."""
    least_recorded: ClassVar[Mapping[str, int]] = {"get": 5000, "read": 1000, "create": 100, "evict": 1000}
    """The minimum number of recorded accesses in all windows together, by kind; with fewer, a build is not accepted."""
    has_rings: ClassVar[bool] = False
    """Whether large operations take their frames from a ring of buffers, and the recorded accesses show this."""
    never_listed: ClassVar[frozenset[Page]] = frozenset()
    """Pages that `resident` never returns, whether or not they are in the pool."""
    makes_resident_pages: ClassVar[bool] = False
    """Whether a page that is already in the pool can be created again. The server does not count such creations."""

    has_checkpoints: ClassVar[bool] = False
    """Whether one window consists of a checkpoint alone, for the proof of the sites of written pages."""

    @abstractmethod
    def settings(self, build: Build) -> Mapping[str, str]:
        """Return the server variables for the private server."""

    @abstractmethod
    def work(self, connection: Client, seed: int, statements: int) -> None:
        """Do one session's part of a window: reads, changes, growth, pinned pages."""

    @abstractmethod
    def scan(self, connection: Client) -> None:
        """Read the large table from its first to its last page."""

    @abstractmethod
    def grow_and_drop(self, connection: Client, seed: int) -> None:
        """Create a table and drop it, so that pages leave the pool without a search for a victim."""

    def checkpoint(self, connection: Client, build: Build) -> None:
        """Write all dirty pages, and wait until they are counted. Raises EnvironmentLackingError if they are not."""
        raise NotImplementedError

    def counts_sessions_writes(self, build: Build) -> bool:
        """Return whether the counter `write` includes the writes of sessions, besides those of checkpoints."""
        del build
        return True

    @abstractmethod
    def others(self, connection: Client) -> int:
        """Return the number of other client sessions, whose counts are published when they end."""

    @abstractmethod
    def settled(self, connection: Client, build: Build, begun_ns: int) -> Settled:
        """Return the counters once the server has stopped changing them. The session began at `begun_ns`."""

    @abstractmethod
    def compared(self, build: Build, window: str) -> Iterator[tuple[str, ...]]:
        """Yield groups of access kinds whose sum in a window must equal the growth of one counter.

        The counter has the name of the group's first kind.
        """

    @abstractmethod
    def resident(self, connection: Client) -> set[Page]:
        """Return the pages that the server lists in its pool."""

    def prepare_list(self, connection: Client) -> None:  # noqa: B027 - most servers list their pages as they are.
        """Prepare the server so that `resident` works. Raises ServerError if it cannot be prepared."""

    def listing(self, connection: Client) -> tuple[set[Page], int]:
        """Return the pages of `resident`, and the number of pages that the server lists without a name."""
        return self.resident(connection), 0

    def objects(self, connection: Client) -> frozenset[int] | None:
        """Return the numbers of existing objects; None if the records include the evictions of dropped objects'
        pages."""
        del connection
        return None

    def wait_until_alone(self, connection: Client, place: str, seconds: float) -> None:
        """Wait until no other session is left. Raises EnvironmentLackingError if sessions do not end."""
        deadline = time.monotonic() + seconds
        while self.others(connection):
            if time.monotonic() > deadline:
                raise EnvironmentLackingError("the sessions of the private server do not end", place)
            time.sleep(0.02)
