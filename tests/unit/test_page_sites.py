"""Probe sites of servers: the builds, the refusals, the owners of pages, and a child that waits until it is watched."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import struct
import sys
import time
import tomllib
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bufferlab.engines import registry as engines
from bufferlab.engines.innodb import table_sizes as innodb_owners
from bufferlab.engines.native import native
from bufferlab.engines.postgres import relation_sizes as postgres_owners
from bufferlab.engines.servers import child_process, data_folder, page_sites, signs_of_life
from bufferlab.engines.servers.behaviour import ServerBehaviour
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.fetched import servers_root
from bufferlab.engines.servers.server_names import ON_PATH
from bufferlab.errors import BufferlabError, EnvironmentLackingError, SpecError
from bufferlab.execute.probes.page_trace_probe import PageTraceAsked
from bufferlab.results.trace_words import page_trace_words

TABLES = [engines.behaviour(name).family.page_sites_table for name in ("mysql", "postgres")]  # type: ignore[attr-defined]
ENTRIES = [entry for table in TABLES for entry in tomllib.loads(table.read_text())["build"]]


def build_of(binary: Path) -> Build:
    return Build("some", "mysql", "5.7.99", binary)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["server"])
def test_every_build_tells_gets_reads_creations_and_evictions_and_what_to_fetch(entry: dict[str, Any]) -> None:
    assert len(bytes.fromhex(entry["text_sha256"])) == 32
    told = set()
    for site in entry["site"]:
        assert len(site["fetch"]) == len(entry["fields"]), site
        kinds = [*site["kinds"], *site.get("kinds_if_flag", ())]
        assert set(kinds) <= set(page_trace_words().kinds)
        told.update(kinds)
    assert {"get", "read", "create", "evict"} <= told
    assert ("prefetch" in told) == (not entry["server"].startswith("PostgreSQL"))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["server"])
def test_every_get_of_postgresql_tells_its_ring(entry: dict[str, Any]) -> None:
    fields = [field.split(":")[0] for field in entry["fields"]]
    assert ("strategy" in fields) == entry["server"].startswith("PostgreSQL")
    for site in entry["site"] if "strategy" in fields else []:
        fetched = dict(zip(fields, site["fetch"], strict=True))
        by_address = fetched["strategy_type"] == f"+0({fetched['strategy']})"
        context = fetched.get("io_context", fetched.get("io_context_18", "\\9"))
        assert (by_address or context != "\\9") == ("get" in {*site["kinds"], *site.get("kinds_if_flag", ())}), site


SPOOL = {"path": "/spool", "limit_bytes": 24}


def test_a_build_says_whether_the_cost_of_its_trace_is_shown() -> None:
    assert all(isinstance(entry["cost_shown"], bool) for entry in ENTRIES)


def test_no_build_is_listed_twice() -> None:
    assert len({entry["text_sha256"] for entry in ENTRIES}) == len(ENTRIES) == 16


def test_a_build_is_known_by_what_it_executes_and_not_by_its_name_or_its_symbols(tmp_path: Path) -> None:
    binary = tmp_path / "server"
    shutil.copy(sys.executable, binary)
    digest = page_sites._digest(binary, 0)
    table = tmp_path / "sites.toml"
    table.write_text(
        f'[[build]]\nserver = "Some 1"\ntext_sha256 = "{digest}"\nfields = ["space:u32"]\nmodes_if_in_pool = [11]\n'
        'site = [{ at = "f", kinds = ["get"], offset = 1, byte = 2, fetch = ["%di"], uncounted = true, late = true }]\n'
    )
    with binary.open("ab") as file:
        file.write(b"symbols")
    sites = page_sites.find(table, build_of(binary))
    assert (sites.server, sites.uncounted, sites.late, sites.has_hash_index) == ("Some 1", [0], [0], False)
    assert json.loads(sites.job(build_of(binary), SPOOL)) == {
        "binary": str(binary),
        "spool": SPOOL,
        "fields": ["space:u32"],
        "modes_if_in_pool": [11],
        "sites": [{"at": "f", "kinds": ["get"], "offset": 1, "byte": 2, "fetch": ["%di"]}],
    }
    with pytest.raises(SpecError) as refused:
        page_sites.find(TABLES[0], build_of(binary))
    assert "mysql 5.7.99 cannot be recorded" in refused.value.what
    assert f"bufferlab learn {binary}" in str(refused.value.hint)
    with pytest.raises(SpecError, match=r"mariadb 10\.11\.99 cannot be recorded") as refused:
        page_sites.find(TABLES[0], replace(build_of(binary), flavour="mariadb", version="10.11.99"))
    assert f"bufferlab learn {binary}" in str(refused.value.hint)


def test_reads_and_evictions_of_later_versions_of_mariadb_tell_the_frame() -> None:
    later = [entry for entry in ENTRIES if "page_id:u64" in entry["fields"]]
    assert len(later) == 3
    for entry in later:
        column = entry["fields"].index("frame:u64")
        told = {kind: {site["fetch"][column] for site in entry["site"] if kind in site["kinds"]}
                for kind in ("get", "read", "create", "prefetch", "evict")}  # fmt: skip
        assert told == {"get": {"\\0"}, "read": {"%r9"}, "create": {"\\0"}, "prefetch": {"\\0"}, "evict": {"%di"}}


def test_a_site_may_have_another_place_for_code_in_the_server() -> None:
    site = {"at": "f", "kinds": ["get"], "offset": 9, "byte": 0x75, "fetch": ["%ax"]}
    settings = {"fields": ["page_id:u64"], "site": [{**site, "inside": {"offset": 7, "byte": 2}}]}
    sites = page_sites.PageSites("x", settings)
    assert sites.by_kernel(Path("server"), SPOOL)["sites"] == [site]
    assert json.loads(sites.job(build_of(Path("server")), SPOOL))["sites"] == [{**site, "offset": 7, "byte": 2}]


def test_the_kernel_records_no_writes_and_they_are_the_last_sites_so_that_others_keep_their_numbers() -> None:
    get, dirty, write = ({"at": "f", "kinds": [kind], "offset": 9, "byte": 0x75, "fetch": ["%ax"]}
                         for kind in ("get", "dirty", "write"))  # fmt: skip
    sites = page_sites.PageSites("x", {"fields": ["page_id:u64"], "site": [get, write, dirty]})
    assert sites.by_kernel(Path("server"), SPOOL)["sites"] == [get]
    assert json.loads(sites.job(build_of(Path("server")), SPOOL))["sites"] == [get, write, dirty]
    assert sites.kinds == ["get", "dirty", "write"]
    for entry in ENTRIES:
        of_writes = [bool(page_sites.WRITES & {*site["kinds"]}) for site in entry["site"]]
        assert of_writes == sorted(of_writes), entry["server"]
        assert not any(of_writes) or {"dirty", "write"} <= {kind for site in entry["site"] for kind in site["kinds"]}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["server"])
def test_a_value_is_a_number_a_register_or_at_most_two_places_from_a_register_on(entry: dict[str, Any]) -> None:
    register = "%(?:[abcd]x|[sd]i|[bs]p|r8|r9|r1[0-5])"
    known = re.compile(rf"\\\d+|{register}|[+-]\d+\({register}\)|[+-]\d+\([+-]\d+\({register}\)\)")
    assert len(entry["fields"]) <= 12
    for site in entry["site"]:
        for fetch in (site["fetch"], site.get("inside", {}).get("fetch", [])):
            assert len(fetch) in (len(entry["fields"]), 0)
            # Only the kernel can record a flag of the processor; a site for code in the server has none.
            assert all(known.fullmatch(one) or (one == "%zf" and fetch is site["fetch"]) for one in fetch), site
        if "%zf" in site["fetch"]:
            assert entry["fields"][site["fetch"].index("%zf")] == "flag:u8"
            assert "fetch" in site["inside"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["server"])
def test_no_branch_of_a_fetched_build_leads_into_what_its_jumps_cover(entry: dict[str, Any]) -> None:
    behaviours = map(engines.behaviour, ("mysql", "mariadb", "postgres"))
    families = [one.family for one in behaviours if isinstance(one, ServerBehaviour)]
    named = [(one, path.name) for one in families for path in servers_root().glob(f"{one.flavour}-*")]
    named += [(one, ON_PATH) for one in families]
    for family, name in named:
        with suppress(BufferlabError):
            build = family.find(name)
            if (sites := page_sites.find(family.page_sites_table, build)).server == entry["server"]:
                assert json.loads(native().page_trace_branches(sites.job(build, SPOOL))) == []
                return
    pytest.skip(f"NOT TESTED: {entry['server']} is not fetched")


def test_a_server_on_another_processor_is_refused_by_that_and_not_as_an_unknown_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = build_of(tmp_path / "is not read")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(EnvironmentLackingError) as refused:
        page_sites.require(TABLES[0], build)
    assert "cannot be recorded on this processor: only builds for x86-64 are known" in refused.value.what
    assert (refused.value.where, "x86-64" in str(refused.value.hint)) == ("aarch64", True)
    asked = {"spool": SPOOL, "required": False}
    with page_sites.recording(TABLES[0], build, asked, print) as trace:
        assert trace is not None
        told = trace.added_to({"recorded": {"page_trace": {}}})["recorded"]["page_trace"]
    assert told["refused"]["where"] == "aarch64"


class Refusing:
    """A trace of the core that its server cannot carry."""

    def begin(self, folder: str) -> str:
        """Refuse, as the core does."""
        native_module = importlib.import_module("bufferlab._native")
        raise native_module.NativeError("environment", "no path for the loader", folder, "name another")

    def require_on(self) -> None:
        """This is never called, because the trace has ended."""
        pytest.fail("nothing is recorded")

    def finish(self) -> str:
        """Return the result of a trace that never began."""
        return json.dumps({"events": {}})


def test_a_server_that_cannot_be_recorded_runs_without_a_trace_that_nobody_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_sites, "native", lambda: SimpleNamespace(page_trace=lambda settings: Refusing()))
    sites, build = page_sites.PageSites("x", {"fields": [], "site": []}), build_of(Path("server"))
    asked = {"spool": SPOOL, "required": False}
    trace = page_sites.Recording(sites, build, asked, print)
    assert trace.begin(tmp_path) is None
    trace.require_on()
    told = trace.added_to({"recorded": {"page_trace": {"window_start_ns": 1}}})["recorded"]["page_trace"]
    assert told["refused"] == {
        "what": "no path for the loader", "where": str(tmp_path), "hint": "name another", "kind": "environment"
    }  # fmt: skip
    with pytest.raises(Exception, match="no path for the loader"):
        page_sites.Recording(sites, build, {**asked, "required": True}, print).begin(tmp_path)


class Slow(Refusing):
    """A trace that takes long to write its file, and writes it only once."""

    def __init__(self, signs: list[Any]) -> None:
        self._signs = signs
        self._ended = False

    def finish(self) -> str:
        """Return the end at the first call and null at others, as the core does."""
        if self._ended:
            return "null"
        self._ended = True
        deadline = time.monotonic() + 30
        while not self._signs and time.monotonic() < deadline:
            time.sleep(0.01)
        return json.dumps({"events": {}})


@pytest.mark.parametrize("fails", [False, True])
def test_a_trace_that_is_written_for_long_gives_signs_of_life_also_when_its_run_has_failed(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs: list[Any] = []
    monkeypatch.setattr(signs_of_life, "_SECONDS", 0.01)
    monkeypatch.setattr(page_sites, "require", lambda *_: page_sites.PageSites("x", {"fields": [], "site": []}))
    monkeypatch.setattr(page_sites, "native", lambda: SimpleNamespace(page_trace=lambda settings: Slow(signs)))
    asked = {"spool": SPOOL, "required": True}
    with (
        pytest.raises(OSError, match="broken") if fails else nullcontext(),
        page_sites.recording(TABLES[0], build_of(tmp_path), asked, signs.append) as trace,
    ):
        assert trace is not None
        if fails:
            raise OSError("broken")
        assert trace.added_to({"recorded": {"page_trace": {}}})["recorded"]["page_trace"]["events"] == {}
    assert json.loads(signs[0])["phase"] == "keeping the page trace"


def no_memory(settings: str) -> Any:
    """Refuse a trace as the core does if memory cannot be shared."""
    raise importlib.import_module("bufferlab._native").NativeError(
        "environment", "no memory", "memfd_create", "allow it"
    )


@pytest.mark.parametrize(
    ("core", "what"),
    [
        ({"page_trace_check": no_memory}, "page accesses of servers cannot be recorded: no memory"),
        ({"page_trace_check": lambda settings: None, "page_trace": no_memory}, "no memory"),
    ],
    ids=["at the check", "at the trace"],
)
def test_a_trace_that_nobody_asked_for_and_that_cannot_begin_leaves_a_run_without_it(
    core: dict[str, Any], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_sites, "native", lambda: SimpleNamespace(**core))
    monkeypatch.setattr(page_sites, "find", lambda *_: page_sites.PageSites("x", {"fields": [], "site": []}))
    asked, build = {"spool": SPOOL, "required": False}, build_of(Path("server"))
    with page_sites.recording(TABLES[1], build, asked, print) as trace:
        assert trace is not None
        assert trace.begin(tmp_path) is None
        trace.require_on()
        told = trace.added_to({"recorded": {"page_trace": {"window_start_ns": 1}}})["recorded"]["page_trace"]
    assert told["refused"] == {"what": what, "where": "memfd_create", "hint": "allow it", "kind": "environment"}
    with (
        pytest.raises(Exception, match="no memory"),
        page_sites.recording(TABLES[1], build, {**asked, "required": True}, print),
    ):
        pytest.fail("the trace was asked for by name")


def test_a_server_that_was_updated_in_place_runs_without_a_trace_that_nobody_asked_for(tmp_path: Path) -> None:
    binary = tmp_path / "server"
    shutil.copy("/bin/sleep", binary)
    asked = {"spool": SPOOL, "required": False}
    with page_sites.recording(TABLES[1], build_of(binary), asked, print) as trace:
        assert trace is not None
        told = trace.added_to({"recorded": {"page_trace": {}}})["recorded"]["page_trace"]
    assert "cannot be recorded: it is not known where this build's functions" in told["refused"]["what"]
    with (
        pytest.raises(SpecError, match="it is not known"),
        page_sites.recording(TABLES[1], build_of(binary), {**asked, "required": True}, print),
    ):
        pytest.fail("the trace was asked for by name")


@pytest.mark.parametrize("by_name", [False, True])
def test_a_resumed_sweep_goes_on_where_a_trace_by_default_has_become_impossible(
    by_name: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise SpecError("the build is another", "server", None)

    monkeypatch.setattr(ServerBehaviour, "require_page_trace", refuse)
    require = partial(PageTraceAsked(by_name=by_name).require, "postgres", {"knobs": {}})
    if by_name:
        with pytest.raises(SpecError, match="the build is another"):
            require()
    else:
        require()


@pytest.mark.parametrize("engine", ["mysql", "mariadb", "postgres"])
def test_a_server_that_runs_already_is_not_recorded(engine: str) -> None:
    url = f"{'postgresql' if engine == 'postgres' else 'mysql'}://user@localhost/db"
    with pytest.raises(SpecError) as refused:
        PageTraceAsked().require(engine, {"knobs": {"server": url}})
    assert "runs already" in refused.value.what


def test_a_hash_index_whose_gets_are_not_seen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    behaviour = engines.behaviour("mariadb")
    assert isinstance(behaviour, ServerBehaviour)
    seen = {"fields": [], "site": [{"hash_index": True}]}
    blind = {"fields": [], "site": [{}]}
    monkeypatch.setattr(behaviour.family, "find", lambda *_: build_of(Path("server")))
    monkeypatch.setattr(page_sites, "require", lambda *_: page_sites.PageSites("x", blind))
    behaviour.require_page_trace({"adaptive_hash_index": "OFF"})
    with pytest.raises(SpecError) as refused:
        behaviour.require_page_trace({"adaptive_hash_index": "ON"})
    assert "adaptive hash index" in refused.value.what
    monkeypatch.setattr(page_sites, "require", lambda *_: page_sites.PageSites("x", seen))
    behaviour.require_page_trace({"adaptive_hash_index": "ON"})


def test_a_child_is_watched_before_its_first_instruction(tmp_path: Path) -> None:
    seen = []

    def watch(pid: int) -> None:
        seen.append((pid, (tmp_path / "ran").exists(), Path(f"/proc/{pid}").exists()))

    program = ["/bin/sh", "-c", f"echo yes > {tmp_path}/ran"]
    with (tmp_path / "log").open("w") as log:
        child = child_process.start(program, user=None, libraries=None, output=log, folder=tmp_path, watch=watch)
        assert child.wait(30) == 0
    assert seen == [(child.pid, False, True)]
    assert (tmp_path / "ran").read_text() == "yes\n"


def test_a_child_that_cannot_be_watched_never_begins(tmp_path: Path) -> None:
    pids = []

    def watch(pid: int) -> None:
        pids.append(pid)
        raise RuntimeError("no ring")

    with (tmp_path / "log").open("w") as log, pytest.raises(RuntimeError, match="no ring"):
        child_process.start(
            ["/bin/sh", "-c", f"touch {tmp_path}/ran"],
            user=None, libraries=None, output=log, folder=tmp_path, watch=watch,
        )  # fmt: skip
    assert not Path(f"/proc/{pids[0]}").exists()
    assert not (tmp_path / "ran").exists()


def test_a_child_loads_our_library_first_and_inherits_its_descriptor(tmp_path: Path) -> None:
    shared = os.memfd_create("shared")
    preload = child_process.Preload({"LD_PRELOAD": "/nowhere.so", "BUFFERLAB_INSIDE": str(shared)}, shared)
    script = f'echo "$LD_PRELOAD" $BUFFERLAB_INSIDE; readlink /proc/$$/fd/{shared}'
    program = ["/bin/sh", "-c", f"({script}) > {tmp_path}/told"]
    with (tmp_path / "log").open("w") as log:
        child = child_process.start(program, user=None, libraries=None, output=log, folder=tmp_path, preload=preload)
        assert child.wait(30) == 0
    os.close(shared)
    assert (tmp_path / "told").read_text().startswith(f"/nowhere.so {shared}\n/memfd:shared")


def tablespace(file: Path, space: int, pages: list[tuple[int, int, int]]) -> None:
    """Write pages of 1 KiB in which only type, tablespace, level and index are set."""
    with file.open("wb") as out:
        for kind, level, index in pages:
            head = bytearray(1024)
            struct.pack_into(">H", head, 24, kind)
            struct.pack_into(">I", head, 34, space)
            struct.pack_into(">HQ", head, 64, level, index)
            out.write(head)


def btree(file: Path, levels: list[int]) -> None:
    """Write pages of PostgreSQL in which only the special space is set."""
    file.parent.mkdir(parents=True)
    file.write_bytes(b"".join(bytes(8192 - 16) + struct.pack("<IIIHH", 0, 0, level, 0, 0) for level in levels))


def keys(*pages: tuple[int, int]) -> Any:
    return np.asarray([object_ << 32 | page for object_, page in pages], np.uint64)


INDEXES = [
    {"table": "stock", "name": "PRIMARY", "index_id": 40, "clustered": True},
    {"table": "stock", "name": "by_item", "index_id": 41, "clustered": False},
]


@pytest.mark.parametrize(
    "sizes",
    [
        data_folder.Sizes(1, {"indexes": INDEXES}, lambda _: {"page_size_bytes": 1024}),
        data_folder.Sizes(1, {"indexes": INDEXES, "page_size_bytes": 1024}),
    ],
    ids=["its trees are counted", "its trees cannot be counted"],
)
def test_innodbs_pages_belong_to_the_index_that_their_header_names(tmp_path: Path, sizes: data_folder.Sizes) -> None:
    data = tmp_path / "data" / "bufferlab"
    data.mkdir(parents=True)
    tablespace(data.parent / "ibdata1", 0, [(8, 0, 0), (2, 9, 0), (17855, 1, 11)])
    tablespace(data / "stock.ibd", 23, [(8, 0, 0), (17855, 1, 40), (17855, 0, 41), (17855, 0, 40)])
    sizes.store(tmp_path)
    touched = keys((0, 0), (0, 1), (0, 2), (23, 0), (23, 1), (23, 2), (23, 3), (23, 99), (4_294_967_293, 5))
    found = innodb_owners.owners(tmp_path, touched)
    assert {one.name: one.pages.tolist() for one in found if len(one.pages)} == {
        "stock": keys((23, 1), (23, 3)).tolist(),
        "stock.by_item": keys((23, 2)).tolist(),
        "(undo)": keys((0, 1)).tolist(),
        "(system)": keys((0, 2), (0, 0)).tolist(),
        "(space management)": keys((23, 0), (23, 99)).tolist(),
        "(temporary)": keys((4_294_967_293, 5)).tolist(),
    }
    above = {one.name: one.interior.tolist() for one in found if len(one.interior)}
    assert above == {"stock": keys((23, 1)).tolist(), "(system)": keys((0, 2)).tolist()}


def test_pages_of_data_that_were_loaded_before_page_sizes_were_noted_are_of_the_default_size(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    page = bytearray(16_384)
    struct.pack_into(">I", page, 34, 23)
    (tmp_path / "data" / "stock.ibd").write_bytes(page)
    data_folder.Sizes(1, {"indexes": []}).store(tmp_path)
    found = innodb_owners.owners(tmp_path, keys((23, 0)))
    assert {one.name: len(one.pages) for one in found if len(one.pages)} == {"(space management)": 1}


def test_postgresqls_pages_belong_to_the_relation_of_their_file(tmp_path: Path) -> None:
    relations = [
        {"oid": 16390, "name": "stock", "file": "base/16384/16400", "table_oid": 0},
        {"oid": 16395, "name": "stock_pkey", "file": "base/16384/16395", "table_oid": 16390, "method": "btree"},
        {"oid": 16396, "name": "by_item", "file": "base/16384/16396", "table_oid": 16390, "method": "btree"},
    ]
    btree(tmp_path / "data/base/16384/16395", [0, 0, 0, 1, 0, 0, 0, 0])
    data_folder.Sizes(1, {"relations": relations}).store(tmp_path)
    told = [(1663, 16384, 16400, 0), (1663, 16384, 16395, 0), (1663, 16384, 1259, 0), (1663, 16384, 16400, 2),
            (1663, 5, 17000, 0), (1663, 16384, 16396, 0)]  # fmt: skip
    touched = keys((0, 7), (1, 3), (1, 7), (1, 8), (2, 0), (3, 0), (4, 1), (5, 2))
    found = postgres_owners.owners(tmp_path, touched, told)
    assert {one.name: one.pages.tolist() for one in found} == {
        "stock": keys((0, 7)).tolist(),
        "stock.stock_pkey": keys((1, 3), (1, 7), (1, 8)).tolist(),
        "stock.by_item": keys((5, 2)).tolist(),
        "(catalog)": keys((2, 0)).tolist(),
        "stock (vm)": keys((3, 0)).tolist(),
        "(other)": keys((4, 1)).tolist(),
    }
    above = {one.name: one.interior.tolist() for one in found if len(one.interior)}
    assert above == {"stock.stock_pkey": keys((1, 3)).tolist()}
    assert postgres_owners.elsewhere(tmp_path, [*told, (1664, 0, 1262, 0)]) == [4, 6]
