"""The open loop on the real engine: asked and achieved rates, saturation, and a stall that the latencies must show."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from bufferlab.results.gaps import standstill
from bufferlab.results.store import sample_rows
from support import windows

pytestmark = [pytest.mark.real, pytest.mark.alone]

# One row by its key takes some microseconds of service, so a stall is visible.
QUICK = "-- transaction: quick\n\\set id random(1, 1000)\nSELECT v FROM t WHERE id = :id;\n"
# Such a statement takes some milliseconds: a few hundred a second at most.
SLOW = "-- transaction: slow\nSELECT count(*) FROM t a, t b WHERE a.id <= 100 AND a.v >= b.v;\n"
TABLE = """-- setup
CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER NOT NULL);
INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i, i FROM n;
"""


def open_loop(rate_per_s: float, arrivals: str = "constant", patience_s: float = 10.0) -> dict[str, Any]:
    return {"mode": "open", "rate_per_s": rate_per_s, "arrivals": arrivals, "patience_s": patience_s}


@pytest.fixture(scope="module")
def table(disk: Path) -> Path:
    """Yield a database of a thousand rows, which the tests only read."""
    database = disk / "open-loop.db"
    windows.load_script(database, TABLE)
    return database


def test_the_achieved_rate_is_the_asked_one(table: Path) -> None:
    run = windows.run(table, windows.script(QUICK), transactions=1500, load=open_loop(1000))
    window = run.window()
    assert window.delta("arrivals", "quick") == window.delta("transactions_committed", "quick") == 1500
    assert window.delta("arrivals_dropped", "quick") == 0
    # The last arrival is due 1.5 s after the start; only it can make the window longer.
    assert run.answer["measured"]["seconds"] == pytest.approx(1.5, abs=0.1)
    assert run.answer["measured"]["transactions"] == 1500
    counts = {entry["time"]: sum(n for _, _, n in entry["buckets"]) for entry in run.answer["latency"]}
    assert counts == {"service": 1500, "queue": 1500, "response": 1500}


def test_poisson_arrivals_have_the_asked_mean_rate_and_the_seeds_own_times(table: Path) -> None:
    seconds = []
    for seed in (1, 1, 2):
        workload = windows.script(QUICK, seed=seed)
        run = windows.run(table, workload, transactions=2000, load=open_loop(2000, "poisson"))
        seconds.append(run.answer["measured"]["seconds"])
    # The sum of 2000 exponential gaps has a relative standard deviation of 1 / sqrt(2000).
    assert seconds[0] == pytest.approx(1.0, rel=4 / 2000**0.5)
    # The seed decides the schedule; only the last arrival's delay may differ.
    assert seconds[1] == pytest.approx(seconds[0], abs=0.02)
    assert abs(seconds[2] - seconds[0]) > 0.0005


def test_samples_of_each_second_show_response_times_and_the_lag(table: Path) -> None:
    run = windows.run(table, windows.script(QUICK), transactions=500, load=open_loop(500))
    samples = [e for e in run.events if e["event"] == "sample" and e["phase"] == "measure" and not e["edge"]]
    assert samples, "no sample within the window"
    metrics = {row["metric"] for sample in samples for row in sample["values"]}
    assert {"response_mean_us", "response_p99_us", "arrival_lag_us", "arrivals", "rows_returned"} <= metrics


def test_beyond_its_capacity_the_database_serves_what_it_can_and_drops_the_rest(table: Path) -> None:
    closed = windows.run(table, windows.script(SLOW), transactions=50, warm_up=_NO_WARM_UP)
    capacity_per_s = 50 / closed.answer["measured"]["seconds"]
    load = open_loop(8 * capacity_per_s, "poisson", patience_s=0.2)
    run = windows.run(table, windows.script(SLOW), transactions=1000, load=load, warm_up=_NO_WARM_UP)
    window = run.window()
    served, dropped = window.delta("transactions_committed", "slow"), window.delta("arrivals_dropped", "slow")
    assert served + dropped == window.delta("arrivals", "slow") == 1000
    # Seven of eight arrivals cannot be served; the engine's speed itself varies, by a factor of two on a busy host.
    assert 0.6 < dropped / 1000 < 0.98
    assert window.delta("arrivals_late", "slow") > 0.8 * served
    assert run.answer["measured"]["transactions"] == served
    queue = run.latency("queue", "slow")
    assert queue["max_us"] <= 200_000, "an arrival was begun after its patience had ended"
    assert queue["max_us"] > 150_000


def test_a_stopped_worker_shows_as_response_times_of_every_arrival_it_kept_waiting(table: Path) -> None:
    rate_per_s, stopped_s = 800, 1.0
    job = windows.job(table, windows.script(QUICK), transactions=2000, load=open_loop(rate_per_s))
    with windows.followed(job) as going_on:
        going_on.until_edge("start")
        time.sleep(0.7)
        os.kill(going_on.process.pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        time.sleep(stopped_s)
        os.kill(going_on.process.pid, signal.SIGCONT)
        stopped_s = time.monotonic() - stopped_at
        run = going_on.finish()
    window, response = run.window(), run.latency("response", "quick")
    expected_late = rate_per_s * stopped_s
    assert response["max_us"] >= 0.98e6 * stopped_s
    # A busy host makes some of the other 1200 arrivals late by a millisecond, too.
    assert 0.98 * expected_late <= window.delta("arrivals_late", "quick") <= expected_late + 0.25 * 1200
    assert window.delta("arrivals_dropped", "quick") == 0
    # Half of the waiting transactions waited for more than half of the stall.
    assert windows.count_above(response, 0.5e6 * stopped_s) == pytest.approx(expected_late / 2, rel=0.2)
    # The stall hit the service of one transaction at most, so service times alone would have hidden it.
    assert windows.count_above(run.latency("service", "quick"), 0.25e6 * stopped_s) <= 1
    assert run.answer["measured"]["transactions"] == 2000
    assert run.answer["measured"]["seconds"] == pytest.approx(2.5, abs=0.2), "the schedule did not wait for the stall"


def test_patience_turns_a_stall_into_dropped_arrivals(table: Path) -> None:
    job = windows.job(table, windows.script(QUICK), transactions=1000, load=open_loop(500, patience_s=0.3))
    with windows.followed(job) as going_on:
        going_on.until_edge("start")
        time.sleep(0.5)
        os.kill(going_on.process.pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        time.sleep(1.0)
        os.kill(going_on.process.pid, signal.SIGCONT)
        stopped_s = time.monotonic() - stopped_at
        run = going_on.finish()
    window = run.window()
    dropped = window.delta("arrivals_dropped", "quick")
    assert dropped == pytest.approx(500 * (stopped_s - 0.3), rel=0.15)
    assert window.delta("transactions_committed", "quick") + dropped == 1000


def test_the_warm_up_and_a_window_without_a_rate_are_closed_loops(table: Path) -> None:
    opened = windows.run(table, windows.script(QUICK), transactions=100, load=open_loop(500))
    assert opened.window().start["arrivals", "quick"] == 0, "transactions of the warm-up counted as arrivals"
    assert opened.window().start["transactions_committed", "quick"] > 0
    closed = windows.run(table, windows.script(QUICK), transactions=100, load={"mode": "closed"})
    assert not [key for key in closed.window().end if key[0].startswith(("arrival", "response"))]
    assert {entry["time"] for entry in closed.answer["latency"]} == {"service", "queue"}


def test_tpcc_runs_in_an_open_loop_and_its_arrivals_are_counted_by_type(database: Path) -> None:
    workload = {"name": "tpcc", "warehouses": 1, "seed": 7, "load_seed": 1}
    run = windows.run(database, workload, transactions=230, load=open_loop(200, "poisson"))
    window = run.window()
    assert window.total("arrivals") == 230
    assert window.delta("arrivals", "new_order") == pytest.approx(100, abs=10)
    assert run.latency("response", "new_order")["max_us"] >= run.latency("service", "new_order")["max_us"]


def test_the_time_limit_ends_a_window_whose_next_arrival_is_far_away(table: Path) -> None:
    measure = {"transactions": 100, "max_seconds": 1.0}
    run = windows.run(table, windows.script(QUICK), load=open_loop(0.01), measure=measure)
    assert run.answer["measured"]["transactions"] == 0
    assert run.answer["measured"]["seconds"] == pytest.approx(1.0, abs=0.3)


def test_a_driver_that_waits_for_its_next_arrival_stops_when_it_is_asked_to(table: Path) -> None:
    job = windows.job(table, windows.script(QUICK), load=open_loop(0.01))
    with windows.followed(job, stop_at="start") as going_on:
        run = going_on.finish()
    assert run.answer["status"] == "interrupted"
    assert run.answer["measured"]["seconds"] < 2.0, "the request waited for an arrival 100 s away"


def test_a_stop_that_comes_before_the_run_begins_is_not_lost(table: Path) -> None:
    job = windows.job(table, windows.script(QUICK), load=open_loop(0.01))
    with windows.followed(job, stop_at="before") as going_on:
        run = going_on.finish()
    assert run.answer["status"] == "interrupted"
    assert all(event.get("edge") is None for event in run.events), "a window was begun"


_NO_WARM_UP = {"max_transactions": 1, "max_seconds": 0.1}


@pytest.mark.slow
def test_a_worker_that_stood_still_is_found_in_the_samples_and_a_long_honest_query_is_not(table: Path) -> None:
    job = windows.job(table, windows.script(QUICK), transactions=2000, load=open_loop(500))
    with windows.followed(job) as going_on:
        going_on.until_edge("start")
        time.sleep(0.7)
        os.kill(going_on.process.pid, signal.SIGSTOP)
        time.sleep(6.5)
        os.kill(going_on.process.pid, signal.SIGCONT)
        run = going_on.finish()
    found = standstill(rows_of(run), "measure", 0.2, is_server=False)
    assert found is not None
    assert 6 < found.seconds < 8

    def counting(rows: int) -> windows.Run:
        count = (
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) SELECT count(*) FROM n;"
        )
        return windows.run(table, windows.script(count), transactions=1, warm_up=_NO_WARM_UP)

    # The number of steps for which this machine needs 8 s, at any speed.
    short = counting(3_000_000).answer["measured"]["seconds"]
    honest = counting(int(3_000_000 * 8 / short))
    assert honest.answer["measured"]["seconds"] > 5, "the query is not long enough to show anything"
    assert standstill(rows_of(honest), "measure", 0.2, is_server=False) is None


def rows_of(run: windows.Run) -> list[dict[str, Any]]:
    return [row for event in run.events if event.get("event") == "sample" for row in sample_rows(event)]
