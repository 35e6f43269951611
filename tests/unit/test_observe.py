"""A look at a server: growth of recorded counters, events that break it, the sentence, and the written files."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.engines.innodb.look import InnodbLook
from bufferlab.engines.postgres.look import PostgresLook
from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.counts import TITLES
from bufferlab.engines.servers.existing.whereabouts import scheme
from bufferlab.engines.servers.look import Facts, NotTold, PoolLevels, Sample, Unpublished
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.live import host_side, observe_page, prometheus, sentence
from bufferlab.live import window as live_window
from bufferlab.live.confounds import Confound
from bufferlab.live.digests import Digests, DigestStatement
from bufferlab.live.host_side import HostWork
from bufferlab.live.look_result import InsideFindings, LookCost, Seen
from bufferlab.live.observation import Observation
from bufferlab.live.pool_contents import PoolContents, PoolObject
from bufferlab.live.session import Session, address_of, family_of
from bufferlab.live.window import LookWindow, SampledRow, grown
from bufferlab.report import terminal
from bufferlab.report.csv_files import table_csv
from bufferlab.report.document import as_json
from bufferlab.report.html import render_html
from support.core import ROOT
from support.fake_mysql import FakeMysql

FACTS = Facts(
    flavour="mysql",
    version="9.7.4",
    numbers=(9, 7, 4),
    identity="a",
    page_size_bytes=16384,
    pool_size_bytes=64 << 20,
    transactions="transaction",
    no_time="",
    uptime_s=100.0,
)

POSTGRES = replace(FACTS, flavour="postgres", version="17.2", numbers=(17, 2))

STATEMENT = DigestStatement("shop", "SELECT * FROM t WHERE a = ?", 7, 1.5, 70, 7, None, None, None)


def sample(
    t_s: float, started_s: float = -100.0, own: int = 0, reset_s: float | None = None, **counters: int
) -> Sample:
    return Sample(t_s, counters, {"dirty_pages": 5.0, "pool_pages": 100.0}, {"statements": own}, started_s, reset_s)


def window() -> LookWindow:
    made = LookWindow(lambda growth: dict(growth), 0.0)
    made.connected(0.0, "a")
    return made


def seen(totals: Mapping[str, float], facts: Facts = FACTS, seconds: float = 10.0) -> Seen:
    made = window()
    made.totals, made.seconds = dict(totals), seconds
    made.seconds_of = dict.fromkeys(totals, seconds)
    made.rows = [SampledRow(seconds, seconds, dict(totals), {"dirty_pages": 5.0, "pool_pages": 100.0})]
    pool = PoolLevels(
        {"pool_pages": 100.0, "dirty_pages": 25.0, "pool_size_bytes": 64 << 20}, {"old_pages": "no right"}
    )
    cost = LookCost(20, 0.05, None, seconds)
    inside = InsideFindings(
        PoolContents(100, 0.1, (PoolObject("shop.orders", "PRIMARY", 75, 0.75, 5, 20),)),
        Digests((STATEMENT,), 7, 1.5, 0, 0, 0, 0, ("a note",)),
        (Confound("backup", "session 5 of root dumps a table", 12.0),),
        (NotTold("which thread serves us", "GRANT it"),),
        NotTold("the server is elsewhere"),
    )
    return Seen("host:3306", facts, made, pool, pool, "whole", cost, inside)


# Growth.


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**30))
def test_a_counter_that_grows_or_wraps_at_64_bits_tells_what_it_grew_by(before: int, growth: int) -> None:
    assert grown(before, (before + growth) % 2**64) == growth


@given(st.integers(2**32 - 2**29, 2**32 - 1), st.integers(1, 2**29))
def test_a_counter_of_32_bits_that_wraps_tells_what_it_grew_by(before: int, growth: int) -> None:
    assert grown(before, (before + growth) % 2**32) == growth


@given(st.integers(1, 2**31), st.data())
def test_a_small_counter_that_falls_was_reset(before: int, data: st.DataObject) -> None:
    assert grown(before, data.draw(st.integers(0, before - 1))) is None


def test_counts_are_of_the_time_between_samples_without_our_own() -> None:
    made = window()
    assert made.add(sample(1.0, own=3, statements=100, page_gets=1000)) is None
    row = made.add(sample(3.0, own=5, statements=142, page_gets=1600))
    assert row
    assert dict(row.counts) == {"statements": 40, "page_gets": 600}
    assert row.per_s("page_gets") == 300
    assert made.totals == {"statements": 40, "page_gets": 600}
    assert made.seconds == 2
    assert made.events == []


def test_a_second_in_which_counters_were_reset_is_left_out_and_said() -> None:
    made = window()
    for t_s, gets in ((1.0, 1000), (2.0, 1100), (3.0, 30), (4.0, 130)):
        made.add(sample(t_s, page_gets=gets))
    assert made.totals == {"page_gets": 200}
    assert made.seconds == 2
    assert [(event.kind, event.t_s) for event in made.events] == [("reset", 3.0)]


def test_a_reset_that_the_server_tells_is_seen_though_no_counter_fell() -> None:
    made = window()
    made.add(sample(1.0, page_gets=10))
    assert made.add(sample(2.0, reset_s=1.5, page_gets=20)) is None
    assert [event.kind for event in made.events] == ["reset"]


def test_a_wrap_is_added_up_and_said() -> None:
    made = window()
    made.add(sample(1.0, page_gets=2**32 - 50))
    row = made.add(sample(2.0, page_gets=50))
    assert row
    assert row.counts["page_gets"] == 100
    assert [event.kind for event in made.events] == ["wrap"]


def test_after_a_restart_the_sum_goes_on_from_the_new_counters() -> None:
    made = window()
    made.add(sample(1.0, page_gets=1000))
    made.add(sample(2.0, page_gets=1100))
    made.connected(8.0, "a")
    made.add(sample(8.0, started_s=6.0, page_gets=2000))
    made.add(sample(9.0, started_s=6.0, page_gets=2010))
    assert made.totals == {"page_gets": 110}
    assert [event.kind for event in made.events] == ["restart"]


def test_a_restart_of_a_server_that_had_just_started_is_known_by_its_counters() -> None:
    made = window()
    made.add(sample(1.0, page_gets=1000))
    made.connected(6.0, "a")
    made.add(sample(6.0, started_s=-98.5, page_gets=10))
    assert [event.kind for event in made.events] == ["restart"]


def test_statistics_that_are_lost_with_the_connection_are_a_restart_and_those_that_were_reset_are_not() -> None:
    """When a session of PostgreSQL crashes, the pool starts again, but the server's start time stays."""
    for reset_s, kind in ((None, "restart"), (0.5, "restart"), (4.0, "reset")):
        made = window()
        made.add(sample(1.0, reset_s=0.5, page_gets=1000))
        made.connected(6.0, "a")
        made.add(sample(6.0, reset_s=reset_s, page_gets=10))
        assert [event.kind for event in made.events] == [kind], reset_s


def test_a_connection_that_was_cut_and_regained_loses_nothing() -> None:
    made = window()
    made.add(sample(1.0, page_gets=1000))
    made.connected(6.0, "a")
    made.add(sample(6.0, page_gets=1500))
    assert made.totals == {"page_gets": 500}
    assert made.events == []


def test_a_server_that_answers_late_was_not_restarted() -> None:
    made = window()
    made.add(sample(1.0, page_gets=1000))
    made.add(sample(2.0, started_s=-108.0, page_gets=1100))
    made.connected(9.0, "a")
    made.add(sample(9.0, page_gets=1500))
    assert made.totals == {"page_gets": 500}
    assert made.events == []


def test_another_server_at_the_same_address_is_said_and_not_mixed() -> None:
    made = window()
    made.add(sample(1.0, page_gets=1000))
    made.connected(6.0, "b")
    made.add(sample(6.0, page_gets=5000))
    assert made.totals == {}
    assert [event.kind for event in made.events] == ["failover"]


def test_a_count_that_is_no_longer_told_keeps_its_own_seconds() -> None:
    made = window()
    made.add(sample(0.0, page_gets=0, read_ms=0))
    made.add(sample(1.0, page_gets=10, read_ms=10))
    made.add(sample(2.0, page_gets=20))
    assert made.seconds_of == {"page_gets": 2, "read_ms": 1}
    assert [event.kind for event in made.events] == ["right"]
    assert "read_ms" in made.events[0].what


def test_what_our_session_did_is_subtracted_from_rows_as_from_the_total() -> None:
    made = window()
    for t_s, counted in ((0.0, 0), (1.0, 13), (2.0, 16)):
        made.add(sample(t_s, transactions=counted, page_gets=5))
    made.subtract("transactions", 3)
    assert [dict(row.counts) for row in made.rows] == [
        {"transactions": 10, "page_gets": 0},
        {"transactions": 0, "page_gets": 0},
    ]
    assert made.totals == {"transactions": 10, "page_gets": 0}
    made.subtract("transactions", 4)
    # No row and no total is negative: the missing part of one row is not taken from other rows.
    assert [row.counts["transactions"] for row in made.rows] == [6, 0]
    assert made.totals["transactions"] == 2


def test_a_count_that_was_read_late_has_the_seconds_between_its_own_readings() -> None:
    made = window()
    made.add(replace(sample(0.0, page_gets=0, transactions=70), read_s={"transactions": 7.0}))
    made.add(replace(sample(10.0, page_gets=300, transactions=110), read_s={"transactions": 11.0}))
    assert made.totals == {"page_gets": 300, "transactions": 40}
    assert made.seconds_of == {"page_gets": 10, "transactions": 4}


# The families.


@pytest.mark.parametrize(
    ("flavour", "numbers", "misses"),
    [("mysql", (9, 7, 4), 95), ("mariadb", (10, 4, 1), 95), ("mariadb", (10, 11, 19), 75)],
)
def test_a_miss_is_a_read_that_was_not_ahead(flavour: Flavour, numbers: tuple[int, ...], misses: int) -> None:
    growth = {"reads_told": 100, "read_ahead_pages": 20, "random_read_ahead_pages": 5, "page_gets": 1000, "commits": 7}
    facts = replace(FACTS, flavour=flavour, numbers=numbers, transactions="explicit commit")
    found = InnodbLook().derive(growth, facts)
    assert found["misses"] == misses
    assert found["read_ahead_pages"] == 25
    assert found["transactions"] == 7


def test_times_become_milliseconds() -> None:
    innodb = InnodbLook().derive({"reads_told": 1, "read_ps": 5 * 10**9, "statement_ps": 10**10}, FACTS)
    assert (innodb["read_ms"], innodb["statement_ms"]) == (5, 10)
    postgres = PostgresLook().derive({"pages_read": 3, "read_us": 5000, "active_us": 10_000}, FACTS)
    assert (postgres["misses"], postgres["read_ms"], postgres["statement_ms"]) == (3, 5, 10)


# The sentence.

COUNTS = {"page_gets": 100_000, "misses": 1000, "pages_read": 1000, "pages_written": 5, "statements": 4000}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"read_ms": 500, "statement_ms": 1000},
            "The pool misses 100 reads a second, 0.250 per statement; they take 50 % of statement time.",
        ),
        (
            {"read_ms": 10, "statement_ms": 1000},
            "Misses are not what slows this server: the pool misses 100 reads a second, 0.250 per statement, "
            "and they take 1 % of statement time.",
        ),
        ({"misses": 0}, "Misses are not what slows this server: the pool missed none of 100,000 gets in 10 s."),
        ({"read_ms": 3000, "statement_ms": 1000}, "100 %"),
    ],
)
def test_the_sentence_tells_misses_and_the_time_they_take(more: dict[str, float], expected: str) -> None:
    assert expected in sentence.observed(seen({**COUNTS, **more}))


UNPUBLISHED = {"sessions": 1, "hidden": 2, "readers": "7 8", "io_method": None}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (UNPUBLISHED, Unpublished(1, 2, (7, 8))),
        ({**UNPUBLISHED, "io_method": "worker"}, Unpublished(1, 2, (7, 8))),
        ({**UNPUBLISHED, "io_method": "io_uring"}, Unpublished(1, 2)),
        ({**UNPUBLISHED, "readers": None}, Unpublished(1, 2)),
    ],
)
def test_sessions_that_have_published_nothing_are_told_with_the_processes_that_read_for_them(
    row: dict[str, object], told: Unpublished
) -> None:
    assert PostgresLook().unpublished(lambda sql: [row], 10.0) == told


@pytest.mark.parametrize(
    ("unpublished", "expected"),
    [
        (
            Unpublished(1, 0, (7,), 10 << 20),
            "1 session worked in transactions that began before this look, and PostgreSQL publishes counts when a "
            "transaction ends: theirs are missing. They read at most 1 MiB a second (/proc/PID/io).",
        ),
        (Unpublished(2, 1), "2 sessions worked"),
        (Unpublished(0, 3), "Whether 3 sessions of other roles work in transactions that have published nothing yet"),
    ],
)
def test_while_sessions_have_published_nothing_a_pool_that_misses_nothing_is_not_said_to_be_fast(
    unpublished: Unpublished, expected: str
) -> None:
    made = seen({**COUNTS, "misses": 0}, POSTGRES)
    told = sentence.observed(replace(made, unpublished=unpublished))
    assert told.startswith("Whether misses slow this server cannot be told: the pool missed none of the 100,000 gets")
    assert expected in told
    assert "not what slows" in sentence.observed(made)


def test_few_misses_are_no_verdict_while_sessions_have_published_nothing() -> None:
    made = seen({**COUNTS, "read_ms": 10, "statement_ms": 1000}, POSTGRES)
    told = sentence.observed(replace(made, unpublished=Unpublished(1)))
    assert "not what slows" in sentence.observed(made)
    assert "not what slows" not in told
    assert "they take 1 % of statement time. 1 session worked" in told


def test_misses_of_scans_through_a_ring_name_the_pool_that_ends_them() -> None:
    free = PoolLevels({"pool_pages": 100.0, "free_pages": 70.0}, {})
    made = replace(seen({**COUNTS, "ring_pages_read": 501}, POSTGRES), begin=free, end=free)
    told = sentence.observed(made)
    assert "50.1 % of the misses are of scans through a ring" in told
    assert "a pool of more than four times the table" in told
    assert "want of memory" not in told
    made.window.totals["ring_pages_read"] = 500
    assert "ring" not in sentence.observed(made)
    assert "not for want of memory" in sentence.observed(made)


def test_reads_of_temporary_tables_are_told_beside_the_misses() -> None:
    made = seen({**COUNTS, "temporary_pages_read": 5000}, POSTGRES)
    assert "also read 500 pages of temporary tables a second" in sentence.observed(made)
    made.window.totals["temporary_pages_read"] = 1000
    assert "temporary" not in sentence.observed(made)


def test_versions_that_cannot_separate_temporary_tables_say_so() -> None:
    for numbers, is_said in (((15, 18), True), ((16, 1), False)):
        told = sentence.observed(seen(COUNTS, replace(POSTGRES, numbers=numbers)))
        assert ("among them reads of temporary tables" in told) == is_said


def test_without_timings_the_sentence_says_so_and_what_would_let_it() -> None:
    facts = replace(FACTS, no_time="performance_schema is off; `performance_schema = ON` would let it")
    made = seen(COUNTS, facts)
    told = sentence.observed(made)
    waits = "if a read takes 0.1 to 1 ms, sessions wait 10.0 to 100 ms for them in each second."
    assert f"The pool misses 100 reads a second, 0.250 per statement: {waits}" in told
    device = {"device_reads": 500, "device_read_ms": 100}
    timed = "if each takes 0.2 ms, as the device's reads did in the mean (all programs' reads), sessions wait 20 ms"
    assert timed in sentence.observed(seen({**COUNTS, **device}, facts)).replace("0.200", "0.2").replace("20.0", "20")
    report = observe_page.as_report(made)
    assert report.limits[0] == (
        "What share of statement time the reads take cannot be told: performance_schema is off; `performance_schema = "
        "ON` would let it."
    )
    assert report.steps
    assert [row.cells for row in report.steps.rows][:2] == [("Hit ratio", "99 %"), ("Misses a second", "100")]


def test_the_panel_has_the_time_of_a_read_and_its_share_of_statement_time() -> None:
    made = seen({**COUNTS, "pages_read": 2000, "read_ms": 500, "statement_ms": 1000})
    report = observe_page.as_report(made)
    assert report.steps
    shown = dict(row.cells for row in report.steps.rows)
    assert shown["Reads' share of statement time"] == "50 %"
    assert shown["Time of a read"] == "0.250 ms"
    assert shown["Pages read a second"] == "200"
    assert report.headline
    assert report.headline.caption == "The wide pale line: misses. The thin line: pages read."


def test_where_statements_are_not_counted_misses_are_told_per_transaction() -> None:
    counts = {"page_gets": 100.0, "misses": 10.0, "transactions": 5.0}
    assert ", 2.00 per transaction" in sentence.observed(seen(counts))


def test_nothing_is_claimed_of_nothing() -> None:
    nothing = seen({})
    nothing.window.rows.clear()
    assert sentence.observed(nothing).startswith("Nothing was seen")
    assert "Nothing was seen" in terminal.text(observe_page.as_report(nothing))


# Written files.


def test_the_report_shows_rates_shares_and_what_is_not_told() -> None:
    found = observe_page.as_report(seen({**COUNTS, "transactions": 0.0}))
    text = terminal.text(found)
    assert "hit ratio 99 %, which hides 100 misses a second" in text
    assert "25 %" in text, "the dirty share"
    assert "Not told: pages in the old part of the LRU list. The reason: no right." in text
    assert "`" not in text
    assert "_pages" not in text
    assert "session 5 of root dumps a table" in text
    assert "which thread serves us; GRANT it would let it" in text
    assert "shop.orders" in text
    page = render_html(found, footer="made <here>")
    assert "made &lt;here&gt;" in page
    assert "<svg" in page
    assert "SELECT * FROM t WHERE a = ?" in page
    assert "There are no counts of the device: the server is elsewhere." in page
    # On paper the table of seconds is left out, and there is no CSV file with the seconds.
    assert '<p class="paper">The numbers of each figure are on the HTML page.</p>' in page
    assert "wide pale line" not in page, "misses and pages read are the same line"


def test_csv_has_a_line_for_each_second() -> None:
    lines = table_csv(observe_page.seconds_table(seen(COUNTS))).splitlines()
    head, row = (line for line in lines if not line.startswith("#"))
    assert dict(zip(head.split(","), row.split(","), strict=True))["page_gets_per_s"] == "10000"


@pytest.mark.parametrize(
    ("free", "settings", "said"),
    [
        ((84.0, 90.0), {}, "At both ends 84 % of the pool was free, so these misses are not for want of memory."),
        ((84.0, 90.0), {"innodb_lru_scan_depth": "10", "innodb_buffer_pool_instances": "2"}, "not for want of memory"),
        (
            (84.0, 90.0),
            {"innodb_lru_scan_depth": "1536"},
            "No lower depth is safe by this look: in one second 100 pages came in",
        ),
        (
            (25.0, 30.0),
            {"innodb_lru_scan_depth": "10", "innodb_buffer_pool_instances": "3"},
            "keeps 27.5 % of the pool",
        ),
    ],
)
def test_misses_of_a_pool_that_is_largely_free_are_not_for_want_of_memory(
    free: tuple[float, float], settings: dict[str, str], said: str
) -> None:
    made = seen(COUNTS, replace(FACTS, settings=settings))
    begin, end = (PoolLevels({"pool_pages": 100.0, "free_pages": pages}, {}) for pages in free)
    assert sentence.observed(made) in sentence.observed(replace(made, begin=begin, end=end))
    assert said in sentence.observed(replace(made, begin=begin, end=end))
    for other in (
        PoolLevels({"pool_pages": 100.0, "free_pages": 19.0}, {}),
        PoolLevels({"pool_pages": 100.0}, {}),
        None,
    ):
        assert sentence.observed(replace(made, begin=begin, end=other)) == sentence.observed(made)


def test_the_file_for_prometheus_is_whole_and_escapes_its_labels(tmp_path: Path) -> None:
    made = seen({**COUNTS, "read_ms": 500, "statement_ms": 1000})
    contents = PoolContents(100, 0.0, (PoolObject("shop.orders", "PRIMARY", 60, 0.6, 3),))
    row, levels = made.window.rows[-1], {"free_pages": 30.0}
    text = prometheus.text('a"b\\', replace(FACTS, flavour="mysql"), made.window, row, levels, contents)
    metrics = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    assert all((kind == "counter") == name.endswith("_total") for name, kind in metrics.items())
    assert not [name for name in metrics if "_ms" in name or name.endswith("_ratio_total")], "base units"
    assert "bufferlab_observe_read_seconds_total{" in text
    assert (
        'bufferlab_observe_pool_object_pages{server="a\\"b\\\\",engine="MySQL",table="shop.orders",index="PRIMARY"} 60'
        in text
    )
    for shown in ("hit_ratio", "read_time_ratio", "read_duration_seconds", "pool_free_pages", "pool_size_bytes"):
        assert f"bufferlab_observe_{shown}{{" in text, shown
    assert 'bufferlab_observe_page_gets_total{server="a\\"b\\\\",engine="MySQL"} 100000\n' in text
    assert "bufferlab_observe_up{" in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    file = tmp_path / "seen.prom"
    prometheus.write(file, "old\n")
    prometheus.write(file, text)
    assert file.read_text() == text
    assert list(tmp_path.iterdir()) == [file]


def test_the_dashboard_names_only_metrics_that_the_file_has() -> None:
    counts = dict.fromkeys(TITLES, 1.0)
    levels = {f"{name}_pages": 1.0 for name in ("free", "dirty", "old", "pool")}
    contents = PoolContents(100, 0.0, (PoolObject("t", None, 60, 0.6, 3),))
    window = seen(counts).window
    text = prometheus.text("s", FACTS, window, window.rows[-1], levels, contents)
    dashboard = json.loads((ROOT / "docs/grafana-observe.json").read_text())
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    names = set(re.findall(r"bufferlab_observe_\w+", asked))
    assert len(names) > 15
    assert names <= {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}


def test_a_long_look_joins_its_rows_and_keeps_its_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_window, "MOST_ROWS", 4)
    window = LookWindow(lambda grown: dict(grown), 0.0)
    for t_s in range(8):
        window.add(Sample(float(t_s), {"misses": 10 * t_s}, {"free_pages": t_s}, {}, -100.0, None, {}))
    assert [(row.t_s, row.seconds, row.samples, row.counts["misses"]) for row in window.rows] == [
        (4.0, 4.0, 4, 40),
        (6.0, 2.0, 2, 20),
        (7.0, 1.0, 1, 10),
    ]
    assert (window.totals["misses"], window.seconds, window.samples) == (70, 7.0, 7)
    window.subtract("misses", 1.0)
    assert [row.counts["misses"] for row in window.rows] == [36, 18, 9]
    assert window.totals["misses"] == 63


def test_the_panel_shows_the_last_second_the_last_minute_and_the_whole_look() -> None:
    window = LookWindow(lambda grown: dict(grown), 0.0)
    misses = [0, 0, *range(5, 605, 5), 5600]
    for t_s, total in enumerate(misses):
        window.add(Sample(float(t_s), {"misses": total, "page_gets": 100 * t_s}, {}, {}, -100.0, None, {}))
    text = " ".join(terminal.text(observe_page.panel(window, FACTS, "db:3306")).split())
    assert "Misses a second 5,000 88.2 45.9" in text
    assert "Gets a second 100 100 100" in text
    assert f"misses, the last minute {'▁' * 59}█" in text


def test_the_file_for_prometheus_follows_no_link_that_another_put_there(tmp_path: Path) -> None:
    file, other = tmp_path / "seen.prom", tmp_path / "other"
    other.write_text("mine")
    (tmp_path / ".seen.prom.new").symlink_to(other)
    prometheus.write(file, "seen\n")
    assert (other.read_text(), file.read_text(), file.is_symlink()) == ("mine", "seen\n", False)


# Sessions.


class Clock:
    """A clock that only its own sleep moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Quiet:
    """A listener that keeps its events, and requests a stop after a number of rows."""

    def __init__(self, stop_after: int = 10_000) -> None:
        self.rows: list[SampledRow] = []
        self.events: list[str] = []
        self.stop_after = stop_after

    def row(self, row: SampledRow, window: LookWindow) -> None:
        self.rows.append(row)

    def event(self, event: object) -> None:
        self.events.append(getattr(event, "kind", ""))

    @property
    def requested(self) -> bool:
        return len(self.rows) >= self.stop_after


def look(server: FakeMysql, seconds: float, listener: Quiet) -> Seen:
    family, clock = family_of(server.url), Clock()
    with Session(family, address_of(server.url, family), clock) as session:
        return Observation(session, listener, clock, clock.sleep).run(seconds, listener)


def test_our_own_statements_are_not_counted() -> None:
    with FakeMysql() as server:
        found = look(server, 5, Quiet())
        per_row = {row.counts["statements"] for row in found.window.rows}
        assert per_row == {40}, "STATEMENTS of the fake"
        assert found.cost.statements == len(server.statements), "as the server counts them"
        assert found.window.totals["misses"] == 40 * len(found.window.rows), "reads less read-ahead"
        assert b"bufferlab-observe" in server.names[0]
        assert "SET SESSION TRANSACTION READ ONLY" in server.statements
        assert {"SET", "SHOW", "SELECT"} >= {statement.split()[0] for statement in server.statements}


def test_what_our_session_costs_is_the_time_of_the_thread_as_this_host_numbers_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server in a container reports another number, which may belong to another process on this host."""
    asked: list[int] = []

    def processor_s(thread: int) -> float:
        asked.append(thread)
        return float(len(asked))

    monkeypatch.setattr(host_side, "find", lambda facts, peer: 700)
    monkeypatch.setattr(host_side, "thread_of", lambda facts, pid: pid + 1)
    monkeypatch.setattr(host_side, "thread_processor_s", processor_s)
    with FakeMysql() as server:
        cost = look(server, 3, Quiet()).cost
    assert set(asked) == {701}
    assert cost.processor_s == len(asked) - 1


def test_a_restart_is_survived_and_connections_are_made_once_in_five_seconds() -> None:
    # The first two samples are that of the pool and one that is thrown away.
    with FakeMysql({5: FakeMysql.restart}) as server:
        listener = Quiet()
        found = look(server, 20, listener)
        assert found.ended == "whole"
        assert [event.kind for event in found.window.events][-2:] == ["back", "restart"]
        assert server.logins == 2
        rows = found.window.rows
        assert max(after.t_s - before.t_s for before, after in pairwise(rows)) >= 5
        assert {row.counts["page_gets"] for row in rows} == {1000}


def test_a_server_that_stays_away_ends_as_lost_with_what_was_seen() -> None:
    def gone(server: FakeMysql) -> None:
        server.refusal = (1040, "Too many connections")
        server.disconnect()

    with FakeMysql({6: gone}) as server:
        found = look(server, 17, Quiet())
        assert found.ended == "lost"
        assert found.end is None
        assert len(found.window.rows) >= 2
        assert any("Too many connections" in event.what for event in found.window.events)
        assert server.logins <= 4


def test_a_server_that_refuses_the_account_is_not_asked_again() -> None:
    def denied(server: FakeMysql) -> None:
        server.refusal = (1045, "Access denied for user 'me'")
        server.disconnect()

    with FakeMysql({6: denied}) as server:
        found = look(server, 60, Quiet())
        assert found.ended == "lost"
        assert "refuses the account" in found.window.events[-1].what
        assert server.logins == 2


def test_a_request_to_stop_ends_with_what_was_seen() -> None:
    with FakeMysql() as server:
        found = look(server, 600, Quiet(stop_after=2))
        assert found.ended == "stopped"
        assert len(found.window.rows) == 2
        assert found.end is not None


@pytest.mark.parametrize("at", [1, 2])
def test_a_server_that_goes_before_anything_was_seen_is_an_error_with_a_sentence(at: int) -> None:
    refused = pytest.raises(EnvironmentLackingError, match="the server cannot be looked at")
    with FakeMysql({at: FakeMysql.disconnect}) as server, refused:
        look(server, 5, Quiet())


def test_what_was_seen_is_an_object_without_nan() -> None:
    with FakeMysql() as server:
        found = as_json(observe_page.as_report(look(server, 3, Quiet())))
    assert json.loads(json.dumps(found, allow_nan=False))["transactions_are"] == "explicit commits"
    assert "PROCESS" in found["not_told"]["old_pages"]


def test_a_url_of_the_wrong_family_is_named() -> None:
    with FakeMysql() as server:
        url = server.url.replace("mysql", "postgres")
        family = family_of(url)
        assert scheme(address_of(url, family)) == "mysql"
        with (
            pytest.raises(EnvironmentLackingError, match="a server of mysql answers there"),
            Session(family, address_of(url, family)),
        ):
            pass


def test_a_server_of_postgresql_is_known_by_its_answer() -> None:
    def answer() -> None:
        line, _ = listener.accept()
        with line:
            asked.append(line.recv(8))
            line.sendall(b"N")

    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        url = f"mysql://me@127.0.0.1:{listener.getsockname()[1]}"
        assert scheme(address_of(url, family_of(url))) == "postgres"
        thread.join()
    assert asked == [struct.pack(">II", 8, 80877103)], "SSLRequest (protocol.h)"


def test_what_the_server_costs_its_host_is_told_where_it_is_seen() -> None:
    host = HostWork(10.0, 1.5, 1000, 250, 0, 0.75, {"reads": 5}, None)
    found = seen(COUNTS)
    text = terminal.text(observe_page.as_report(replace(found, inside=replace(found.inside, host=host))))
    assert "the server kept 1.50 cores busy" in text
    assert "the page cache had 75 % of the bytes it read" in text


def test_a_url_needs_no_schema_and_no_other_scheme_is_a_server() -> None:
    family = family_of("postgresql://me@host")
    assert address_of("postgresql://me@host", family).schema == "postgres"
    assert address_of("mysql://me@host", family_of("mysql://")).place == "host:3306"
    assert address_of("postgresql://me@host/postgres", family).schema == "postgres"
    assert address_of("postgresql://me@host/shop", family).schema == "shop"
    with pytest.raises(EnvironmentLackingError, match="password in a URL"):
        address_of("mysql://me:secret@host", family_of("mysql://"))
    with pytest.raises(SpecError, match="no server"):
        family_of("sqlite:///x")
