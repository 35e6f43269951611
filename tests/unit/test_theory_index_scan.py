"""Pages that a query reads by its plan, compared with an LRU pool that is simulated row by row."""

from __future__ import annotations

import random
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.theory.index_scan import pages_read


def played(pages: int, rows: int, wanted: int, pool: int, seed: int) -> int:
    """Return the misses of an LRU pool if the wanted rows lie at random places and are fetched in the index's order."""
    draw = random.Random(seed)
    per_page = rows // pages
    cached: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for row in draw.sample(range(rows), wanted):
        page = row // per_page
        if page in cached:
            cached.move_to_end(page)
            continue
        misses += 1
        cached[page] = None
        if len(cached) > pool:
            cached.popitem(last=False)
    return misses


@pytest.mark.parametrize(("pool", "wanted"), [(20, 16_000), (100, 16_000), (160, 16_000), (400, 16_000), (20, 300)])
def test_an_index_scan_of_scattered_rows_reads_as_many_pages_as_a_pool_that_is_played(pool: int, wanted: int) -> None:
    pages, rows = 200, 16_000
    seen = sum(played(pages, rows, wanted, pool, seed) for seed in range(3)) / 3
    # The formula begins with a full pool, so it leaves out the first reads of pages.
    assert seen == pytest.approx(pages_read("index_scan", pages, rows, wanted, 0, pool), rel=0.05)


def test_a_sequential_scan_reads_the_table_whatever_the_pool_and_the_range() -> None:
    assert {pages_read("sequential", 700, 56_000, wanted, 90, pool) for wanted in (1, 56_000) for pool in (1, 9e9)} == {
        700.0
    }


@given(
    pages=st.integers(1, 10_000),
    per_page=st.integers(1, 100),
    share=st.floats(0.001, 1),
    leaves=st.integers(0, 1000),
    pool=st.floats(1, 20_000),
)
def test_a_bitmap_reads_no_more_than_an_index_scan_and_a_larger_pool_never_costs_reads(
    pages: int, per_page: int, share: float, leaves: int, pool: float
) -> None:
    rows = pages * per_page
    wanted = max(1, int(share * rows))
    bitmap, index = (pages_read(plan, pages, rows, wanted, leaves, pool) for plan in ("bitmap", "index_scan"))
    assert 0 < bitmap <= index * (1 + 1e-9)
    assert bitmap <= leaves + pages * (1 + 1e-9)
    assert index <= leaves + max(wanted, bitmap) + 1e-6
    assert pages_read("index_scan", pages, rows, wanted, leaves, 2 * pool) <= index + 1e-6
