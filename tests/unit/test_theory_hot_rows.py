"""The model of hot rows: compared with published arithmetic, with a naive LRU over a real tree, and with itself at its
limits."""

from __future__ import annotations

import math
import random
import sqlite3
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bufferlab.theory.hot_rows import (
    EDGE_ROWS,
    Layout,
    distinct_pages,
    estimated_tree,
    fit_effective_frames,
    frames_of_data,
    miss_ratio,
    predicted_knee,
    touched_pages,
)

#: Two trees of 20,000 rows: 20 rows in a leaf and 250 leaves in an interior page; and three times as many rows.
ROWS, TREE = 20_000, {"rows": 20_000, "level_pages": [1, 4, 1000]}
MORE_ROWS, TALLER = 60_000, {"rows": 60_000, "level_pages": [1, 12, 3000]}


@pytest.mark.parametrize(("pages", "frames", "knee"), [(137_152, 8192, 8447), (274_304, 16_384, 16_894)])
def test_distinct_pages_of_the_published_table_fill_the_pool_where_arithmetic_says(
    pages: int, frames: int, knee: int
) -> None:
    assert distinct_pages(knee, pages) == pytest.approx(frames, abs=1)
    assert distinct_pages(33_787, 548_608) == pytest.approx(32_768, abs=1)


def test_the_knee_of_the_published_table_is_71_times_less_than_its_size_suggests() -> None:
    for level_pages, frames, knee in (([137_152], 8192, 8447), ([548_608], 32_768, 33_787)):
        # One more frame, because the model also keeps the file's first page; only leaves, as in that arithmetic.
        found = predicted_knee({"level_pages": level_pages}, 10_000_000, frames + 1, "scattered")
        assert found == pytest.approx(knee, rel=3e-3)


def test_interior_pages_and_the_first_page_take_frames_from_the_leaves() -> None:
    bare = predicted_knee({"level_pages": [1000]}, ROWS, 205, "scattered")
    whole = predicted_knee(TREE, ROWS, 205, "scattered")
    assert bare is not None
    assert whole is not None
    assert bare - whole == pytest.approx(5 / distinct_pages(1, 1000, ROWS), rel=0.3)
    assert sum(touched_pages(whole, TREE, ROWS, "scattered")) + 1 == pytest.approx(205, abs=1)


def test_neighbouring_hot_rows_move_the_knee_by_the_rows_of_a_page() -> None:
    found = predicted_knee(TREE, ROWS, 205, "clustered")
    # 205 frames hold the first page, the root, about 1.8 interior pages, and leaves of 20 rows each.
    assert found == pytest.approx(20 * (205 - 2 - 1.8), rel=0.02)


def test_a_pool_that_holds_the_table_has_no_knee_and_one_that_holds_no_row_has_it_at_zero() -> None:
    assert predicted_knee(TREE, ROWS, 1006, "scattered") is None
    assert predicted_knee(TREE, ROWS, 1006, "clustered") is None
    assert predicted_knee(TREE, ROWS, 3, "scattered") == 0


@pytest.mark.parametrize("hot_rows", [1, 50, 700, 5000, 20_000])
def test_distinct_pages_agree_with_drawing_rows(hot_rows: int) -> None:
    rng = random.Random(hot_rows)
    drawn = [len({row // 20 for row in rng.sample(range(ROWS), hot_rows)}) for _ in range(60)]
    assert distinct_pages(hot_rows, 1000, ROWS) == pytest.approx(sum(drawn) / 60, rel=0.02)


def leaves_on_the_way(row: int, edge_rows: int) -> list[int]:
    """Return a row's leaf (20 rows to a leaf); with edge rows also the leaf before a first row or after a last one."""
    own, place = divmod(row, 20)
    beside = {0: own - 1, 19: own + 1}.get(place) if edge_rows else None
    return [own] if beside is None or not 0 <= beside < MORE_ROWS // 20 else [beside, own]


def lru_misses(rows: list[int], frames: int, selects: int, seed: int, edge_rows: int = 0) -> float:
    """Return the misses per select of an LRU cache that gets first page, root, interior page and leaf of each row."""
    rng, cache = random.Random(seed), OrderedDict[str, None]()
    missed = 0
    for select in range(3 * selects):
        row = rng.choice(rows)
        for page in ("first", "root", f"i{row // 5000}", *(f"l{leaf}" for leaf in leaves_on_the_way(row, edge_rows))):
            if page in cache:
                cache.move_to_end(page)
                continue
            missed += select >= selects
            if len(cache) >= frames:
                cache.popitem(last=False)
            cache[page] = None
    return missed / (2 * selects)


@pytest.mark.parametrize("hot_rows", [1, 50, 700, 5000])
def test_rows_at_the_edges_of_leaves_touch_their_neighbours_too(hot_rows: int) -> None:
    rng, tree = random.Random(hot_rows), {**TALLER, EDGE_ROWS: 2}
    drawn, draws = [], 60 if hot_rows > 1 else 3000
    for _ in range(draws):
        rows = rng.sample(range(MORE_ROWS), hot_rows)
        drawn.append(len({leaf for row in rows for leaf in leaves_on_the_way(row, 2)}))
    (_, _, leaves) = touched_pages(hot_rows, tree, MORE_ROWS, "scattered")
    assert leaves == pytest.approx(sum(drawn) / draws, rel=0.02)


@pytest.mark.parametrize("layout", ["scattered", "clustered"])
@pytest.mark.parametrize("times_the_knee", [0.8, 1.1, 1.5, 3.0])
@pytest.mark.parametrize("edge_rows", [0, 2])
def test_the_predicted_misses_are_those_of_a_naive_lru(layout: Layout, times_the_knee: float, edge_rows: int) -> None:
    frames, rng = 600, random.Random(7)
    tree = {**TALLER, EDGE_ROWS: edge_rows}
    knee = predicted_knee(tree, MORE_ROWS, frames, layout)
    assert knee is not None
    hot_rows = int(times_the_knee * knee)
    found = []
    for seed in range(4):
        start = rng.randrange(MORE_ROWS - hot_rows)
        neighbours = list(range(start, start + hot_rows))
        rows = neighbours if layout == "clustered" else rng.sample(range(MORE_ROWS), hot_rows)
        found.append(lru_misses(rows, frames, 10_000, seed, edge_rows))
    predicted = miss_ratio(hot_rows, tree, MORE_ROWS, frames, layout)
    assert predicted == pytest.approx(sum(found) / len(found), rel=0.04, abs=0.006)


@pytest.mark.parametrize("times_the_knee", [0.95, 1.1, 1.5, 3.0])
def test_a_free_list_that_is_refilled_at_half_its_length_takes_three_quarters_of_it(times_the_knee: float) -> None:
    """The twin is a naive LRU that frees pages at its tail as MariaDB's cleaner does, at once."""
    frames, depth, rng = 600, 100, random.Random(5)
    of_data = frames_of_data(frames, depth)
    knee = predicted_knee(TALLER, MORE_ROWS, of_data, "scattered")
    assert knee is not None
    rows = rng.sample(range(MORE_ROWS), int(times_the_knee * knee))
    cache, missed, selects = OrderedDict[str, None](), 0, 10_000
    for select in range(3 * selects):
        row = rng.choice(rows)
        for page in ("first", "root", f"i{row // 5000}", f"l{row // 20}"):
            if page in cache:
                cache.move_to_end(page)
                continue
            missed += select >= selects
            cache[page] = None
            if frames - len(cache) < depth / 2:
                for _ in range(len(cache) - (frames - depth)):
                    cache.popitem(last=False)
    found = missed / (2 * selects)
    # Near the knee all hot rows fit, so the list may keep any length in between.
    at_half, predicted, at_whole = (
        miss_ratio(len(rows), TALLER, MORE_ROWS, held, "scattered")
        for held in (frames - depth // 2, of_data, frames - depth)
    )
    assert at_half - 0.01 <= found <= at_whole + 0.01
    if times_the_knee >= 1.5:
        assert predicted == pytest.approx(found, rel=0.04)


@given(hot_rows=st.integers(1, ROWS), frames=st.integers(5, 1200), layout=st.sampled_from(["scattered", "clustered"]))
@settings(max_examples=60)
def test_misses_begin_at_the_knee_rise_with_rows_and_fall_with_frames(
    hot_rows: int, frames: int, layout: Layout
) -> None:
    misses = miss_ratio(hot_rows, TREE, ROWS, frames, layout)
    assert 0 <= misses <= 4
    assert miss_ratio(hot_rows, TREE, ROWS, frames + 20, layout) <= misses + 1e-9
    knee = predicted_knee(TREE, ROWS, frames, layout)
    assert (misses > 1e-6) == (knee is not None and hot_rows > knee + 1) or abs(hot_rows - (knee or 0)) <= 2


@pytest.mark.parametrize("layout", ["scattered", "clustered"])
def test_frames_planted_in_a_curve_are_found_again_through_noise(layout: Layout) -> None:
    knee = predicted_knee(TREE, ROWS, 130, layout)
    assert knee is not None
    rng = random.Random(4)
    sizes = [int(knee * factor) for factor in (0.4, 0.8, 0.95, 1.05, 1.2, 1.6, 2.4)]
    measured = [(rows, miss_ratio(rows, TREE, ROWS, 130, layout) * math.exp(rng.gauss(0, 0.02))) for rows in sizes]
    assert fit_effective_frames(measured, TREE, ROWS, layout, frames=200) == pytest.approx(130, rel=0.02)


def test_measurements_that_never_miss_place_no_knee() -> None:
    assert fit_effective_frames([(10, 0.0), (20, 0.0)], TREE, ROWS, "scattered", frames=200) is None


@pytest.mark.parametrize("page_size_bytes", [1024, 4096, 16_384])
def test_the_estimated_tree_is_near_the_one_sqlite_builds(tmp_path: Path, page_size_bytes: int) -> None:
    rows, rng = 60_000, random.Random(1)
    database = sqlite3.connect(tmp_path / "sbtest.db")
    database.executescript(
        f"PRAGMA page_size = {page_size_bytes}; PRAGMA journal_mode = off; PRAGMA synchronous = off;"
    )
    database.execute(
        "CREATE TABLE sbtest1(id INTEGER PRIMARY KEY, k INTEGER NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)"
    )
    texts = ("-".join(["12345678901"] * 10), "-".join(["12345678901"] * 5))
    filled = ((number, rng.randint(1, rows), *texts) for number in range(1, rows + 1))
    database.executemany("INSERT INTO sbtest1 VALUES (?, ?, ?, ?)", filled)
    database.commit()
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.close()
    # This tree does not include the file's first page, which belongs to the schema.
    tree = estimated_tree(rows, page_size_bytes)
    assert sum(tree["level_pages"]) == pytest.approx(pages - 1, rel=0.04)
    assert tree["rows"] == rows
    assert tree["level_pages"][0] == 1
