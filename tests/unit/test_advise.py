"""Advice on a fake server that only speaks the protocol, by a scripted recorder: stages, refusals, cost, words."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bufferlab.engines.servers.look import NotTold
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.live import advise, advise_page, attach, doubts, sentence, tiers
from bufferlab.live.advise import Advice
from bufferlab.live.bounds import SizeEstimate
from bufferlab.live.confounds import Confound
from bufferlab.live.tiers import Second, Stage
from bufferlab.live.window import SampledRow, ServerEvent
from bufferlab.report import terminal
from bufferlab.report.csv_files import table_csv
from bufferlab.report.document import as_json
from bufferlab.report.figures.svg import draw
from bufferlab.report.json_output import FORMAT_VERSION
from bufferlab.units import GIB, MIB, format_percent
from support import fake_mysql
from support.advised_server import Bench, asked, bench
from support.fake_mysql import FakeMysql
from support.json_documents import DOCUMENTS

PRESENT = 64 * MIB


@pytest.fixture(autouse=True, scope="module")
def without_read_ahead() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fake_mysql.GROWTH, "Innodb_buffer_pool_read_ahead", 0)
        yield


@pytest.fixture
def at() -> Iterator[Bench]:
    with bench() as made:
        yield made


# The stages.


@pytest.mark.parametrize("tier", ["misses", "full"])
@pytest.mark.parametrize("within_s", [30.0, 61.0, 600.0, 86_400.0])
@pytest.mark.parametrize("full_s", [10.0, 75.0, 1e6])
def test_stages_fill_the_time_and_none_follows_another_at_once(
    tier: tiers.Tier, within_s: float, full_s: float
) -> None:
    planned = tiers.stages(tier, within_s, full_s)
    assert sum(stage.seconds for stage in planned) == pytest.approx(within_s)
    assert all(stage.seconds > 0 for stage in planned)
    assert [stage.tier is None for stage in planned] == [place % 2 == 0 for place in range(len(planned))]
    assert planned[-1].tier is None
    assert {stage.tier for stage in planned} <= {None, "misses", tier}
    windows = [stage.seconds for stage in planned if stage.tier == "full"]
    assert all(seconds <= full_s for seconds in windows)
    if full_s > tiers.FULL_S:
        assert sum(windows) <= max(len(windows) * tiers.FULL_S, within_s / 2)


def test_windows_of_full_grow_with_the_turnover_and_cost_no_more_than_short_ones_at_the_limit() -> None:
    def full_s(gets: float, reads: float, pool_pages: int = 3000) -> float:
        rows = [SampledRow(float(place), 1.0, {"page_gets": gets, "pages_read": reads}, {}) for place in range(5)]
        return tiers.full_s(rows, pool_pages, 0.25, "mysql")

    assert full_s(20_000, 1000) == tiers.FULL_S  # The pool turns over in 3 s.
    assert full_s(400, 15) == pytest.approx(2 * 200 / 3)
    busy = full_s(40_000, 15)
    assert busy * tiers.foretold_cores(40_000 + 2 * 15, "mysql", "full") == pytest.approx(tiers.FULL_S * 0.25)
    assert full_s(400, 0) == full_s(0, 0) == tiers.FULL_S


def test_misses_are_attached_and_larger_sizes_answered(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fake_mysql.VARIABLES, "innodb_lru_scan_depth", "777")
    advice = at.advise(asked())
    ((recorded, pool, counted, sizes),) = at.answer.asked
    assert [one.tier for one in recorded] == ["misses"]
    assert recorded[0].seconds == pytest.approx(50, abs=1.5)
    assert recorded[0].ended == "whole"
    assert counted.seconds == pytest.approx(recorded[0].seconds, abs=1.5)
    assert counted.gets / counted.seconds == pytest.approx(1000, rel=0.01)
    assert counted.reads / counted.seconds == pytest.approx(60, rel=0.01)
    assert (counted.unit, counted.units / counted.seconds) == ("transaction", pytest.approx(10, rel=0.01))
    assert (pool.engine, pool.model, pool.pool_pages) == ("mariadb", "innodb1011", 4096)
    assert (pool.settings, pool.version, pool.pool_size_bytes) == ({"lru_scan_depth": 777}, "10.11.19", PRESENT)
    assert PRESENT not in sizes
    assert [one.pool_size_bytes for one in advice.sizes] == [MIB * size for size in (64, 80, 96, 128, 256)]
    assert [one.cannot_say is None for one in advice.others] == [True] * 4
    assert "64 MiB reads 60 pages a second; 128 MiB would read" in sentence.advised(advice)


def test_full_comes_in_short_windows_and_hands_the_rest_to_misses(at: Bench) -> None:
    advice = at.advise(asked(120, "full"))
    ((recorded, *_),) = at.answer.asked
    assert [one.tier for one in recorded] == ["full", "full", "full", "misses"]
    # The pool turns over in 68 s; the three windows with their pauses take half of the time.
    assert all(one.seconds == pytest.approx(110 / 6 - 5, abs=1.2) for one in recorded[:3])
    assert all(one.cannot_say is None for one in advice.others)
    assert [one.tier for one in advice.cost] == ["full", "misses"]


def test_misses_end_when_enough_pages_were_evicted_for_the_largest_size(at: Bench) -> None:
    at.tracing.events_per_s = 2 * 256  # 256 evictions a second; ten times 4,096 frames take 160 s.
    advice = at.advise(asked(600, sizes=(lambda present: 2 * present,)))
    assert advice.attached[0].recorded.seconds == pytest.approx(160, abs=1.5)
    assert advice.seen.window.seconds < 180


# Events that end a look early.


def test_a_tier_that_is_twice_above_the_limit_is_not_tried_again(at: Bench) -> None:
    at.tracing.states = {2.0: "rate"}
    advice = at.advise(asked(120, "full"))
    assert [trace.tier for trace in at.tracing.traces] == ["full", "full", "misses"]
    assert [one.recorded.ended for one in advice.attached] == ["rate"] * 3
    assert at.tracing.traces[0].seconds == pytest.approx(2, abs=0.2)
    assert [said.rsplit(". ", 1)[1] for said in at.shown.said if "more than 125,000 events a second" in said] == [
        "The next window is recorded all the same",
        "A larger one would let it go on; smaller pools can hardly be judged now",
    ]
    assert any("The tier full was detached after 2 s" in limit for limit in advise_page.as_report(advice).limits)
    assert at.tracing.limits == [125_000, 125_000, 500_000]


def test_after_one_burst_the_other_windows_are_recorded(at: Bench) -> None:
    at.tracing.states, at.tracing.only_first = {2.0: "rate"}, True
    advice = at.advise(asked(120, "full"))
    assert [(one.recorded.tier, one.recorded.ended) for one in advice.attached] == [
        ("full", "rate"), ("full", "whole"), ("full", "whole"), ("misses", "whole"),
    ]  # fmt: skip
    assert not any("can hardly be judged" in said for said in at.shown.said)


@pytest.mark.parametrize(
    ("state", "why"),
    [("limit", "the record was full"), ("rate", "more events than --max-cpu"), ("lost", "lost records")],
)
def test_an_attachment_that_ended_within_a_second_is_told_with_its_cause(at: Bench, state: str, why: str) -> None:
    at.tracing.states = {0.2: state}
    advice = at.advise(asked())
    assert all(one.cannot_say and why in one.cannot_say.why for one in advice.others)
    assert at.answer.asked == []


@pytest.mark.parametrize(
    ("left_bytes", "free_bytes", "limit_bytes"),
    [(64 * GIB, 64 * GIB, GIB), (64 * GIB, 400 * MIB, 100 * MIB), (400 * MIB, 64 * GIB, 50 * MIB), (0, 0, 1)],
)
def test_the_recorder_leaves_disk_and_memory_to_the_server(
    at: Bench, monkeypatch: pytest.MonkeyPatch, left_bytes: int, free_bytes: int, limit_bytes: int
) -> None:
    monkeypatch.setattr(attach, "left", lambda pid: attach.MemoryLeft(left_bytes, "host"))
    monkeypatch.setattr(attach.shutil, "disk_usage", lambda _: SimpleNamespace(free=free_bytes))
    at.advise(asked())
    assert at.tracing.limits_bytes == [limit_bytes]


@pytest.mark.parametrize(("others", "told"), [((), []), ((77, 78), ["2,000 times (process 77, 78)"])])
def test_another_server_that_the_probes_stopped_is_told_by_its_number(
    at: Bench, others: tuple[int, ...], told: list[str]
) -> None:
    at.tracing.others = others
    at.advise(asked())
    said = [said for said in at.shown.said if "other processes" in said]
    assert len(said) == len(told)
    assert all(words in text for words, text in zip(told, said, strict=True))


def test_a_server_that_ends_while_attached_leaves_no_answer(at: Bench) -> None:
    at.tracing.states = {3.0: "gone"}
    advice = at.advise(asked())
    assert advice.attached[0].recorded.ended == "gone"
    assert all(one.cannot_say and "went away" in one.cannot_say.why for one in advice.others)
    assert at.answer.asked == []


def test_a_request_to_stop_detaches_and_answers_from_what_was_seen(at: Bench) -> None:
    at.clock.at[35.0] = lambda: setattr(at.stop, "requested", True)
    advice = at.advise(asked())
    (trace,) = at.tracing.traces
    assert trace.ended_s
    assert trace.ended_s - 1000 == pytest.approx(35, abs=0.3)
    assert advice.attached[0].recorded.ended == "stopped"
    assert any(one.cannot_say is None for one in advice.others)


def test_an_error_in_the_middle_detaches(at: Bench) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    at.clock.at[30.0] = fail
    with pytest.raises(RuntimeError, match="a bug"):
        at.advise(asked())
    assert at.tracing.traces[0].ended_s


def test_what_cannot_be_attached_is_the_error_and_not_a_lost_server(at: Bench) -> None:
    at.tracing.refuses = EnvironmentLackingError("tracefs is not there", "/sys/kernel/tracing", "mount it")
    with pytest.raises(EnvironmentLackingError, match="tracefs is not there"):
        at.advise(asked())


# Refusals before anything is attached.


def test_gets_a_second_above_max_cpu_refuse_full_but_not_misses(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fake_mysql.GROWTH, "Innodb_buffer_pool_read_requests", 1_000_000)
    with pytest.raises(SpecError, match=r"full would take 200 % of a processor.*gets a second of 2 µs") as refused:
        at.prepare(asked(tier="full"))
    assert refused.value.where == "--max-cpu 25 %"
    assert refused.value.hint
    assert "--tier misses" in refused.value.hint
    ready = at.prepare(asked())
    assert [one.tier for one in ready.foretold] == ["misses"]
    assert ready.foretold[0].cores == pytest.approx(ready.foretold[0].events_per_s * 0.5e-6)
    assert at.tracing.traces == []


def test_pages_that_the_server_makes_are_foretold_as_stops_and_where_they_are_not_told_that_is_said(
    at: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, _ = at.prepare(asked(120, "full")).foretold
    assert "a second, without the pages that it makes, which the server does not count)" in tiers.sentence(alone)
    monkeypatch.setitem(fake_mysql.GROWTH, "Innodb_pages_created", 40)
    at.server.status["Innodb_pages_created"] = 7
    full, misses = at.prepare(asked(120, "full")).foretold
    # Both reads and writes are calls.
    assert misses.events_per_s == pytest.approx(60 + 5)
    assert misses.recorder_cores > misses.cores > 0
    assert full.events_per_s == pytest.approx(1000 + 2 * (60 + 40))
    assert "does not count" not in tiers.sentence(misses) + tiers.sentence(full)
    # PostgreSQL up to 15 counts created pages as reads.
    (postgres,) = tiers.foretell((Stage("full", 1.0),), rows(3), "postgres")
    assert (postgres.events_per_s, postgres.left_out) == (1020, "")
    (unwritten,) = tiers.foretell((Stage("misses", 1.0),), rows(3), "mysql")
    assert (unwritten.events_per_s, unwritten.left_out) == (10, "its writes")


def test_who_fills_the_pool_is_consented_to_by_each_tier_that_asks_it(
    at: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inside(pool_pages: int, tier: tiers.Tier = "misses", look_inside: bool = False) -> str:
        monkeypatch.setitem(fake_mysql.VARIABLES, "innodb_buffer_pool_size", str(pool_pages * 16384))
        return at.prepare(asked(120, tier, look_inside=look_inside)).inside

    asked_who = "ask the server which pages its pool holds: asking who fills 4,096 pages takes about 0.061 s, in which"
    assert inside(4096).startswith(f"At the end we {asked_who} reads wait for a latch")
    assert inside(4096, "full").startswith("Before full and at the end we ask the server")
    assert inside(100_000) == inside(100_000, "full") == inside(100_000, look_inside=True) == ""
    assert inside(100_000, "full", look_inside=True).startswith("Before full we ask")


def test_an_idle_server_is_not_attached_to(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in fake_mysql.GROWTH:
        monkeypatch.setitem(fake_mysql.GROWTH, name, 0)
    advice = at.advise(asked())
    assert at.tracing.traces == []
    assert "idle" in sentence.advised(advice)
    assert as_json(advise_page.as_report(advice))["status"] == "cannot_say"


def test_a_server_elsewhere_is_refused_with_the_way_to_look(at: Bench) -> None:
    with pytest.raises(EnvironmentLackingError, match="nothing can be attached") as refused:
        advise.prepare(at.session, asked(), at.clock, at.clock.sleep)
    assert refused.value.hint == "run it as root on the server's own host, and name its socket by ?socket=/path"
    several = NotTold("several servers fit", "name its Unix socket in the URL")
    with pytest.raises(EnvironmentLackingError, match="several servers fit") as refused:
        advise.prepare(at.session, asked(), at.clock, at.clock.sleep, lambda *_: several)
    assert refused.value.hint == several.remedy


# Events in the window.


def test_a_restart_or_a_resize_in_the_window_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def resize(_: FakeMysql) -> None:
        monkeypatch.setitem(fake_mysql._LEVELS, "Innodb_buffer_pool_pages_total", 8192)

    for action, words in ((resize, "between 64 MiB and 128 MiB"), (FakeMysql.restart, "the server was restarted")):
        with monkeypatch.context(), bench(FakeMysql({30: action})) as at:
            advice = at.advise(asked())
        assert words in sentence.advised(advice), words
        assert at.answer.asked == []
        monkeypatch.undo()


@pytest.fixture(scope="module")
def advice(without_read_ahead: None) -> Advice:
    with bench() as made:
        found: Advice = made.advise(asked(60, "full"))
    return found


def rows(count: int, **counts: float) -> list[SampledRow]:
    each = {"page_gets": 1000.0, "pages_read": 10.0, "transactions": 10.0, **counts}
    return [SampledRow(float(place), 1.0, each, {"pool_pages": 100.0, "dirty_pages": 10.0}) for place in range(count)]


def seen_with(
    advice: Advice, made: list[SampledRow], *found: Confound, events: tuple[ServerEvent, ...] = ()
) -> list[NotTold]:
    window = replace(advice.seen.window, rows=made, events=list(events))
    inside = replace(advice.seen.inside, confounds=found)
    return list(doubts.doubts(replace(advice.seen, window=window, inside=inside)))


def test_each_rule_refuses_what_it_is_for_and_nothing_else(advice: Advice) -> None:
    steady = rows(20)
    assert seen_with(advice, steady) == []
    assert (
        seen_with(advice, steady, Confound("maintenance", "autovacuum runs"), Confound("replication", "a replica"))
        == []
    )
    high = [replace(row, levels={**row.levels, "dirty_pages": 80.0}) for row in steady]
    behind = [replace(row, levels={**row.levels, "history_list_length": 1001.0}) for row in steady]
    growing = [replace(row, levels={**row.levels, "history_list_length": row.t_s}) for row in steady]
    for words, told in (
        ("a backup ran", seen_with(advice, steady, Confound("backup", "session 5 dumps a table"))),
        ("a table was changed", seen_with(advice, steady, Confound("definition", "session 5 runs ALTER TABLE"))),
        ("purge is behind", seen_with(advice, steady, Confound("history_list", "purge is 20,000 undo logs behind"))),
        ("purge is behind", seen_with(advice, behind)),
        ("grew by 19", seen_with(advice, growing)),
        ("read ahead", seen_with(advice, rows(20, read_ahead_pages=1.0))),
        ("80 % of the pool is dirty", seen_with(advice, high)),
        ("the mix of statements changed", seen_with(advice, rows(10) + rows(10, page_gets=1300.0))),
        ("failover", seen_with(advice, steady, events=(ServerEvent(5.0, "failover", "another server"),))),
        ("idle", seen_with(advice, rows(20, page_gets=9.0, transactions=0.0))),
    ):
        assert [words in one.why for one in told] == [True], (words, told)
        assert told[0].remedy


def test_a_change_within_the_scatter_of_seconds_is_no_change_of_the_mix(advice: Advice) -> None:
    bursts = [one for _ in range(5) for one in (*rows(1, page_gets=100.0), *rows(1, page_gets=3000.0))]
    higher = [one for _ in range(5) for one in (*rows(1, page_gets=100.0), *rows(1, page_gets=4000.0))]
    assert seen_with(advice, bursts + higher) == []


def test_a_few_transactions_are_no_change_of_the_mix(advice: Advice) -> None:
    few = rows(10, transactions=5.0) + rows(10, transactions=5.0, page_gets=2000.0)
    assert seen_with(advice, few) == []


def test_a_setting_that_the_model_takes_otherwise_refuses_full_before_it_is_attached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fake_mysql.VARIABLES, "innodb_change_buffering", "all")
    with bench() as at:
        with pytest.raises(SpecError, match="takes change_buffering to be none, and the server has all") as refused:
            at.prepare(asked(120, "full"))
        assert "--tier misses" in refused.value.hint
        assert at.tracing.traces == []
        misses = at.advise(asked())
    assert [one.cannot_say is None for one in misses.others] == [True] * 4


@pytest.mark.parametrize(
    ("tier", "share", "words"),
    [("misses", 0.5, "smaller pools"), ("full", 1.0, "no other size"), ("misses", 1.0, "no")],
)
def test_sizes_of_which_a_tier_tells_nothing_are_refused_before_it_is_attached(
    at: Bench, tier: tiers.Tier, share: float, words: str
) -> None:
    with pytest.raises(SpecError, match=words) as refused:
        at.prepare(asked(60, tier, sizes=(lambda present: int(share * present),)))
    assert refused.value.hint
    assert at.tracing.traces == []


def test_full_of_smaller_sizes_alone_needs_no_misses(at: Bench) -> None:
    advice = at.advise(asked(120, "full", sizes=(lambda present: present // 2,)))
    assert {one.recorded.tier for one in advice.attached} == {"full"}
    assert [one.cannot_say for one in advice.others] == [None]


# The cost.


def second(tier: tiers.Tier | None, processor_s: float, gets: float = 10_000) -> Second:
    return Second(tier, 1.0, gets, processor_s, 0.02)


def test_the_cost_is_the_difference_a_get_in_processors() -> None:
    seconds = [second(None, 0.5 + wobble) for wobble in (0.01, -0.01) * 5]
    seconds += [second("full", 0.53 + wobble) for wobble in (0.01, -0.01) * 10]
    found = tiers.cost(seconds, "mysql", "full", 20.0, 300_000, 0.031)
    assert found.server_cores == pytest.approx(0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.03 < found.high < 0.05
    assert found.by_events_cores == pytest.approx(0.03)
    assert found.ours_cores == pytest.approx(0.02)
    assert found.is_told
    measured = "Recording (full) took 3 % of a processor from the server (measured: 2.15 % to 3.85 %; foretold 3.1 %; "
    assert advise_page.cost(found).startswith(measured)
    assert "more than its stops explain" not in advise_page.cost(found)
    few = tiers.cost(seconds[8:], "mysql", "full", 20.0, 300_000, 0.031)
    assert (few.server_cores, few.is_told) == (None, False)
    unmeasured = "Recording (full) took 3 % of a processor from the server, by its stops (foretold 3.1 %; not measured)"
    assert advise_page.cost(few).startswith(unmeasured)


def test_a_cost_that_the_seconds_hide_is_said_to_be_hidden_and_no_value_is_told() -> None:
    seconds = [second(None, 0.5 + 0.1 * (place % 2)) for place in range(10)]
    seconds += [second("full", 0.53 + 0.1 * (place % 2)) for place in range(20)]
    hidden = tiers.cost(seconds, "mysql", "full", 20.0, 300_000, 0.031)
    assert hidden.server_cores == pytest.approx(0.03)
    assert not hidden.is_told
    most = format_percent(hidden.high or 0.0)
    assert f"measured, the server's own changes hide it: nothing to {most})" in advise_page.cost(hidden)
    assert "explain" not in advise_page.cost(hidden)
    steady = [second(one.tier, 0.5 if one.tier is None else 0.53) for one in seconds]
    calm = replace(hidden, low=-1.0, high=0.0)
    assert "(foretold 3.1 %; measured, the server's own changes hide it); the" in advise_page.cost(calm)
    dear = tiers.cost(steady, "mysql", "full", 20.0, 30_000, 0.0031)
    assert "more than its stops explain" in advise_page.cost(dear)


def test_gets_that_are_told_a_second_late_are_no_cost() -> None:
    """The processor time of a get is equal in all seconds, though every other second shows next to no gets."""
    seconds = [second(tier, 0.5, 10_000 + 9_000 * (-1) ** place) for tier in (None, "misses") for place in range(20)]
    found = tiers.cost(seconds, "mysql", "misses", 20.0, 300_000, 0.03)
    assert found.server_cores == pytest.approx(0.0, abs=1e-9)
    uneven = [replace(one, gets=10_000.0) if one.tier is None else one for one in seconds]
    found = tiers.cost(uneven, "mysql", "misses", 20.0, 300_000, 0.03)
    assert found.server_cores == pytest.approx(0.0, abs=1e-9), "a mean of ratios would tell 2.1 processors"


def test_the_time_of_a_server_is_that_of_all_its_threads() -> None:
    reader = tiers.Processors(os.getpid())
    go = threading.Event()
    thread = threading.Thread(target=lambda: (sum(range(3_000_000)), go.wait()))
    thread.start()
    sum(range(1_000_000))
    while reader.grown()[0] == 0.0:
        pass
    go.set()
    thread.join()


# Memory.


def test_the_least_of_host_and_groups_is_left_and_files_that_are_given_back_count_as_free(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  8000000 kB\nMemAvailable:  1048576 kB\n")
    inner, outer, first = tmp_path / "inner", tmp_path / "outer", tmp_path / "first"
    for folder, files in (
        (inner, {"memory.max": "max", "memory.current": "1000", "memory.stat": "anon 5\ninactive_file 400\n"}),
        (outer, {"memory.max": "2000", "memory.current": "1000", "memory.stat": "anon 5\ninactive_file 400\n"}),
        (first, {"memory.limit_in_bytes": "900", "memory.usage_in_bytes": "800",
                 "memory.stat": "total_inactive_file 100\n"}),
    ):  # fmt: skip
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
    assert attach.least(meminfo, [(2, inner)]) == attach.MemoryLeft(1 << 30, "host")
    assert attach.least(meminfo, [(2, inner), (2, outer)]) == attach.MemoryLeft(1400, "cgroup")
    assert attach.least(meminfo, [(2, outer), (1, first), (2, tmp_path / "none")]) == attach.MemoryLeft(200, "cgroup")
    assert attach.least(tmp_path / "nowhere", []) is None


def test_the_record_of_a_look_has_no_name_that_a_kill_could_leave(
    at: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    during: list[tuple[int, list[Path]]] = []

    def look() -> None:
        links = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_file()]
        during.append((sum(link.startswith(f"{tmp_path}/") for link in links), list(tmp_path.iterdir())))

    at.clock.at[20.0] = look
    at.advise(asked())
    look()
    assert during == [(1, []), (0, [])]


def test_a_folder_for_records_that_takes_none_is_named(
    at: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(EnvironmentLackingError, match="the record's file cannot be made: No such file") as error:
        at.advise(asked())
    assert error.value.where == "TMPDIR"


# The words.


def told(size_mib: int, reads: float, tier: tiers.Tier = "misses", half: float = 0.1) -> SizeEstimate:
    return SizeEstimate(size_mib * MIB, reads, (1 - half) * reads, (1 + half) * reads, tier, None)


def advised(advice: Advice, *others: SizeEstimate, reads: float = 400.0, room_mib: int | None = 4096) -> Advice:
    present = SizeEstimate(PRESENT, reads, None, None, "counted", None)
    estimates = tuple(sorted((*others, present), key=lambda one: one.pool_size_bytes))
    left = None if room_mib is None else attach.MemoryLeft(room_mib * MIB, "host")
    return replace(advice, sizes=estimates, memory_left=left)


REFUSED = SizeEstimate(32 * MIB, None, None, None, "misses", NotTold("smaller sizes need every access", "--tier full"))


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ((told(128, 80), told(256, 3)),
         "Twice the memory would read 80 % less (78 to 82 %): 64 MiB reads 400 pages a second; 128 MiB would read 72 "
         "to 88, 256 MiB fewer than 3.3."),
        ((told(128, 80), told(96, 200), told(256, 0.0)),
         "Twice the memory would read 80 % less (78 to 82 %): 64 MiB reads 400 pages a second; 128 MiB would read 72 "
         "to 88, 256 MiB none."),
        ((REFUSED, told(128, 80)), "Twice the memory would read 80 % less (78 to 82 %): 64 MiB reads 400 pages a "
                                   "second; 128 MiB would read 72 to 88."),
        ((told(96, 390),), "Half as much memory again would read about as much (up to 13 % less): 64 MiB reads 400 "
                           "pages a second; 96 MiB would read 351 to 429."),
        ((REFUSED,), "64 MiB reads 400 pages a second; what another size would read cannot be said: "
                     "smaller sizes need every access; --tier full."),
        ((told(48, 410, "full", 0.02), told(32, 900, "full")),
         "64 MiB reads 400 pages a second; 48 MiB would read about as much; below 48 MiB it gets worse: "
         "32 MiB 810 to 990."),
        ((told(48, 410, "full", 0.02),), "64 MiB reads 400 pages a second; 48 MiB would read about as much."),
        ((told(48, 500, "full", 0.02),), "64 MiB reads 400 pages a second; 48 MiB would read 490 to 510."),
    ],
)  # fmt: skip
def test_the_sentence(advice: Advice, others: tuple[SizeEstimate, ...], words: str) -> None:
    assert sentence.advised(advised(advice, *others)) == words


def test_the_share_of_statement_time_bounds_what_a_larger_pool_saves(advice: Advice) -> None:
    window = advice.seen.window
    timed = {"read_ms": 31.0, "statement_ms": 1000.0}
    seen = replace(
        advice.seen,
        window=replace(
            window, totals={**window.totals, **timed}, seconds_of={**window.seconds_of, **dict.fromkeys(timed, 10.0)}
        ),
    )
    larger, smaller = (replace(advised(advice, one), seen=seen) for one in (told(128, 80), told(48, 410, "full", 0.02)))
    words = " Reads take 3.1 % of statement time: fewer reads can save no more than that."
    assert sentence.advised(larger).endswith(words)
    assert "statement time" not in sentence.advised(smaller)


def test_writes_have_bounds_in_the_sentence_the_tables_and_the_limits(advice: Advice) -> None:
    of_double = replace(told(128, 80), writes_low_per_s=61.3, writes_high_per_s=120.0)
    made = advised(advice, of_double, told(96, 200))
    made = replace(
        made,
        sizes=tuple(replace(one, writes_low_per_s=120.0, writes_high_per_s=120.0) if one == made.now else one
                    for one in made.sizes),
    )  # fmt: skip
    assert sentence.advised(made).endswith(
        " The server writes 120 pages a second now; with checkpoints as now, 128 MiB would write 61 to 120."
    )
    cells = {row.cells[0]: row.cells[5] for row in advise_page.sizes_table(made).rows}
    assert cells == {"64 MiB": "120", "96 MiB": "", "128 MiB": "61 to 120"}
    table = advise_page.sizes_table(made, with_reasons=True)
    places = [place for place, head in enumerate(table.columns) if head.title.startswith("Writes")]
    (of_128,) = (row.cells for row in table.rows if row.cells[0] == "128 MiB")
    assert [of_128[place] for place in places] == ["61.3", "120"]
    assert any("bounds alone" in limit for limit in advise_page.as_report(made).limits)
    (size,) = (one for one in as_json(advise_page.as_report(made))["sizes"] if one["pool_size_bytes"] == 128 * MIB)
    assert (size["writes_low_per_s"], size["writes_high_per_s"]) == (61.3, 120.0)
    assert "writes" not in sentence.advised(advised(advice, told(128, 80)))


def test_the_table_of_a_terminal_has_each_size_in_one_line_of_80_characters(advice: Advice) -> None:
    sizes = (told(32, 12_300, half=0.25), told(48, 410, half=0.05), told(96, 390, half=0.05), told(128, 80))
    timed = [replace(one, read_ms_per_s=0.15 * (one.reads_per_s or 0)) for one in sizes]
    shown = terminal.text(advise_page.as_report(advised(advice, *timed)), 80)
    rows = [line.split() for line in shown.split("─\n")[1].split("\n\n")[0].splitlines()]
    assert [row[:2] for row in rows] == [[size, "MiB"] for size in ("32", "48", "64", "96", "128")], shown
    for change in ("31 times (23 to 39)", "+2 % (-3 to +8 %)", "-2 % (-8 to 0 %)", "-80 % (-82 to -78 %)"):
        assert change in shown, shown


def test_a_pool_that_holds_what_the_load_reads_is_said_to_do_so(advice: Advice) -> None:
    held = SizeEstimate(128 * MIB, None, 0.0, 0.1, "counted")
    assert "; a larger one can save no more than that" in sentence.advised(advised(advice, REFUSED, held))


def test_reads_that_nobody_saw_are_not_told_as_none(advice: Advice) -> None:
    made = advised(advice, REFUSED)
    unseen = replace(made, sizes=tuple(replace(one, reads_per_s=None) for one in made.sizes))
    assert sentence.advised(unseen).startswith("nobody saw how much 64 MiB reads; what another size")


def test_what_could_not_be_looked_at_stands_in_every_view(advice: Advice) -> None:
    inside = replace(
        advice.seen.inside, confounds_not_told=(NotTold("which sessions work", "GRANT PROCESS ON *.* TO the account"),)
    )
    made = replace(advised(advice, told(128, 80)), seen=replace(advice.seen, inside=inside))
    assert "Not looked at: which sessions work; GRANT PROCESS" in terminal.text(advise_page.as_report(made))
    (one,) = as_json(advise_page.as_report(made))["not_looked_at"]
    assert one["why"] == "which sessions work"


@pytest.mark.parametrize(
    ("method", "are"), [("O_DIRECT", "device reads"), ("fsync", "asked of the system"), (None, "asked of the system")]
)
def test_reads_are_the_devices_where_the_server_opens_files_past_the_page_cache(
    advice: Advice, method: str | None, are: str
) -> None:
    settings = {"innodb_flush_method": method} if method else {}
    facts = replace(advice.seen.facts, settings=settings)
    made = replace(advised(advice, told(128, 80)), seen=replace(advice.seen, facts=facts))
    assert as_json(advise_page.as_report(made))["reads_are"] == are
    assert ("cache has" in terminal.text(advise_page.as_report(made))) == (are != "device reads")


def test_a_size_for_which_there_is_no_memory_is_said_to_be_so(advice: Advice) -> None:
    tight = advised(advice, told(128, 80), told(256, 3), room_mib=10)
    assert "128 MiB (more than there is memory for) would read" in sentence.advised(tight)
    roomy = advised(advice, told(96, 200), told(128, 80), told(256, 3), room_mib=100)
    assert "96 MiB would read 180 to 220, 128 MiB 72 to 88." in sentence.advised(roomy)
    assert any("has 100 MiB of memory left" in fact for fact in advise_page.as_report(roomy).facts)


def test_postgres_needs_a_restart_and_asks_the_system(advice: Advice) -> None:
    facts = replace(advice.seen.facts, flavour="postgres", version="17.2", numbers=(17, 2))
    made = replace(advised(advice, told(128, 80)), seen=replace(advice.seen, facts=facts))
    words = sentence.advised(made)
    assert "(78 to 82 %): shared_buffers of 64 MiB reads 400 pages a second, from the page cache or" in words
    assert words.endswith(", after a restart.")
    shown = terminal.text(advise_page.as_report(made))
    assert "fewer are no fewer reads of the device" in shown
    assert "Reads/s" in shown
    assert as_json(advise_page.as_report(made))["reads_are"] == "asked of the system"


def test_a_size_beyond_what_the_window_saw_has_a_bound_and_says_so(advice: Advice) -> None:
    bound = SizeEstimate(256 * MIB, None, 0.0, 3.0, "misses", None, longest_pages=4096)
    made = advised(advice, told(128, 80), bound)
    shown = terminal.text(advise_page.as_report(made))
    assert "≤ 3" in shown
    assert "at least 99 % less" in shown
    words = "tells of pools up to 128 MiB. A larger pool reads no more than what was left there"
    assert words in " ".join(shown.split())
    assert "≤" not in table_csv(advise_page.sizes_table(made, with_reasons=True))
    assert "A larger pool" not in terminal.text(advise_page.as_report(advised(advice, told(128, 80))))
    # Without a size whose reads are known, the answer says nothing of waiting.
    assert "sessions wait for reads, in ms a second: now" in " ".join(shown.split())
    uncounted = replace(made, sizes=(replace(made.now, reads_per_s=None), bound))
    assert "sessions wait" not in terminal.text(advise_page.as_report(uncounted))


def test_all_views_tell_the_same_numbers(advice: Advice) -> None:
    found = advise_page.as_report(advice)
    document = as_json(found)
    DOCUMENTS["advise"].model_validate({"format_version": FORMAT_VERSION, **document})
    assert document["answer"] == found.answer
    assert [one["pool_size_bytes"] for one in document["sizes"]] == [one.pool_size_bytes for one in advice.sizes]
    assert document["present"]["pool_pages"] == 4096
    heads, *lines = (
        line for line in table_csv(advise_page.sizes_table(advice, with_reasons=True)).splitlines() if line[0] != "#"
    )
    assert heads.startswith("Pool,Reads a second,From,To,Change")
    assert len(lines) == len(advice.sizes)
    shown = terminal.text(found)
    assert "128 MiB" in shown
    assert found.headline
    assert found.steps
    panel = {row.cells[0]: row.cells[1] for row in found.steps.rows}
    assert panel["64 MiB"].endswith(": as it is")
    assert panel["128 MiB"] == "30.0 (27 to 33): 50 % less"
    assert "–" not in "".join(cell for row in found.blocks[0].rows for cell in row.cells)  # type: ignore[union-attr]
    assert any(block.id == "misses" for block in found.blocks), "the load over time"
    assert [row.cells[0] for row in found.headline.data.rows] == [str(one.pool_size_bytes) for one in advice.sizes]


@pytest.mark.figures
def test_the_figure_shades_the_bounds_and_marks_the_present_size(advice: Advice) -> None:
    figure = advise_page.as_report(
        advised(advice, told(128, 80), told(256, 3), told(32, 900, "full"), room_mib=100)
    ).headline
    assert figure
    drawn = draw(figure)
    for words in ("now: 64 MiB", "memory there is: 164 MiB"):
        assert words in drawn, words
    assert "FillBetween" in drawn or "PolyCollection" in drawn


@pytest.mark.parametrize(
    ("ratio", "low", "value", "high", "words"),
    [
        (2.0, 48.0, 54.0, 59.0, "46 % less (41 to 52 %)"),
        (2.0, 90.0, 97.0, 104.0, "about as much (up to 10 % less)"),
        (0.5, 90.0, 97.0, 104.0, "about as much (up to 10 % less or 4 % more)"),
        (0.5, 150.0, 180.0, 201.5, "80 % more (50 to 102 %)"),
        (4.0, 0.0, None, 1.2, "at least 98 % less"),
    ],
)
def test_a_change_is_told_in_per_cent_with_bounds_that_are_rounded_outward(
    ratio: float, low: float, value: float | None, high: float, words: str
) -> None:
    advice: Any = SimpleNamespace(now=SimpleNamespace(reads_per_s=100.0), present_bytes=64 << 20)
    one = SizeEstimate(int(ratio * (64 << 20)), value, low, high, "misses")
    assert sentence.change(one, advice) == sentence.verdict(one, advice) == words


def test_a_size_that_needs_longer_says_how_long_in_its_row() -> None:
    advice: Any = SimpleNamespace(now=SimpleNamespace(reads_per_s=100.0), present_bytes=64 << 20)
    short = NotTold("the window saw too little", "record for 6 min at least")
    one = SizeEstimate(256 << 20, None, 0.0, 51.0, "misses", short)
    assert sentence.verdict(one, advice) == "needs a look of 6 min"
    assert sentence.verdict(replace(one, cannot_say=NotTold("idle")), advice) == "cannot say"
