"""Runs the load with which a build is learnt, and reads the server's counters and resident pages at windows' edges.

Windows begin and end at moments when no session works.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass

from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.data_folder import DATABASE
from bufferlab.engines.servers.lesson import CHECKPOINT, SCAN, WITH_DROP, Counted, Lesson, Page
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.learn.private_copy import PrivateCopy

_SESSIONS, _STATEMENTS = 3, 900
_QUIET_SECONDS = 30.0
_LIST_BYTES = 64 << 20
"""The limit of the answer that lists the resident pages, in bytes."""


@dataclass(frozen=True)
class Listed:
    """The server's list of resident pages, and when it was read."""

    begun_ns: int
    """The time just before the query for the list, on the monotonic clock."""
    ended_ns: int
    """The time just after the answer."""
    pages: frozenset[Page]
    objects: frozenset[int] | None
    """The numbers of the existing tables and indexes; None if evictions of dropped objects' pages are recorded like
    others."""
    nameless: int = 0
    """The number of further pages in the pool, which the list does not identify."""


@dataclass(frozen=True)
class Edge:
    """A moment at which no session worked, with the counters (and pages) that bufferlab's session read then."""

    begun_ns: int
    """The earliest time, on the monotonic clock, to which the counters may belong."""
    ended_ns: int
    """The latest time to which the counters may belong.

    From PostgreSQL 15 on it equals `begun_ns`, because a session publishes its counts on request.
    """
    counted: Counted
    listed: Listed | None = None
    """The resident pages; None if they were not queried."""


@contextmanager
def _session(server: PrivateServer) -> Iterator[Client]:
    with closing(server.connect(DATABASE, patient=True)) as connection:
        yield connection


def edge(server: PrivateServer, place: PrivateCopy, *, with_pool: bool = False) -> Edge:
    """Wait until no other session is left, and read the counters; with `with_pool`, also the resident pages.

    Raises EnvironmentLackingError if sessions do not end.
    """
    begun_ns, listed = time.monotonic_ns(), None
    with _session(server) as connection:
        place.lesson.wait_until_alone(connection, str(server.home), _QUIET_SECONDS)
        if with_pool:
            listed = _listed(connection, place.lesson)
        settled = place.lesson.settled(connection, place.build, begun_ns)
    return Edge(*settled, listed)


def resident(server: PrivateServer, lesson: Lesson) -> set[Page]:
    """Return the pages that the server lists as resident."""
    with _session(server) as connection:
        connection.allow_bytes(_LIST_BYTES)
        return set(lesson.resident(connection))


def _listed(connection: Client, lesson: Lesson) -> Listed:
    connection.allow_bytes(_LIST_BYTES)
    # The first query reads the catalogue, which changes the pool, so its answer is not used.
    lesson.resident(connection)
    objects = lesson.objects(connection)
    begun_ns = time.monotonic_ns()
    pages, nameless = lesson.listing(connection)
    return Listed(begun_ns, time.monotonic_ns(), frozenset(pages), objects, nameless)


def worked(server: PrivateServer, place: PrivateCopy, seed: int) -> list[tuple[str, Edge]]:
    """Run the load of all windows of a proof; return their edges, each with the name of the window that it ends."""
    lesson = place.lesson
    edges = [("start", edge(server, place, with_pool=True))]
    mixed(server, lesson, seed)
    edges.append(("mixed load", edge(server, place)))
    with _session(server) as connection:
        lesson.scan(connection)
    edges.append((SCAN, edge(server, place)))
    if lesson.has_checkpoints:
        with _session(server) as connection:
            lesson.checkpoint(connection, place.build)
        edges.append((CHECKPOINT, edge(server, place)))
    with _session(server) as connection:
        lesson.grow_and_drop(connection, seed)
    mixed(server, lesson, seed + 1000)
    edges.append((WITH_DROP, edge(server, place, with_pool=True)))
    return edges


def mixed(server: PrivateServer, lesson: Lesson, seed: int, statements: int = _STATEMENTS) -> None:
    """Run several sessions concurrently, each with this number of statements."""

    def one(number: int) -> None:
        with _session(server) as connection:
            lesson.work(connection, 100 * seed + number, statements)

    with ThreadPoolExecutor(_SESSIONS) as pool:
        list(pool.map(one, range(_SESSIONS)))
