"""SQLite as a buffer pool: its counts agree with the kernel, with SQLite itself and with the stock cache."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from bufferlab.engines.sqlite.consistency_by_sqlite3 import check
from support import core

pytestmark = pytest.mark.real

MIB = 1 << 20


def test_direct_reads_are_the_process_reads_land_in_frames_and_reach_the_device(database: Path) -> None:
    run = core.run(database, pool_size_bytes=4 * MIB, transactions=600, warm_up=300)
    counted = run.delta("db_read_bytes")
    assert run.delta("pages_read") > 10_000, "too few reads to compare with the device"
    assert counted == pytest.approx(run.delta("process_read_bytes"), rel=0.005)
    assert run.delta("bounce_reads") == 0
    device = [subject for metric, subject in run.end if metric == "device_read_bytes"]
    assert device, "the device of the checkout could not be resolved"
    # Other programs may read from the same disk: this lower bound is exact, and the sweep's report checks an upper one.
    assert run.delta("device_read_bytes", device[0]) >= 0.98 * counted


def test_buffered_reads_can_be_served_by_the_kernel(database: Path) -> None:
    run = core.run(database, pool_size_bytes=4 * MIB, io_mode="buffered", transactions=400, warm_up=400)
    assert run.delta("pages_read") > 1000
    assert run.delta("process_read_bytes") < 0.5 * run.delta("db_read_bytes")


@pytest.mark.parametrize("io_mode", ["direct", "buffered"])
def test_ours_and_stock_differ_in_nothing_but_the_memory(loaded: Path, database: Path, io_mode: str) -> None:
    misses = {}
    for pcache in ("ours", "stock"):
        core.copy(loaded, database)
        of = {"pcache": pcache, "io_mode": io_mode, "transactions": 400, "warm_up": 200}
        run = core.run(database, pool_size_bytes=8 * MIB, **of)
        misses[pcache] = run.delta("demand_misses")
        assert run.answer["actual"]["pool_frames"] == 2048
    assert misses["ours"] > 4000
    assert misses["stock"] == pytest.approx(misses["ours"], rel=0.005)


def test_resident_memory_grows_with_the_pool(loaded: Path, database: Path) -> None:
    resident, pool = {}, {}
    for size in (8 * MIB, 24 * MIB):
        core.copy(loaded, database)
        # Long enough to fill the larger one.
        run = core.run(database, pool_size_bytes=size, transactions=100, warm_up=1_600)
        resident[size] = run.end["resident_bytes", ""]
        pool[size] = run.end["pool_frames_used", ""] * 4096
        assert run.end["pool_frames_used", ""] == run.end["pool_frames", ""] == size / 4096
    growth = resident[24 * MIB] - resident[8 * MIB]
    assert growth == pytest.approx(pool[24 * MIB] - pool[8 * MIB], rel=0.10)


def test_the_pools_own_count_is_sqlites_count(database: Path) -> None:
    run = core.run(database, pool_size_bytes=8 * MIB, transactions=1000, warm_up=500)
    # SQLite counts a new page neither as a hit nor as a miss, but the pool must fetch it.
    fetches_of_pages_that_were_there = run.delta("pool_fetches") - run.delta("page_gets")
    assert 0 <= fetches_of_pages_that_were_there <= 1.2 * run.delta("pages_created") + 100
    assert run.delta("pool_hits") <= run.delta("page_gets")
    # A miss is read from the database file or, rarely here, from the short WAL.
    assert run.delta("pages_read") <= run.delta("demand_misses") <= 1.05 * run.delta("pages_read")


def test_the_data_stays_consistent_and_every_transaction_is_accounted_for(database: Path) -> None:
    run = core.run(database, pool_size_bytes=8 * MIB, transactions=2300, warm_up=500)
    answer = check(database, {"name": "tpcc", "warehouses": 1}, run.answer["delivered_orders"])
    assert [c["condition"] for c in answer["conditions"] if not c["passed"]] == []
    assert len(answer["conditions"]) == 13
    assert sum(orders for _, _, orders in run.answer["delivered_orders"]) > 0
    by_type = {
        kind: run.delta("transactions_committed", kind) + run.delta("transactions_rolled_back", kind)
        for kind in ("new_order", "payment", "order_status", "delivery", "stock_level")
    }
    # 2300 transactions are 100 decks of 23 cards; the window need not begin with a new deck.
    assert sum(by_type.values()) == 2300
    assert by_type["new_order"] == pytest.approx(1000, abs=10)
    assert by_type["delivery"] == pytest.approx(100, abs=1)
    recorded = {
        (row["transaction_type"], row["time"]): sum(count for _, _, count in row["buckets"])
        for row in run.answer["latency"]
    }
    assert {kind: recorded[kind, "service"] for kind in by_type} == by_type
    with sqlite3.connect(database) as connection:
        orders = connection.execute("SELECT count(*) FROM orders").fetchone()[0]
    connection.close()
    committed_in_all = run.end["transactions_committed", "new_order"]
    assert orders == 30_000 + committed_in_all


def test_the_same_seed_gives_the_same_run_and_another_seed_another(loaded: Path, database: Path) -> None:
    def counts(seed: int) -> tuple[float, ...]:
        core.copy(loaded, database)
        run = core.run(database, pool_size_bytes=4 * MIB, transactions=200, seed=seed, warm_up=100)
        return tuple(run.delta(metric) for metric in ("demand_misses", "pages_written", "wal_write_bytes"))

    first = counts(3)
    assert counts(3) == first
    assert counts(4) != first


def test_the_loaded_file_is_the_same_whatever_the_number_of_threads(loaded: Path, disk: Path) -> None:
    other, different = disk / "threads.db", disk / "seed.db"
    core.load(other, threads=3)
    core.load(different, seed=2)
    assert other.read_bytes() == loaded.read_bytes()
    assert different.read_bytes() != loaded.read_bytes()
