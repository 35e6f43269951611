"""`curve FILE --model`: the model of a buffer manager replays a file of page accesses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bufferlab.errors import SpecError
from bufferlab.models.foreign_trace import PlayedTrace, play
from bufferlab.traces import curve
from bufferlab.traces.page_trace import Accesses
from support.core import ROOT
from support.fake import Bench

TEN = ROOT / "tests/fixtures/traces/ten.csv"
NAMES = ("innodb57", "innodb1011", "postgres")


def accesses(pages: list[int], step_s: float = 0.001) -> Accesses:
    dense = np.unique(pages, return_inverse=True)[1].astype(np.uint32)
    return Accesses(dense, np.zeros(len(dense), np.uint8), np.arange(len(dense), dtype=np.float64) * step_s)


def played(
    found: Accesses, name: str, sizes: tuple[int, ...], window: tuple[float, float] | None = None
) -> PlayedTrace:
    asked = {} if name == "postgres" else {"lru_scan_depth": "8"}
    return play(found, name, asked, sizes, window, lambda _: None)


def clock_sweep(pages: list[int], frames: int) -> int:
    """Return the misses of PostgreSQL's clock sweep, written from StrategyGetBuffer and PinBuffer."""
    buffers: list[int | None] = [None] * frames
    usage, hand, free, misses = [0] * frames, 0, 0, 0
    for page in pages:
        if page in buffers:
            at = buffers.index(page)
            usage[at] = min(5, usage[at] + 1)
            continue
        misses += 1
        if free < frames:
            at, free = free, free + 1
        else:
            while usage[hand]:
                usage[hand] -= 1
                hand = (hand + 1) % frames
            at, hand = hand, (hand + 1) % frames
        buffers[at], usage[at] = page, 1
    return misses


def test_postgres_misses_what_its_clock_sweep_does() -> None:
    rng = np.random.default_rng(7)
    pages = (rng.zipf(1.3, 5000) % 400).tolist()
    sizes = (16, 64, 200)
    assert played(accesses(pages), "postgres", sizes).misses == tuple(clock_sweep(pages, size) for size in sizes)


@pytest.mark.parametrize("name", NAMES)
def test_a_pool_that_holds_every_page_reads_each_once(name: str) -> None:
    pages = [*range(300), *range(300)]
    found = played(accesses(pages), name, (2000,))
    assert found.misses == (300,)
    assert list(curve.curve(accesses(pages), None, lambda _: None).misses)[-1] == 300
    # Accesses before the window warm the pool.
    assert played(accesses(pages), name, (2000,), (0.3, 1.0)).misses == (0,)


def test_a_scan_costs_innodb_less_than_lru() -> None:
    """Pages with one access stay in the old sublist, so a scan does not evict the pages that are in use."""
    hot = list(range(600))
    pages = [*hot * 6, *(page for start in range(1000, 9000, 100) for page in (*range(start, start + 100), *hot))]
    lru = int(curve.curve(accesses(pages, 0.01), None, lambda _: None).misses[660])
    for name in ("innodb57", "innodb1011"):
        assert played(accesses(pages, 0.01), name, (660,)).misses[0] < lru


@pytest.mark.parametrize("name", NAMES)
def test_one_core_and_four_miss_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = (np.random.default_rng(5).zipf(1.3, 4000) % 500).tolist()
    sizes = (300, 40, 90, 40)
    found = []
    for cores in (1, 4):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        found.append(played(accesses(pages), name, sizes))
    assert found[0] == found[1]
    assert len(set(found[0].misses)) == 3


def test_progress_never_runs_backwards_and_ends_a_play_that_it_refuses() -> None:
    heard: list[float] = []
    found = accesses(list(range(3000)) * 10)
    play(found, "postgres", {}, (100, 200, 300), None, heard.append)
    assert heard == sorted(heard)
    assert 0 <= heard[0] <= heard[-1] <= 1

    def stop(_share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(found, "postgres", {}, (100, 200, 300), None, stop)


def test_settings_have_the_servers_defaults_and_change_what_is_missed() -> None:
    found = play(accesses([1, 2, 3]), "innodb57", {"old_blocks_time": "0"}, (100,), None, lambda _: None)
    assert found.settings == {"flush_neighbors": 1, "lru_scan_depth": 1024, "old_blocks_pct": 37, "old_blocks_time": 0}
    # 1,024 free frames are more than the pool's 100 frames.
    assert len(found.doubts) == 1


@pytest.mark.parametrize(
    ("name", "asked", "what"),
    [
        ("innodb57", {"lru_scan_dept": "1"}, "has no setting lru_scan_dept"),
        ("postgres", {"shared_buffers": "1"}, "has no setting shared_buffers"),
        ("innodb57", {"lru_scan_depth": "-1"}, "is no whole number"),
        ("innodb57", {"lru_scan_depth": "4294967296"}, "is no whole number"),
        ("innodb57", {"lru_scan_depth": "0" * 12 + "9" * 10}, "is no whole number"),
        ("innodb57", {"lru_scan_depth": "0" * 12 + "9" * 5000}, "is no whole number"),
        ("innodb57", {"old_blocks_pct": "99"}, "cannot play this"),
    ],
)
def test_a_setting_that_the_model_has_not_is_refused(name: str, asked: dict[str, str], what: str) -> None:
    with pytest.raises(SpecError) as refused:
        play(accesses([1, 2]), name, asked, (2,), None, lambda _: None)
    assert what in refused.value.what


def test_the_command_shows_the_model_beside_lru(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    ended = bench.bufferlab("curve", TEN, "--model", "postgres", "--sizes", "2pages,4pages")
    assert ended.code == 0, ended.err
    assert "Misses of postgres" in ended.out
    document = bench.bufferlab("curve", TEN, "--model", "innodb57", "--sizes", "4pages", "--json").json
    model = document["model"]
    assert (model["name"], model["version"], model["misses"]) == ("innodb57", 3, [3])
    assert [pool["pool_pages"] for pool in document["curve"]] == [4]
    for arguments in (("--set", "lru_scan_depth=1"), ("--model", "innodb57", "--set", "lru_scan_depth")):
        assert bench.bufferlab("curve", TEN, *arguments).code == 2
