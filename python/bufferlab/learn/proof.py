"""Compares the accesses recorded at a build's sites with the server's own counters and its list of resident pages.

Counters cannot see a wrong register, and the list can: the pool that follows from the recorded reads, creations and
evictions alone must be the pool that the server lists. Windows begin and end while no session works.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from bufferlab.engines.postgres import learning
from bufferlab.engines.postgres.learning import Counted, Page
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.data_folder import DATABASE
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import EnvironmentLackingError
from bufferlab.results.trace_words import page_trace_words
from bufferlab.units import format_percent

Recorder = Literal["inside", "links"]

_SESSIONS, _STATEMENTS = 3, 900
_OFF: Mapping[str, float] = {"get": 0.001, "read": 0.001, "create": 0.01, "evict": 0.002}
"""The share by which a recorded number may differ from the counted one, by kind; all were equal in trials."""
_CAME_AGAIN = 0.002
"""The largest share, of the pages that come, of those that the trace has in the pool already."""
_ABSENT = 0.002
"""The largest share of gets without a read whose pages the trace has not in the pool: none were in trials."""
_RINGS = 0.95
"""The least share of a scan's reads that must show its ring, and of other gets and reads that must show none."""
_QUIET_SECONDS = 30.0
_WITH_DROP = "load with DROP"
_COMES = ("read", "create")
"""The accesses with which a page comes into the pool."""
_RING, _NO_RING, _BULK_READ = 12, 4, 8
"""The ring's bits of the column `latch`, and two of their values (crates/bufferlab-model/src/trace.rs)."""


@dataclass(frozen=True)
class Listed:
    """The server's list of resident pages."""

    begun_ns: int
    """Before it was asked, on the monotonic clock."""
    ended_ns: int
    """After the answer."""
    pages: frozenset[Page]
    relations: frozenset[int]
    """The relations that existed, by their file's number."""


@dataclass(frozen=True)
class Edge:
    """A moment at which no session worked, and what a session of ours found then."""

    begun_ns: int
    """The first moment, on the monotonic clock, to which the counters may belong."""
    ended_ns: int
    """The last one. From 15 on it is the first: a session publishes its counts when it is asked to."""
    counted: Counted
    listed: Listed | None = None
    """The resident pages; None where they were not asked for."""


@dataclass(frozen=True)
class Compared:
    """One kind of access in one window."""

    window: str
    kind: str
    recorded: int
    """Accesses between our sessions at the window's edges."""
    recorded_at_most: int
    """These, and those of our sessions."""
    counted: int

    @property
    def wrong(self) -> str | None:
        """The sentence that says how far recorded and counted numbers differ; None if they agree."""
        off = 1 + max(_OFF[kind] for kind in self.kind.split(" + ")) * self.counted
        if self.recorded - off <= self.counted <= self.recorded_at_most + off:
            return None
        return f"{self.window}: {self.recorded:,} of kind {self.kind} were recorded, and {self.counted:,} counted"


@dataclass(frozen=True)
class Resident:
    """Numbers of resident pages at the end of a run."""

    both: int = 0
    """Those that the server lists and the trace foretells."""
    listed: int = 0
    """Those that the server lists."""
    foretold: int = 0
    """Those that follow from the recorded accesses alone."""


@dataclass
class Proof:
    """The comparisons of one run of a private server."""

    by: Recorder
    """The recorder: code in the server, or the kernel's links."""
    compared: list[Compared] = field(default_factory=list)
    resident_pages: Resident = field(default_factory=Resident)
    came_again: int = 0
    """Reads and creations of pages that the trace had in the pool."""
    absent: int = 0
    """Gets without a read of pages that the trace had not in the pool."""
    wrong: list[str] = field(default_factory=list)
    """What disagrees, in sentences; empty for a build that is proved."""

    def told(self) -> dict[str, Any]:
        """Return the numbers for an entry."""
        return asdict(self)


@contextmanager
def _session(server: PrivateServer) -> Iterator[Client]:
    connection = server.connect(DATABASE, patient=True)
    try:
        yield connection
    finally:
        connection.close()


def edge(server: PrivateServer, *, with_pool: bool = False) -> Edge:
    """Wait until no other session is left, and read the counters; with `with_pool` the resident pages, too.

    Raises EnvironmentLackingError when sessions do not end.
    """
    major = server.build.numbers[0]
    deadline = time.monotonic() + _QUIET_SECONDS
    begun_ns, listed = time.monotonic_ns(), None
    with _session(server) as connection:
        while learning.others(connection):
            if time.monotonic() > deadline:
                raise EnvironmentLackingError("the sessions of the private server do not end", str(server.home))
            time.sleep(0.02)
        if with_pool:
            listed = _listed(connection)
        if is_exact := learning.published(connection, major):
            begun_ns = time.monotonic_ns()
        counted = learning.counted(connection, major)
    return Edge(begun_ns, begun_ns if is_exact else time.monotonic_ns(), counted, listed)


def _listed(connection: Client) -> Listed:
    connection.allow_bytes(64 << 20)
    # The first question reads the catalogue, which changes the pool.
    learning.resident(connection)
    relations = frozenset(learning.relations(connection))
    begun_ns = time.monotonic_ns()
    pages = frozenset(learning.resident(connection))
    return Listed(begun_ns, time.monotonic_ns(), pages, relations)


def worked(server: PrivateServer, seed: int) -> list[tuple[str, Edge]]:
    """Do the windows of a proof; return the edges, each with the name of the window that it ends."""
    edges = [("start", edge(server, with_pool=True))]
    _mixed(server, seed)
    edges.append(("mixed load", edge(server)))
    with _session(server) as connection:
        learning.scan(connection)
    edges.append(("scan", edge(server)))
    with _session(server) as connection:
        learning.grow_and_drop(connection, seed)
    _mixed(server, seed + 1000)
    edges.append((_WITH_DROP, edge(server, with_pool=True)))
    return edges


def _mixed(server: PrivateServer, seed: int) -> None:
    def one(number: int) -> None:
        with _session(server) as connection:
            learning.work(connection, 100 * seed + number, _STATEMENTS)

    with ThreadPoolExecutor(_SESSIONS) as pool:
        list(pool.map(one, range(_SESSIONS)))


class Records:
    """The records of a trace, with the page of each."""

    def __init__(self, records: np.ndarray[Any, Any], relations: Sequence[Sequence[int]]) -> None:
        """`relations`: (tablespace, database, relation, fork) of each object, by its number."""
        self.records, self.relations = records, [tuple(one) for one in relations]

    def between(self, first_ns: int, last_ns: int) -> np.ndarray[Any, Any]:
        """Return the records of a time on the monotonic clock."""
        first, end = np.searchsorted(self.records["t_ns"], np.asarray([first_ns, last_ns], np.uint64))
        return self.records[int(first) : int(end)]

    def victims(self, sites: Sequence[Mapping[str, Any]], edges: Sequence[tuple[str, Edge]]) -> set[int]:
        """Return the numbers of the evictions' sites that a load without DROP passes."""
        before, after = edges[0][1], edges[2][1]
        passed = np.unique(self.between(before.begun_ns, after.ended_ns)["site"])
        return {int(number) for number in passed if sites[int(number)]["kinds"] == ["evict"]}


def proved(by: Recorder, records: Records, edges: Sequence[tuple[str, Edge]], *, is_empty: bool, major: int) -> Proof:
    """Compare a run. `is_empty`: the recorder was on from the server's start, so that the pool began empty."""
    proof = Proof(by)
    for (_, before), (name, after) in pairwise(edges):
        inside = records.between(before.ended_ns, after.begun_ns)
        around = records.between(before.begun_ns, after.ended_ns)
        # Up to 15 the counts of a dropped table are lost that its session had not published.
        counters = _counters(before.counted, after.counted, major) if major >= 16 or name != _WITH_DROP else ()
        for kinds, grown in counters:
            proof.compared.append(
                Compared(name, " + ".join(kinds), _number(inside, kinds), _number(around, kinds), grown)
            )
        _rings(name, inside, proof)
    _resident(records, edges, proof, is_empty=is_empty)
    for kind, least in learning.LEAST_RECORDED.items():
        found = _number(records.between(edges[0][1].ended_ns, edges[-1][1].begun_ns), (kind,))
        if found < least:
            proof.wrong.append(f"{found:,} of kind {kind} were recorded, which is too few to judge")
    proof.wrong.extend(one.wrong for one in proof.compared if one.wrong)
    return proof


def _counters(before: Counted, after: Counted, major: int) -> Iterator[tuple[tuple[str, ...], int]]:
    growth = () if major >= 16 else ("create",)  # Up to 15 a page of growth counts as one that was not in the pool.
    yield ("get", *growth), after.get - before.get
    yield ("read", *growth), after.read - before.read
    if before.create is not None and after.create is not None:
        yield ("create",), after.create - before.create
    if before.evict is not None and after.evict is not None:
        yield ("evict",), after.evict - before.evict


def _number(records: np.ndarray[Any, Any], kinds: Sequence[str]) -> int:
    names = page_trace_words().kinds
    return int(np.isin(records["kind"], [names.index(kind) for kind in kinds]).sum())


def _rings(window: str, records: np.ndarray[Any, Any], proof: Proof) -> None:
    """Note a window whose accesses do not show the ring that they have."""
    # A scan gets pages of the catalogue, too.
    is_scan = window == "scan"
    wanted, what = (_BULK_READ, "the ring of a scan") if is_scan else (_NO_RING, "that they have no ring")
    for kind in ["read"] if is_scan else ["get", "read"]:
        found = records[records["kind"] == page_trace_words().kinds.index(kind)]
        share = float((found["latch"] & _RING == wanted).mean()) if len(found) else 0.0
        if share < _RINGS:
            proof.wrong.append(f"{window}: {format_percent(share)} of the {kind}s show {what}")


def _resident(records: Records, edges: Sequence[tuple[str, Edge]], proof: Proof, *, is_empty: bool) -> None:
    """Compare the pool that the trace foretells with the server's list at the last edge."""
    kinds = page_trace_words().kinds
    first, last = edges[0][1].listed, edges[-1][1].listed
    assert first
    assert last
    pool = set() if is_empty else set(first.pages)
    numbers = Counter[str]()

    def accesses(first_ns: int, last_ns: int) -> Iterator[tuple[str, Page]]:
        found = records.between(first_ns, last_ns)
        for kind, thing, page in zip(*(found[name].tolist() for name in ("kind", "object", "page")), strict=True):
            yield kinds[kind], (*records.relations[thing], page)

    for kind, page in accesses(0 if is_empty else first.ended_ns, last.begun_ns):
        numbers[kind] += 1
        if kind == "evict":
            pool.discard(page)
        elif kind in _COMES:
            proof.came_again += page in pool
            pool.add(page)
        elif kind == "get":
            proof.absent += page not in pool
    # The get of a page that is read comes before its read.
    proof.absent = max(proof.absent - numbers["read"], 0)
    came = sum(numbers[kind] for kind in _COMES)
    if proof.came_again > _CAME_AGAIN * max(came, 1):
        proof.wrong.append(f"{proof.came_again:,} of {came:,} pages came that the trace has in the pool already")
    if proof.absent > _ABSENT * max(numbers["get"], 1):
        proof.wrong.append(
            f"{proof.absent:,} of {numbers['get']:,} gets are of pages that the trace has not in the pool"
        )
    foretold = {page for page in pool if page[2] in last.relations}
    proof.resident_pages = Resident(len(foretold & last.pages), len(last.pages), len(foretold))
    # The question itself may move a page.
    moved = {page for kind, page in accesses(last.begun_ns, last.ended_ns) if kind == "evict" or kind in _COMES}
    if differ := (foretold ^ last.pages) - moved:
        listed = f"{len(last.pages):,} that the server lists"
        proof.wrong.append(f"{len(differ):,} pages differ between the trace's pool and the {listed}")
