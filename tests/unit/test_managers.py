"""The models of buffer managers: the model of each server, the settings that follow from others, and the core's
refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from bufferlab.engines.native import native
from bufferlab.engines.registry import declaration
from bufferlab.models.managers.declaration import Pool, Server, Traced
from bufferlab.models.predict import MANAGERS, not_compared, of_server
from bufferlab.results.page_traces import PagesOfObject
from bufferlab.results.window import Window


def seen(server: Server, frames: int, objects: Sequence[PagesOfObject], ran: Mapping[str, int] | None = None) -> Traced:
    """Return the facts that a model gets about a run with eight connections and without samples."""
    nothing = Window({}, {}, None)
    return Traced(server, Pool(frames, {}), nothing, 1, 8, objects, ran or {}, list)


def test_every_model_obeys_settings_of_its_engines_and_the_core_knows_it() -> None:
    page, kind = np.zeros(3, np.uint32), np.zeros(3, np.uint8)
    thread, delta_us, latch = np.zeros(3, np.uint16), np.zeros(3, np.uint32), np.zeros(3, np.uint8)
    for manager in MANAGERS:
        for engine in [part.split()[0] for part in manager.servers.split(";")]:
            known = declaration(engine).by_name()
            assert {*manager.defaults} <= {*known}
            assert {*manager.presumes} <= {*known} | {"change_buffering"}
            for name, default in manager.defaults.items():
                assert str(default) in known[name].choices if known[name].choices else known[name].minimum <= default
            server = Server(engine, "10.2")
            traced = seen(server, 600, [PagesOfObject(name="stock", first_page=0, pages=600)])
            settings = json.dumps(manager.settings(traced, Pool(600, manager.defaults)))
            answer = json.loads(
                native().replay(manager.name, settings, 600, 0, 0, 3, page, kind, latch, thread, delta_us)
            )
            assert (answer["gets"], answer["misses"]) == (3, 1)


@pytest.mark.parametrize(
    ("engine", "version", "name"),
    [
        ("mysql", "5.6.24", "innodb57"),
        ("mysql", "8.0.15", "innodb57"),
        ("mysql", "8.4.6", "innodb57"),
        ("mysql", "9.7.4", "innodb57"),
        ("mariadb", "10.2.11", "innodb57"),
        ("mariadb", "10.5.1", "innodb1011"),
        ("mariadb", "11.4.5", "innodb1011"),
        ("postgres", "18.0", "postgres"),
        ("postgres", "19rc1", "postgres"),
        ("sqlite", "3.50.4", "sqlite"),
    ],
)
def test_a_server_has_one_model(engine: str, version: str, name: str) -> None:
    server = Server(engine, version)
    found = of_server(server)
    assert found
    assert found.name == name
    assert [manager.name for manager in MANAGERS if server.is_in(manager.servers)] == [name]


def test_a_server_writes_dirty_neighbours_unless_it_is_mysql_from_8_0_on() -> None:
    found = {}
    for server in (("mysql", "5.7.22"), ("mysql", "8.0.15"), ("mysql", "9.7.4"), ("mariadb", "10.2.11")):
        manager = of_server(Server(*server))
        assert manager
        found[server[1]] = manager.defaults["flush_neighbors"]
    assert found == {"5.7.22": 1, "8.0.15": 0, "9.7.4": 0, "10.2.11": 1}


@pytest.mark.parametrize(
    ("version", "doubted"),
    [("8.0.15", False), ("8.1.0", True), ("8.4.6", True), ("9.6.0", True), ("9.7.4", False)],
)
def test_mysql_between_the_versions_that_were_measured_is_doubted_by_name(version: str, doubted: bool) -> None:
    server = Server("mysql", version)
    manager = of_server(server)
    assert manager
    found = [*not_compared(manager, server)]
    assert [one.name for one in found] == ["not_calibrated"] * doubted
    assert all(f"MySQL {version}" in one.sentence for one in found)


def rings(version: str, frames: int, traced_frames: int = 1000, **ran: int) -> dict[str, Any]:
    """Return the settings of PostgreSQL's model with 8 connections."""
    objects = [
        PagesOfObject(name=name, first_page=1000 * place, pages=pages)
        for place, (name, pages) in enumerate(
            [("(catalog)", 900), ("district", 250), ("stock", 251), ("stock (vm)", 900), ("stock.stock_pkey", 900),
             ("(other)", 400)]
        )
    ]  # fmt: skip
    server = Server("postgres", version)
    manager = of_server(server)
    assert manager
    return dict(manager.settings(seen(server, traced_frames, objects, ran), Pool(frames, {})))


@pytest.mark.parametrize(
    ("version", "frames", "ran", "buffers"),
    [
        ("15.20", 100_000, {"effective_io_concurrency": 100}, 32),
        ("17.2", 256, {}, 32),
        ("17.2", 255, {}, 31),
        ("17.2", 128, {}, 16),
        ("17.2", 4, {}, 1),
        ("18.0", 100_000, {}, 32 + 16 * 16),
        ("18.0", 100_000, {"effective_io_concurrency": 2, "io_combine_limit": 65536}, 32 + 2 * 8),
        ("18.0", 100_000, {"effective_io_concurrency": 0}, 32),
        ("18.0", 92 * 100, {}, 100),
        ("18.0", 92 * 31, {}, 32),
        ("18.6", 100_000, {"io_combine_limit": 1 << 20, "io_max_combine_limit": 128 << 10}, 32 + 16 * 16),
        ("18.6", 100_000, {"io_combine_limit": 1 << 20, "io_max_combine_limit": 1 << 20}, 100_000 // 92),
        # A server as shipped, with 128 MB, has rings of 752 kB.
        ("18.6", 16_384, {"max_connections": 100, "max_wal_senders": 10}, 94),
        ("19rc1", 16_384, {"max_connections": 100, "max_wal_senders": 10}, 94),
        ("19rc1", 16_384, {"max_connections": 260, "max_wal_senders": 10}, 49),
        ("19rc1", 16_384, {"max_connections": 100, "max_wal_senders": 0}, 99),
        ("19rc1", 16_384, {"max_connections": 100, "max_wal_senders": 10, "effective_io_concurrency": 0}, 32),
    ],
)
def test_a_ring_of_postgresql_has_256_kib_and_from_18_on_more(
    version: str, frames: int, ran: dict[str, int], buffers: int
) -> None:
    assert rings(version, frames, **ran)["ring_buffers"] == buffers


@pytest.mark.parametrize(("version", "has_it"), [("15.20", True), ("18.6", True), ("19rc1", False), ("19.1", False)])
def test_buffers_without_a_page_are_in_a_list_before_postgresql_19(version: str, has_it: bool) -> None:
    assert rings(version, 1000)["has_free_list"] is has_it


def test_tables_of_postgresql_above_a_quarter_of_the_frames_are_large_and_indexes_are_not() -> None:
    stock = {"first_page": 2000, "pages": 251, "had_rings": True}
    other = {"first_page": 5000, "pages": 400, "had_rings": True}
    district = {"first_page": 1000, "pages": 250, "had_rings": False}
    assert rings("17.2", 1000)["large_tables"] == [other, stock]
    assert rings("17.2", 999)["large_tables"] == [other, stock, district]
    assert rings("17.2", 1004)["large_tables"] == [other]
    small = rings("17.2", 1000, traced_frames=1004)["large_tables"]
    assert small == [other, {**stock, "had_rings": False}]


@pytest.mark.parametrize(
    ("version", "page_kib", "pool_mib", "frames"),
    [
        ("11.8.9", 4, 5, 1206),
        ("11.8.9", 4, 12, 2924),
        ("10.11.19", 4, 64, 15792),
        ("11.8.9", 8, 64, 8040),
        ("11.8.9", 8, 5, 621),
        ("11.8.9", 16, 64, 4056),
        ("11.8.9", 16, 12, 758),
        ("11.4.5", 16, 12, 768),
        ("10.11.11", 4, 12, 3072),
    ],
)
def test_newer_mariadb_keeps_descriptors_of_frames_inside_the_pool(
    version: str, page_kib: int, pool_mib: int, frames: int
) -> None:
    server = Server("mariadb", version)
    manager = of_server(server)
    assert manager
    assert manager.frames(server, page_kib << 10, pool_mib << 20) == frames


def test_threads_of_mysql_5_6_do_not_wake_the_cleaner() -> None:
    manager = of_server(Server("mysql", "5.6.24"))
    assert manager
    woken = [manager.settings(seen(Server(*server), 600, []), Pool(600, {}))["wakes_cleaner"] for server in
             (("mysql", "5.6.24"), ("mysql", "5.7.22"), ("mariadb", "10.2.11"))]  # fmt: skip
    assert woken == [False, True, True]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"manager": "arc"}, "there is no manager arc"),
        ({"settings_json": "{}", "manager": "innodb57"}, "missing field"),
        ({"settings_json": '{"x": 2}'}, "unknown field"),
        ({"settings_json": '{"lru_scan_depth": -1}', "manager": "innodb57"}, "settings of the manager"),
        ({"settings_json": "["}, "settings of the manager"),
        ({"settings_json": '{"ring_buffers": 0, "large_tables": []}'}, "a ring of 2 buffers has 1 to as many, not 0"),
        ({"settings_json": '{"ring_buffers": 3, "large_tables": []}'}, "not 3"),
        ({"frames": 0}, "a pool has 1 to"),
        ({"frames": 2**32 - 1}, "a pool has 1 to"),
        ({"kind": np.zeros(2, np.uint8)}, "differ in length"),
        ({"page": np.array([0, 1, 2**32 - 1], np.uint32)}, "too many pages"),
        ({"first_row": 3, "end_row": 2}, "rows 0, 3 and 2"),
        ({"load_row": 1}, "rows 1, 0 and 3"),
        ({"end_row": 4}, "rows 0, 0 and 4"),
    ],
)
def test_the_core_refuses_what_it_cannot_replay(change: dict[str, Any], why: str) -> None:
    asked: dict[str, Any] = {
        "manager": "postgres",
        "settings_json": '{"ring_buffers": 1, "large_tables": []}',
        "frames": 2,
        "page": np.zeros(3, np.uint32),
        "kind": np.zeros(3, np.uint8),
        "thread": np.zeros(3, np.uint16),
        "delta_us": np.zeros(3, np.uint32),
        "latch": np.zeros(3, np.uint8),
        "load_row": 0,
        "first_row": 0,
        "end_row": 3,
    }
    assert json.loads(native().replay(**asked))["misses"] == 1
    with pytest.raises(ValueError, match=why):
        native().replay(**(asked | change))


def test_the_core_refuses_a_share_of_old_pages_that_innodb_does_not_take() -> None:
    columns = [np.zeros(1, kind) for kind in (np.uint32, np.uint8, np.uint8, np.uint16, np.uint32)]
    for share in (4, 96, 2**32 - 1):
        settings = {"old_blocks_pct": share, "old_blocks_time": 0, "lru_scan_depth": 100}
        with pytest.raises(ValueError, match="old_blocks_pct is 5 to 95"):
            native().replay("innodb1011", json.dumps(settings), 9, 0, 0, 1, *columns)
