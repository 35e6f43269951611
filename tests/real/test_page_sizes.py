"""Every page size of SQLite, 512 B to 64 KiB: it loads, is measured in whole pages, and stays consistent."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from bufferlab.engines.sqlite.consistency_by_sqlite3 import check
from support import core

pytestmark = pytest.mark.real

EVERY_DAY = (4096, 16384, 65536)
PAGE_SIZES = [
    pytest.param(size, marks=[] if size in EVERY_DAY else pytest.mark.slow) for size in (512 << n for n in range(8))
]
POOL_BYTES = 8 << 20


def transactions(page_size_bytes: int) -> int:
    """Return the number of measured transactions: small pages are read one by one, so a few hundred transactions read
    enough."""
    return 1000 if page_size_bytes >= 4096 else 300


class Measured:
    """A database of each page size, loaded and run once for all tests."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cache  # noqa: B019 - one for the module
    def of(self, page_size_bytes: int) -> tuple[Path, core.Measured]:
        database = self.root / f"{page_size_bytes}.db"
        core.load(database, page_size_bytes=page_size_bytes)
        # The file itself states its page size: bytes 16 and 17, where 1 means 65,536 (fileformat2.html, 1.3.2).
        (stored,) = struct.unpack(">H", database.read_bytes()[16:18])
        assert stored == (1 if page_size_bytes == 65536 else page_size_bytes)
        count = transactions(page_size_bytes)
        run = core.run(
            database,
            pool_size_bytes=POOL_BYTES,
            page_size_bytes=page_size_bytes,
            transactions=count,
            warm_up=count,
        )
        return database, run


@pytest.fixture(scope="module")
def measured(disk: Path) -> Iterator[Measured]:
    root = disk / "page-sizes"
    root.mkdir()
    yield Measured(root)
    shutil.rmtree(root)


@pytest.mark.parametrize("page_size_bytes", PAGE_SIZES)
def test_a_database_of_any_page_size_is_measured_in_whole_pages_and_stays_consistent(
    measured: Measured, page_size_bytes: int
) -> None:
    database, run = measured.of(page_size_bytes)
    assert run.answer["actual"]["page_size_bytes"] == page_size_bytes
    assert run.answer["actual"]["pool_frames"] == POOL_BYTES // page_size_bytes
    assert run.answer["measured"]["transactions"] == transactions(page_size_bytes)
    reads = run.delta("pages_read")
    assert reads > 500, "the pool holds everything: nothing was measured"
    # No read bypasses the pool: if allowed, SQLite would read overflow pages directly from the file.
    assert run.delta("db_other_reads") == 0
    assert run.delta("db_read_bytes") == reads * page_size_bytes
    assert run.delta("demand_misses") == pytest.approx(reads, rel=0.01)
    assert run.delta("bounce_reads") == 0
    assert run.delta("process_read_bytes") == pytest.approx(run.delta("db_read_bytes"), rel=0.02)
    answer = check(database, {"name": "tpcc", "warehouses": 1}, run.answer["delivered_orders"])
    assert [c["condition"] for c in answer["conditions"] if not c["passed"]] == []
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)


def test_smaller_pages_read_more_pages_and_fewer_bytes(measured: Measured) -> None:
    """Accesses are to random rows, so a page four times as large also brings in rows that are not wanted."""
    pages, read_bytes = {}, {}
    for page_size_bytes in (4096, 16384, 65536):
        _, run = measured.of(page_size_bytes)
        pages[page_size_bytes] = run.delta("pages_read") / run.new_orders()
        read_bytes[page_size_bytes] = run.delta("db_read_bytes") / run.new_orders()
    assert read_bytes[4096] < 0.7 * read_bytes[16384] < 0.7 * 0.7 * read_bytes[65536]
    # Bytes grow with the page size, but by less than it does, since some neighbours are wanted too.
    assert pages[16384] < 1.5 * pages[4096]
