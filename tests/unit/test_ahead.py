"""Predictions on several threads: the same numbers as on one thread, a stop that ends all threads, and a limit of
memory."""

from __future__ import annotations

import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bufferlab.engines.native import native
from bufferlab.execute.predicted_sweep import predict_sweep
from bufferlab.execute.progress import Silent
from bufferlab.models.ahead import Ahead, Watch, threads_for
from bufferlab.models.predict import target
from bufferlab.models.source import read
from bufferlab.spec import Overrides
from bufferlab.traces import page_trace
from support.fake import Bench
from support.predicted import told_of
from support.threads import on
from support.traced import CREATE, DROP, GET, IF_IN_POOL, PREFETCH, Access, build

MANAGERS: dict[str, dict[str, Any]] = {
    "lru": {},
    "opt": {},
    "sqlite": {},
    "innodb57": {
        "old_blocks_pct": 37, "old_blocks_time": 1, "lru_scan_depth": 8, "flush_neighbors": 1, "wakes_cleaner": True,
    },
    "postgres": {"large_tables": [], "ring_buffers": 1},
}  # fmt: skip
KINDS = (GET, GET, GET, IF_IN_POOL, CREATE, PREFETCH, DROP)


def nothing(_stage: str = "", _share: float = 0.0) -> None:
    """Report progress to no display, and request no stop."""


def columns_of(rows: int, pages: int, seed: int) -> dict[str, NDArray[Any]]:
    """Return a random trace whose arrays are read-only."""
    chance = np.random.default_rng(seed)
    found = {
        "page": chance.integers(0, pages, rows, np.uint32),
        "kind": chance.choice(np.array(KINDS, np.uint8), rows),
        "latch": chance.integers(1, 3, rows, np.uint8),
        "thread": chance.integers(0, 4, rows, np.uint16),
        "delta_us": chance.integers(0, 1 << 18, rows, np.uint32),
    }
    for column in found.values():
        column.flags.writeable = False
    return found


@given(parts=st.lists(st.integers(), unique=True, max_size=20), threads=st.integers(1, 5), seed=st.integers(0, 99))
def test_results_come_in_their_order_whichever_thread_ends_first(parts: list[int], threads: int, seed: int) -> None:
    pauses_s = {part: random.Random(f"{seed} {part}").random() / 1000 for part in parts}

    def work(part: int, watch: Watch) -> int:
        time.sleep(pauses_s[part])
        watch("working", 0.5)
        return 3 * part

    heard: list[float] = []
    with Ahead(work, parts, threads) as ahead:
        assert list(ahead.results(heard.append)) == [(part, 3 * part) for part in parts]
    assert heard == sorted(heard)
    assert list(dict.fromkeys(heard)) == [place / len(parts) for place in range(len(parts))]


def test_an_error_is_raised_to_who_asks_for_its_part_and_the_others_go_on() -> None:
    with Ahead(lambda part, _: 6 // part, [1, 0, 2], 2) as ahead:
        assert ahead.result(1, nothing) == 6
        with pytest.raises(ZeroDivisionError):
            ahead.result(0, nothing)
        assert ahead.result(2, nothing) == 3


def test_a_stop_ends_every_thread_and_begins_no_further_part() -> None:
    begun: list[int] = []

    def endless(part: int, watch: Watch) -> None:
        begun.append(part)
        while True:
            watch("working", 0.25)
            time.sleep(0.001)

    def stop(stage: str, share: float) -> None:
        if (stage, share) == ("working", 0.25):
            raise KeyError(stage)

    before = threading.active_count()
    with pytest.raises(KeyError, match="working"), Ahead(endless, range(5), 2) as ahead:
        ahead.result(0, stop)
    assert threading.active_count() == before
    assert sorted(begun) in ([0], [0, 1])


@pytest.mark.parametrize(
    ("cores", "parts", "part_bytes", "threads"),
    [
        (1, 9, 1, 1),
        (8, 9, 1, 8),
        (8, 3, 1, 3),
        (8, 0, 1, 1),
        (8, 9, 1 << 30, 2),
        (8, 9, 1 << 31, 1),
        (8, 9, 1 << 40, 1),
    ],
)
def test_there_is_a_thread_for_each_core_and_part_that_half_of_the_memory_suffices_for(
    cores: int, parts: int, part_bytes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(cores, monkeypatch, free_bytes=1 << 32)
    found, why = threads_for(parts, part_bytes)
    assert found == threads
    assert (why is not None) == (threads < max(1, min(cores, parts)))


def document(path: Path, bench: Bench, progress: Silent | None = None) -> dict[str, Any]:
    with bench.in_environment():
        return told_of(predict_sweep(path, Overrides(), bench.out, progress=progress).folder) | {"sweep": ""}


@settings(max_examples=6)
@given(
    seed=st.integers(0, 1 << 32),
    threads=st.integers(2, 6),
    knobs=st.sampled_from(['old_blocks_time = "0"', 'old_blocks_time = "20"']),
)
def test_one_thread_and_many_predict_the_same_of_a_trace(
    seed: int, threads: int, knobs: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance, tmp_path = random.Random(seed), tmp_path_factory.mktemp("traced")
    events: list[Access] = [(chance.randrange(900), chance.choice(KINDS)) for _ in range(3000)]
    pools = 'pool_size = ["16MiB", "8MiB", "6MiB", "12MiB"]'
    folder = build(
        tmp_path, events[:2000], events[2000:], engine="mysql", version="5.7.22", page_size="16KiB", sweep=pools,
        knobs=f"{knobs}\nlru_scan_depth = 100", latch=1,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as monkeypatch:
        on(1, monkeypatch)
        alone = document(folder.path, Bench(tmp_path / "one"))
        on(threads, monkeypatch)
        assert document(folder.path, Bench(tmp_path / "many")) == alone
    assert [point["pool_frames"] for point in alone["predictions"]] == [1024, 512, 384, 768]


def test_where_memory_is_short_fewer_threads_predict_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Heard(Silent):
        def say(self, text: str) -> None:
            lines.append(text)

    lines: list[str] = []
    folder = build(tmp_path, [(1, GET)], [(1, GET)], sweep='pool_size = ["256KiB", "260KiB"]')
    each = target(read(folder.path), Overrides()).prediction_bytes
    on(4, monkeypatch, free_bytes=4 * each)
    document(folder.path, Bench(tmp_path / "enough"), Heard())
    assert not [line for line in lines if "cores" in line]
    on(4, monkeypatch, free_bytes=4 * each - 1)
    document(folder.path, Bench(tmp_path / "short"), Heard())
    (line,) = [line for line in lines if "cores" in line]
    assert line.startswith("1 of 4 cores predict: each prediction takes up to ")


def test_a_generated_run_tells_the_memory_that_it_takes(tmp_path: Path) -> None:
    pool = {"model": "lru", "settings": {}, "frames": 100}
    job = {
        "engine": "innodb", "page_size_bytes": 16384, "workload": {"warehouses": 100, "load_seed": 1, "seed": 1},
        "connections": 1, "pools": [pool], "warm_up": {"transactions": 0}, "window_transactions": 1000,
    }  # fmt: skip
    one, two = (
        json.loads(native().generated_bytes(json.dumps(job | {"pools": pools}))) for pools in ([pool], [pool] * 2)
    )
    # A warehouse's 110 MB are 6,714 pages; each model keeps 24 bytes for a page.
    assert two - one == pytest.approx(100 * 110e6 / 16384 * 24, rel=1e-6)


@pytest.mark.parametrize("name", MANAGERS)
def test_threads_that_share_the_columns_of_a_trace_count_what_one_counts(name: str) -> None:
    columns = columns_of(20_000, 3000, seed=1)

    def counted(frames: int) -> str:
        return native().replay(name, json.dumps(MANAGERS[name]), frames, 100, 5000, 20_000, **columns)

    frames = [100 + 50 * place for place in range(12)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(counted, frames)) == [counted(one) for one in frames]


@given(
    seed=st.integers(0, 1 << 32),
    first=st.integers(0, 400),
    before=st.sampled_from([0.1, 0.5, 1.0, 2.0, 10.0]),
    within=st.sampled_from([0.1, 0.5, 1.0, 2.0, 3.7]),
)
def test_a_replay_by_another_clock_is_one_of_other_times(seed: int, first: int, before: float, within: float) -> None:
    """For the twin numpy stretches the times before the replay, as an earlier version did for all replays."""
    columns = columns_of(400, 60, seed)
    times_us = np.cumsum(columns["delta_us"], dtype=np.float64)
    edge_us = times_us[first - 1] if first else 0.0
    times_us[:first] *= before
    times_us[first:] = edge_us * before + (times_us[first:] - edge_us) * within
    delta_us = np.diff(np.floor(times_us), prepend=0.0)
    stretched = {**columns, "delta_us": np.minimum(delta_us, (1 << 32) - 1).astype(np.uint32)}
    asked = ("innodb57", json.dumps(MANAGERS["innodb57"] | {"old_blocks_time": 1000}), 30, 0, first, 400)
    assert native().replay(*asked, **columns, before=before, within=within) == native().replay(*asked, **stretched)


def test_a_watch_ends_a_replay_in_which_other_threads_go_on() -> None:
    columns = columns_of(6_000_000, 3_000_000, seed=1)
    turns, shares, ended = 0, list[float](), threading.Event()

    def count() -> None:
        nonlocal turns
        while not ended.wait(0.001):
            turns += 1

    def stop(share: float) -> None:
        shares.append(share)
        raise KeyError("enough")

    other = threading.Thread(target=count)
    other.start()
    begun = turns
    with pytest.raises(KeyError, match="enough"):
        native().replay("lru", "{}", 1_000_000, 0, 0, 6_000_000, **columns, watch=stop)
    passed = turns - begun
    ended.set()
    other.join()
    assert len(shares) == 1
    assert 0 < shares[0] < 1
    assert passed > 10


def test_a_watched_replay_wants_columns_that_nobody_can_write() -> None:
    columns = columns_of(100, 10, seed=1)
    columns["page"] = columns["page"].copy()
    with pytest.raises(ValueError, match="read-only"):
        native().replay("lru", "{}", 10, 0, 0, 100, **columns, watch=lambda share: None)


def test_the_columns_of_a_run_are_shared_and_read_only(tmp_path: Path) -> None:
    columns = page_trace.read(build(tmp_path, [(0, GET)], [(1, GET)]).path).columns
    assert {name: column.dtype.name for name, column in columns.items()} == {
        "page": "uint32", "kind": "uint8", "latch": "uint8", "thread": "uint16", "delta_us": "uint32",
    }  # fmt: skip
    assert not any(column.flags.writeable for column in columns.values())
