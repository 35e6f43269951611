"""Larger pools, estimated from reads and evictions: compared with LRU pools of those sizes and a naive twin;
refusals."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bufferlab.engines.servers.look import NotTold
from bufferlab.live import constants
from bufferlab.live import size_estimates as larger
from bufferlab.live.bounds import SizeEstimate
from bufferlab.live.live_trace import Recorded
from bufferlab.live.size_estimates import answer
from support.advised import (
    CREATE,
    EVICT,
    PAGE_BYTES,
    READ,
    columns_of,
    counted,
    facts,
    lru_misses,
    lru_reads,
    recorded,
    skewed,
)

FRAMES = 300


def _estimates(window: Recorded, frames: int, sizes: list[int], **further: object) -> list[SizeEstimate]:
    pool = facts(frames, **{"engine": "lru", "model": "lru", **further})
    told = answer([window], pool, counted(window), [size * PAGE_BYTES for size in sizes], None)
    return list(told)


def test_bounds_hold_what_larger_pools_of_lru_read() -> None:
    sizes, held, errors, cells = [330, 400, 500, 600], 0, [], 0
    for seed in range(10):
        pages = skewed(seed, 3000, 60_000)
        window = lru_misses(pages, FRAMES, warm=10_000)
        for size, told in zip(sizes, _estimates(window, FRAMES, sizes), strict=True):
            truth = lru_reads(pages, size, warm=10_000) / window.seconds
            assert told.reads_per_s is not None
            assert told.low is not None
            assert told.high is not None
            held += told.low <= truth <= told.high
            errors.append(abs(told.reads_per_s / truth - 1))
            cells += 1
    assert held >= 0.95 * cells
    assert max(errors) < 0.03, "the list is exact for LRU but for its beginning"


def test_a_list_that_is_still_short_makes_nothing_look_like_a_read() -> None:
    pages = skewed(5, 3000, 16_000)
    window = lru_misses(pages, FRAMES, warm=10_000)
    told = _estimates(window, FRAMES, [600])[0]
    truth = lru_reads(pages, 600, warm=10_000) / window.seconds
    found = larger.distances([window], 0)
    naive = np.count_nonzero(~((found.depth > 0) & (found.depth <= 300))) / window.seconds
    assert naive > 1.05 * truth, "reads before the list is long enough look cold"
    assert told.reads_per_s == pytest.approx(truth, rel=0.04)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 25), st.booleans()), min_size=1, max_size=120), st.integers(1, 30))
def test_the_share_that_remains_is_the_product_limit_estimate_by_hand(
    events: list[tuple[int, bool]], more: int
) -> None:
    rows = [(page, EVICT if evicts else READ) for page, evicts in events]
    window = recorded(columns_of(rows))
    found = larger.distances([window], 0)
    by_hand = 1.0
    for depth in range(1, more + 1):
        at_risk = sum(d >= depth if d else length >= depth for d, length in zip(found.depth, found.length, strict=True))
        hits = int(np.count_nonzero(found.depth == depth))
        by_hand *= 1 - hits / at_risk if at_risk else 1.0
    every = np.ones((1, len(found.cut.seconds)))
    assert larger.remaining(found, more, every)[0] == pytest.approx(by_hand)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(50, 400))
def test_more_memory_reads_no_more_and_every_value_lies_in_its_bounds(seed: int, frames: int) -> None:
    window = lru_misses(skewed(seed, 1500, 12_000), frames, warm=2000)
    sizes = [frames, frames + 10, frames + 50, 2 * frames, 8 * frames]
    told = _estimates(window, frames, sizes)
    values = [one.reads_per_s for one in told if one.reads_per_s is not None]
    assert values == sorted(values, reverse=True)
    for one in told:
        if one.reads_per_s is not None:
            assert one.low is not None
            assert one.high is not None
            assert one.low <= one.reads_per_s <= one.high


def test_beyond_the_longest_distance_it_says_how_long_a_window_would_tell_and_that_one_does() -> None:
    pages = skewed(3, 20_000, 260_000, power=0.8)
    short = lru_misses(pages[:14_000], FRAMES, warm=8000)
    told = _estimates(short, FRAMES, [5000])[0]
    assert told.cannot_say is not None
    assert "long enough for pools of up to" in told.cannot_say.why
    assert told.reads_per_s is None
    truth = lru_reads(pages[:14_000], 5000, warm=8000) / short.seconds
    assert told.high is not None
    assert truth <= told.high, "a larger pool reads no more"
    assert told.longest_pages is not None
    assert told.longest_pages < 4700
    assert told.cannot_say.remedy is not None
    assert told.cannot_say.remedy.startswith("record for ")
    number, unit = told.cannot_say.remedy.split()[2:4]
    seconds = int(number) * (60 if unit == "min" else 1)
    longer = lru_misses(pages[: 8000 + seconds * 1000], FRAMES, warm=8000)
    assert _estimates(longer, FRAMES, [5000])[0].reads_per_s is not None


def test_where_all_that_is_read_fits_it_says_fewer_than() -> None:
    pages = skewed(2, 700, 200_000, power=0.4)
    window = lru_misses(pages, FRAMES, warm=2000)
    told = _estimates(window, FRAMES, [3000])[0]
    assert told.reads_per_s is None
    assert told.cannot_say is None
    assert told.low == 0.0
    assert told.high is not None
    assert told.high <= constants.FEW_SHARE * counted(window).reads / window.seconds + 1


def test_a_smaller_pool_and_one_of_as_many_frames() -> None:
    window = lru_misses(skewed(1, 3000, 30_000), FRAMES, warm=5000)
    smaller, same = _estimates(window, FRAMES, [200, FRAMES])
    assert smaller.cannot_say is not None
    assert smaller.cannot_say.remedy == "record all accesses: --tier full"
    assert same.low is not None
    assert same.high is not None
    assert same.low < counted(window).reads / window.seconds < same.high
    assert same.reads_per_s == pytest.approx(counted(window).reads / window.seconds)


def test_a_creation_takes_its_page_out_of_the_list_without_a_read() -> None:
    rows = [(1, EVICT), (2, EVICT), (1, CREATE), (2, READ), (1, EVICT), (1, READ)]
    found = larger.distances([recorded(columns_of(rows))], 0)
    assert found.depth.tolist() == [1, 1]
    assert found.length.tolist() == [1, 1]


def test_reads_by_a_ring_remain_and_do_not_lengthen_the_list() -> None:
    # A session scans 400 pages again and again by a ring of 32 buffers; between its reads another session reads by LRU.
    rows: list[tuple[int, int, int, int]] = []
    ring: list[int] = []
    ordinary = lru_misses(skewed(4, 900, 60_000), 100, warm=2000).columns
    scanned = 0
    for number, (page, kind) in enumerate(zip(ordinary["page"].tolist(), ordinary["kind"].tolist(), strict=True)):
        rows.append((page, kind, 0, 4))
        if kind == READ and number % 3 == 0:
            if len(ring) == 32:
                rows.append((ring.pop(0), EVICT, 1, 0))
            rows.append((1000 + scanned % 400, READ, 1, 8))
            ring.append(1000 + scanned % 400)
            scanned += 1
    columns = columns_of([row[:2] for row in rows])
    columns["thread"] = np.array([row[2] for row in rows], np.uint16)
    columns["latch"] = np.array([row[3] for row in rows], np.uint8)
    window = recorded(columns)
    by_scan = columns["page"][columns["kind"] == READ] >= 1000
    found, alone = larger.distances([window], 32), larger.distances([recorded(ordinary)], 0)
    assert scanned > 1000
    assert np.all(found.depth[by_scan][400:] == larger.BY_RING)
    assert found.depth[~by_scan].tolist() == alone.depth.tolist()
    objects = np.where(np.arange(len(window.object)) < 1000, 7, 8).astype(np.uint32)
    window = replace(window, object=objects, page_in_object=np.arange(len(objects), dtype=np.uint32) % 1000)
    pool = facts(100 * 8, engine="postgres", model="postgres")
    # A pool of 800 frames has a ring of 100 buffers at most, an eighth; with fewer than 1,600 frames the table needs a
    # ring.
    told = answer([window], pool, counted(window), [900 * PAGE_BYTES, 2000 * PAGE_BYTES], None)
    assert told[0].cannot_say is None
    assert told[1].cannot_say is not None
    assert "ring" in told[1].cannot_say.why


def test_two_windows_tell_what_one_tells_and_the_list_begins_anew() -> None:
    pages = skewed(8, 3000, 90_000)
    whole = lru_misses(pages, FRAMES, warm=10_000)
    parts = [lru_misses(pages[:50_000], FRAMES, warm=10_000), lru_misses(pages[10_000:], FRAMES, warm=40_000)]
    sizes = [500 * PAGE_BYTES]
    reads = sum(counted(part).reads for part in parts)
    both = answer(parts, facts(FRAMES), replace(counted(whole), reads=reads, seconds=80.0), sizes, None)[0]
    one = answer([whole], facts(FRAMES), counted(whole), sizes, None)[0]
    assert both.reads_per_s == pytest.approx(one.reads_per_s, rel=0.03)


@pytest.mark.parametrize("seed", range(8))
def test_short_windows_and_then_a_long_one_of_the_same_load_are_no_change_of_the_mix(seed: int) -> None:
    """The windows of the tier `full`: three short ones, in which the list of evicted pages stays short, then the rest
    as `misses`."""
    pages, warm = skewed(seed, 20_000, 22_000, power=0.9), 10_000
    edges = [warm, warm + 1000, warm + 2000, warm + 3000, len(pages)]
    parts = [lru_misses(pages[:end], FRAMES, warm=begin) for begin, end in pairwise(edges)]
    seconds, reads = (sum(getattr(counted(part), name) for part in parts) for name in ("seconds", "reads"))
    pool, size = facts(FRAMES, engine="lru", model="lru"), FRAMES + 500
    both = replace(counted(parts[0]), seconds=seconds, reads=reads)
    (told,) = larger.estimates(parts, pool, both, [size * PAGE_BYTES])
    assert told.cannot_say is None
    truth = lru_reads(pages, size, warm=warm) / seconds
    assert told.low is not None
    assert told.high is not None
    assert told.low <= truth <= told.high


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (lambda: lru_misses(skewed(1, 3000, 30_400), FRAMES, warm=30_000), "are needed"),
        (lambda: _changed_mix(), "mix changed"),
        (lambda: _changed_load(), "load changed"),
    ],
)
def test_it_refuses_by_name(window, words: str) -> None:  # type: ignore[no-untyped-def]
    told = _estimates(window(), FRAMES, [500])[0]
    assert told.cannot_say is not None
    assert words in told.cannot_say.why
    assert told.cannot_say.remedy


def _changed_mix() -> Recorded:
    # For half of the time accesses follow a power law. Then they loop over slightly more pages than the pool has,
    # between hits: the reads a second stay equal, but some more frames would have spared the loop's reads.
    hot = skewed(1, 3000, 30_000)
    loop = np.column_stack((np.tile(np.arange(5000, 5330), 20), np.full(6600, 9), np.full(6600, 9)))
    return lru_misses(np.concatenate((hot, loop.reshape(-1).astype(np.uint32))), FRAMES, warm=10_000)


def _changed_load() -> Recorded:
    window = lru_misses(skewed(1, 3000, 40_000), FRAMES, warm=5000)
    delta = window.columns["delta_us"].copy()
    delta[len(delta) // 2 :] //= 3
    return replace(window, columns={**window.columns, "delta_us": delta}, seconds=float(delta.sum()) / 1e6)


@pytest.mark.parametrize(("reads", "most_per_s"), [(0, 0.0), (9, 9 / 80)])
def test_where_a_load_hardly_reads_more_memory_brings_nothing_and_less_is_not_told(
    reads: int, most_per_s: float
) -> None:
    window = recorded(columns_of([(page, READ) for page in range(reads)]), seconds=80.0)
    sizes = [size * PAGE_BYTES for size in (FRAMES // 2, 2 * FRAMES)]
    smaller, greater = answer([window], facts(FRAMES), counted(window), sizes, None)
    assert (greater.reads_per_s, greater.low, greater.high, greater.cannot_say) == (None, 0.0, most_per_s, None)
    assert smaller.cannot_say is not None
    assert "holds all that this load reads" in smaller.cannot_say.why
    lost = replace(window, ended="lost")
    assert all(one.cannot_say for one in answer([lost], facts(FRAMES), counted(window), sizes, None))


def test_counts_that_differ_and_lost_records_are_refused() -> None:
    window = lru_misses(skewed(1, 3000, 30_000), FRAMES, warm=5000)
    size = [500 * PAGE_BYTES]
    differ = answer([window], facts(FRAMES), counted(window, times=1.2), size, None)[0]
    assert differ.cannot_say is not None
    assert "the server counted" in differ.cannot_say.why
    lost = answer([replace(window, ended="lost")], facts(FRAMES), counted(window), size, None)[0]
    assert lost.cannot_say is not None
    assert "lost" in lost.cannot_say.why


def test_a_record_of_which_no_read_counts_says_why() -> None:
    counts = counted(lru_misses(skewed(1, 3000, 30_000), FRAMES, warm=5000))
    nothing = replace(recorded(columns_of([]), seconds=80.0), read_s=np.arange(150.0))
    slow = NotTold("the pool turns over slowly", "record for longer")
    for window, why in ((nothing, "150 reads were recorded, and 200 are needed"),
                        (replace(nothing, cannot_say=slow), slow.why),
                        (replace(nothing, read_s=np.empty(0)), "nothing was recorded")):  # fmt: skip
        (told,) = answer([window], facts(FRAMES), counts, [500 * PAGE_BYTES], None)
        assert told.cannot_say is not None
        assert told.cannot_say.why == why


def test_frames_of_a_known_server_count_by_the_share_that_it_uses() -> None:
    window = lru_misses(skewed(1, 3000, 40_000), FRAMES, warm=10_000)
    as_lru, as_mysql = (_estimates(window, FRAMES, [600], engine=engine)[0] for engine in ("lru", "mysql"))
    exact = _estimates(window, FRAMES, [FRAMES + 285])[0]
    assert as_lru.reads_per_s is not None
    assert as_mysql.reads_per_s is not None
    assert as_mysql.reads_per_s == exact.reads_per_s > as_lru.reads_per_s


def test_frames_follow_the_servers_own_count() -> None:
    pool = facts(8064, pool_size_bytes=8192 * PAGE_BYTES)
    assert (pool.frames(8192 * PAGE_BYTES), pool.frames(16_384 * PAGE_BYTES)) == (8064, 16_128)
    assert facts(8064).frames(8192 * PAGE_BYTES) == 8192


@pytest.mark.parametrize(
    ("engine", "version", "share"),
    [("mysql", "9.7.4", 0.95), ("mariadb", "10.2.11-MariaDB", 0.95), ("mariadb", "11.8.9-MariaDB", 0.97),
     ("postgres", "19", 0.97)],
)  # fmt: skip
def test_versions_without_a_model_use_added_frames_as_their_family_does(
    engine: str, version: str, share: float
) -> None:
    assert constants.frames_used(engine, version) == share
