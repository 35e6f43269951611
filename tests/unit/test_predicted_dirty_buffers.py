"""Predicted writes of PostgreSQL, from made-up traces whose writes are counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bufferlab.models.managers.dirty_buffers import DirtyBuffers, bytes_of_an_image
from bufferlab.results.window import Window
from support.fake import Bench
from support.predicted import told
from support.traced import CREATE, DIRTY, GET, Access, build

SWEPT: list[Access] = [(page, kind) for page in range(200) for kind in (GET, DIRTY)]
"""200 pages are read and changed in turn, in 400 ms: 128 buffers hold none of them until its next turn."""
FEW: list[Access] = [(page, DIRTY) for page in range(10)]
COUNTERS = {"postgres_wal_bytes": 1_000_000, "pages_written": 600}
OFF = 'bgwriter_lru_maxpages = "0"\ncheckpoint_timeout = "24h"'
EVERY_30_S = 'bgwriter_lru_maxpages = "0"\ncheckpoint_timeout = "30s"'


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


def traced(parent: Path, warm_up: list[Access], window: list[Access], **more: Any) -> Any:
    """Build a run of PostgreSQL 17 with a pool of 128 pages, in which an event takes a millisecond."""
    asked = {"knobs": OFF, "counters": COUNTERS, "sweep": 'pool_size = ["1MiB"]', "version": "17.2", **more}
    return build(parent, warm_up, window, engine="postgres", page_size="8KiB", latch=1, **asked)


def writes(bench: Bench, path: Path, *pools: str) -> list[dict[str, Any]]:
    """Return the predicted writes of some pools."""
    found = told(bench, path, "--sweep", f"pool_size={','.join(pools or ('1MiB',))}")["predictions"]
    return [one["writes"] for one in found]


def test_a_session_writes_the_changed_page_whose_buffer_it_takes(bench: Bench, tmp_path: Path) -> None:
    own, double = writes(bench, traced(tmp_path, SWEPT, SWEPT * 3, reads=600).path, "1MiB", "2MiB")
    (end,) = own["ends"]
    assert (end["single_page_writes"], end["lru_writes"], end["checkpoint_writes"]) == (600, 0, 0)
    assert (own["pages"], own["waiting_share"], own["why_not"]) == (600, 1.0, None)
    assert (own["page_bytes"], own["copy_bytes"], own["redo_bytes"]) == (600 * 8192, 0, 1_000_000)
    assert (double["pages"], double["why_not"]) == (0, None), "all pages are in the pool, and no checkpoint comes"
    assert [one["name"] for one in own["doubts"]] == ["few_checkpoints"]


def test_the_background_writer_writes_pages_before_a_session_must(bench: Bench, tmp_path: Path) -> None:
    run = traced(tmp_path, SWEPT, SWEPT * 3, reads=600, knobs='checkpoint_timeout = "24h"')
    ((end,),) = ([*one["ends"]] for one in writes(bench, run.path))
    # The background writer has a round every 200 ms, between which sessions take 100 buffers.
    assert end["lru_writes"] + end["single_page_writes"] == 600
    assert end["lru_writes"] >= 100


def test_a_checkpoint_writes_each_page_once_in_its_interval(bench: Bench, tmp_path: Path) -> None:
    window = FEW * 116  # An event takes 100 ms: checkpoints begin after 30, 60 and 90 s, and the last is complete.
    warm_up = [(page, CREATE) for page in range(10)]
    slow = {"knobs": EVERY_30_S, "step_us": 100_000, "warm_up_step_us": 1000}
    (own,) = writes(bench, traced(tmp_path, warm_up, window, **slow).path)
    assert [(end["checkpoint_writes"], end["single_page_writes"]) for end in own["ends"]] == [(30, 0)]


def test_a_pool_whose_checkpoints_write_has_two_ends_the_slower_load_first(bench: Bench, tmp_path: Path) -> None:
    slow = {"knobs": EVERY_30_S, "step_us": 80_000, "warm_up_step_us": 1000}
    run = traced(tmp_path, SWEPT, SWEPT * 4, reads=800, **slow)
    own, larger = writes(bench, run.path, "1MiB", "2MiB")
    assert [end["why"] for end in own["ends"]] == ["the speed of the traced run"]
    slower, faster = larger["ends"]
    assert (slower["why"], faster["why"]) == ("the speed of the traced run", "twice the speed of the traced run")
    # The window has 128 s, in which each page changes four times. It has four checkpoints, or two.
    assert 600 < slower["checkpoint_writes"] <= 800
    assert 200 < faster["checkpoint_writes"] < 300, "the second one has just begun"
    assert larger["pages"] is None
    assert "device_decides" in [one["name"] for one in larger["doubts"]]
    assert "on how often checkpoints come" in larger["why_not"]


def test_the_speed_does_not_matter_where_checkpoints_write_few_pages(bench: Bench, tmp_path: Path) -> None:
    run = traced(tmp_path, SWEPT, SWEPT * 3, reads=600)
    (larger,) = writes(bench, run.path, "2MiB")
    assert [end["why"] for end in larger["ends"]] == ["the speed of the traced run"]


@pytest.mark.parametrize(
    ("io_share", "reads_ratio", "speed"),
    [(None, 2.0, 0.5), (None, 0.5, 2.0), (0.1, 2.0, 1 / 1.2), (0.1, 0.0, 1 / 0.8), (0.9, 100.0, 0.25), (0.0, 1.0, 1.0)],
)
def test_the_speed_of_another_pool_follows_from_its_reads_if_waits_were_sampled(
    io_share: float | None, reads_ratio: float, speed: float
) -> None:
    ran = {"bgwriter_delay": 0.2, "bgwriter_lru_maxpages": 100, "bgwriter_lru_multiplier": 2.0,
           "checkpoint_timeout": 30.0, "checkpoint_completion_target": 0.9, "max_wal_size": 1 << 30}  # fmt: skip
    found = DirtyBuffers(ran, 100, 8192, io_share, redo_bytes=270 << 20, images=0, seconds=120.0)
    factor, limit = found.other(reads_ratio)
    assert factor == pytest.approx(speed)
    rules = limit.settings["writes"]
    assert rules["checkpoints"]["checkpoint_timeout_us"] == pytest.approx(30e6 * speed, abs=1)
    assert rules["background_writer"]["bgwriter_delay_us"] == pytest.approx(0.2e6 * speed, abs=1)
    # 64 files of the log, divided by 1.9.
    assert rules["checkpoints"]["bytes_between"] == 33 * (16 << 20)
    assert found.checkpoints(270 << 20) == 4.0
    assert found.checkpoints(33 * (16 << 20) * 5) == 5.0


@pytest.mark.parametrize(
    ("why", "more"),
    [
        ("does not show which pages were changed", {"window": [(page, GET) for page in range(200)]}),
        ("version 15 counts growth", {"version": "15.18"}),
        ("the run did not count its log", {"counters": {"pages_written": 600}}),
    ],
)
def test_a_run_that_lacks_what_writes_need_says_why(
    bench: Bench, tmp_path: Path, why: str, more: dict[str, Any]
) -> None:
    asked = {"warm_up": SWEPT, "window": SWEPT, "reads": 200, **more}
    (found,) = writes(bench, traced(tmp_path, **asked).path)
    assert why in found["why_not"]
    assert found["pages"] is None


def test_checkpoints_come_by_the_size_of_the_log_that_was_asked_for(bench: Bench, tmp_path: Path) -> None:
    # 116 rounds of ten changes in 128 s log 1 GiB: a checkpoint begins after each eighth of the log, or after each
    # half.
    counters = {**COUNTERS, "postgres_wal_bytes": 1 << 30, "postgres_wal_fpi": 0}
    warm_up = [(page, CREATE) for page in range(10)]
    run = traced(tmp_path, warm_up, FEW * 116, counters=counters, step_us=100_000, warm_up_step_us=1000)
    found = told(bench, run.path, "--sweep", "max_wal_size=256MiB,1GiB,64GiB")["predictions"]
    often, seldom, never = (one["writes"]["ends"][0]["checkpoint_writes"] for one in found)
    assert often == 10 * 8
    assert seldom == 10
    assert never == 0


def test_a_checkpoint_logs_each_page_whole_once_more(bench: Bench, tmp_path: Path) -> None:
    counters = {**COUNTERS, "postgres_wal_bytes": 10 * 8192 + 1160 * 100, "postgres_wal_fpi": 10}
    warm_up = [(page, CREATE) for page in range(10)]
    slow = {"step_us": 100_000, "warm_up_step_us": 1000}
    run = traced(tmp_path, warm_up, FEW * 116, counters=counters, **slow)
    own, often = (
        one["writes"]["redo_bytes"]
        for one in told(bench, run.path, "--sweep", "checkpoint_timeout=24h,30s")["predictions"]
    )
    # New pages are logged whole anyway; after each of three checkpoints the next change of a page is logged whole
    # again.
    assert often - own == 3 * 10 * 8192


def course(images: list[int], records: list[int], of_image: int, of_record: int) -> Window:
    """Return a window whose log grew by these images and records in each second."""
    log = [of_image * a + of_record * b for a, b in zip(images, records, strict=True)]
    grown = {"postgres_wal_fpi": images, "postgres_wal_records": records, "postgres_wal_bytes": log}
    counts = {
        name: tuple((float(at), float(sum(steps[:at]))) for at in range(len(steps) + 1))
        for name, steps in grown.items()
    }
    return Window({}, {}, float(len(images)), {}, counts)


def test_the_bytes_of_an_image_follow_from_how_the_log_grows() -> None:
    falls = [2000, 900, 400, 200, 100, 50, 25, 12, 2100, 800]
    assert bytes_of_an_image(course(falls, [3000] * 10, 7200, 105)) == 7200
    assert bytes_of_an_image(course(falls[:6], [3000] * 6, 7200, 105)) is None, "too few seconds"
    assert bytes_of_an_image(course([100] * 10, [3000] * 10, 7200, 105)) is None, "all seconds are alike"
    assert bytes_of_an_image(Window({}, {}, None)) is None
