"""Places that are nearly right are refused on real servers: attempts, other functions, other registers.

Where only the places of changed and written pages are wrong, a build is learnt without them.

An earlier experiment was tried with the same nine places of InnoDB on MySQL 8.0.12; each has a similar place on
PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.page_sites import WRITES
from bufferlab.learn import candidates, learning
from bufferlab.learn.learning import Learnt
from real.test_learn import EVERY_DAY, recorders, root, shipped
from support import innodb, postgres
from support.elf import entry

__all__ = ["root"]

pytestmark = [pytest.mark.real, pytest.mark.slow]

OF_MARIADB = "mariadb-11.4"
LRU_FREE_PAGE = "_Z17buf_LRU_free_pageP10buf_page_tb"
READ_COMPLETE = "_ZN10buf_page_t13read_completeERK10fil_node_t"
INIT_FOR_READ = "_ZL22buf_page_init_for_read9page_id_tmRN10buf_pool_t10hash_chainERP11buf_block_t"
WRITE_COMPLETE = "_ZN10buf_page_t14write_completeEbbj"
GET_GEN = "_Z16buf_page_get_gen9page_id_tm14rw_lock_type_tP11buf_block_tmP5mtr_tP7dberr_t"
SAVED_FRAME = bytes.fromhex("554889e5")
"""The code at the start of most functions; the next instruction is a push, too."""
OF_FRAME = ["+0(%di)", "\\0", "\\0", "%di"]
"""The values of a record if the first argument is the frame's `buf_page_t`, which begins with its page."""
OF_TAG = [*(f"+{at}(%di)" for at in range(0, 20, 4)), "\\1", "\\0", "\\0", "\\1", "\\0"]
"""The values of a record if the first argument is a `BufferDesc` or a `BufferTag`; both begin with the page."""
Planted = Callable[[dict[str, Any], Build], None]


def moved(kinds: tuple[str, ...], symbol: str, fetch: list[str], behind: int = 0) -> Planted:
    """Move the site of these accesses to a function's entry, or `behind` bytes after it."""

    def change(settings: dict[str, Any], build: Build) -> None:
        sites = settings["site"]
        first = next(site for site in sites if tuple(site["kinds"]) == kinds)
        offset = entry(build.binary, symbol)["offset"] + behind
        place = {"offset": offset, "byte": build.binary.read_bytes()[offset], "at": symbol}
        place["fetch"] = fetch + first["fetch"][len(fetch) :]
        settings["site"] = [site for site in sites if tuple(site["kinds"]) != kinds]
        settings["site"].append({"kinds": list(kinds), **place})

    return change


def fetched(kinds: tuple[str, ...], values: Mapping[int, str]) -> Planted:
    """Keep the site of these accesses, and take some of their values from other places."""

    def change(settings: dict[str, Any], build: Build) -> None:
        for site in (site for site in settings["site"] if tuple(site["kinds"]) == kinds):
            site["fetch"] = [values.get(number, value) for number, value in enumerate(site["fetch"])]

    return change


def right(settings: dict[str, Any], build: Build) -> None:
    """Change nothing."""


def further(name: str, offset: int, values: Mapping[int, str] | None = None) -> Planted:
    """Move the site in a function by so many bytes, and take some of its values from other places."""

    def change(settings: dict[str, Any], build: Build) -> None:
        (site,) = (site for site in settings["site"] if site["at"] == name)
        site["offset"] += offset
        site["byte"] = build.binary.read_bytes()[site["offset"]]
        site["fetch"] = [(values or {}).get(number, value) for number, value in enumerate(site["fetch"])]

    return change


def left_out(name: str) -> Planted:
    """Leave out the site in a function."""

    def change(settings: dict[str, Any], build: Build) -> None:
        settings["site"] = [site for site in settings["site"] if site["at"] != name]

    return change


def planted(build: Build, change: Planted, monkeypatch: pytest.MonkeyPatch) -> Learnt:
    """Learn a build from the sites of page_sites.toml with a change; return the outcome."""
    known = shipped(build)
    settings = {**{name: known[name] for name in ("fields", "modes_if_in_pool") if name in known},
                "cost_shown": False, "site": [dict(site) for site in known["site"]]}  # fmt: skip
    change(settings, build)
    monkeypatch.setattr(candidates, "proposed", lambda binary, original, lesson: settings)
    outcome = learning.learn(build, print)
    print(*outcome.wrong, outcome.without_writes, *outcome.proofs, sep="\n")
    assert bool(outcome.wrong) == (outcome.entry.proof["by"] == [])
    if outcome.wrong:
        assert [one.by for one in outcome.proofs] == ["links"], "no code is put into a server at wrong places"
    return outcome


@pytest.fixture(autouse=True)
def links() -> None:
    """Skip the test with a message if the kernel's links do not work."""
    if recorders() == ["inside"]:
        pytest.skip("NOT TESTED: only the kernel's links are safe at a wrong place")


NINE: dict[str, tuple[Planted, str]] = {
    "the right ones": (right, ""),
    "evict: an attempt": (moved(("evict",), LRU_FREE_PAGE, OF_FRAME), "of kind evict were recorded"),
    "evict: a read's end": (moved(("evict",), READ_COMPLETE, OF_FRAME), "of kind evict were recorded"),
    "read: an attempt": (moved(("read",), INIT_FOR_READ, ["%di"]), "of kind read were recorded"),
    "read: a write's end": (moved(("read",), WRITE_COMPLETE, OF_FRAME), "of kind read were recorded"),
    "create: the size as page": (fetched(("create",), {0: "%si"}), "pages differ"),
    # The gets are recorded at the entry itself.
    "create: a get": (moved(("create",), GET_GEN, ["%di"], len(SAVED_FRAME)), "of kind create were recorded"),
    "evict: the tablespace as page": (fetched(("evict",), {0: "+4(%di)"}), "that the trace has in the pool already"),
    "evict: 8 bytes off": (fetched(("evict",), {0: "+8(%di)"}), "that the trace has in the pool already"),
    "read: another argument": (fetched(("read",), {0: "%dx"}), "pages differ"),
}


@pytest.mark.servers
@pytest.mark.parametrize("name", NINE)
def test_wrong_sites_of_mariadb_are_refused(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, told = NINE[name]
    wrong = planted(innodb.build(OF_MARIADB), change, monkeypatch).wrong
    assert any(told in one for one in wrong) if told else wrong == [], wrong


READ = ("get", "read")
LIKE_THEM: dict[str, tuple[Planted, str]] = {
    "the right ones": (right, ""),
    "evict: a buffer that is written": (moved(("evict",), "StartBufferIO", OF_TAG), "of kind evict were recorded"),
    "read: a page that is entered": (moved(READ, "BufTableInsert", OF_TAG), "of kind read were recorded"),
    "read: reads and writes": (moved(READ, "StartBufferIO", OF_TAG), "of kind read were recorded"),
    "create: a page that is entered": (moved(("create",), "BufTableInsert", OF_TAG), "of kind create were recorded"),
    "create: the number of pages as page": (fetched(("create",), {4: "%r8"}), "pages differ"),
    "evict: relation and page exchanged": (fetched(("evict",), {2: "+16(%di)", 4: "+8(%di)"}),
                                           "that the trace has in the pool already"),
    "evict: 8 bytes off": (fetched(("evict",), {at: f"+{4 * at + 8}(%di)" for at in range(5)}),
                           "that the trace has in the pool already"),
    "read: another argument": (fetched(READ, {4: "%cx"}), "pages differ"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIKE_THEM)
def test_wrong_sites_of_postgresql_are_refused(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, told = LIKE_THEM[name]
    wrong = planted(postgres.build(EVERY_DAY), change, monkeypatch).wrong
    assert any(told in one for one in wrong) if told else wrong == [], wrong


OF_CALL = ["+0(%di)", "+4(%di)", "+8(%di)", "%si", "%dx"]
"""The values of a record at a call of the storage manager."""
UNCHANGED = "writes are of pages that the trace has as unchanged"
TOO_FEW = "which is too few to judge"
OF_WRITES: dict[str, tuple[Planted, str]] = {
    "hints left out": (left_out("MarkBufferDirtyHint"), UNCHANGED),
    "changes left out": (left_out("MarkBufferDirty"), UNCHANGED),
    # Just after the test for a dirty page, on the path of a clean one; the hint's is the call of LockBufHdr.
    "changes of clean pages alone": (further("MarkBufferDirty", 6), TOO_FEW),
    "hints in clean pages alone": (further("MarkBufferDirtyHint", 0x8B), TOO_FEW),
    "change: relation and page exchanged": (further("MarkBufferDirty", 0, {2: "+16(%bx)", 4: "+8(%bx)"}), UNCHANGED),
    "write: fork and page exchanged": (fetched(("write",), {3: "%dx", 4: "%si"}), UNCHANGED),
    "write: pages by which files grow": (moved(("write",), "smgrzeroextend", OF_CALL), UNCHANGED),
    "write: pages that are read or written": (moved(("write",), "StartBufferIO", OF_TAG), UNCHANGED),
    # Its first argument is a position in the log, not an address: the server ends with a signal.
    "write: the call of XLogFlush": (further("FlushBuffer", -0x4A), "the private server failed"),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_WRITES)
def test_a_build_with_wrong_sites_of_changes_or_writes_is_learnt_without_these_kinds(
    name: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, told = OF_WRITES[name]
    outcome = planted(postgres.build(EVERY_DAY), change, monkeypatch)
    assert outcome.wrong == []
    assert told in str(outcome.without_writes), outcome.without_writes
    assert not any(WRITES & {*site["kinds"]} for site in outcome.entry.settings["site"])
    assert outcome.entry.proof["by"] == ["links", "inside"]


@pytest.mark.servers
@pytest.mark.parametrize("server", ["postgres-16", "postgres-17", "postgres-18", "postgres-18.6"])
def test_the_places_that_a_person_found_are_proved_with_their_changes_and_writes(
    server: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shipped site of evictions of 15 shows dropped pages, too, which need no write."""
    outcome = planted(postgres.build(server), right, monkeypatch)
    assert (outcome.wrong, outcome.without_writes) == ([], None)


@pytest.mark.servers
def test_the_places_of_19_that_a_person_found_are_proved_as_learnt_ones_are(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`learn` cannot find them by itself."""
    outcome = planted(postgres.build("postgres-19"), right, monkeypatch)
    assert (outcome.wrong, outcome.without_writes) == ([], None)
