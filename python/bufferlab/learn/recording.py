"""Runs a private server under the load of `Lesson`, and returns the accesses recorded at candidate sites.

`Compared` compares the numbers of records with the server's counters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bufferlab.engines.native import native
from bufferlab.engines.servers.lesson import Page
from bufferlab.engines.servers.page_sites import PageSites, Recording
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import EnvironmentLackingError
from bufferlab.learn import windows
from bufferlab.learn.private_copy import PrivateCopy
from bufferlab.learn.windows import Edge
from bufferlab.live import live_trace
from bufferlab.live.live_trace import LiveTrace
from bufferlab.results.trace_words import page_trace_words

_OFF: Mapping[str, float] = {
    "get": 0.001, "get_if_in_pool": 0.001, "read": 0.001, "create": 0.01, "evict": 0.002, "write": 0.002,
}  # fmt: skip
"""Kind -> the largest relative difference between the recorded and the counted number; in trials all were equal."""
_LOST: Mapping[str, float] = {"get_if_in_pool": 0.005}
"""Kind -> the fraction of accesses that the server's counter may miss.

MySQL before 9 raises its counter without a lock, so simultaneous increments get lost (0.19 % of three sessions' gets on
an idle host of two processors).
"""


@dataclass(frozen=True)
class Compared:
    """The recorded and the counted number of one kind of access in one window."""

    window: str
    kind: str
    recorded: int
    """The accesses recorded in the window, without those of bufferlab's sessions that query the server at its edges."""
    recorded_at_most: int
    """The accesses recorded in the window, including those of bufferlab's two sessions at its edges."""
    counted: int
    unlisted: int = 0
    """The pages that were in the pool at the beginning, but that the server did not list.

    If such a page is created again, the trace treats it as a new page.
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
        """Return the records whose accesses the server counts."""
        return records[~np.isin(records["site"], self.uncounted)]

    def victims(self, sites: Sequence[Mapping[str, Any]], edges: Sequence[tuple[str, Edge]]) -> set[int]:
        """Return the numbers of the eviction sites that executed under a load without DROP: these make room for
        pages."""
        before, after = edges[0][1], edges[2][1]
        passed = np.unique(self.between(before.begun_ns, after.ended_ns)["site"])
        return {int(number) for number in passed if sites[int(number)]["kinds"] == ["evict"]}


def number_of(records: np.ndarray[Any, Any], kinds: Sequence[str]) -> int:
    """Return how many of the records are of these kinds."""
    return len(of_kinds(records, kinds))


def of_kinds(records: np.ndarray[Any, Any], kinds: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return those of the records that are of these kinds, in their order."""
    names = page_trace_words().kinds
    return records[np.isin(records["kind"], [names.index(kind) for kind in kinds])]


_SPOOL_BYTES = 64 << 20
Windows = tuple[Records, list[tuple[str, windows.Edge]]]
"""The records, and the windows' edges; each edge has the name of the window that ends there."""


def links_work() -> bool:
    """Return whether this user and kernel can record by kernel probes.

    If not, only code in the server proves a build.
    """
    with suppress(Exception):
        native().live_trace_check()
        return True
    return False


def server_settings(place: PrivateCopy, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the server's settings for these sites.

    If no site records gets through the adaptive hash index, this index is off.
    """
    asked = dict(place.lesson.settings(place.build))
    if "innodb_adaptive_hash_index" in asked and not any(site.get("hash_index") for site in settings["site"]):
        asked["innodb_adaptive_hash_index"] = "OFF"
    return asked


def inside(place: PrivateCopy, settings: Mapping[str, Any], seed: int) -> Windows:
    """Run a server that records its own accesses from its start on; return its records and the windows' edges."""
    spool = place.folder / f"records-{seed}"
    spool.unlink(missing_ok=True)  # The file may be left from an attempt with other sites.
    asked = {"required": True, "spool": {"path": str(spool), "limit_bytes": _SPOOL_BYTES}}
    trace = Recording(_sites(settings), place.build, asked, lambda event: None)
    try:
        with place.server(server_settings(place, settings), trace) as server:
            edges = windows.worked(server, place, seed)
        told = trace.added_to({"recorded": {"page_trace": {}}})["recorded"]["page_trace"]
    finally:
        trace.close()
    return _records(spool, told, settings), edges


def by_links(place: PrivateCopy, settings: Mapping[str, Any], seed: int) -> Windows:
    """Record a running server by the kernel's probes, as `advise` attaches them; return records and windows' edges."""
    spool = place.folder / f"records-{seed}"
    with place.server(server_settings(place, settings)) as server, attached(place, server, settings, spool) as trace:
        edges = windows.worked(server, place, seed)
        return _records(spool, trace.finish(), settings), edges


@contextmanager
def attached(
    place: PrivateCopy, server: PrivateServer, settings: Mapping[str, Any], spool: Path
) -> Iterator[LiveTrace]:
    """Context manager that attaches the kernel's probes to a server's sites, and yields the trace."""
    binary, sites = Path(f"/proc/{server.pid}/root") / str(place.build.binary).lstrip("/"), _sites(settings)
    stop_us = live_trace.stop_us(place.family.flavour, "full")
    forks = place.family.flavour == "postgres"
    plan = live_trace.SitePlan(server.pid, "full", sites.server, binary, str(binary), False, sites, stop_us, forks)
    with live_trace.attach(plan, spool, events_per_s_max=1e9, limit_bytes=_SPOOL_BYTES) as trace:
        yield trace


def recorded(spool: Path, trace: LiveTrace, settings: Mapping[str, Any]) -> Records:
    """End a trace and return its records. Raises EnvironmentLackingError if they are incomplete."""
    return _records(spool, trace.finish(), settings)


def _sites(settings: Mapping[str, Any]) -> PageSites:
    return PageSites("the learnt build", dict(settings))


def _records(spool: Path, told: Mapping[str, Any], settings: Mapping[str, Any]) -> Records:
    if told.get("problem") or told.get("lost") or told.get("over_limit_bytes") is not None:
        what = told.get("problem") or f"{told.get('lost', 0):,} records were lost"
        raise EnvironmentLackingError(
            f"the build cannot be learnt here: {what}", str(spool), "try again on an idle host"
        )
    dtype = np.dtype(list(page_trace_words().record))
    return Records(np.fromfile(spool, dtype), told["relations"], _sites(settings).uncounted)
