"""Other pools, estimated from all accesses: compared with the same model started with those pools, and the refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from bufferlab.engines.native import native
from bufferlab.live import constants
from bufferlab.live.bounds import PoolFacts, SizeEstimate
from bufferlab.live.by_model import ByModel, by_model, played
from bufferlab.live.live_trace import Recorded, with_one_numbering
from bufferlab.live.size_estimates import answer
from bufferlab.models.limits import OWN_LIMIT
from bufferlab.traces.page_trace import Columns, number_of
from support.advised import GET, PAGE_BYTES, columns_of, counted, facts, recorded, skewed, with_reads

WARM = 30_000
PAGES = 6000
FRAMES = 800
INNODB = {"old_blocks_pct": 37, "old_blocks_time": 0, "lru_scan_depth": 20}
SETTINGS: Mapping[str, dict[str, Any]] = {
    "innodb57": {**INNODB, "flush_neighbors": 1, "wakes_cleaner": True},
    "innodb1011": INNODB,
    "postgres": {"large_tables": [], "ring_buffers": 32},
}
SERVERS = {"innodb57": ("mysql", "5.7.22"), "innodb1011": ("mariadb", "11.4.5"), "postgres": ("postgres", "17.2")}


@cache
def _stream(model: str) -> Columns:
    """Return accesses with the reads of a server that had `FRAMES` frames from the beginning."""
    page = skewed(11, PAGES, 110_000, power=0.9)
    random = np.random.default_rng(12)
    columns = columns_of(np.column_stack((page, np.full(len(page), GET))))
    # The model of MySQL 5.7 reads from the latch which pages are changed; `innodb1011` does not need it.
    latches = {"postgres": [5], "innodb57": [1, 1, 1, 2], "innodb1011": [1]}[model]
    columns["latch"] = random.choice(latches, len(page)).astype(np.uint8)
    return with_reads(model, SETTINGS[model], FRAMES, columns)


def _window(model: str, first: int = WARM, end: int | None = None) -> Recorded:
    rows = slice(first, end)
    return recorded({name: column[rows] for name, column in _stream(model).items()}, "full")


def _pool(model: str, **further: Any) -> PoolFacts:
    engine, version = SERVERS[model]
    settings = {name: value for name, value in SETTINGS[model].items() if type(value) is int and name != "ring_buffers"}
    return facts(FRAMES, engine, **{"model": model, "version": version, "settings": settings, **further})


def _truth(model: str, frames: int, first: int = WARM) -> float:
    """Return the reads a second of a pool that had this many frames from the beginning."""
    columns = _stream(model)
    of_model = {**SETTINGS[model]}
    if model == "postgres":
        of_model["ring_buffers"] = min(32, frames // 8)
    ends = [first, len(columns["page"])]
    told = json.loads(native().replay_slices(model, json.dumps(of_model), frames, ends, **columns))
    before, after = (one["misses"] + one["prefetch_reads"] for one in told)
    return (after - before) / (float(columns["delta_us"][first:].sum()) / 1e6)


def _estimates(model: str, sizes: list[int], window: Recorded | None = None, **further: Any) -> list[SizeEstimate]:
    window = window or _window(model)
    return list(answer([window], _pool(model, **further), counted(window), [size * PAGE_BYTES for size in sizes], None))


def _model(windows: list[Recorded], pool: PoolFacts, resident: list[int] | None = None) -> ByModel:
    reads = replace(counted(windows[0]), seconds=sum(one.seconds for one in windows))
    found = by_model(windows, pool, reads, resident)
    assert found is not None
    return found


@pytest.mark.parametrize("model", SETTINGS)
def test_bounds_hold_what_the_model_reads_that_had_another_pool_from_the_beginning(model: str) -> None:
    sizes = [300, 500, 700, 1000, 1300]
    for size, told in zip(sizes, _estimates(model, sizes), strict=True):
        truth = _truth(model, size)
        assert told.tier == "full", told
        assert told.reads_per_s is not None, told
        assert told.low is not None
        assert told.high is not None
        assert told.low <= truth <= told.high, (size, told, truth)
        assert told.reads_per_s == pytest.approx(truth, rel=0.05), size
        assert told.own_error is not None
        assert abs(told.own_error) < OWN_LIMIT


@pytest.mark.parametrize("model", SETTINGS)
def test_a_pool_that_begins_with_the_servers_pages_counts_at_once(model: str) -> None:
    columns = _stream(model)
    before = columns["page"][:WARM][columns["kind"][:WARM] == GET][::-1]
    _, firsts = np.unique(before, return_index=True)
    newest = before[np.sort(firsts)][: FRAMES - 20]
    window = _window(model, end=WARM + 2500)
    found = _model([window], _pool(model))
    assert found.own_error is None, "so short a window does not turn an empty pool over"
    told = found.estimate(500 * PAGE_BYTES)
    assert told is not None
    assert told.cannot_say is not None
    assert "fill the pool" in told.cannot_say.why
    resident = [7 << 32 | int(page) for page in newest[::-1]]
    with_pages = _model([window], _pool(model), resident)
    assert with_pages.first_counted(with_pages.own, FRAMES) == 0
    assert with_pages.own_error is not None
    assert abs(with_pages.own_error) < 0.1
    # A smaller pool would not hold the same part of the pages that the server's pool held.
    smaller = with_pages.estimate((FRAMES - 50) * PAGE_BYTES)
    assert smaller is not None
    assert smaller.cannot_say is not None
    assert "fill such a pool" in smaller.cannot_say.why


def test_a_larger_pool_that_was_not_turned_over_three_times_is_left_to_the_list() -> None:
    window = _window("postgres", end=WARM + 25_000)
    model = _model([window], _pool("postgres"))
    assert model.refused is None
    assert model.did(4000).brought_in.sum() < constants.TURNOVERS_LARGER * 4000
    assert model.estimate(4000 * PAGE_BYTES) is None
    told = _estimates("postgres", [4000], window)[0]
    assert told.tier == "misses"
    assert told.cannot_say is not None


@pytest.mark.parametrize("depth", [250, 340])
def test_bounds_of_a_smaller_pool_hold_an_error_of_the_model_at_the_servers_own_size(depth: int) -> None:
    settings = {**INNODB, "flush_neighbors": 1, "lru_scan_depth": depth}
    model = _model([_window("innodb57")], _pool("innodb57", settings=settings))
    told = model.estimate(500 * PAGE_BYTES)
    assert told is not None
    assert told.own_error is not None
    assert told.own_error > OWN_LIMIT
    assert told.low is not None
    assert told.reads_per_s is not None
    assert told.high is not None
    assert told.low <= _truth("innodb57", 500) <= told.high
    assert told.high - told.reads_per_s > told.own_error * told.reads_per_s
    assert model.estimate(900 * PAGE_BYTES) is None, "a larger pool is left to the list of evicted pages"


def test_a_model_that_is_wrong_at_the_servers_own_size_tells_nothing() -> None:
    settings = {**INNODB, "flush_neighbors": 1, "lru_scan_depth": 400}
    smaller, larger = _estimates("innodb57", [500, 900], settings=settings)
    assert smaller.cannot_say is not None
    assert "own size" in smaller.cannot_say.why
    assert larger.tier == "misses", "the list of evicted pages needs no model"


@cache
def _by_the_clock() -> ByModel:
    """Return a server whose pages become young by the clock, so that its reads depend on the load's speed."""
    columns = columns_of(np.column_stack((skewed(3, PAGES, 80_000, power=0.9), np.full(80_000, GET))))
    model = {**SETTINGS["innodb57"], "old_blocks_time": 1000}
    window = recorded(with_reads("innodb57", model, FRAMES, columns), "full")
    return _model([window], _pool("innodb57", settings={**INNODB, "flush_neighbors": 1, "old_blocks_time": 1000}))


@pytest.mark.parametrize("frames", [600, 700])
def test_bounds_of_a_smaller_pool_hold_its_reads_at_other_speeds_of_the_load(frames: int) -> None:
    model = _by_the_clock()
    told = model.estimate(frames * PAGE_BYTES)
    assert told is not None
    assert told.cannot_say is None
    assert told.speed_share is not None
    assert told.speed_share > 0.03
    own, did = model.own.reads, {time: model.did(frames, time) for time in (0.5, 0.6, 0.8, 1.0, 1.3, 1.7, 2.0)}
    first = model.first_counted(did[1.0], frames)
    present = model.counted.reads / model.counted.seconds
    rates = {time: present * one.reads[first:].sum() / own[first:].sum() for time, one in did.items()}
    assert told.reads_per_s == pytest.approx(rates[1.0], rel=0.01)
    assert max(rates.values()) > 1.03 * min(rates.values())
    assert told.low is not None
    assert told.high is not None
    assert all(told.low <= rate <= told.high for rate in rates.values()), (told, rates)


def test_reads_that_depend_much_on_the_speed_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _by_the_clock()
    told = model.estimate(700 * PAGE_BYTES)
    assert told is not None
    assert told.speed_share is not None
    monkeypatch.setattr(constants, "SPEED_MOST", 0.9 * told.speed_share)
    refused = model.estimate(700 * PAGE_BYTES)
    assert refused is not None
    assert refused.cannot_say is not None
    assert refused.cannot_say.why.startswith("innodb_old_blocks_time is 1,000 ms")


def test_a_larger_pool_whose_reads_depend_on_the_speed_is_left_to_the_list() -> None:
    model = _by_the_clock()
    assert model.estimate(850 * PAGE_BYTES) is None


def _purged(late: int, each: int) -> Columns:
    """Return accesses of which one in `each` changes its page; purge accesses this page again `late` accesses later."""
    page = skewed(11, PAGES, 110_000, power=0.9)
    when, is_change = np.arange(len(page)), np.arange(len(page)) % each == 0
    order = np.argsort(np.concatenate((when, when[is_change] + late)), kind="stable")
    columns = columns_of(np.column_stack((np.concatenate((page, page[is_change]))[order], np.full(len(order), GET))))
    columns["latch"] = np.where(np.concatenate((is_change, np.ones(is_change.sum(), bool)))[order], 2, 1).astype(
        np.uint8
    )
    columns["delta_us"] = np.where(np.concatenate((when >= 0, is_change[is_change] & False))[order], 1000, 0).astype(
        np.uint32
    )
    return columns


def _reads_per_s(columns: Columns, frames: int) -> float:
    ends = [WARM, len(columns["page"])]
    told = json.loads(native().replay_slices("innodb1011", json.dumps(INNODB), frames, ends, **columns))
    return (told[1]["misses"] - told[0]["misses"]) / (float(columns["delta_us"][WARM:].sum()) / 1e6)


def test_bounds_of_half_the_pool_hold_what_a_late_purge_would_read_there() -> None:
    whole = with_reads("innodb1011", INNODB, FRAMES, _purged(20, 8))
    window = recorded({name: column[WARM:] for name, column in whole.items()}, "full")
    half, most = _estimates("innodb1011", [400, 700], window)
    in_time, late = (_reads_per_s(_purged(late, 8), 400) for late in (20, 20_000))
    assert late > 1.05 * in_time
    assert half.reads_per_s == pytest.approx(in_time, rel=0.05)
    assert half.low is not None
    assert half.high is not None
    assert half.low <= in_time
    assert late <= half.high <= 1.5 * late
    assert (half.late_purge_share or 0) > 0.05
    assert most.late_purge_share is None


def test_reads_that_a_late_purge_would_make_half_as_many_again_are_not_told() -> None:
    whole = with_reads("innodb1011", INNODB, FRAMES, _purged(20, 2))
    window = recorded({name: column[WARM:] for name, column in whole.items()}, "full")
    half, most = _estimates("innodb1011", [400, 700], window)
    assert half.cannot_say is not None
    assert "purge" in half.cannot_say.why
    assert "% more pages" in half.cannot_say.why
    assert most.reads_per_s is not None


def test_bounds_hold_another_speed_and_a_late_purge_together(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**INNODB, "flush_neighbors": 1, "old_blocks_time": 1000}
    whole = with_reads("innodb57", {**settings, "wakes_cleaner": True}, FRAMES, _purged(20, 4))
    window = recorded({name: column[WARM:] for name, column in whole.items()}, "full")
    model = _model([window], _pool("innodb57", version="8.0.15", settings=settings))
    late = model.estimate(520 * PAGE_BYTES)
    monkeypatch.setattr("bufferlab.live.by_model.SPEED_LIMIT", 0.0)
    monkeypatch.setattr("bufferlab.live.by_model.FEW_READS", 0)
    both = model.estimate(520 * PAGE_BYTES)
    assert late is not None
    assert both is not None
    assert late.speed_share is None
    assert (both.speed_share or 0) > 0
    assert (both.late_purge_share or 0) > 0.1
    assert both.reads_per_s == late.reads_per_s
    assert both.low is not None
    assert both.high is not None
    assert both.low <= (late.low or 0)
    assert both.high >= (late.high or 0)


def test_a_late_purge_goes_to_each_changed_page_once_more_in_its_slice() -> None:
    columns = columns_of([(page, GET) for page in range(12)])
    columns["latch"][[1, 5, 10]] = 2
    one = played([recorded(columns, "full", seconds=0.012)], facts(100), [7 << 32 | 3])
    late = one.with_late_purge(4)
    rows = late.columns["page"][late.prefix :].tolist()
    assert rows == [0, 1, 2, 3, 4, 1, 5, 6, 7, 8, 5, 9, 10, 11]
    assert late.columns["delta_us"].sum() == one.columns["delta_us"].sum()
    assert len(late.ends) == len(one.ends)
    assert late.ends[-1] == late.prefix + len(rows)
    # The rows of each slice are still in the slice.
    before = [one.columns["page"][end - 1] for end in one.ends]
    assert [late.columns["page"][end - 1] for end in late.ends] == before


def test_a_server_without_a_model_is_told_larger_sizes_alone() -> None:
    window = _window("postgres")
    sizes = [500 * PAGE_BYTES, 900 * PAGE_BYTES]
    smaller, larger = answer([window], replace(_pool("postgres"), model=""), counted(window), sizes, None)
    assert smaller.cannot_say is not None
    assert smaller.cannot_say.why == "there is no model of this server"
    assert larger.tier == "misses"


def test_windows_with_other_numbers_of_the_same_pages_are_played_as_one() -> None:
    whole = _window("postgres")
    middle = len(whole.columns["page"]) // 2
    parts = []
    for rows in (slice(0, middle), slice(middle, None)):
        page = whole.columns["page"][rows]
        pages, numbers = np.unique(page, return_inverse=True)
        shuffled = np.random.default_rng(1).permutation(len(pages)).astype(np.uint32)
        names = np.empty(len(pages), np.uint32)
        names[shuffled] = pages
        columns = {name: column[rows] for name, column in whole.columns.items()} | {"page": shuffled[numbers]}
        seconds = float(columns["delta_us"].sum()) / 1e6
        # In the second window another relation came first.
        relations = ((1, 5, 7, 0),) if not parts else ((1, 5, 9, 0), (1, 5, 7, 0))
        objects = np.full(len(pages), len(relations) - 1, np.uint32)
        parts.append(Recorded("full", columns, objects, names, seconds, "whole", relations))
    pool = _pool("postgres")
    both, one = _model(with_one_numbering(parts), pool), _model([whole], pool)
    assert both.did(500).reads.sum() == pytest.approx(one.did(500).reads.sum(), rel=1e-9)


def test_a_relation_that_is_scanned_is_found_by_its_rings_or_by_its_order() -> None:
    ordinary = skewed(2, 400, 4000)
    rows = [(int(page), GET, 5) for page in ordinary] + [(500 + page, GET, 5) for page in range(300)]
    rows += [(1000 + page, GET, 9) for page in (5, 1, 7)]
    columns = columns_of([row[:2] for row in rows])
    columns["latch"] = np.array([row[2] for row in rows], np.uint8)
    window = recorded(columns, "full")
    numbers = np.arange(len(window.object))
    objects = np.select([numbers < 500, numbers < 1000], [1, 2], 3).astype(np.uint32)
    found = played([replace(window, object=objects)], facts(100, "postgres", "postgres"), None)
    assert [one.name for one in found.objects] == ["relation 2", "relation 3"]
    assert not found.writes
    assert played([window], facts(100), None).objects == ()
    assert number_of("get") == GET
