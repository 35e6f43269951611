"""Learns a build: proposes sites, drops wrong evictions, proves the rest from inside and by links, and keeps them."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bufferlab import marked
from bufferlab.engines import registry
from bufferlab.engines.native import native
from bufferlab.engines.postgres import learning as load
from bufferlab.engines.postgres import programs
from bufferlab.engines.servers import learnt, page_sites
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import ServerError
from bufferlab.engines.servers.learnt import LearntEntry
from bufferlab.engines.servers.page_sites import PageSites, Recording
from bufferlab.errors import BufferlabError, EnvironmentLackingError, SpecError
from bufferlab.learn import candidates, private_copy, proof
from bufferlab.learn.private_copy import PrivateCopy
from bufferlab.learn.proof import Proof, Records
from bufferlab.live import live_trace
from bufferlab.results.trace_words import page_trace_words

_PREFIX = "learning-"
_SPOOL_BYTES = 64 << 20
_FREE_BYTES = 1 << 30
"""The most bytes that learning takes on the disk: programs, data, log and records."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Learnt:
    """The outcome for one build."""

    build: Build
    entry: LearntEntry
    proofs: tuple[Proof, ...]
    seconds: float

    @property
    def wrong(self) -> list[str]:
        """What disagrees, in sentences; empty if the build was accepted."""
        return [f"by the recorder {one.by}, {what}" for one in self.proofs for what in one.wrong]


def learn(binary: Path, say: Say) -> Learnt:
    """Learn the build of a binary and return the outcome, which is not kept yet. `say` gets a sentence for each step.

    Raises BufferlabError when this host, or this build, cannot be learnt.
    """
    started = time.monotonic()
    page_sites.require_processor()
    build = programs.by_path(binary)
    if not str(build.binary).isprintable():
        what = "the core takes no path with bytes that are not UTF-8, or cannot be printed"
        raise SpecError(what, str(build.binary), "name it by a link of another name")
    work = _workplace()
    try:
        outcome = _learnt(build, work, say, started)
    except ServerError as error:
        what = f"the build cannot be learnt here: {error}"
        raise EnvironmentLackingError(what, str(work), "free some space there, or try again") from error
    if page_sites.text_sha256(build.binary) != outcome.entry.text_sha256:
        what = "the program was replaced while it was learnt"
        raise EnvironmentLackingError(what, str(build.binary), "learn the new one: bufferlab learn BINARY")
    return outcome


def _learnt(build: Build, work: Path, say: Say, started: float) -> Learnt:
    family = registry.family("postgres")
    with marked.folder(work, f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}", 0o711) as folder:
        private_copy.require_reachable(build, folder)
        copy = private_copy.copied(build, folder / "install")
        # The original may be replaced meanwhile.
        settings, digest = candidates.proposed(copy.binary, build.binary), page_sites.text_sha256(copy.binary)
        say(f"making a private server of PostgreSQL {build.version} from a copy of its programs")
        place = private_copy.made(family, copy, build.binary, folder, lambda event: None)
        say("recording which evictions are for want of room")
        records, edges = _inside(place, settings, 1)
        settings = candidates.with_evictions(settings, records.victims(settings["site"], edges))
        say("comparing by code in the server")
        proofs = [_judged_inside(place, settings, 2)]
        if not proofs[0].wrong and _links_work():
            say("comparing by the kernel's links")
            proofs.append(_judged_by_links(place, settings, 3))
    wrong = [one for each in proofs for one in each.wrong]
    by = [] if wrong else [one.by for one in proofs]
    told = {"by": by, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "settings": dict(load.SETTINGS),
            "runs": [one.told() for one in proofs]}  # fmt: skip
    entry = LearntEntry(f"PostgreSQL {build.version}", digest, settings, told)
    return Learnt(build, entry, tuple(proofs), time.monotonic() - started)


def _workplace() -> Path:
    """Return the folder of private copies, without those that killed learners left. Raises EnvironmentLackingError."""
    work = learnt.folder().parent / "learning"
    if any(one in str(work) for one in " :$"):
        what = "the loader of a server takes no path with spaces, colons or dollars"
        raise EnvironmentLackingError(what, str(work), "choose another cache with BUFFERLAB_CACHE")
    try:
        work.mkdir(parents=True, exist_ok=True)
        if work.stat().st_uid == os.geteuid():
            work.chmod(0o711)  # Servers pass through it, whichever umask we have.
        free_bytes = shutil.disk_usage(work).free
    except OSError as error:
        what = f"a private copy of the build cannot be made: {error.strerror or error}"
        raise EnvironmentLackingError(what, str(work), "choose another cache with BUFFERLAB_CACHE") from error
    marked.remove_leftovers(work, f"{_PREFIX}*")
    if free_bytes < _FREE_BYTES:
        raise EnvironmentLackingError("learning a build takes 1 GiB at most", str(work), "free some space there")
    return work


def kept(build: Build) -> LearntEntry:
    """Return what this host has learnt of a build. Raises SpecError if that is nothing, and as `learnt.of_build`."""
    entry = learnt.of_build(page_sites.text_sha256(build.binary), build.binary)
    if entry is None:
        if page_sites.known(registry.family("postgres").page_sites_table, build.binary):
            what = "the sites of this build are part of bufferlab: nothing was learnt"
            raise SpecError(what, str(build.binary), "docs/page-trace.md lists these builds")
        raise SpecError("this build was not learnt here", str(build.binary), f"bufferlab learn {build.binary}")
    return entry


def taken(build: Build, source: Path) -> LearntEntry:
    """Keep what another host learnt of the same build, from its file; return it.

    Raises SpecError for an entry of another build, and what `learnt.read` raises. Root's file must be root's alone.
    """
    try:
        entry = learnt.read(source, by_root_alone=os.geteuid() == 0)
    except FileNotFoundError as error:
        raise SpecError("there is no such file", f"--from {source}", "name the file of `learn --save`") from error
    if entry.text_sha256 != page_sites.text_sha256(build.binary):
        what = f"the file is of {entry.server}, and this program is another build"
        raise SpecError(what, f"--from {source}", f"learn it here: bufferlab learn {build.binary}")
    learnt.require_instructions(entry.settings, build.binary)
    keep(entry, None)
    return entry


def keep(entry: LearntEntry, save: Path | None) -> None:
    """Keep an entry for this user, and in the file `save` too. Raises EnvironmentLackingError when that fails.

    What the kernel's links proved is not replaced by what they did not.
    """
    before = None
    with suppress(BufferlabError, FileNotFoundError):
        before = learnt.read(learnt.path_of(entry.text_sha256))
    is_worse = before is not None and "links" in before.proof["by"] and "links" not in entry.proof["by"]
    for place in [*([] if is_worse else [None]), *([save] if save else [])]:
        try:
            learnt.store(entry, place)
        except OSError as error:
            what = f"what was learnt cannot be kept: {error.strerror or error}"
            where = str(place or learnt.path_of(entry.text_sha256))
            hint = "choose another file with --save" if place else "choose another cache with BUFFERLAB_CACHE"
            raise EnvironmentLackingError(what, where, hint) from error


def serves_root(outcome: Learnt) -> bool:
    """Return whether root's `advise --tier full` takes the entry that this host keeps."""
    with suppress(BufferlabError):
        entry = learnt.of_build(outcome.entry.text_sha256, outcome.build.binary, by_root_alone=True)
        return entry is not None and "links" in entry.proof["by"]
    return False


def told(outcome: Learnt) -> dict[str, Any]:
    """Return the outcome for programs."""
    return {
        "status": "refused" if outcome.wrong else "ok",
        "server": outcome.entry.server,
        "binary": str(outcome.build.binary),
        "text_sha256": outcome.entry.text_sha256,
        "seconds": outcome.seconds,
        "proved_by": list(outcome.entry.proof["by"]),
        "wrong": outcome.wrong,
        "proofs": outcome.proofs,
    }


def _links_work() -> bool:
    """Return whether this user and kernel can record by links; a build is proved by code in the server alone if not."""
    with suppress(Exception):
        native().live_trace_check()
        return True
    return False


def _inside(place: PrivateCopy, settings: Mapping[str, Any], seed: int) -> tuple[Records, list[tuple[str, proof.Edge]]]:
    """Run a server that records itself from its start on; return the records and the edges of the windows."""
    spool = place.folder / f"records-{seed}"
    asked = {"required": True, "spool": {"path": str(spool), "limit_bytes": _SPOOL_BYTES}}
    sites = PageSites("the learnt build", dict(settings))
    trace = Recording(sites, place.build, asked, lambda event: None)
    try:
        with place.server(trace) as server:
            edges = proof.worked(server, seed)
        told = trace.added_to({"recorded": {"page_trace": {}}})["recorded"]["page_trace"]
    finally:
        trace.close()
    return _records(spool, told), edges


def _judged_inside(place: PrivateCopy, settings: Mapping[str, Any], seed: int) -> Proof:
    records, edges = _inside(place, settings, seed)
    return proof.proved("inside", records, edges, is_empty=True, major=place.build.numbers[0])


def _judged_by_links(place: PrivateCopy, settings: Mapping[str, Any], seed: int) -> Proof:
    """Prove by the kernel's links to a server that runs already, as `advise` attaches them."""
    spool = place.folder / f"records-{seed}"
    sites = PageSites("the learnt build", dict(settings))
    with place.server() as server:
        binary = place.build.binary
        stop_us = live_trace.stop_us("postgres", "full")
        plan = live_trace.SitePlan(
            server.pid, "full", sites.server, binary, str(binary), False, sites, stop_us, forks=True
        )
        with live_trace.attach(plan, spool, events_per_s_max=1e9, limit_bytes=_SPOOL_BYTES) as trace:
            edges = proof.worked(server, seed)
            told = trace.finish()
            records = _records(spool, told)
            return proof.proved("links", records, edges, is_empty=False, major=place.build.numbers[0])


def _records(spool: Path, told: Mapping[str, Any]) -> Records:
    """Return a whole trace's records. Raises EnvironmentLackingError for one that is not whole."""
    if told.get("problem") or told.get("lost") or told.get("over_limit_bytes") is not None:
        what = told.get("problem") or f"{told.get('lost', 0):,} records were lost"
        raise EnvironmentLackingError(
            f"the build cannot be learnt here: {what}", str(spool), "try again on an idle host"
        )
    dtype = np.dtype(list(page_trace_words().record))
    return Records(np.fromfile(spool, dtype), told["relations"])
