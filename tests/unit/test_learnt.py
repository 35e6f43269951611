"""Entries of learnt builds: a stored entry comes back; other files, and files that another user may have written, are
refused."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.engines.servers import learnt, page_sites
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.learnt import LearntEntry
from bufferlab.errors import DataFileError, EnvironmentLackingError, SpecError
from bufferlab.learn import learning
from bufferlab.results.trace_words import page_trace_words
from support.elf import first_instruction

FIELDS = [*learnt.FIELDS, "io_context_18:u32"]
FETCH = ["+0(%di)", "%r15", "+0(-160(%bp))", *["\\9"] * 8]
SITE = {"at": "PinBuffer.part.0", "kinds": ["get", "read"], "offset": 0x43CB35, "byte": 0x74, "fetch": FETCH}
SETTINGS: dict[str, Any] = {
    "fields": FIELDS,
    "cost_shown": False,
    "site": [
        SITE,
        {**SITE, "kinds": ["evict"], "inside": {"offset": 9, "byte": 0x49}},
        *({**SITE, "kinds": [kind]} for kind in ("get", "create")),
    ],
}
WRITES = [{**SITE, "at": at, "kinds": [kind], "offset": offset}
          for at, kind, offset in (("MarkBufferDirty", "dirty", 1), ("MarkBufferDirtyHint", "dirty", 2),
                                   ("FlushBuffer", "write", 3))]  # fmt: skip
SETTINGS_WITH_WRITES: dict[str, Any] = {**SETTINGS, "site": [*SETTINGS["site"], *WRITES]}
FETCH_OF_INNODB = ["+0(%r12)", "+4(%r12)", "\\0", "%cx"]
SITE_OF_INNODB = {**SITE, "at": "buf_page_get_gen", "kinds": ["get"], "fetch": FETCH_OF_INNODB}
SETTINGS_OF_INNODB: dict[str, Any] = {
    "fields": ["space:u32", "page:u32", "mode:u8", "latch:u8"],
    "modes_if_in_pool": [11, 12, 15],
    "cost_shown": False,
    "site": [
        SITE_OF_INNODB,
        {**SITE_OF_INNODB, "offset": 1, "at": "btr_search_guess_on_hash", "hash_index": True},
        *({**SITE_OF_INNODB, "kinds": [kind]} for kind in ("read", "create", "evict", "prefetch")),
    ],
}
FETCH_OF_MARIADB = ["+0(%r12)", "\\0", "%cx", "%si", "%r9"]
SITE_OF_MARIADB = {**SITE, "at": "get:0x72d8a0", "kinds": ["get"], "fetch": FETCH_OF_MARIADB}
SETTINGS_OF_MARIADB: dict[str, Any] = {
    "fields": learnt.FIELDS_WITH_TRANSACTION,
    "modes_if_in_pool": [11, 12, 15],
    "cost_shown": False,
    "site": [
        {**SITE_OF_MARIADB, "late": True},
        {**SITE_OF_MARIADB, "offset": 1, "kinds_if_flag": [], "uncounted": True},
        *({**SITE_OF_MARIADB, "kinds": [kind]} for kind in ("read", "create", "evict", "get_if_in_pool")),
    ],
}
PROOF = {"by": ["inside", "links"], "when": "2026-11-29T12:00:00Z", "settings": {"jit": "off"}, "runs": []}


def entry(**other: Any) -> LearntEntry:
    made: dict[str, Any] = {"server": "PostgreSQL 17.6", "text_sha256": "ab" * 32, "settings": SETTINGS, "proof": PROOF}
    return LearntEntry(**{**made, **other})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUFFERLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_entry_that_is_kept_comes_back_as_it_was(cache: Path) -> None:
    place = learnt.store(entry())
    assert place == learnt.path_of("ab" * 32)
    assert place.is_relative_to(cache)
    assert learnt.read(place) == entry()
    elsewhere = learnt.store(entry(server="PostgreSQL 18.1 (Some 18.1-1.pgdg+1)"), cache / "new" / "mine.json")
    assert learnt.read(elsewhere).server == "PostgreSQL 18.1 (Some 18.1-1.pgdg+1)"
    of_innodb = entry(server="MySQL 5.7.22", settings=SETTINGS_OF_INNODB)
    assert learnt.read(learnt.store(of_innodb)) == of_innodb
    without_prefetch = {**SETTINGS_OF_INNODB, "site": SETTINGS_OF_INNODB["site"][:-1]}
    assert learnt.read(learnt.store(entry(settings=without_prefetch))).settings == without_prefetch


def test_an_entry_of_postgresql_has_the_sites_of_changes_and_of_writes_or_neither(cache: Path) -> None:
    with_writes = entry(settings=SETTINGS_WITH_WRITES)
    assert learnt.read(learnt.store(with_writes)) == with_writes
    for kind in ("dirty", "write"):
        half = [site for site in SETTINGS_WITH_WRITES["site"] if site["kinds"] != [kind]]
        with pytest.raises(DataFileError, match="its sites lack a kind"):
            learnt.store(entry(settings={**SETTINGS, "site": half}))
    changes = {**SITE_OF_INNODB, "kinds": ["dirty"], "offset": 7}
    with pytest.raises(DataFileError, match="no kinds"):
        learnt.store(entry(settings={**SETTINGS_OF_INNODB, "site": [*SETTINGS_OF_INNODB["site"], changes]}))


def test_an_entry_of_an_older_version_is_used_as_it_is_and_has_no_writes(cache: Path) -> None:
    older = entry(rules=1)
    assert json.loads(older.text())["rules"] == 1
    assert learnt.read(learnt.store(older)) == older
    with pytest.raises(DataFileError, match="no kinds"):
        learnt.store(entry(rules=1, settings=SETTINGS_WITH_WRITES))


def of_mariadb(**other: Any) -> dict[str, Any]:
    """Return the settings of MariaDB's entry, with other values at its second site."""
    first, second, *rest = SETTINGS_OF_MARIADB["site"]
    return {**SETTINGS_OF_MARIADB, "site": [first, {**second, **other}, *rest]}


def test_an_entry_of_mariadb_has_gets_that_the_server_does_not_count(cache: Path) -> None:
    of_mariadb_11 = entry(server="MariaDB 11.8.9", settings=SETTINGS_OF_MARIADB)
    assert learnt.read(learnt.store(of_mariadb_11)) == of_mariadb_11
    for other in ({"uncounted": False}, {"late": 1}, {"kinds_if_flag": ["get"]}, {"kinds": ["get", "read"]}):
        with pytest.raises(DataFileError):
            learnt.store(entry(settings=of_mariadb(**other)))
    sites = [{**site, "fetch": site["fetch"][:4]} for site in SETTINGS_OF_MARIADB["site"]]
    with pytest.raises(DataFileError):  # Without the field `flag` no kind can depend on it.
        learnt.store(entry(settings={**SETTINGS_OF_MARIADB, "fields": learnt.FIELDS_OF_MARIADB, "site": sites}))
    with pytest.raises(DataFileError):
        learnt.store(entry(settings={**SETTINGS_OF_INNODB, "site": [
            *SETTINGS_OF_INNODB["site"], {**SITE_OF_INNODB, "offset": 2, "kinds_if_flag": []}]}))  # fmt: skip


def test_an_entry_that_could_not_be_read_again_is_not_written(cache: Path) -> None:
    for other in (
        {"server": "PostgreSQL\x1b"},
        {"proof": {**PROOF, "by": []}},
        {"settings": {**SETTINGS, "fields": ["a"]}},
    ):
        with pytest.raises(DataFileError):
            learnt.store(entry(**other))
    assert not cache.exists()


def test_the_kinds_of_an_entry_are_words_of_a_trace() -> None:
    words = set(page_trace_words().kinds)
    assert words > {kind for kinds in learnt.kinds_of(FIELDS) for kind in kinds}
    assert words > {kind for kinds in learnt.kinds_of(learnt.FIELDS_OF_INNODB) for kind in kinds} | {"prefetch"}


NUMBERS = st.integers() | st.floats() | st.sampled_from([1 << 64, -1, 255, 256, 1e999])
TEXTS = st.text(max_size=5) | st.sampled_from(["get", "%di", "\\٣", "%zz", "\x1b[2J", "((((%ax", "page:u32", "\ud800"])
ANY = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def places(one: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all values of a document."""
    inner = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
    return [at, *(place for key, value in inner for place in places(value, (*at, key)))]


def changed(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    made = document.copy()
    made[at[0]] = changed(made[at[0]], at[1:], value)
    return made


DOCUMENT = json.loads(entry().text())
DOCUMENT_WITH_WRITES = json.loads(entry(settings=SETTINGS_WITH_WRITES).text())
DOCUMENT_OF_MARIADB = json.loads(entry(server="MariaDB 11.8.9", settings=SETTINGS_OF_MARIADB).text())
DOCUMENT_OF_INNODB = json.loads(entry(server="MySQL 5.7.22", settings=SETTINGS_OF_INNODB).text())


KINDS = {"get", "get_if_in_pool", "read", "create", "evict", "prefetch", "dirty", "write"}


def is_of_the_form(found: LearntEntry) -> bool:
    """Return whether code that uses an entry may rely on it: each value has its type, and each number is one that the
    core accepts."""
    settings = found.settings
    places = [place for site in settings["site"] for place in (site, site.get("inside", site))]
    return (
        all(type(place["offset"]) is int and 0 <= place["offset"] < 1 << 64 for place in places)
        and all(type(place["byte"]) is int and 0 <= place["byte"] < 256 for place in places)
        and all({*site["kinds"]} <= KINDS and site["kinds"] for site in settings["site"])
        and all(type(mode) is int and 0 <= mode < 64 for mode in settings.get("modes_if_in_pool", ()))
        and all(site["at"].isprintable() for site in settings["site"])
        and all(len(site["fetch"]) == len(settings["fields"]) > 0 for site in settings["site"])
        and {*found.proof["by"]} <= {"inside", "links"}
    )


def changes_of(document: Any) -> st.SearchStrategy[tuple[Any, list[tuple[tuple[Any, ...], Any]]]]:
    one = st.tuples(st.sampled_from(places(document)), ANY)
    return st.tuples(st.just(document), st.lists(one, min_size=1, max_size=3))


@given(
    changes_of(DOCUMENT)
    | changes_of(DOCUMENT_WITH_WRITES)
    | changes_of(DOCUMENT_OF_INNODB)
    | changes_of(DOCUMENT_OF_MARIADB)
)
def test_a_changed_file_is_an_entry_of_the_right_form_or_refused(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[Any, list[tuple[tuple[Any, ...], Any]]]
) -> None:
    document, changes = drawn
    for at, value in changes:
        with suppress(KeyError, IndexError, TypeError, AttributeError):
            document = changed(document, at, value)
    file = tmp_path_factory.getbasetemp() / "changed.json"
    file.write_text(json.dumps(document))
    try:
        found = learnt.read(file)
    except DataFileError as error:
        refused = error
    else:
        refused = None
    if refused:
        assert (refused.where, refused.what[:27]) == (str(file), "these are no learnt sites: ")
        return
    assert is_of_the_form(found), found
    # The core can read the entry, but no program of this host has its hash.
    with pytest.raises(EnvironmentLackingError):
        learnt.require_instructions(found.settings, Path(__file__))
    page_sites.PageSites(found.server, dict(found.settings)).job(build(file), {"path": "", "limit_bytes": 0})
    again = learnt.store(found, file.with_name("again.json"))
    assert learnt.read(again) == found


@given(st.binary(max_size=40), st.integers(0, len(entry().text())))
def test_a_damaged_file_is_refused(tmp_path_factory: pytest.TempPathFactory, damage: bytes, at: int) -> None:
    text = entry().text().encode()
    file = tmp_path_factory.getbasetemp() / "damaged.json"
    file.write_bytes(text[:at] + damage + text[at + len(damage) :])
    with suppress(DataFileError):
        assert is_of_the_form(learnt.read(file))
    file.write_bytes(text[:at])
    if at < len(text) - 1:
        with pytest.raises(DataFileError):
            learnt.read(file)


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (("format",), "x", "of another program"),
        (("rules",), 3, "rules of another version"),
        (("rules",), 0, "rules of another version"),
        (("rules",), True, "rules of another version"),
        (("server",), "\x1b[2J", "no server"),
        (("text_sha256",), "AB" * 32, "no build"),
        (("settings", "fields"), [], "other fields than a record"),
        (("settings", "fields"), "", "other fields than a record"),
        (("settings", "cost_shown"), True, "other settings"),
        (("settings", "site"), [], "no sites"),
        (("settings", "site"), [SITE] * 65, "more than 64"),
        (("settings", "site", 0, "offset"), -1, "no place"),
        (("settings", "site", 0, "offset"), True, "no place"),
        (("settings", "site", 0, "byte"), 256, "no place"),
        (("settings", "site", 0, "kinds"), ["vacuum"], "no kinds"),
        (("settings", "site", 0, "kinds"), [], "no kinds"),
        (("settings", "site", 0, "at"), "\x1b]0;x\x07", "other values"),
        (("settings", "site", 0, "fetch"), FETCH[1:], "not those of its fields"),
        (("settings", "site", 0, "fetch", 0), "+0(+0(+0(%di)))", "not those of its fields"),
        (("settings", "site", 0, "fetch", 0), "+0(%di", "not those of its fields"),
        (("settings", "site", 1, "inside"), ["offset", "byte"], "no place"),
        (("settings", "site", 1, "inside"), None, "no place"),
        (("settings", "site", 1, "inside"), {"offset": "9", "byte": 1}, "no place"),
        (("proof",), [], "no settings and no proof"),
        (("proof", "by"), ["me"], "no recorder"),
        (("proof", "by"), [], "no recorder"),
        (("proof", "when"), float("inf"), "not JSON compliant"),
    ],
)
def test_what_no_entry_has_is_refused_with_its_reason(
    at: tuple[Any, ...], value: Any, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "other.json"
    file.write_text(json.dumps(changed(DOCUMENT, at, value)))
    with pytest.raises(DataFileError) as refused:
        learnt.read(file)
    assert why in refused.value.what


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (("modes_if_in_pool",), [], "other modes of gets"),
        (("modes_if_in_pool",), [64], "other modes of gets"),
        (("modes_if_in_pool",), [2, -1], "other modes of gets"),
        (("modes_if_in_pool",), ["x"], "other modes of gets"),
        (("modes_if_in_pool",), "x", "other modes of gets"),
        (("modes_if_in_pool",), [True], "other modes of gets"),
        (("modes_if_in_pool",), {"2": 3}, "other modes of gets"),
        (("fields",), ["page:u32", "space:u32", "mode:u8", "latch:u8"], "other fields than a record"),
        (("fields",), FIELDS, "other modes of gets"),
        (("site", 1, "hash_index"), False, "other values"),
        (("site", 1, "hash_index"), 1, "other values"),
        (("site", 0), {**SITE_OF_INNODB, "tries": []}, "other values"),
        (("site", 2, "kinds"), ["get", "read"], "no kinds"),
        (("site", 5, "kinds"), ["get", "prefetch"], "no kinds"),
        (("site", 2, "kinds"), ["prefetch"], "lack a kind"),
        (("site", 5), {**SITE_OF_INNODB, "kinds": ["read"]}, "one is there twice"),
        (("site", 0, "fetch"), ["?", "?", "\\0", "\\0"], "not those of its fields"),
        (("site", 0, "fetch"), FETCH, "not those of its fields"),
    ],
)
def test_what_no_entry_of_innodb_has_is_refused_with_its_reason(
    at: tuple[Any, ...], value: Any, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "other.json"
    file.write_text(json.dumps(changed(DOCUMENT_OF_INNODB, ("settings", *at), value)))
    with pytest.raises(DataFileError) as refused:
        learnt.read(file)
    assert why in refused.value.what


def test_modes_belong_to_gets_of_innodb_alone(tmp_path: Path) -> None:
    none = {name: value for name, value in SETTINGS_OF_INNODB.items() if name != "modes_if_in_pool"}
    for settings in (none, {**SETTINGS, "modes_if_in_pool": [2]}):
        with pytest.raises(DataFileError, match="other modes of gets"):
            learnt.store(entry(settings=settings), tmp_path / "other.json")
    prefetch = {**SITE, "kinds": ["prefetch"]}
    with pytest.raises(DataFileError, match="no kinds"):
        learnt.store(entry(settings={**SETTINGS, "site": [*SETTINGS["site"], prefetch]}))


def test_a_deep_a_large_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    deep = json.dumps(DOCUMENT).replace('"2026-11-29T12:00:00Z"', "[" * 500 + "]" * 500)
    for text in (deep, "[" * 100_000, entry().text() + " " * (1 << 20), "", "null", "1" * 10_000):
        file.write_text(text)
        with pytest.raises(DataFileError):
            learnt.read(file)


def folder_there(place: Path) -> None:
    place.mkdir()


def pipe_there(place: Path) -> None:
    os.mkfifo(place)


def socket_there(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(place))


def ring_of_links_there(place: Path) -> None:
    place.symlink_to(place)


@pytest.mark.parametrize("make", [folder_there, pipe_there, socket_there, ring_of_links_there])
@pytest.mark.parametrize("by_root_alone", [False, True])
def test_what_is_no_file_is_refused_and_not_waited_for(
    make: Callable[[Path], None], by_root_alone: bool, tmp_path: Path
) -> None:
    place = tmp_path / "one.json"
    make(place)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(DataFileError):
        learnt.read(place, by_root_alone=by_root_alone)
    assert os.listdir("/proc/self/fd") == before
    with pytest.raises(FileNotFoundError):
        learnt.read(Path(__file__) / "one.json", by_root_alone=by_root_alone)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root has files that root alone may write")


@pytest.fixture
def roots_own() -> Any:
    """Yield a folder of root inside a folder in which every user may write."""
    above = Path("/var/tmp")
    assert above.stat().st_mode & 0o1002 == 0o1002
    place = above / f"bufferlab-test-learnt-{os.getpid()}"
    place.mkdir(mode=0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place)


@needs_root
def test_root_takes_its_own_file_below_a_folder_in_which_none_may_replace_anothers(roots_own: Path) -> None:
    file = learnt.store(entry(), roots_own / "one.json")
    assert learnt.read(file, by_root_alone=True) == entry()
    os.mkfifo(roots_own / "pipe")
    os.chmod(file, 0o644)
    assert learnt.read(file, by_root_alone=True) == entry()


def others(file: Path) -> Path:
    os.chown(file, 65534, 0)
    return file


def writable(file: Path) -> Path:
    file.chmod(0o646)
    return file


def writable_by_the_group(file: Path) -> Path:
    file.chmod(0o664)
    return file


def in_anothers_folder(file: Path) -> Path:
    os.chown(file.parent, 65534, 0)
    return file


def in_a_writable_folder(file: Path) -> Path:
    file.parent.chmod(0o777)
    return file


def below_a_writable_folder(file: Path) -> Path:
    deep = file.parent / "deep"
    deep.mkdir(mode=0o755)
    file.parent.chmod(0o775)
    return file.rename(deep / file.name)


def in_anothers_sticky_folder(file: Path) -> Path:
    os.chown(file.parent, 65534, 0)
    file.parent.chmod(0o1777)
    return file


def a_link(file: Path) -> Path:
    link = file.with_name("link.json")
    link.symlink_to(file)
    return link


def through_a_link_in_a_writable_folder(file: Path) -> Path:
    open_to_all = file.parent / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (open_to_all / "link").symlink_to(file.parent)
    return open_to_all / "link" / file.name


def through_anothers_link(file: Path) -> Path:
    link = file.parent / "link"
    link.symlink_to(file.parent)
    os.chown(link, 65534, 0, follow_symlinks=False)
    return link / file.name


@needs_root
@pytest.mark.parametrize(
    "makes",
    [
        others, writable, writable_by_the_group, in_anothers_folder, in_a_writable_folder, below_a_writable_folder,
        in_anothers_sticky_folder, a_link, through_a_link_in_a_writable_folder, through_anothers_link,
    ],
)  # fmt: skip
def test_root_takes_no_file_that_another_could_have_written_or_put_there(
    makes: Callable[[Path], Path], roots_own: Path
) -> None:
    file = makes(learnt.store(entry(), roots_own / "one.json"))
    with pytest.raises(EnvironmentLackingError) as refused:
        learnt.read(file, by_root_alone=True)
    assert "could be written by others than root" in refused.value.what
    assert str(refused.value.where).startswith("/var/tmp/bufferlab-test-learnt-")
    assert learnt.read(file) == entry(), "for a server of one's own it is good enough"


@needs_root
def test_root_takes_what_it_has_kept_whichever_umask_it_had(roots_own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUFFERLAB_CACHE", str(roots_own))
    umask = os.umask(0)
    try:
        learning.keep(entry(), None)
    finally:
        os.umask(umask)
    file = learnt.path_of("ab" * 32)
    assert file.is_relative_to(roots_own)
    assert learnt.read(file, by_root_alone=True) == entry()


@needs_root
def test_root_takes_a_file_through_a_link_of_its_own(roots_own: Path) -> None:
    file = learnt.store(entry(), roots_own / "one.json")
    (roots_own / "link").symlink_to(roots_own)
    assert learnt.read(roots_own / "link" / file.name, by_root_alone=True) == entry()


def build(binary: Path) -> Build:
    return Build("some", "postgres", "17.99", binary)


BINARY = Path("/bin/sleep").resolve()


def settings_at(place: dict[str, int], inside: dict[str, int] | None = None) -> dict[str, Any]:
    more = {"inside": inside} if inside else {}
    return {**SETTINGS, "site": [{**SITE, "kinds": [*kinds], **place, **more} for kinds in learnt.kinds_of(FIELDS)]}


def test_a_place_that_is_no_begin_of_an_instruction_of_the_build_is_refused() -> None:
    code, good = BINARY.read_bytes(), first_instruction(BINARY)
    learnt.require_instructions(settings_at(good), BINARY)
    learnt.require_instructions(settings_at(good, good), BINARY)
    offset = good["offset"]
    wrong = {
        "in the middle of an instruction": {"offset": offset + 1, "byte": code[offset + 1]},
        "with another byte": {"offset": offset, "byte": code[offset] ^ 1},
        "in the head of the file": {"offset": 0, "byte": code[0]},
        "behind the file": {"offset": len(code) + 4096, "byte": 0},
        "behind all files": {"offset": (1 << 62) - 1, "byte": 0},
    }
    for name, place in wrong.items():
        for settings in (settings_at(place), settings_at(good, place)):
            with pytest.raises(EnvironmentLackingError) as refused:
                learnt.require_instructions(settings, BINARY)
            assert f"{SITE['at']} at {place['offset']:#x} is not the instruction" in refused.value.what, name
            assert "learn this build again" in str(refused.value.hint)
    with pytest.raises(EnvironmentLackingError):
        learnt.require_instructions(settings_at(good), Path("/bin/cat").resolve())


def of(binary: Path, **other: Any) -> LearntEntry:
    made = {"text_sha256": page_sites.text_sha256(binary), "settings": settings_at(first_instruction(binary))}
    return entry(**{**made, **other})


@pytest.fixture
def own_build(roots_own: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Return a build that no table lists, in a folder of root; its entries are stored in this folder."""
    monkeypatch.setenv("BUFFERLAB_CACHE", str(roots_own / "cache"))
    shutil.copy(BINARY, roots_own / "postgres")
    return build(roots_own / "postgres")


NO_TABLE = "build = []\n"


@needs_root
def test_a_shipped_entry_is_taken_before_a_learnt_one_and_in_use_only_what_links_proved(own_build: Build) -> None:
    binary = own_build.binary
    table = binary.with_name("sites.toml")
    table.write_text(NO_TABLE)
    assert page_sites.known(table, binary) is None
    assert page_sites.known(table, binary, in_use=True) is None
    with pytest.raises(SpecError) as refused:
        page_sites.find(table, own_build)
    assert f"bufferlab learn {binary}" in str(refused.value.hint)
    learnt.store(of(binary))
    for in_use in (False, True):
        found = page_sites.known(table, binary, in_use=in_use)
        assert found is not None
        assert (found.server, found.settings) == ("PostgreSQL 17.6", of(binary).settings)
        assert not found.cost_is_shown
    learnt.store(of(binary, proof={**PROOF, "by": ["inside"]}))
    assert page_sites.known(table, binary) is not None
    assert page_sites.known(table, binary, in_use=True) is None, "the kernel's links did not prove it"
    digest = page_sites.text_sha256(binary)
    table.write_text(f'[[build]]\nserver = "Shipped 1"\ntext_sha256 = "{digest}"\ncost_shown = true\nsite = []\n')
    for in_use in (False, True):
        shipped = page_sites.known(table, binary, in_use=in_use)
        assert shipped is not None
        assert (shipped.server, shipped.cost_is_shown) == ("Shipped 1", True)


@needs_root
def test_a_learnt_entry_that_is_not_of_this_build_is_refused(own_build: Build) -> None:
    binary = own_build.binary
    table = binary.with_name("sites.toml")
    table.write_text(NO_TABLE)
    place = learnt.path_of(page_sites.text_sha256(binary))
    learnt.store(of(Path("/bin/cat").resolve()), place)
    for in_use in (False, True):
        with pytest.raises(DataFileError, match="of another build"):
            page_sites.known(table, binary, in_use=in_use)
    good = first_instruction(binary)
    learnt.store(of(binary, settings=settings_at({**good, "byte": good["byte"] ^ 1})), place)
    for in_use in (False, True):
        with pytest.raises(EnvironmentLackingError, match="is not the instruction"):
            page_sites.known(table, binary, in_use=in_use)
    others(learnt.store(of(binary), place))
    assert page_sites.known(table, binary) is not None
    with pytest.raises(EnvironmentLackingError, match="could be written by others"):
        page_sites.known(table, binary, in_use=True)


def test_what_another_host_learnt_is_kept_only_for_the_same_build(cache: Path, tmp_path: Path) -> None:
    file = learnt.store(of(BINARY), tmp_path / "from-elsewhere.json")
    try:
        learnt.read(file, by_root_alone=os.geteuid() == 0)
    except EnvironmentLackingError as error:
        pytest.skip(f"NOT TESTED: others may write where tests keep their files: {error}")
    own, other = build(BINARY), build(Path("/bin/cat").resolve())
    with pytest.raises(SpecError, match="was not learnt here"):
        learning.kept(own)
    with pytest.raises(SpecError, match="this program is another build"):
        learning.taken(other, file)
    assert not cache.exists()
    assert learning.taken(own, file) == learning.kept(own) == of(BINARY)
    with pytest.raises(SpecError, match="there is no such file"):
        learning.taken(own, tmp_path / "nowhere")


def test_what_cannot_be_kept_is_told_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BUFFERLAB_CACHE", str(tmp_path / "file"))
    with pytest.raises(EnvironmentLackingError) as refused:
        learning.keep(entry(), None)
    assert refused.value.what.startswith("what was learnt cannot be kept: ")
    assert "BUFFERLAB_CACHE" in str(refused.value.hint)
