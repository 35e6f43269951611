"""Writes of larger and smaller pools: a naive twin, and LRU pools of those sizes that write what they evict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bufferlab.live.bounds import Counted, SizeEstimate
from bufferlab.live.live_trace import Recorded
from bufferlab.live.size_estimates import answer, with_writes, written_before
from bufferlab.traces.page_trace import number_of
from support.advised import CREATE, EVICT, PAGE_BYTES, READ, columns_of, counted, facts, recorded, skewed

WRITE = number_of("write")
FRAMES, WARM = 300, 10_000


def _of_lru(pages: NDArray[np.uint32], changes: NDArray[np.bool_], frames: int, every: int = 0) -> Recorded:
    """Return the calls of an LRU pool: it writes a changed page before it evicts it, and at checkpoints.

    A checkpoint comes after `every` accesses; never for 0. Calls before WARM accesses are left out.
    """
    pool: OrderedDict[int, bool] = OrderedDict()
    rows: list[tuple[int, int, int]] = []
    for number, (page, is_change) in enumerate(zip(map(int, pages), changes, strict=True)):
        if every and number % every == 0:
            rows += [(one, WRITE, number) for one, is_dirty in pool.items() if is_dirty]
            pool = OrderedDict.fromkeys(pool, False)
        if page not in pool:
            if len(pool) == frames:
                left, is_dirty = pool.popitem(last=False)
                rows += [(left, WRITE, number)] * is_dirty + [(left, EVICT, number)]
            rows.append((page, READ, number))
        pool[page] = pool.pop(page, False) or bool(is_change)
    kept = np.array([row for row in rows if row[2] >= WARM], np.int64).reshape(-1, 3)
    delta = 1000 * np.diff(kept[:, 2] - WARM, prepend=0).astype(np.uint32)
    return recorded(columns_of(kept[:, :2], delta_us=delta), seconds=(len(pages) - WARM) / 1000)


def _written(window: Recorded) -> float:
    return float(np.count_nonzero(window.columns["kind"] == WRITE))


def _estimates(window: Recorded, sizes: Sequence[int], writes: float | None = None) -> tuple[SizeEstimate, ...]:
    known = replace(counted(window), writes=_written(window) if writes is None else writes)
    pool = facts(FRAMES, engine="lru", model="lru")
    return answer([window], pool, known, [size * PAGE_BYTES for size in sizes], None)


@pytest.mark.parametrize("every", [0, 2000])
def test_bounds_hold_what_larger_pools_of_lru_write(every: int) -> None:
    sizes, cells, held, spared = [330, 400, 600], 0, 0, 0.0
    for seed in range(2):
        pages = skewed(seed, 3000, 40_000)
        changes = np.random.default_rng(1000 + seed).random(len(pages)) < 0.3
        window = _of_lru(pages, changes, FRAMES, every)
        for size, told in zip(sizes, _estimates(window, sizes), strict=True):
            truth = _written(_of_lru(pages, changes, size, every)) / window.seconds
            assert told.writes_low_per_s is not None
            assert told.writes_high_per_s == pytest.approx(_written(window) / window.seconds)
            held += told.writes_low_per_s <= truth <= told.writes_high_per_s
            spared += 1 - told.writes_low_per_s / truth
            cells += 1
    assert held == cells
    # Checkpoints write again what stays, which the bound cannot know.
    assert spared / cells < (0.15 if every == 0 else 0.3), "the lower bound says something"


def test_writes_that_the_calls_did_not_show_may_all_be_spared() -> None:
    pages = skewed(1, 3000, 30_000)
    window = _of_lru(pages, np.full(len(pages), True), FRAMES)
    (seen,), (more,) = _estimates(window, [400]), _estimates(window, [400], 1.5 * _written(window))
    assert seen.writes_low_per_s is not None
    assert more.writes_low_per_s == pytest.approx(seen.writes_low_per_s)
    assert more.writes_high_per_s == pytest.approx(1.5 * _written(window) / window.seconds)


def test_without_the_servers_count_or_beyond_the_look_nothing_is_said_of_writes() -> None:
    pages = skewed(1, 3000, 30_000)
    window = _of_lru(pages, np.full(len(pages), True), FRAMES)
    pool = facts(FRAMES, engine="lru", model="lru")
    (uncounted,) = answer([window], pool, counted(window), [400 * PAGE_BYTES], None)
    assert uncounted.reads_per_s is not None
    (far,) = _estimates(window, [100_000])
    assert {uncounted.writes_high_per_s, far.writes_high_per_s} == {None}


def test_a_page_that_comes_back_without_a_read_may_be_spared() -> None:
    random = np.random.default_rng(7)
    rows: list[tuple[int, int]] = []
    pool: OrderedDict[int, None] = OrderedDict()
    created = 0
    for page in map(int, random.integers(0, 600, 20_000)):
        if page in pool:
            pool.move_to_end(page)
            continue
        if len(pool) == FRAMES:
            left, _ = pool.popitem(last=False)
            rows += [(left, WRITE), (left, EVICT)]
        # Half of the pages are always made anew.
        rows.append((page, CREATE if page % 2 else READ))
        created += page % 2
        pool[page] = None
    window = recorded(columns_of(rows))
    (told,) = _estimates(window, [500])
    assert told.writes_low_per_s is not None
    assert told.writes_high_per_s == pytest.approx(_written(window) / window.seconds)
    spared = told.writes_high_per_s - told.writes_low_per_s
    assert spared > 0.9 * created / window.seconds, "each creation may be spared, and most reads of 500 frames"


def test_two_windows_are_two_records() -> None:
    pages = skewed(1, 3000, 50_000)
    changes = np.full(len(pages), True)
    one, other = _of_lru(pages, changes, FRAMES), _of_lru(pages[::-1].copy(), changes, FRAMES)
    known = replace(counted(one), writes=_written(one) + _written(other), seconds=one.seconds + other.seconds,
                    reads=counted(one).reads + counted(other).reads)  # fmt: skip
    pool = facts(FRAMES, engine="lru", model="lru")
    (both,) = answer([one, other], pool, known, [400 * PAGE_BYTES], None)
    (alone,) = _estimates(one, [400])
    assert both.writes_low_per_s == pytest.approx(alone.writes_low_per_s, rel=0.1)


def test_a_window_that_gives_no_answer_for_reads_gives_none_for_writes() -> None:
    pages = skewed(1, 3000, 30_000)
    window = _of_lru(pages, np.full(len(pages), True), FRAMES)
    known = replace(counted(window, times=2.0), writes=_written(window))
    pool = facts(FRAMES, engine="lru", model="lru")
    (told,) = answer([window], pool, known, [400 * PAGE_BYTES], None)
    assert told.cannot_say
    assert told.writes_high_per_s is None


def test_a_look_without_a_whole_second_says_nothing_of_writes() -> None:
    pages = skewed(1, 3000, 30_000)
    window = _of_lru(pages, np.full(len(pages), True), FRAMES)
    pool, sizes = facts(FRAMES, engine="lru", model="lru"), [400 * PAGE_BYTES]
    unseen = Counted(0.0, 0.0, 0.0, 0.0, "statement", writes=0.0)
    for one in (window, replace(window, seconds=0.0)):
        (told,) = answer([one], pool, unseen, sizes, None)
        assert told.cannot_say
        assert told.writes_high_per_s is None


@pytest.mark.parametrize(
    ("engine", "settings", "most"),
    [("postgres", {}, 35.0), ("mysql", {"flush_neighbors": 0}, 35.0), ("mysql", {"flush_neighbors": 1}, None)],
)
def test_a_smaller_pool_writes_a_page_more_for_each_further_read(
    engine: str, settings: dict[str, int], most: float | None
) -> None:
    smaller = SizeEstimate(200 * PAGE_BYTES, 20.0, 18.0, 25.0, "full")
    known = Counted(10.0, 100.0, 1000.0, 10.0, "transaction", writes=200.0)
    pool = facts(FRAMES, engine=engine, settings=settings)
    (told,) = with_writes([smaller], None, pool, known)
    assert (told.writes_low_per_s, told.writes_high_per_s) == (None if most is None else 20.0, most)


Events = list[tuple[int, int]]


def _naive(rows: Events) -> list[int]:
    """Return for each row with which a page comes the writes of the page's last stay; else 0."""
    found = [0] * len(rows)
    for place, (page, kind) in enumerate(rows):
        left = [number for number, row in enumerate(rows[:place]) if row == (page, EVICT)]
        if kind in (READ, CREATE) and left:
            came = [number for number, (other, how) in enumerate(rows[: left[-1]])
                    if other == page and how in (READ, CREATE)]  # fmt: skip
            found[place] = rows[(came[-1] if came else 0) : left[-1]].count((page, WRITE))
    return found


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([READ, WRITE, EVICT, CREATE])), max_size=60))
def test_the_writes_of_a_pages_last_stay_are_those_that_a_slow_count_finds(rows: Events) -> None:
    assert written_before(columns_of(rows)).tolist() == _naive(rows)
