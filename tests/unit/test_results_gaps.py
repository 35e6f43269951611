"""Gaps of a window, planted in the times of samples and in the lateness of a pulse."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.report import answer
from bufferlab.report.detail_tables import disturbance_table
from bufferlab.results.gaps import Gaps, gaps_of, usual_interval
from bufferlab.results.window import PULSE, Window
from support.synthetic import BUFFER_SIZE, Sweep, build


def test_samples_in_their_interval_and_a_little_late_have_no_gap() -> None:
    assert gaps_of([0.0, 1.0, 2.1, 3.0, 4.5, 4.7], 1.0) == Gaps(0.0, 0.0)


def test_a_gap_is_what_exceeds_the_interval_and_gaps_add_up() -> None:
    found = gaps_of([0.0, 1.0, 4.0, 5.0, 6.6, 7.0], 1.0)
    assert found is not None
    assert found.longest_s == pytest.approx(2.0)
    assert found.sum_s == pytest.approx(2.6)


def test_five_stops_of_a_second_between_samples_are_seen_by_the_pulse() -> None:
    # A sample a second; stops such as that from 0.2 to 1.2 s delay every second sample by only 0.2 s.
    times = [0.0, *(at for k in range(5) for at in (2 * k + 1.2, 2 * k + 2.0)), 11.0]
    late = [(at, 0.9e6 * sum(at >= 2 * k + 1.2 for k in range(5))) for at in times]
    assert gaps_of(times, 1.0) == Gaps(0.0, 0.0)
    found = gaps_of(times, 1.0, late)
    assert found is not None
    assert (found.longest_s, found.sum_s) == (pytest.approx(0.9), pytest.approx(4.5))
    assert found.exceed(12.0)


def test_a_stop_that_both_signs_show_counts_once() -> None:
    found = gaps_of([0.0, 1.0, 4.2, 5.0], 1.0, [(0.0, 0.0), (1.0, 0.0), (4.2, 2.9e6), (5.0, 2.9e6)])
    assert found == Gaps(pytest.approx(2.9), pytest.approx(2.9))


@pytest.mark.parametrize(
    ("gaps", "window_s", "exceed"),
    [
        (Gaps(2.0, 2.0), 12.0, False),
        (Gaps(2.01, 2.01), 12.0, True),
        (Gaps(0.9, 2.01), 12.0, True),
        (Gaps(2.5, 2.9), 60.0, False),
        (Gaps(0.5, 3.01), 60.0, True),
    ],
)
def test_gaps_count_from_two_seconds_or_five_per_cent_of_the_window_on(
    gaps: Gaps, window_s: float, exceed: bool
) -> None:
    assert gaps.exceed(window_s) == exceed


def test_the_interval_is_the_usual_distance_and_two_samples_do_not_tell_it() -> None:
    assert usual_interval([1.0, 2.0, 3.0, 7.0, 8.0]) == 1.0
    assert usual_interval([1.0, 2.0]) is None
    assert gaps_of([1.0, 5.0], None) is None


def samples(window: list[float], late_us: list[int] | None = None) -> pl.DataFrame:
    """Return a warm-up of five seconds and a window with samples at these times."""
    warm = [float(at) for at in range(-5, 0)]
    times = [*warm, *window]
    edges = [None] * len(warm) + ["start"] + [None] * (len(window) - 2) + ["end"]
    late = [0] * len(warm) + (late_us or [0] * len(window))
    return pl.DataFrame(
        {
            "t_s": times,
            "phase": ["warm_up"] * len(warm) + ["measure"] * len(window),
            "edge": pl.Series(edges, dtype=pl.String),
            "metric": [PULSE] * len(times),
            "subject": [""] * len(times),
            "count": late,
            "value": pl.Series([None] * len(times), dtype=pl.Float64),
            "reason": pl.Series([None] * len(times), dtype=pl.String),
            "probe": ["pulse"] * len(times),
        }
    )


def test_a_window_is_told_its_gaps_from_its_own_samples_and_the_interval_of_all() -> None:
    assert Window.of(samples([0.3, 1.0, 4.0, 5.0, 5.4])).gaps == Gaps(2.0, 2.0)
    assert Window.of(samples([0.3, 1.0, 2.0, 2.4], [0, 900_000, 900_000, 1_800_000])).gaps == Gaps(0.9, 1.8)
    assert Window.of(samples([0.3, 0.9])).gaps == Gaps(0.0, 0.0)


def analysed(tmp_path: Path, **changes: object) -> Analysis:
    """Return two pools with windows of more than a minute, so that only gaps can keep throughput from being
    resolved."""
    return Analysis.of(build(tmp_path, Sweep(truths=BUFFER_SIZE[3:], transactions=160_000, **changes)))  # type: ignore[arg-type]


def test_long_gaps_leave_counts_resolved_and_take_the_claim_on_throughput(tmp_path: Path) -> None:
    quiet = analysed(tmp_path / "quiet")
    assert quiet.with_gaps() == []
    assert quiet.claim_blocked("new_orders_per_s") is None
    stopped = analysed(tmp_path / "stopped", silent=range(10, 15))
    blocked = stopped.claim_blocked("new_orders_per_s")
    assert blocked is not None
    assert "gaps of 5.00 s" in blocked
    for metric in ("transactions_per_s", "latency_p99_us", "reads_per_s"):
        assert stopped.claim_blocked(metric) == blocked
    for metric in ("reads_per_new_order", "misses_per_new_order", "cpu_us_per_transaction"):
        assert stopped.claim_blocked(metric) is None
    assert "fall" in answer.answer(stopped)
    assert "not claimed (gaps of 5.00 s" in answer.answer(stopped, "new_orders_per_s")
    [said] = [banner.text for banner in answer.banners(stopped) if "Gaps" in banner.text]
    assert "counts stand" in said
    assert not any("Gaps" in banner.text for banner in answer.banners(quiet))


def test_a_table_shows_longest_and_sum_of_every_run(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, silent=(4, 5, 20))
    table = disturbance_table(analysis)
    assert table is not None
    heads = [column.title for column in table.columns]
    shown = [row.cells[heads.index("Longest gap (s)")] for row in table.rows]
    sums = [row.cells[heads.index("Gaps (s)")] for row in table.rows]
    assert set(shown) == {"2.00"}
    assert set(sums) == {"3.00"}


def test_short_gaps_are_shown_and_take_no_claim(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, silent=(4,))
    values = analysis.sweep.runs()[0].measured().values
    assert (values["longest_gap_s"].value, values["gaps_s"].value) == (1.0, 1.0)
    assert analysis.claim_blocked("new_orders_per_s") is None
