"""Attachments over a fake server, by a scripted recorder: what is attached when, which seconds count, and what is
left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.look import Facts, Sample
from bufferlab.errors import EnvironmentLackingError
from bufferlab.live import advise, doubts, pool_contents
from bufferlab.live.attach import Attached
from bufferlab.live.live_trace import Recorded
from bufferlab.live.look_result import Seen
from bufferlab.live.observation import Observation
from bufferlab.live.window import LookWindow, SampledRow
from support import fake_mysql
from support.advised import CREATE, READ, columns_of, recorded
from support.advised_server import Bench, asked, bench


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setitem(fake_mysql.GROWTH, "Innodb_buffer_pool_read_ahead", 0)
    with bench() as made:
        yield made


@pytest.mark.parametrize("kind", sorted(doubts.BROKEN))
def test_after_an_event_that_leaves_no_answer_nothing_stays_attached(
    at: Bench, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old server of a failover may live on, and so does PostgreSQL's first process when a session crashes."""
    ready, add = at.prepare(asked()), LookWindow.add

    def add_and_say(window: LookWindow, sample: Sample) -> SampledRow | None:
        if at.clock.now_s - 1000.0 > 30 and not window.events:
            window.say(at.clock.now_s, kind, "something happened")
        return add(window, sample)

    monkeypatch.setattr(LookWindow, "add", add_and_say)
    advice = advise.advise(ready, at.answer, at.stop, at.shown, at.clock, at.clock.sleep)
    (trace,) = at.tracing.traces
    assert trace.ended_s - 1000.0 == pytest.approx(31, abs=1.2)
    assert at.clock.now_s - 1000.0 < 35
    assert all(one.cannot_say for one in advice.others)


def test_what_is_asked_before_full_and_the_reading_of_a_record_take_no_time_from_the_stages(
    at: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = at.tracing.recorded

    def slowly(*arguments: Any, **how: Any) -> Recorded:
        at.clock.sleep(4.0)
        return read(*arguments, **how)

    monkeypatch.setattr(at.tracing, "recorded", slowly)
    monkeypatch.setattr(pool_contents, "pages", lambda *_, **__: at.clock.sleep(5.0) or [])
    ready = at.prepare(asked(60, "full"))
    advice = advise.advise(ready, at.answer, at.stop, at.shown, at.clock, at.clock.sleep)
    full, misses = at.tracing.traces
    _, of_full, beside, of_misses, _ = ready.planned
    assert (full.tier, misses.tier) == ("full", "misses")
    assert full.seconds == pytest.approx(of_full.seconds, abs=1.2)
    assert misses.begun_s - full.ended_s - 4.0 == pytest.approx(beside.seconds, abs=1.2)
    assert misses.seconds == pytest.approx(of_misses.seconds, abs=1.2)
    assert all(one.cannot_say is None for one in advice.others)


@pytest.mark.parametrize("problem", [None, EnvironmentLackingError("the disk is full", "/tmp")])
def test_a_record_is_removed_as_soon_as_it_was_read(
    at: Bench, problem: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next record may need the same space on the disk."""
    attach, read, run = at.tracing.attach, at.tracing.recorded, Observation.run
    files: list[int] = []
    left: list[list[int]] = []

    def still_open() -> set[int]:
        return {one.stat().st_ino for one in Path("/proc/self/fd").iterdir() if one.is_file()}

    def attaching(plan: Any, spool: Path, **how: Any) -> Any:
        now = spool.stat().st_ino
        # After a file is removed, a new file may get its inode number.
        left.append([file for file in files if file != now and file in still_open()])
        files.append(now)
        return attach(plan, spool, **how)

    def reading(*arguments: Any, **how: Any) -> Recorded:
        assert files[-1] in still_open()
        if problem:
            raise problem
        return read(*arguments, **how)

    def running(*arguments: Any, **how: Any) -> Any:
        seen = run(*arguments, **how)
        left.append([file for file in files if file in still_open()])
        return seen

    monkeypatch.setattr(at.tracing, "attach", attaching)
    monkeypatch.setattr(at.tracing, "recorded", reading)
    monkeypatch.setattr(Observation, "run", running)
    if problem:
        with pytest.raises(EnvironmentLackingError, match="the disk is full"):
            at.advise(asked(120, "full"))
    else:
        at.advise(asked(120, "full"))
    assert len(files) == (1 if problem else 4)
    assert left == [[]] * (len(files) + 1)


@pytest.mark.parametrize(
    ("flavour", "major", "reads"), [("postgres", 15, 40), ("postgres", 16, 60), ("mariadb", 10, 60)]
)
def test_pages_that_postgres_made_are_no_reads_where_it_counts_them_so(
    at: Bench, flavour: Flavour, major: int, reads: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, run = at.tracing.recorded, Observation.run

    def reading(*arguments: Any, **how: Any) -> Recorded:
        found = read(*arguments, **how)
        return replace(found, columns=columns_of([(1, CREATE), (2, READ), (2, READ)] * round(20 * found.seconds)))

    def running(*arguments: Any, **how: Any) -> Seen:
        seen = run(*arguments, **how)
        return replace(seen, facts=replace(seen.facts, flavour=flavour, numbers=(major, 1)))

    monkeypatch.setattr(at.tracing, "recorded", reading)
    monkeypatch.setattr(Observation, "run", running)
    counted = at.advise(asked(60, "full")).counted
    assert counted.reads / counted.seconds == pytest.approx(reads, rel=0.01)


def test_the_pages_made_are_taken_from_all_rows_together() -> None:
    """Sessions of PostgreSQL publish their counts late, so one row may have the counts of two seconds."""
    window = replace(recorded(columns_of([(1, CREATE)] * 40)), seconds=2.0)
    facts = Facts("postgres", "15.1", (15, 1), "a", 8192, 1 << 26, "transaction", "", 100.0)
    rows = tuple(SampledRow(float(place), 1.0, {"pages_read": told}, {}) for place, told in enumerate((0.0, 160.0) * 2))
    found = advise._without_creations(Attached(window, rows, 0, 0.0, {}), facts)
    assert advise.count(found).reads == 4 * (80 - 20)
    assert advise.count(found[:1]).reads == 0


def test_pages_of_the_pool_that_cannot_be_read_leave_the_look_going(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def misfit(*_: Any, **__: Any) -> Any:
        raise ValueError("no number")

    monkeypatch.setattr(pool_contents, "pages", misfit)
    advice = at.advise(asked(60, "full"))
    assert [trace.tier for trace in at.tracing.traces] == ["full", "misses"]
    assert all(one.cannot_say is None for one in advice.others)
