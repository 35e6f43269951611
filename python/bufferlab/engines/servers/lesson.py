"""What a private server is asked while bufferlab learns its build: the load, its counters, its resident pages."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.errors import EnvironmentLackingError

Page = tuple[int, ...]
"""A page: PostgreSQL's tablespace, database, relation, fork and block; InnoDB's tablespace and number."""
WITH_DROP = "load with DROP"
"""The window in which a table is dropped."""


class Counted(NamedTuple):
    """The server's counters at one moment, in pages since its start."""

    get: int
    read: int
    create: int | None
    evict: int | None
    """Pages that made room for others; None where the server counts none, nor creations."""


class Settled(NamedTuple):
    """Counters, and the moments on the monotonic clock between which they were true."""

    begun_ns: int
    ended_ns: int
    counted: Counted


class Lesson(ABC):
    """A family's load for a private server that learns, and the questions about what the load did to the pool.

    The load has what makes attempts fail: dirty pages, pinned pages, a pool that is much smaller than the data, several
    sessions, a table that is dropped.
    """

    programs: ClassVar[tuple[str, ...]]
    """The names of the programs that are copied; the first is that of the server."""
    page_size_bytes: ClassVar[int]
    make: ClassVar[tuple[str, ...]]
    """The statements that make the data."""
    least_recorded: ClassVar[Mapping[str, int]] = {"get": 5000, "read": 1000, "create": 100, "evict": 1000}
    """The accesses that the windows together must have at least, by kind, before a build is believed."""
    has_rings: ClassVar[bool] = False
    """Whether large operations take their frames from a ring, which the records show."""
    never_listed: ClassVar[frozenset[Page]] = frozenset()
    """Pages that `resident` leaves out, whether they are in the pool or not."""
    makes_resident_pages: ClassVar[bool] = False
    """Whether a creation may be of a page that is in the pool already. Only the others are counted."""

    @abstractmethod
    def settings(self, build: Build) -> Mapping[str, str]:
        """Return the settings of the private server, by its names."""

    @abstractmethod
    def work(self, connection: Client, seed: int, statements: int) -> None:
        """Do a session's part of a window: reads, changes, growth, pinned pages."""

    @abstractmethod
    def scan(self, connection: Client) -> None:
        """Read the large table from its first to its last page."""

    @abstractmethod
    def grow_and_drop(self, connection: Client, seed: int) -> None:
        """Make a table and drop it, so that pages leave without a victim being looked for."""

    @abstractmethod
    def others(self, connection: Client) -> int:
        """Return the number of other sessions of clients: their counts are published when they end."""

    @abstractmethod
    def settled(self, connection: Client, build: Build, begun_ns: int) -> Settled:
        """Return the counters once nothing in the server moves them. The session began at `begun_ns`."""

    @abstractmethod
    def compared(self, build: Build, window: str) -> Iterator[tuple[str, ...]]:
        """Yield the kinds of accesses whose sum in a window is the growth of the counter named as the first of them."""

    @abstractmethod
    def resident(self, connection: Client) -> set[Page]:
        """Return the pages that the server lists in its pool."""

    def prepare_list(self, connection: Client) -> None:  # noqa: B027 - most servers list their pages as they are.
        """Make `resident` possible. Raises ServerError where it is not."""

    def listing(self, connection: Client) -> tuple[set[Page], int]:
        """Return the pages of `resident`, and the number of further pages that the server lists without a name."""
        return self.resident(connection), 0

    def objects(self, connection: Client) -> frozenset[int] | None:
        """Return the numbers of the objects that exist, where pages of dropped ones leave unseen; else None."""
        del connection
        return None

    def wait_until_alone(self, connection: Client, place: str, seconds: float) -> None:
        """Wait until no other session is left. Raises EnvironmentLackingError when sessions do not end."""
        deadline = time.monotonic() + seconds
        while self.others(connection):
            if time.monotonic() > deadline:
                raise EnvironmentLackingError("the sessions of the private server do not end", place)
            time.sleep(0.02)
