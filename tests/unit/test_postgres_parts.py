"""The parts of private PostgreSQL servers that can be tested without a server: settings, finding, conditions, sizes,
cgroups."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines import registry
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import cluster, postgresql_conf, programs, relation_sizes
from bufferlab.engines.postgres.cluster import failure
from bufferlab.engines.postgres.declaration import DECLARATION
from bufferlab.engines.servers import data_folder as server_sizes
from bufferlab.engines.servers import memory_limit, user, version_call
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.workload_conditions import POSTGRES
from bufferlab.engines.workload_conditions import conditions as read_conditions
from bufferlab.errors import EnvironmentLackingError
from bufferlab.knob import Native, values_of
from bufferlab.versions import has

MIB = 1 << 20
PAGE = 8192


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def native(**asked: str) -> dict[str, Native]:
    given = {name: DECLARATION.by_name()[name].parse(text) for name, text in asked.items()}
    return values_of({**DECLARATION.defaults(), **given}, 100 * MIB)


# Settings.


def test_a_point_of_defaults_sets_what_bufferlab_has_a_reason_for_and_nothing_else() -> None:
    assert postgresql_conf.server_settings("18.0", native()) == {
        "shared_buffers": f"{20 * MIB}B",
        "synchronous_commit": "off",
        "synchronize_seqscans": "off",
        "autovacuum": "off",
        "jit": "off",
        "huge_pages": "off",
    }


def test_knobs_become_variables_in_units_the_server_reads() -> None:
    asked = native(
        bgwriter_delay="50ms", max_wal_size="1GiB", bgwriter_lru_multiplier="2.50", checkpoint_timeout="5min"
    )
    written = postgresql_conf.server_settings("15.18", {**asked, "var.maintenance_work_mem": "64MB"})
    assert written["bgwriter_delay"] == "0.05s"
    assert written["max_wal_size"] == f"{1 << 30}B"
    assert written["bgwriter_lru_multiplier"] == "2.5"
    assert written["checkpoint_timeout"] == "300s"
    assert written["maintenance_work_mem"] == "64MB"
    assert not {"server", "statements", "memory_limit", "page_size", "data_checksums"} & set(written)


@pytest.mark.parametrize(
    ("knob", "value", "version", "has_it"),
    [
        ("debug_io_direct", "data", "15.18", False),
        ("debug_io_direct", "data", "16.10", True),
        ("io_combine_limit", "128k", "16.10", False),
        ("io_combine_limit", "128k", "17.2", True),
        ("io_method", "worker", "17.2", False),
        ("io_workers", "3", "18.0", True),
        ("io_workers", "3", "19rc1", False),
        ("io_min_workers", "3", "18.6", False),
        ("io_min_workers", "3", "19rc1", True),
        ("io_max_workers", "3", "19rc1", True),
        ("io_max_combine_limit", "128k", "17.12", False),
        ("io_max_combine_limit", "128k", "18.0", True),
        ("bgwriter_lru_maxpages", "0", "15.18", True),
    ],
)
def test_a_version_gets_only_the_settings_it_has(knob: str, value: str, version: str, has_it: bool) -> None:
    assert has(DECLARATION.by_name()[knob].versions, "postgres", version) is has_it
    assert (knob in postgresql_conf.server_settings(version, native(**{knob: value}))) is has_it


@pytest.mark.parametrize(
    ("name", "asked", "told", "actual"),
    [
        ("pool_size", 20 * MIB, ("2560", "8kB"), 20 * MIB),
        ("max_wal_size", 1 << 30, ("1024", "MB"), 1 << 30),
        ("work_mem", 4 * MIB, ("4096", "kB"), 4 * MIB),
        ("io_combine_limit", 128 << 10, ("16", "8kB"), 128 << 10),
        ("bgwriter_delay", 0.2, ("200", "ms"), 0.2),
        ("checkpoint_timeout", 300.0, ("300", "s"), 300.0),
        ("checkpoint_completion_target", 0.9, ("0.9", None), 0.9),
        ("bgwriter_lru_multiplier", 2.0, ("2", None), 2.0),
        ("effective_io_concurrency", 16, ("16", None), 16),
        ("debug_io_direct", "off", ("", None), "off"),
        ("debug_io_direct", "data,wal", ("data, wal", None), "data,wal"),
        ("fsync", "on", ("on", None), "on"),
        ("var.maintenance_work_mem", "64MB", ("65536", "kB"), "64MB"),
        ("var.track_io_timing", "true", ("on", None), "true"),
        ("var.vacuum_cost_limit", "300", ("200", None), "200"),
        ("var.maintenance_work_mem", "64MB", ("1024", "kB"), "1024kB"),
    ],
)
def test_what_is_told_is_put_as_it_was_asked(
    name: str, asked: Native, told: tuple[str, str | None], actual: Native
) -> None:
    assert postgresql_conf.as_asked(name, asked, told) == actual


TOLD: dict[str, tuple[str, str | None]] = {
    "shared_buffers": ("2560", "8kB"),
    "block_size": ("8192", None),
    "data_checksums": ("off", None),
    "bgwriter_delay": ("200", "ms"),
    "autovacuum": ("off", None),
    "server_version": ("15.18", None),
}


def test_a_limit_of_combined_reads_above_the_servers_own_is_a_confound() -> None:
    told = TOLD | {"io_combine_limit": ("128", "8kB"), "io_max_combine_limit": ("16", "8kB")}
    knobs = native(io_combine_limit="1MiB")
    (said,) = postgresql_conf.confounds(postgresql_conf.server_settings("18.6", knobs), knobs, told, None)
    assert "shown as 1 MiB" in said
    assert "128 KiB" in said
    told |= {"io_max_combine_limit": ("128", "8kB")}
    assert postgresql_conf.confounds(postgresql_conf.server_settings("18.6", knobs), knobs, told, None) == []


def test_every_setting_asked_for_reads_back_and_nothing_is_confounded() -> None:
    knobs = native(bgwriter_delay="200ms")
    actual = postgresql_conf.actual_of(knobs, TOLD, None)
    assert actual["pool_size"] == knobs["pool_size"] == 20 * MIB
    assert actual["bgwriter_delay"] == 0.2
    assert actual["memory_limit"] == "off"
    assert actual["server_version"] == "15.18"
    assert postgresql_conf.confounds(postgresql_conf.server_settings("15.18", knobs), knobs, TOLD, None) == []


def test_what_the_server_did_otherwise_is_told() -> None:
    knobs = native(bgwriter_delay="100ms", pool_size="16MiB")
    told = {**TOLD, "autovacuum": ("on", None), "huge_pages_status": ("on", None)}
    said = "\n".join(postgresql_conf.confounds(postgresql_conf.server_settings("17.2", knobs), knobs, told, 64 * MIB))
    assert "the pool is 20 MiB where 16 MiB were asked for" in said
    assert "bgwriter_delay is 0.2s where 0.1s was asked for" in said
    assert "autovacuum is on" in said
    assert "huge pages" in said


def test_a_memory_limit_is_a_size_a_share_or_off() -> None:
    knob = DECLARATION.by_name()["memory_limit"]
    assert native()["memory_limit"] == "off"
    assert native(memory_limit="64%")["memory_limit"] == 64 * MIB
    assert native(memory_limit="96MiB")["memory_limit"] == 96 * MIB
    assert knob.range_text().endswith("| off")


# The configuration file.


def configuration(own_ipc: bool = True, **given: str) -> str:
    place = Path("/data")
    build = Build("x", "postgres", "17.2", place)
    return postgresql_conf.configuration_file(
        build, place / "data", place / "server", place / "server" / "socket", 8, given, own_ipc=own_ipc
    )


def test_a_private_server_listens_on_its_socket_alone_and_ends_with_us() -> None:
    text = configuration(shared_buffers="20971520B")
    assert "listen_addresses = ''" in text
    assert "unix_socket_directories = '/data/server'" in text
    assert "restart_after_crash = off" in text
    assert "client_connection_check_interval = '1s'" in text
    assert "max_connections = 28" in text
    assert text.endswith("shared_buffers = '20971520B'\n")
    assert "password" not in text


def test_shared_memory_is_of_a_kind_that_leaves_nothing() -> None:
    assert "dynamic_shared_memory_type = sysv" in configuration(own_ipc=True)
    assert "dynamic_shared_memory_type = mmap" in configuration(own_ipc=False)


@pytest.mark.parametrize("name", ["listen_addresses", "PORT", "data_directory", "archive_command", "include", "ssl"])
def test_what_a_private_servers_safety_rests_on_is_not_passed_through(name: str) -> None:
    with pytest.raises(EngineFailure, match="bufferlab's to set"):
        configuration(**{name: "x"})


@pytest.mark.parametrize(("name", "value"), [("a\nb", "1"), ("work_mem", "1\nport = 1"), ("x y", "1"), ("a", "it's")])
def test_a_setting_is_one_line(name: str, value: str) -> None:
    with pytest.raises(EngineFailure, match="does not fit"):
        configuration(**{name: value})


def test_initdb_makes_one_account_and_knows_each_versions_default_of_checksums(tmp_path: Path) -> None:
    identity = cluster.Identity("bufferlab", "secret", "x", "x", "postgres", "15.18", PAGE)

    def words(version: str, checksums: bool) -> list[str]:
        build = Build("x", "postgres", version, Path("/x/postgres"))
        return cluster._arguments(build, tmp_path / "data", tmp_path / "pw", identity, checksums)

    assert "secret" not in " ".join(words("15.18", False))
    assert {"-U", "bufferlab", "--auth=scram-sha-256", "--locale=C", "--encoding=UTF8"} <= set(words("15.18", False))
    assert "--no-data-checksums" not in words("17.2", False)
    assert "--no-data-checksums" in words("18.0", False)
    assert "--data-checksums" in words("15.18", True)


# Finding and fetching.


@pytest.fixture(autouse=True)
def servers_run_as_we_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run servers as this user: another user could not enter pytest's folders, where a test's script stands for a
    program."""
    monkeypatch.setattr(version_call, "server_user", lambda: None)
    monkeypatch.setattr(version_call, "program_behind", lambda binary, *_: binary)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUFFERLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(user, "server_user", lambda: None)
    monkeypatch.setattr(programs, "_installed", lambda: iter(()))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18"),
        ("postgres (PostgreSQL) 18.0", "18.0"),
    ],
)
def test_a_version_is_what_the_binary_says(tmp_path: Path, said: str, version: str) -> None:
    assert programs.ask_version(script(tmp_path / "postgres", f'echo "{said}"'), None) == (version, "postgres")


def test_a_program_that_is_no_server_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLackingError, match="not a PostgreSQL server"):
        programs.by_path(script(tmp_path / "postgres", 'echo "psql (PostgreSQL) 15.18"'))


def test_a_folder_without_a_server_and_a_server_without_initdb_are_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLackingError, match="no program postgres"):
        programs.by_path(tmp_path)
    build = programs.by_path(script(tmp_path / "postgres", 'echo "postgres (PostgreSQL) 17.2"'))
    with pytest.raises(EnvironmentLackingError, match="no initdb"):
        programs.initdb(build)


def test_an_old_server_is_refused_with_what_can_be_measured(tmp_path: Path, cache: Path) -> None:
    binary = script(tmp_path / "postgres", 'echo "postgres (PostgreSQL) 13.4"')
    with pytest.raises(EnvironmentLackingError, match="15 and later"):
        programs.find(str(binary))


def test_a_name_that_was_not_fetched_says_how_to_fetch_it(cache: Path) -> None:
    with pytest.raises(EnvironmentLackingError) as caught:
        programs.find("postgres-17")
    assert "bufferlab engines fetch postgres-17" in (caught.value.hint or "")
    with pytest.raises(EnvironmentLackingError, match="none was fetched"):
        programs.find()


def test_every_package_is_pinned_unless_its_client_checks_signatures() -> None:
    for package in programs.PACKAGES.values():
        assert package.sha256 is None if package.client == "apt-get" else len(package.sha256 or "") == 64
        assert package.name.startswith("postgres-")


def test_names_of_all_families_are_different_and_all_are_listed(cache: Path) -> None:
    assert len(set(registry.fetchable_servers())) == len(registry.fetchable_servers())
    assert {"mysql-5.7", "mariadb-10.11", "postgres-17"} <= set(registry.fetchable_servers())
    assert set(registry.fetchable_servers()) <= {line.name for line in registry.listed_servers()}
    with pytest.raises(KeyError):
        registry.fetch_server("oracle-23", print)


# Messages of a server's log.


@pytest.mark.parametrize(
    ("log", "kind", "what"),
    [
        ('LOG:  unrecognized configuration parameter "io_x" in file "c" line 9', "usage", "does not know io_x"),
        ('LOG:  invalid value for parameter "io_method": "io_uring"', "usage", "io_method"),
        ("FATAL:  could not write: No space left on device", "full_disk", "disk is full"),
        ("FATAL:  could not map anonymous shared memory: Cannot allocate memory", "environment", "shared buffers"),
        ("x: error while loading shared libraries: libpq.so.5: cannot open", "environment", "libpq5"),
        ("LOG:  one\nFATAL:  two\nHINT:  three", "engine", "FATAL:  two"),
    ],
)
def test_a_failure_is_told_in_the_words_of_the_log(tmp_path: Path, log: str, kind: str, what: str) -> None:
    (tmp_path / "server.log").write_text(log + "\n")
    told = failure("the server did not start", 1, tmp_path / "server.log")
    assert told.kind == kind
    assert what in " ".join((told.what, told.hint or ""))


# Conditions.


@pytest.mark.parametrize("workload", ["tpcc", "hot_rows"])
def test_every_condition_has_words_that_postgresql_understands(workload: str) -> None:
    found = read_conditions(workload, POSTGRES)
    assert [condition.number for condition in found] == list(range(1, len(found) + 1))
    for condition in found:
        words = condition.query.upper()
        for foreign in (" IS NOT SUM", "GLOB", "TYPEOF", "INDEXED BY", "CROSS JOIN", "<=>", "STRAIGHT_JOIN", "REGEXP"):
            assert foreign not in words, condition.name
        query = condition.with_values({"rows": 7, "initial_delivered": 2100})
        assert ":" not in query.replace("::", "")


# Sizes.


def index_page(level: int, entries: int, *, following: int = 0, flags: int = 0) -> bytes:
    lower, upper, special = 24 + 4 * entries, 4000, PAGE - 16
    page = bytearray(PAGE)
    struct.pack_into("<HHH", page, 12, lower, upper, special)
    struct.pack_into("<IIIHH", page, special, 0, following, level, flags, 0)
    return bytes(page)


def heap_page(rows: int) -> bytes:
    page = bytearray(PAGE)
    struct.pack_into("<HHH", page, 12, 24 + 4 * rows, 1000, PAGE)
    return bytes(page)


def relation(oid: int, name: str, kind: str, pages: int, **more: Any) -> dict[str, Any]:
    return {"oid": oid, "name": name, "kind": kind, "table_oid": 0, "primary": False, "method": "", "toast_oid": 0,
            "rows": 0, "bytes": pages * PAGE, "file": f"{oid}", **more}  # fmt: skip


def test_a_tables_levels_are_those_of_its_keys_index_and_the_heap_below(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    deleted = 1 << 2
    key = [
        bytes(PAGE),
        index_page(0, 11, following=2),
        index_page(0, 5),
        index_page(1, 2),
        index_page(0, 3, flags=deleted),
    ]
    (data / "1").write_bytes(heap_page(40) * 7)
    (data / "2").write_bytes(b"".join(key))
    (data / "3").write_bytes(bytes(PAGE) + index_page(0, 9))
    found = [
        relation(1, "t", "r", 7, rows=15),
        relation(2, "t_pkey", "i", 5, table_oid=1, primary=True, method="btree", rows=15),
        relation(3, "by_k", "i", 2, table_oid=1, method="btree"),
    ]
    shape = relation_sizes.count(data, found)
    table, index = shape["trees"]
    assert (table["name"], table["level_pages"], table["rows"]) == ("t", [1, 2, 7], 15)
    assert (table["leaf_pages"], table["interior_pages"]) == (7, 3)
    assert (index["name"], index["level_pages"], index["rows"]) == ("by_k", [1], 9)
    assert shape["pages"] == 14
    relation_sizes.sizes_of(found).store(tmp_path)
    assert server_sizes.read_sizes(tmp_path)["allocated_bytes"] == 14 * PAGE


# Memory limits.


def test_a_group_is_made_below_our_own_where_it_can_be_seen(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    assert memory_limit._own_folder(tmp_path, "/", "/a/b") == tmp_path / "a/b"
    assert memory_limit._own_folder(tmp_path, "/a", "/a/b") == tmp_path
    assert memory_limit._own_folder(tmp_path, "/a", "/a") == tmp_path
    assert memory_limit._own_folder(tmp_path, "/", "/elsewhere") == tmp_path


def test_a_host_without_a_memory_controller_is_told_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory_limit, "_mounts", lambda: [])
    with pytest.raises(EnvironmentLackingError, match="no memory controller") as caught:
        memory_limit.usable()
    assert "leave memory_limit out" in (caught.value.hint or "")
    # cgroups of version 2, in which the memory controller is not switched on for child groups.
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    monkeypatch.setattr(memory_limit, "_mounts", lambda: [(tmp_path, "/", "cgroup2", frozenset())])
    with pytest.raises(EnvironmentLackingError, match="neither this group nor one above it"):
        memory_limit.usable()


def test_groups_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path: Path) -> None:
    here, own = memory_limit._namespace(), memory_limit._start_of("self")
    living = tmp_path / f"bufferlab-{here}-{os.getpid()}-{own}-aa"
    dead = tmp_path / "deep" / f"bufferlab-{here}-999999999-123-bb"
    again = tmp_path / f"bufferlab-{here}-{os.getpid()}-1-cc"
    # The number belongs to a process of a container, or of the host around ours.
    elsewhere = tmp_path / "bufferlab-1-999999999-123-dd"
    for folder in (living, dead, again, elsewhere):
        folder.mkdir(parents=True)
    memory_limit.remove_stale(memory_limit.Hierarchy(1, tmp_path, tmp_path))
    assert living.exists()
    assert not dead.exists()
    assert not again.exists(), "another process had its number"
    assert elsewhere.exists()


def test_a_groups_name_tells_the_process_that_made_it_and_the_namespace_of_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchy = memory_limit.Hierarchy(1, tmp_path, tmp_path)
    group = memory_limit._make(hierarchy)
    namespace = os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]")
    assert group.name.startswith(f"bufferlab-{namespace}-{os.getpid()}-{memory_limit._start_of('self')}-")
    monkeypatch.setattr(memory_limit, "_start_of", lambda pid: "")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(memory_limit, "_namespace", lambda: "1")
        memory_limit.remove_stale(hierarchy)
    assert group.exists(), "a container has no process of that number"
    memory_limit.remove_stale(hierarchy)
    assert not group.exists()
