"""Pages that InnoDB's page cleaner keeps free: the gain of a lower innodb_lru_scan_depth, or the reason to keep it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.engines.servers.look import PoolLevels
from bufferlab.live import free_pages, observe_page, sentence
from bufferlab.live.free_pages import Kept
from bufferlab.live.look_result import Seen
from bufferlab.live.window import SampledRow
from unit.test_observe import COUNTS, FACTS, seen

POOL = 8192.0


def _seen(free: float, came: tuple[float, ...], instances: int = 1, depth: int = 1024, misses: int = 1000) -> Seen:
    """Return a look with one second for each number of pages that entered the pool."""
    settings = {"innodb_lru_scan_depth": str(depth), "innodb_buffer_pool_instances": str(instances)}
    made = seen({**COUNTS, "misses": misses}, replace(FACTS, settings=settings, page_size_bytes=16384))
    levels = {"pool_pages": POOL, "free_pages": free}
    counts = dict.fromkeys(COUNTS, 0.0)
    made.window.rows = [
        SampledRow(float(place), 1.0, {**counts, "pages_read": pages - 10.0, "pages_created": 10.0}, levels)
        for place, pages in enumerate(came)
    ]
    end = PoolLevels(levels, {})
    return replace(made, begin=end, end=end)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (_seen(900, (110, 130, 90)), "keeps 11 % of the pool free (innodb_lru_scan_depth is 1,024). SET GLOBAL "
         "innodb_lru_scan_depth = 260 would leave 640 of these pages (10 MiB) to data, without a restart; the busiest "
         "second of the look took 130."),
        (_seen(2000, (200,), 2), "1,024 in each of 2 instances). SET GLOBAL innodb_lru_scan_depth = 200 would leave "
         "1,600 of these pages (25 MiB)"),
        (_seen(900, (110, 600)), "No lower depth is safe by this look: in one second 600 pages came in, and the free "
         "list should have 2 times as many."),
        (_seen(250, (110,)), "It hardly matters: a lower depth would leave 30 pages (480 KiB) to data."),
    ],
)  # fmt: skip
def test_it_is_told_what_a_lower_depth_gives_or_why_it_should_stay(made: Seen, words: str) -> None:
    shown = " ".join((sentence.observed(made), *observe_page.as_report(made).limits))
    assert shown.count("The page cleaner keeps") == 1
    assert words in shown


@pytest.mark.parametrize(
    "made",
    [
        _seen(80, (110,)),
        _seen(900, (110,), misses=0),
        _seen(5000, (110,)),
        replace(_seen(900, (110,)), facts=replace(FACTS, settings={})),
    ],
    ids=["few", "no misses", "never filled", "no cleaner"],
)
def test_free_pages_that_do_not_matter_or_are_of_no_cleaner_are_left_out(made: Seen) -> None:
    assert free_pages.kept(made) is None
    assert "page cleaner" not in sentence.observed(made)


@given(
    depth=st.integers(100, 20_000),
    instances=st.integers(1, 64),
    free=st.floats(0, 1e6),
    most=st.floats(0, 1e6),
)
def test_what_stays_free_lasts_for_the_busiest_second(depth: int, instances: int, free: float, most: float) -> None:
    one = Kept(depth, instances, free, 2e6, 16384, most)
    assert one.enough >= 100
    if one.gained_pages:
        assert free - one.gained_pages >= 2 * most * instances
        assert f"{one.gained_pages:,}" in one.sentence
    else:
        assert "No lower depth is safe" in one.sentence
