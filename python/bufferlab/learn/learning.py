"""Learns a server build: proposes probe sites, drops wrong sites of evictions, and proves the rest with two recorders.

One recorder is code inside the server, the other the kernel's probes ("links"). A proved entry can then be stored.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bufferlab import marked
from bufferlab.engines import registry
from bufferlab.engines.innodb import programs as innodb_programs
from bufferlab.engines.postgres import programs as postgres_programs
from bufferlab.engines.servers import learnt, page_sites
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import ServerError
from bufferlab.engines.servers.learnt import LearntEntry
from bufferlab.engines.servers.lesson import Lesson
from bufferlab.errors import BufferlabError, EnvironmentLackingError, Interrupted, SpecError
from bufferlab.learn import candidates, experiment, private_copy, proof, recording, registers
from bufferlab.learn.private_copy import PrivateCopy
from bufferlab.learn.proof import Proof
from bufferlab.versions import SERVERS

_PREFIX = "learning-"
_OF_INNODB = ("mysqld", "mariadbd")
_FREE_BYTES = 1 << 30
"""The bytes of disk space that learning needs at most: programs, data, log and records."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Learnt:
    """The outcome of learning one build."""

    build: Build
    entry: LearntEntry
    proofs: tuple[Proof, ...]
    seconds: float
    without_writes: str | None = None
    """The reason why the entry has no sites of changed and written pages; None if it has, or for InnoDB."""

    @property
    def wrong(self) -> list[str]:
        """Return sentences on everything that disagrees; an empty list if the build was accepted."""
        return [f"by the recorder {one.by}, {what}" for one in self.proofs for what in one.wrong]


def build_of(binary: Path) -> Build:
    """Return the build of a server, given the path of its program or the program's folder; the program's name decides
    whether it is MySQL, MariaDB or PostgreSQL.

    Raises EnvironmentLackingError if there is none or it cannot be run, and SpecError for one that cannot be learnt.
    """
    programs = [binary / folder / name for folder in (".", "bin", "sbin") for name in _OF_INNODB]
    if binary.name in _OF_INNODB or any(program.is_file() for program in programs):
        build = innodb_programs.by_path(binary)
    else:
        build = postgres_programs.by_path(binary)
    if registry.family(build.flavour).lesson is None:
        what = f"builds of {SERVERS[build.flavour]} cannot be learnt: most of them name no function of InnoDB"
        raise SpecError(what, str(build.binary), "docs/page-trace.md lists the builds that are known")
    return build


def learn(build: Build, say: Say, program: Path | None = None) -> Learnt:
    """Learn a build and return the outcome, which is not stored yet. `say` gets a sentence for each step.

    `program` is the opened file of a running server's program, whose path may lead to another file by now
    (of_process.py). Raises BufferlabError if this host cannot learn, or this build cannot be learnt.
    """
    started = time.monotonic()
    page_sites.require_processor()
    if not str(build.binary).isprintable():
        what = "the core takes no path with bytes that are not UTF-8, or cannot be printed"
        raise SpecError(what, str(build.binary), "name it by a link of another name")
    work = workplace()
    try:
        outcome = _learnt(build, work, say, started, program)
    except ServerError as error:
        what = f"the build cannot be learnt here: {error}"
        raise EnvironmentLackingError(what, str(work), "free some space there, or try again") from error
    if page_sites.text_sha256(program or build.binary) != outcome.entry.text_sha256:
        what = "the program was replaced while it was learnt"
        raise EnvironmentLackingError(what, str(build.binary), "learn the new one: bufferlab learn BINARY")
    return outcome


@contextmanager
def own_folder(work: Path) -> Iterator[Path]:
    """Context manager for a new folder in the workplace. The users that servers run as may traverse it."""
    with marked.folder(work, f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}", 0o711) as folder:
        yield folder


def _learnt(build: Build, work: Path, say: Say, started: float, program: Path | None) -> Learnt:
    family, name = registry.family(build.flavour), f"{SERVERS[build.flavour]} {build.version}"
    lesson = family.lesson
    assert lesson
    with own_folder(work) as folder:
        private_copy.require_reachable(build, folder)
        copy = private_copy.copied(build, folder / "install", lesson, program)
        # Everything below uses the copy, because the original may be replaced meanwhile.
        links = recording.links_work()
        proposal, tries = _proposed(copy, build, lesson, links)
        unshown = proposal.pop(candidates.WITHOUT_WRITES, None)
        digest = page_sites.text_sha256(copy.binary)
        say(f"making a private server of {name} from a copy of its programs")
        place = private_copy.made(family, copy, build.binary, folder, lambda event: None)
        proposals = experiment.found(place, tries, say) if tries else [_with_registers(place, proposal, links, say)]
        settings, proofs, unproved = _first_proved(place, proposals, links, say)
    wrong = [one for each in proofs for one in each.wrong]
    by = [] if wrong else [one.by for one in proofs]
    told = {"by": by, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "settings": recording.server_settings(place, settings), "runs": [one.told() for one in proofs]}  # fmt: skip
    entry = LearntEntry(name, digest, settings, told)
    return Learnt(build, entry, tuple(proofs), time.monotonic() - started, unshown or unproved)


def _proposed(copy: Build, build: Build, lesson: Lesson, links: bool) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return (probe sites found by function names, None); for a MariaDB without names, ({}, instructions to try).

    Raises EnvironmentLackingError for a build that can be learnt in neither way.
    """
    try:
        return candidates.proposed(copy.binary, build.binary, lesson), None
    except EnvironmentLackingError:
        if build.flavour != "mariadb":
            raise
    if not links:
        what = "a MariaDB that names no function is learnt by the kernel's links, and those do not work here"
        raise EnvironmentLackingError(what, str(build.binary), "learn it as root, on a kernel of 5.8 or later")
    return {}, experiment.proposed(copy.binary)


def _with_registers(place: PrivateCopy, settings: dict[str, Any], links: bool, say: Say) -> dict[str, Any]:
    """Return proposed sites with their registers, without eviction sites that do not make room for a page."""
    if any(map(candidates.is_unknown, settings["site"])):
        say("looking for the registers that name pages")
        settings = registers.found(place, settings) if links else candidates.without_unknown(settings)
    if sum(site["kinds"] == ["evict"] for site in settings["site"]) > 1:
        say("recording which evictions are for want of room")
        # Sites of changed and written pages are last in the list, so that the others keep their numbers without them.
        records, edges = recording.inside(place, candidates.without_writes(settings), 1)
        settings = candidates.with_evictions(settings, records.victims(settings["site"], edges))
    return settings


_Tried = tuple[dict[str, Any], list[Proof], str | None]
"""Settings, their proofs, and the reason why sites of changed and written pages were left out; None if none were."""


def _first_proved(place: PrivateCopy, proposals: Sequence[dict[str, Any]], links: bool, say: Say) -> _Tried:
    """Return the first proposal that is proved, with its proofs; if none is proved, the last one with its proofs."""
    for settings in proposals:
        tried = _tried(place, settings, links, say)
        if tried[1][-1].wrong and (further := candidates.without_hash_index(settings)) != settings:
            say("once more without the adaptive hash index")
            tried = _tried(place, further, links, say)
        if not tried[1][-1].wrong:
            break
    return tried


def _tried(place: PrivateCopy, settings: dict[str, Any], links: bool, say: Say) -> _Tried:
    """Prove sites by each recorder, up to the first that disagrees. The kernel's probes come first where they work.

    At a wrong address the kernel's probes do no harm, while code inside the server would break it. Only code inside the
    server records changed and written pages. If the sites of these are not proved, the other sites are proved without
    them.
    """
    proofs, about = [], (place.lesson, place.build)
    if links:
        say("comparing by the kernel's links")
        proofs.append(proof.proved("links", *recording.by_links(place, settings, 2), *about, is_empty=False))
    if any(one.wrong for one in proofs):
        return settings, proofs, None
    say("comparing by code in the server")
    fewer = candidates.without_writes(settings)
    why = None
    if fewer != settings:
        found, why = _with_writes(place, settings)
        if found:
            return settings, [*proofs, found], None
        say(f"once more without changed and written pages: {why}")
    found = proof.proved("inside", *recording.inside(place, fewer, 3), *about, is_empty=True)
    return fewer, [*proofs, found], why


def _with_writes(place: PrivateCopy, settings: dict[str, Any]) -> tuple[Proof | None, str | None]:
    """Prove all sites by code in the server; return the proof, or None and the first thing that disagrees."""
    try:
        records, edges = recording.inside(place, settings, 3)
    except (BufferlabError, ServerError, OSError) as error:  # A probe at a wrong place may have ended the server.
        if isinstance(error, Interrupted) or isinstance(error.__cause__, Interrupted):
            raise
        why = re.split("[;\n]", error.what if isinstance(error, BufferlabError) else str(error))[0]
        with place.server(recording.server_settings(place, settings)):
            pass  # The server recovers its data now, so that the next server begins with an empty pool.
        return None, f"with their sites, the private server failed: {why}"
    found = proof.proved("inside", records, edges, place.lesson, place.build, is_empty=True, with_writes=True)
    assert found.written
    disagrees = [*found.wrong, *found.written.wrong]
    return (None, disagrees[0]) if disagrees else (found, None)


def workplace() -> Path:
    """Return the folder for private copies, after removing those of killed learners. Raises EnvironmentLackingError."""
    work = learnt.folder().parent / learnt.WORK
    if any(one in str(work) for one in " :$"):
        what = "the loader of a server takes no path with spaces, colons or dollars"
        raise EnvironmentLackingError(what, str(work), "choose another cache with BUFFERLAB_CACHE")
    try:
        work.mkdir(parents=True, exist_ok=True)
        if work.stat().st_uid == os.geteuid():
            work.chmod(0o711)  # For any umask, servers must be able to traverse the folder.
        free_bytes = shutil.disk_usage(work).free
    except OSError as error:
        what = f"a private copy of the build cannot be made: {error.strerror or error}"
        raise EnvironmentLackingError(what, str(work), "choose another cache with BUFFERLAB_CACHE") from error
    marked.remove_leftovers(work, f"{_PREFIX}*")
    if free_bytes < _FREE_BYTES:
        raise EnvironmentLackingError("learning a build takes 1 GiB at most", str(work), "free some space there")
    return work


def kept(build: Build, program: Path | None = None) -> LearntEntry:
    """Return the entry that this host has learnt of a build. Raises SpecError if there is none.

    Also raises as `learnt.of_build` does. `program` is as in `learn`.
    """
    hint = _hint(build, program)
    program = program or build.binary
    entry = learnt.of_build(page_sites.text_sha256(program), program)
    if entry is None:
        if page_sites.known(registry.family(build.flavour).page_sites_table, program):
            what = "the sites of this build are part of bufferlab: nothing was learnt"
            raise SpecError(what, str(build.binary), "docs/page-trace.md lists these builds")
        raise SpecError("this build was not learnt here", str(build.binary), hint)
    return entry


def _hint(build: Build, program: Path | None) -> str:
    """Return the command that learns the build; `program` is as in `learn`."""
    return f"bufferlab learn {build.binary}" if program is None else "bufferlab learn --pid N"


def taken(build: Build, source: Path, program: Path | None = None) -> LearntEntry:
    """Read the file of an entry that another host learnt of the same build; store this entry and return it.

    `program` is as in `learn`. Raises SpecError for an entry of another build, and the errors of `learnt.read`. If root
    runs this, nothing but root may have the right to write the file.
    """
    try:
        entry = learnt.read(source, by_root_alone=os.geteuid() == 0)
    except FileNotFoundError as error:
        raise SpecError("there is no such file", f"--from {source}", "name the file of `learn --save`") from error
    hint = _hint(build, program)
    program = program or build.binary
    if entry.text_sha256 != page_sites.text_sha256(program):
        what = f"the file is of {entry.server}, and this program is another build"
        raise SpecError(what, f"--from {source}", f"learn it here: {hint}")
    learnt.require_instructions(entry.settings, program)
    keep(entry, None)
    return entry


def keep(entry: LearntEntry, save: Path | None) -> None:
    """Store an entry for this user, and in the file `save` too. Raises EnvironmentLackingError if that fails.

    An entry that the kernel's probes ("links") proved is not replaced by one that they did not prove.
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


def is_replaced(outcome: Learnt, program: Path | None) -> bool:
    """Return whether the learnt program's path now leads to another build, or to no file."""
    with suppress(OSError):
        return program is not None and page_sites.text_sha256(outcome.build.binary) != outcome.entry.text_sha256
    return True


def serves_root(outcome: Learnt, program: Path | None = None) -> bool:
    """Return whether root's `advise --tier full` uses the entry that this host stores. `program` is as in `learn`."""
    with suppress(BufferlabError):
        entry = learnt.of_build(outcome.entry.text_sha256, program or outcome.build.binary, by_root_alone=True)
        return entry is not None and "links" in entry.proof["by"]
    return False


def told(outcome: Learnt) -> dict[str, Any]:
    """Return the outcome as a dictionary for JSON."""
    return {
        "status": "refused" if outcome.wrong else "ok",
        "server": outcome.entry.server,
        "binary": str(outcome.build.binary),
        "text_sha256": outcome.entry.text_sha256,
        "seconds": outcome.seconds,
        "proved_by": list(outcome.entry.proof["by"]),
        "wrong": outcome.wrong,
        "without_writes": outcome.without_writes,
        "proofs": outcome.proofs,
    }
