"""A window in which misses still fell or rose fails the check, and a window that only scatters passes it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bufferlab.results.drift import device_drift, drift

SECONDS = 12


def samples(
    misses_per_s: list[int], transactions_per_s: list[int] | None = None, late: int = 0, commits: bool = True
) -> pl.DataFrame:
    """Return a window's samples with these misses in each second. Samples inside count `late` transactions too many."""
    rows, misses, done = [], 5_000, 700
    for second in range(len(misses_per_s) + 1):
        edge = {0: "start", len(misses_per_s): "end"}.get(second)
        for metric, count in (
            ("demand_misses", misses),
            ("transactions_committed", done if edge else done + late),
            ("com_commit", done if commits else 0),
            ("transactions_rolled_back", 3),
            ("server_read_bytes", 8192 * misses),
        ):
            rows.append((10.0 + second, "measure", edge, metric, "", count, None, None, "engine"))
        if second < len(misses_per_s):
            misses, done = misses + misses_per_s[second], done + (transactions_per_s or [1000] * SECONDS)[second]
    names = ("t_s", "phase", "edge", "metric", "subject", "count", "value", "reason", "probe")
    return pl.DataFrame(rows, schema=list(names), orient="row", infer_schema_length=None)


def test_a_level_window_has_no_drift() -> None:
    assert drift(samples([800] * SECONDS)) == pytest.approx(1.0)


def test_misses_that_fall_by_a_third_are_told_as_the_last_third_over_the_first() -> None:
    assert drift(samples([1500] * 4 + [1200] * 4 + [1000] * 4)) == pytest.approx(1000 / 1500)


def test_misses_are_counted_per_transaction() -> None:
    assert drift(samples([800] * SECONDS, [1000] * 4 + [700] * 4 + [500] * 4)) == pytest.approx(2.0)


OWN = ("com_commit", "com_rollback")


def test_transactions_that_drivers_tell_late_are_no_drift_where_the_engine_tells_its_own() -> None:
    short = samples([4000] * 3, [500] * 3, late=8)
    assert drift(short) == pytest.approx(508 / 492), "eight connections, 500 transactions in each third"
    assert drift(short, OWN) == pytest.approx(1.0)
    assert drift(samples([1500] * 4 + [1200] * 4 + [1000] * 4, late=8), OWN) == pytest.approx(1000 / 1500)


def test_a_script_that_does_not_commit_is_judged_by_the_drivers_transactions() -> None:
    falling = samples([1500] * 4 + [1200] * 4 + [1000] * 4, commits=False)
    assert drift(falling, OWN) == pytest.approx(1000 / 1500)


def test_a_pool_that_hardly_misses_is_not_judged_by_its_scatter() -> None:
    assert drift(samples([40, 10, 30, 20] * 3)) is None


def test_pages_from_the_device_are_judged_alike() -> None:
    assert device_drift(samples([800] * SECONDS)) == pytest.approx(1.0)
    assert device_drift(samples([1500] * 4 + [1200] * 4 + [1000] * 4)) == pytest.approx(1000 / 1500)
    assert device_drift(samples([40, 10, 30, 20] * 3)) is None


def test_a_run_without_samples_inside_its_window_is_not_judged() -> None:
    assert drift(samples([5000])) is None


def test_a_sweep_whose_misses_moved_fails_its_check(tmp_path: Path) -> None:
    from bufferlab.registry import registry
    from bufferlab.results.check_parts import MeasuredRun
    from bufferlab.results.checks_of_every_engine import check_sweep
    from bufferlab.results.schema import Point, Run, WarmUp
    from bufferlab.results.window import Value, Window

    table = samples([1500] * 4 + [1200] * 4 + [1000] * 4)
    run = Run.model_construct(
        point=Point(index=0, label="pool_size 10%", swept={}),
        block=0,
        engine="sqlite",
        engine_version="3",
        workload={"name": "hot_rows"},
        settings={},
        warm_up=WarmUp(gate="pool_turnover", seconds=1.0, transactions=1),
    )
    measured = MeasuredRun(
        run,
        registry().of_engine(run.engine),
        registry().raw,
        Window.of(table),
        {"cpu_steal_share": Value(None, "not counted")},
        {},
        0,
        {},
        drift(table),
    )
    found = next(check for check in check_sweep([measured]) if check.name == "steady_window")
    assert found.status == "failed"
    assert "33.3 % less at the end (pool_size 10%" in found.detail


@pytest.mark.parametrize(("per_second", "told"), [(250, 1.0), (249, None)])
def test_a_third_with_a_thousand_misses_is_judged_and_one_with_fewer_is_not(
    per_second: int, told: float | None
) -> None:
    assert drift(samples([per_second] * SECONDS)) == told


def test_where_counts_come_late_only_thirds_much_longer_than_that_are_judged() -> None:
    level = samples([800] * SECONDS)
    assert drift(level, (), SECONDS / 3 / 5 * 0.99) == pytest.approx(1.0)
    assert drift(level, (), SECONDS / 3 / 5 * 1.01) is None
