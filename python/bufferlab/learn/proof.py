"""Compares the accesses recorded at a build's sites with the server's own counters and its list of resident pages.

Counters cannot reveal a wrong register, but the list can: the pool derived from the recorded reads, creations and
evictions must equal the pool that the server lists. Measuring windows begin and end while no session works.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.data_folder import DATABASE
from bufferlab.engines.servers.lesson import WITH_DROP, Counted, Lesson, Page
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.learn.private_copy import PrivateCopy
from bufferlab.results.trace_words import page_trace_words
from bufferlab.units import format_percent

Recorder = Literal["inside", "links"]

_SESSIONS, _STATEMENTS = 3, 900
_OFF: Mapping[str, float] = {"get": 0.001, "get_if_in_pool": 0.001, "read": 0.001, "create": 0.01, "evict": 0.002}
"""The largest relative difference between a recorded and a counted number, by kind; in trials all were equal."""
_LOST: Mapping[str, float] = {"get_if_in_pool": 0.005}
"""The fraction of gets that the server's counter may miss.

MySQL before 9 raises its counter without a lock, so simultaneous increments get lost (0.19 % of three sessions' gets on
an idle host of two processors).
"""
_CAME_AGAIN = 0.002
"""The largest fraction of reads and creations whose page is already in the pool according to the trace."""
_ABSENT = 0.002
"""The largest fraction of gets without a read whose page is not in the pool according to the trace; 0 in trials."""
_RINGS = 0.9
"""The least fraction of a scan's reads that must show its buffer ring, and of other gets and reads that must show none.

The new session of a scan reads the catalogue without a ring: on PostgreSQL 19rc1 these were 5.1 % of 1,900 reads.
"""
_QUIET_SECONDS = 30.0
_COMES = ("read", "create")
"""The kinds of accesses that bring a page into the pool."""
_RING, _NO_RING, _BULK_READ = 12, 4, 8
"""The bits for the ring in the column `latch`, and two of their values (crates/bufferlab-model/src/trace.rs)."""


@dataclass(frozen=True)
class Listed:
    """The server's list of resident pages, and when it was read."""

    begun_ns: int
    """The time just before the query for the list, on the monotonic clock."""
    ended_ns: int
    """The time just after the answer."""
    pages: frozenset[Page]
    objects: frozenset[int] | None
    """The numbers of the existing objects; None if evictions of dropped objects' pages are recorded like others."""
    nameless: int = 0
    """The number of other pages in the pool that the list does not identify."""


@dataclass(frozen=True)
class Edge:
    """A moment at which no session worked, with the counters (and pages) that our session read then."""

    begun_ns: int
    """The earliest time, on the monotonic clock, to which the counters may belong."""
    ended_ns: int
    """The latest such time. From PostgreSQL 15 on both are equal: a session publishes its counts on request."""
    counted: Counted
    listed: Listed | None = None
    """The resident pages; None if they were not queried."""


@dataclass(frozen=True)
class Compared:
    """The recorded and the counted number of one kind of access in one window."""

    window: str
    kind: str
    recorded: int
    """The accesses recorded between our two sessions at the window's edges."""
    recorded_at_most: int
    """The same, plus the accesses of these two sessions."""
    counted: int
    unlisted: int = 0
    """The pages in the pool at the beginning that the server did not list.

    Their creation looks like that of a new page.
    """

    @property
    def wrong(self) -> str | None:
        """Return a sentence on how far recorded and counted numbers differ; None if they agree."""
        kinds = self.kind.split(" + ")
        off = 1 + max(_OFF[kind] for kind in kinds) * self.counted
        lost = max(_LOST.get(kind, 0.0) for kind in kinds) * self.counted
        unlisted = self.unlisted if kinds == ["create"] else 0
        if self.recorded - off - lost - unlisted <= self.counted <= self.recorded_at_most + off:
            return None
        return f"{self.window}: {self.recorded:,} of kind {self.kind} were recorded, and {self.counted:,} counted"


@dataclass(frozen=True)
class Resident:
    """The numbers of resident pages at the end of a run."""

    both: int = 0
    """Pages that both the server's list and the trace have in the pool."""
    listed: int = 0
    """Pages in the server's list."""
    foretold: int = 0
    """Pages in the pool according to the recorded accesses alone."""


@dataclass
class Proof:
    """The comparisons for one run of a private server."""

    by: Recorder
    """The recorder: code inside the server ("inside"), or the kernel's probes ("links")."""
    compared: list[Compared] = field(default_factory=list)
    resident_pages: Resident = field(default_factory=Resident)
    came_again: int = 0
    """Reads and creations of pages that were in the pool already, according to the trace."""
    absent: int = 0
    """Gets without a read of pages that were not in the pool, according to the trace."""
    wrong: list[str] = field(default_factory=list)
    """Sentences on everything that disagrees; empty for a proved build."""

    def told(self) -> dict[str, Any]:
        """Return the comparisons as a dictionary for an entry."""
        return asdict(self)


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


def _listed(connection: Client, lesson: Lesson) -> Listed:
    connection.allow_bytes(64 << 20)
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
    edges.append(("scan", edge(server, place)))
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


class Records:
    """The records of a trace, with the page of each."""

    def __init__(
        self, records: np.ndarray[Any, Any], relations: Sequence[Sequence[int]], uncounted: Sequence[int] = ()
    ) -> None:
        """`relations` has (tablespace, database, relation, fork) of each object, by the object's number.

        `uncounted` has the numbers of the sites whose accesses the server does not count.
        """
        self.records, self.relations, self.uncounted = records, [tuple(one) for one in relations], uncounted

    def pages(self, records: np.ndarray[Any, Any]) -> list[Page]:
        """Return the page of each of these records."""
        names = self.relations or None
        objects, pages = records["object"].tolist(), records["page"].tolist()
        return [(*(names[thing] if names else (thing,)), page) for thing, page in zip(objects, pages, strict=True)]

    def between(self, first_ns: int, last_ns: int) -> np.ndarray[Any, Any]:
        """Return the records between two times on the monotonic clock."""
        first, end = np.searchsorted(self.records["t_ns"], np.asarray([first_ns, last_ns], np.uint64))
        return self.records[int(first) : int(end)]

    def counted(self, records: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return those of the records that the server counts."""
        return records[~np.isin(records["site"], self.uncounted)]

    def victims(self, sites: Sequence[Mapping[str, Any]], edges: Sequence[tuple[str, Edge]]) -> set[int]:
        """Return the numbers of the eviction sites that were executed by a load without DROP."""
        before, after = edges[0][1], edges[2][1]
        passed = np.unique(self.between(before.begun_ns, after.ended_ns)["site"])
        return {int(number) for number in passed if sites[int(number)]["kinds"] == ["evict"]}


def proved(
    by: Recorder, records: Records, edges: Sequence[tuple[str, Edge]], lesson: Lesson, build: Build, *, is_empty: bool
) -> Proof:
    """Compare the records of a run with the server; return the proof.

    `is_empty` is True if the recorder was on from the server's start, so that the pool began empty.
    """
    proof = Proof(by)
    _follow(records, edges, proof, lesson, is_empty=is_empty)
    first = edges[0][1].listed
    unlisted = first.nameless if first and not is_empty else 0
    for (_, before), (name, after) in pairwise(edges):
        inside = records.between(before.ended_ns, after.begun_ns)
        around = records.between(before.begun_ns, after.ended_ns)
        for kinds in lesson.compared(build, name):
            now, then = getattr(after.counted, kinds[0]), getattr(before.counted, kinds[0])
            if now is not None:
                told = (_number(records.counted(inside), kinds), _number(records.counted(around), kinds), now - then)
                proof.compared.append(Compared(name, " + ".join(kinds), *told, unlisted))
        if lesson.has_rings:
            _rings(name, inside, proof)
    whole = records.between(edges[0][1].ended_ns, edges[-1][1].begun_ns)
    for kind, least in lesson.least_recorded.items():
        if (found := _number(whole, (kind,))) < least:
            proof.wrong.append(f"{found:,} of kind {kind} were recorded, which is too few to judge")
    proof.wrong.extend(one.wrong for one in proof.compared if one.wrong)
    return proof


def _number(records: np.ndarray[Any, Any], kinds: Sequence[str]) -> int:
    names = page_trace_words().kinds
    return int(np.isin(records["kind"], [names.index(kind) for kind in kinds]).sum())


def _rings(window: str, records: np.ndarray[Any, Any], proof: Proof) -> None:
    """Report a window in which too few accesses show the buffer ring that they should use."""
    # A scan also gets catalogue pages.
    is_scan = window == "scan"
    wanted, what = (_BULK_READ, "the ring of a scan") if is_scan else (_NO_RING, "that they have no ring")
    for kind in ["read"] if is_scan else ["get", "read"]:
        found = records[records["kind"] == page_trace_words().kinds.index(kind)]
        share = float((found["latch"] & _RING == wanted).mean()) if len(found) else 0.0
        if share < _RINGS:
            proof.wrong.append(f"{window}: {format_percent(share)} of the {kind}s show {what}")


def _follow(
    records: Records, edges: Sequence[tuple[str, Edge]], proof: Proof, lesson: Lesson, *, is_empty: bool
) -> None:
    """Compare the pool according to the trace with the server's list at the last edge.

    Creations of pages that are already in the pool, which the server does not count, do not count as creations.
    """
    first, last = edges[0][1].listed, edges[-1][1].listed
    assert first
    assert last
    kinds = page_trace_words().kinds
    pool = set() if is_empty else set(first.pages)
    numbers = Counter[str]()
    start, end = np.searchsorted(
        records.records["t_ns"], np.asarray([0 if is_empty else first.ended_ns, last.begun_ns], np.uint64)
    )
    followed = records.records[start:end]
    made_again = []
    for number, (code, page) in enumerate(zip(followed["kind"].tolist(), records.pages(followed), strict=True)):
        kind = kinds[code]
        if kind == "create" and page in pool and lesson.makes_resident_pages:
            made_again.append(number)
            continue
        numbers[kind] += 1
        if kind == "evict":
            pool.discard(page)
        elif kind in _COMES:
            proof.came_again += page in pool
            pool.add(page)
        elif kind == "get":
            proof.absent += page not in pool
    followed["kind"][made_again] = kinds.index("drop")
    # For a page that is read, its get is recorded before its read.
    proof.absent = max(proof.absent - numbers["read"], 0)
    came = sum(numbers[kind] for kind in _COMES)
    if proof.came_again > _CAME_AGAIN * max(came, 1):
        proof.wrong.append(f"{proof.came_again:,} of {came:,} pages came that the trace has in the pool already")
    if proof.absent > _ABSENT * max(numbers["get"], 1):
        proof.wrong.append(
            f"{proof.absent:,} of {numbers['get']:,} gets are of pages that the trace has not in the pool"
        )
    foretold = {page for page in pool - lesson.never_listed if last.objects is None or page[2] in last.objects}
    proof.resident_pages = Resident(len(foretold & last.pages), len(last.pages), len(foretold))
    # The query for the list may itself move pages.
    meanwhile = records.between(last.begun_ns, last.ended_ns)
    codes = [kinds.index(kind) for kind in (*_COMES, "evict")]
    moved = set(records.pages(meanwhile[np.isin(meanwhile["kind"], codes)]))
    differ = (foretold ^ last.pages) - moved
    # It is unknown which pages the list does not identify, but not how many they are.
    beyond = len(foretold - last.pages - moved)
    if len(differ) > (beyond if beyond <= last.nameless else 0):
        listed = f"{len(last.pages):,} that the server lists"
        proof.wrong.append(f"{len(differ):,} pages differ between the trace's pool and the {listed}")
