"""Predicted writes of InnoDB, from made-up traces whose writes are counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.registry import open_sweep
from bufferlab.results.page_traces import PredictedWrites, WritesEnd
from bufferlab.traces import page_trace
from bufferlab.traces.changed_pages import changes_of
from support.fake import Bench
from support.predicted import SERVER, predict, told
from support.traced import CREATE, GET, IF_IN_POOL, Access, build

PAGES: list[Access] = [(page, GET) for page in range(10)]
WINDOW = PAGES * 300
"""Ten pages are changed in turn, one change a millisecond: the page cleaner has three rounds in the window."""
CHANGES = len(WINDOW)
BYTES = 10
"""The bytes of redo for each change."""
AGE, SYNC = "innodb_oldest_change_age_bytes", "innodb_metric_log_max_modified_age_sync"
COUNTERS = {"innodb_os_log_written": BYTES * CHANGES, "pages_written": 29, "innodb_dblwr_pages_written": 29}
ALONE = 'old_blocks_time = "0"\nflush_neighbors = "0"'


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


def traced(
    parent: Path, *, age: float | None = 0, sync: float | None = None, counters: dict[str, int] = COUNTERS, **more: Any
) -> Any:
    """Build a run of MySQL 5.7 in which the ten pages change all the time, and may be `age` bytes of redo old at
    most."""
    levels = {AGE: age, SYNC: sync}
    gauges = {name: (float(value), float(value)) for name, value in levels.items() if value is not None}
    asked = {**SERVER, "knobs": ALONE, "latch": 2, **more}
    return build(parent, PAGES, WINDOW, counters=counters, gauges=gauges, **asked)


def writes(bench: Bench, path: Path, *pools: str) -> list[dict[str, Any]]:
    """Return the predicted writes of some pools."""
    found = told(bench, path, "--sweep", f"pool_size={','.join(pools or ('16MiB',))}")["predictions"]
    return [one["writes"] for one in found]


def in_changes(count: int) -> float:
    """Return the age, in bytes, at which a page is written if it is `count` changes old: half a round's redo is
    added."""
    return BYTES * (count + CHANGES / 2)


def test_each_round_of_the_cleaner_writes_the_pages_that_are_too_old(bench: Bench, tmp_path: Path) -> None:
    (own,) = writes(bench, traced(tmp_path).path)
    assert (own["pages"], own["least_pages"], own["most_pages"], own["why_not"]) == (30, 30, 30, None)
    (end,) = own["ends"]
    assert (end["flush_list_writes"], end["lru_writes"], end["single_page_writes"]) == (30, 0, 0)
    assert (own["page_bytes"], own["copy_bytes"], own["redo_bytes"]) == (30 * 16384, 30 * 16384, BYTES * CHANGES)
    assert own["waiting_share"] == 0
    assert own["doubts"] == []


def test_pages_that_may_grow_old_are_written_seldom(bench: Bench, tmp_path: Path) -> None:
    (old,) = writes(bench, traced(tmp_path / "old", age=in_changes(1500)).path)
    assert old["pages"] == 10, "after a second no change is 1,500 changes old, after two seconds all ten are"
    (older,) = writes(bench, traced(tmp_path / "older", age=in_changes(5000)).path)
    assert older["pages"] == 0
    assert [doubt["name"] for doubt in old["doubts"]] == [], "19 pages less than were counted are few"


def test_a_larger_pool_has_the_age_at_which_the_server_makes_changes_wait_as_its_other_end(
    bench: Bench, tmp_path: Path
) -> None:
    near = traced(tmp_path / "near", sync=BYTES * 900).path
    half, own, double = writes(bench, near, "8MiB", "16MiB", "32MiB")
    assert [len(one["ends"]) for one in (half, own, double)] == [1, 1, 2]
    assert [one["pages"] for one in (half, own, double)] == [30, 30, 30]
    assert double["ends"][1]["age_bytes"] == BYTES * 900


def test_a_larger_pool_writes_as_many_old_pages_as_the_run_did_at_their_age(bench: Bench, tmp_path: Path) -> None:
    many = [(page, GET) for page in range(100)]
    gauges = {AGE: (1000.0, 1000.0)}
    asked = {**SERVER, "knobs": ALONE, "latch": 2, "counters": COUNTERS, "gauges": gauges}
    folder = build(tmp_path, many, many * 30, **asked)
    own, double = writes(bench, folder.path, "16MiB", "32MiB")
    assert own["pages"] == 300, "half a round's redo makes every page old: each of three rounds writes all"
    slow, fast = (end["flush_list_writes"] for end in double["ends"])
    assert slow == 300, "at half the speed a round asks for 600 pages at an age of 1,600 changes"
    assert 200 < fast < 300, "at twice the speed a round asks for 150, and for half of them at an age of 1,000"
    assert [end["age_bytes"] for end in double["ends"]] == [None, None]
    assert double["least_pages"] == fast


def test_a_larger_pool_of_a_server_that_writes_because_many_pages_are_dirty_follows_io_capacity(
    bench: Bench, tmp_path: Path
) -> None:
    """10,000 pages a second, by default from MySQL 8.4 on, are more than the 400 dirty ones: each round writes all."""
    many = [(page, GET) for page in range(400)]
    old, dirty = "innodb_metric_log_max_modified_age_async", "innodb_buffer_pool_pages_dirty"

    def double(name: str, knobs: str = "", **gauges: float) -> dict[str, Any]:
        asked = {**SERVER, "version": "9.7.4", "knobs": ALONE + knobs, "latch": 2, "counters": COUNTERS}
        levels = {metric: (value, value) for metric, value in gauges.items()}
        (found,) = writes(bench, build(tmp_path / name, many, many * 8, gauges=levels, **asked).path, "32MiB")
        return found

    found = double("dirty", **{AGE: 1000.0, old: 1e6, dirty: 512.0})
    assert [end["why"] for end in found["ends"]] == [
        "the speed of the traced run, with no page older than a tenth of the log",
        "1.5 times its speed",
    ]
    assert [end["flush_list_writes"] for end in found["ends"]] == [1200, 800]
    for name, levels in (("aged", {AGE: 2e5, old: 1e6, dirty: 512.0}), ("clean", {AGE: 1000.0, old: 1e6, dirty: 50.0})):
        assert double(name, **levels)["ends"][0]["why"][:27] != "the speed of the traced run"
    few = "\nio_capacity = 100"
    young, aged = (
        [end["flush_list_writes"] for end in double(f"few-{log}", few, **levels, **{old: log})["ends"]]
        for levels in [{AGE: 1000.0, SYNC: 1e6, dirty: 512.0}]
        for log in (1e6, 2e4)
    )
    assert young[0] < 1200, "a hundred pages a second are fewer than become dirty"
    assert aged == [1200, young[1]], "pages get older than a tenth of the log: one end writes them at once"


def test_writes_that_depend_on_the_device_are_not_predicted(bench: Bench, tmp_path: Path) -> None:
    many = [(page, GET) for page in range(100)]
    counters = {**COUNTERS, "innodb_os_log_written": BYTES * 3000}
    gauges = {AGE: (0.0, 0.0), SYNC: (1e9, 1e9)}
    asked = {**SERVER, "knobs": ALONE, "latch": 2, "counters": counters, "gauges": gauges}
    folder = build(tmp_path, many, many * 30, **asked)
    (double,) = writes(bench, folder.path, "32MiB")
    assert (double["pages"], double["least_pages"], double["most_pages"]) == (None, 0, 300)
    assert "device_decides" in [doubt["name"] for doubt in double["doubts"]]
    assert "depend on the age that dirty pages reach" in double["why_not"]
    found = told(bench, folder.path, "--sweep", "pool_size=32MiB")
    values = open_sweep(Path(found["sweep"])).runs()[0].values()
    assert values["writes_per_new_order"].value is None
    assert "depend on the age" in str(values["writes_per_new_order"].reason)


def test_a_run_that_lacks_a_count_has_no_writes_and_says_why(bench: Bench, tmp_path: Path) -> None:
    unlatched = traced(tmp_path / "unlatched", latch=1).path
    unaged = traced(tmp_path / "unaged", age=None).path
    unlimited = traced(tmp_path / "unlimited").path
    redoless = traced(tmp_path / "redoless", counters={"pages_written": 29}).path
    reasons = {
        "no access under an exclusive latch": writes(bench, unlatched),
        "the age of the oldest dirty page was not sampled": writes(bench, unaged),
        "the run did not count its redo": writes(bench, redoless),
        "wrote too few of them for their age": writes(bench, unlimited, "32MiB"),
    }
    for reason, (found,) in reasons.items():
        assert reason in found["why_not"]
        assert found["pages"] is None


def test_gets_without_a_latch_may_be_changes(bench: Bench, tmp_path: Path) -> None:
    asked = {**SERVER, "knobs": ALONE, "latch": 0, "counters": COUNTERS, "gauges": {AGE: (0.0, 0.0)}}
    folder = build(tmp_path, PAGES, [*WINDOW, (11, CREATE)], **asked)
    (found,) = writes(bench, folder.path)
    assert "does not show the latch of 100 % of the gets" in found["why_not"]


def test_mariadb_from_10_5_on_writes_each_round_what_is_too_old(bench: Bench, tmp_path: Path) -> None:
    (own,) = writes(bench, traced(tmp_path, engine="mariadb", version="10.11.19").path)
    (end,) = own["ends"]
    assert (end["flush_list_writes"], end["lru_writes"], own["why_not"]) == (30, 0, None)


def test_reads_do_not_need_what_writes_lack(bench: Bench, tmp_path: Path) -> None:
    (found,) = told(bench, traced(tmp_path, age=None).path)["predictions"]
    assert found["found"]["reads"] == 0
    assert found["writes_per"] == {}


def test_the_age_of_the_last_checkpoint_serves_older_runs(bench: Bench, tmp_path: Path) -> None:
    gauges = {"innodb_lsn_age_bytes": (0.0, 1e9)}
    asked = {**SERVER, "knobs": ALONE, "latch": 2, "counters": COUNTERS, "gauges": gauges}
    (own,) = writes(bench, build(tmp_path, PAGES, WINDOW, **asked).path)
    assert own["pages"] == 30, "its lowest value near each sample is 0"


def test_the_report_and_accuracy_have_the_writes(bench: Bench, tmp_path: Path) -> None:
    counters = {**COUNTERS, "server_write_bytes": 1_100_000}
    folder = traced(tmp_path, sync=BYTES * 900, sweep='pool_size = ["16MiB", "32MiB"]', new_orders=2, counters=counters)
    ended = predict(bench, folder.path, "--json")
    assert ended.code == 0, ended.err
    predicted = Path(ended.json["sweep"])
    page = (predicted / "report.md").read_text()
    assert "Predicted writes" in page
    assert "There the model writes 3.00 pages a transaction, where the engine counted 2.90: +3.4 %." in page
    assert "It knows reads and writes, and no time." in page
    measured = bench.bufferlab("accuracy", folder.path, predicted, "--json")
    assert measured.code == 0, measured.err
    (own, *_) = measured.json["writes"]
    assert (own["measured"]["value"], own["least"], own["most"]) == (14.5, 15, 15)
    assert own["error"] == pytest.approx(30 / 29 - 1)
    by_model = (30 * 2 * 16384 + BYTES * CHANGES) / 2
    assert (own["written_bytes"]["value"], own["least_bytes"]) == (pytest.approx(550_000), by_model)
    assert own["bytes_error"] == pytest.approx(by_model / 550_000 - 1)


def test_a_mistaken_model_is_doubted_at_all_points(bench: Bench, tmp_path: Path) -> None:
    folder = traced(tmp_path, sync=BYTES * 900, counters={**COUNTERS, "pages_written": 100}).path
    for found in writes(bench, folder, "8MiB", "16MiB", "32MiB"):
        (doubt,) = found["doubts"]
        assert doubt["name"] == "own_writes"
        assert "(-70.0 %)" in doubt["sentence"]


def test_changes_are_new_pages_and_gets_under_a_latch(tmp_path: Path) -> None:
    events: list[Access] = [(0, GET), (1, CREATE), (2, IF_IN_POOL)]
    folder = build(tmp_path, events, events, latch=4, gauges={AGE: (5.0, 6.0)}, reads=0)
    trace = page_trace.read(folder.path)
    assert changes_of(trace, {2, 4}).so_far.tolist() == [1, 2, 3, 4, 5, 6]
    none = changes_of(trace, {2})
    assert none.so_far.tolist() == [0, 1, 1, 1, 2, 2], "a new page needs no latch"
    found = changes_of(trace, {4})
    assert (found.window, found.in_window) == ((3, 6), 3)
    assert [(at, value) for _, at, value in found.course(AGE)] == [(3, 5.0), (6, 6.0)]
    assert found.so_far.dtype == np.uint32


def test_a_range_stands_for_its_middle_unless_it_is_too_wide() -> None:
    ends = [
        WritesEnd(age_bytes=1, why="", lru_writes=40, flush_list_writes=50, single_page_writes=10, reads=50),
        WritesEnd(age_bytes=9, why="", lru_writes=40, flush_list_writes=20, single_page_writes=4, reads=40),
    ]
    both = PredictedWrites(ends=ends, page_size_bytes=100, copies_per_page=0.5)
    assert (both.least_pages, both.most_pages, both.pages) == (64, 100, 80)
    assert (both.page_bytes, both.copy_bytes, both.waiting_share) == (8000, 4000, 0.2)
    none = both.model_copy(update={"why_not": "too wide"})
    assert (none.least_pages, none.pages, none.page_bytes, none.waiting_share) == (64, None, None, None)


def test_in_another_redo_log_pages_get_older_or_less_old_by_its_share(bench: Bench, tmp_path: Path) -> None:
    many = [(page, GET) for page in range(100)]
    asked = {**SERVER, "knobs": ALONE, "latch": 2, "counters": COUNTERS, "gauges": {AGE: (1000.0, 1000.0)}}
    folder = build(tmp_path, many, many * 30, actual={"redo_log_capacity": 96 << 20}, **asked)
    sweep = ("--sweep", "redo_log_capacity=24MiB,96MiB,384MiB,6GiB")
    answer = told(bench, folder.path, *sweep)
    smaller, own, larger, largest = (one["writes"] for one in answer["predictions"])
    assert Analysis.of(open_sweep(Path(answer["sweep"]))).headline == "writes_per_new_order"
    assert [len(one["ends"]) for one in (smaller, own, larger, largest)] == [2, 1, 2, 2]
    assert (own["pages"], own["ends"][0]["age_bytes"]) == (300, 1000)
    assert smaller["least_pages"] == smaller["most_pages"] == 300, "each of three rounds writes all 100 pages"
    # With four times the age a round's oldest page has a quarter to a half of it, so the cleaner asks for 1/8 to 1/3 of
    # the 100 pages.
    assert 0 < larger["least_pages"] < larger["most_pages"] < 300
    assert largest["most_pages"] < larger["least_pages"]


def test_without_a_doublewrite_buffer_pages_are_written_once(bench: Bench, tmp_path: Path) -> None:
    folder = traced(tmp_path, actual={"doublewrite": "on"})
    on, off = told(bench, folder.path, "--sweep", "doublewrite=on,off")["predictions"]
    assert [one["writes"]["page_bytes"] for one in (on, off)] == [30 * 16384] * 2
    assert [one["writes"]["copy_bytes"] for one in (on, off)] == [30 * 16384, 0]


def test_another_redo_log_needs_the_capacity_of_the_runs_own(bench: Bench, tmp_path: Path) -> None:
    (found,) = told(bench, traced(tmp_path).path, "--sweep", "redo_log_capacity=64MiB")["predictions"]
    assert "did not record the capacity of its redo log" in found["writes"]["why_not"]
    assert found["found"]["reads"] == 0, "reads do not depend on it"
