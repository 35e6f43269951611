"""Runs a private server under the load of `Lesson`, and returns the accesses recorded at candidate sites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from bufferlab.engines.native import native
from bufferlab.engines.servers.page_sites import PageSites, Recording
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import EnvironmentLackingError
from bufferlab.learn import windows
from bufferlab.learn.private_copy import PrivateCopy
from bufferlab.learn.records import Records
from bufferlab.live import live_trace
from bufferlab.live.live_trace import LiveTrace
from bufferlab.results.trace_words import page_trace_words

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
