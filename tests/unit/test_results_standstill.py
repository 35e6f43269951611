"""A window in which nothing ran is found by its samples, and a real wait is not mistaken for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bufferlab.results.gaps import standstill, standstill_seconds


def rows(
    times: list[float], cpu_us: Mapping[float, int] | None = None, unanswered: tuple[float, float] = (0.0, 0.0)
) -> list[dict[str, Any]]:
    """Return samples at these times: the engine's counters, and the processor time that the processes had used by
    then."""
    found: list[dict[str, Any]] = []
    for t_s in times:
        answered = not unanswered[0] < t_s < unanswered[1]
        gets = {"metric": "page_gets", "probe": "engine", "count": 1 if answered else None,
                "reason": None if answered else "no answer"}  # fmt: skip
        used = {"metric": "server_user_us", "probe": "server", "count": (cpu_us or {}).get(t_s, 0), "reason": None}
        found += [{"t_s": t_s, "phase": "measure", **row} for row in (gets, used)]
    return found


def still_s(samples: list[dict[str, Any]], interval_s: float = 1.0, *, is_server: bool = True) -> float | None:
    found = standstill(samples, "measure", interval_s, is_server=is_server)
    return found and found.seconds


GAP = [0.0, 1.0, 2.0, 42.2, 43.0]
EVERY_SECOND = [float(second) for second in range(44)]


def test_a_stopped_worker_leaves_a_gap_and_hardly_any_processor_time_in_it() -> None:
    used = {0.0: 0, 1.0: 900_000, 2.0: 1_800_000, 42.2: 2_700_000, 43.0: 3_500_000}
    assert still_s(rows(GAP, used), is_server=False) == pytest.approx(40.2)
    assert still_s(rows(GAP), is_server=False) == pytest.approx(40.2), "no processor time is known"


def test_a_server_that_answers_no_sample_and_uses_no_processor_time_stood_still() -> None:
    used = {t_s: 10_000 * int(t_s if t_s < 2 else max(2.0, t_s - 40)) for t_s in EVERY_SECOND}
    assert still_s(rows(EVERY_SECOND, used, unanswered=(2, 42))) == pytest.approx(40)


def test_a_statement_that_keeps_the_sampler_waiting_and_works_is_no_standstill() -> None:
    used = {t_s: int(t_s * 800_000) for t_s in GAP}
    assert still_s(rows(GAP, used)) is None


def test_a_wait_for_a_lock_is_no_standstill_while_the_server_answers() -> None:
    assert still_s(rows(EVERY_SECOND)) is None


def test_a_long_statement_of_an_engine_inside_the_worker_is_no_standstill() -> None:
    assert still_s(rows(EVERY_SECOND, unanswered=(2, 42)), is_server=False) is None


def test_a_window_of_nothing_but_its_edges_stood_still_when_it_is_long_for_its_interval() -> None:
    edges = [0.0, 40.0]
    assert still_s(rows(edges, {40.0: 1_000_000})) == 40
    assert still_s(rows(edges), interval_s=5) is None


def test_two_stops_do_not_excuse_each_other() -> None:
    times = [0.0, 1.0, 41.0, 42.0, 82.0, 83.0]
    used = dict(zip(times, (0, 900_000, 1_000_000, 1_900_000, 2_000_000, 2_900_000), strict=True))
    assert still_s(rows(times, used)) == 40


def test_the_limit_is_five_seconds_or_ten_intervals_and_other_phases_do_not_count() -> None:
    assert [standstill_seconds(interval_s) for interval_s in (0.1, 0.5, 1.0, 6.0)] == [5, 5, 10, 60]
    assert still_s(rows([0.0, 9.9])) is None
    assert standstill(rows(GAP), "scan", 1.0, is_server=True) is None
