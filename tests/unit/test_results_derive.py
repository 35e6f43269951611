"""Derived values compared with numbers computed by hand, and with the values that the synthetic sweep was built
with."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.registry import open_sweep, registry
from bufferlab.report.detail_tables import shares_of_cores
from bufferlab.results import metrics
from bufferlab.results.latency import latency_values, total_us
from bufferlab.results.metrics import Rates
from bufferlab.results.schema import SAMPLE_COLUMNS
from bufferlab.results.timeline import finest_share, measured_instants, part, per_second
from bufferlab.results.window import Window, _subject_in
from support.synthetic import BUFFER_SIZE, Sweep, build, derived_values
from support.synthetic_innodb import scan_depth
from support.synthetic_postgres import memory_split

FIXTURES = Path(__file__).parents[1] / "fixtures"

Counts = dict[tuple[str, str], tuple[float | None, float | None]]


def samples(
    start_s: float, end_s: float, counts: Counts, reason: str | None = None, phase: str = "measure"
) -> pl.DataFrame:
    """Return the two edges of a window from (metric, subject) -> (at start, at end)."""
    rows = []
    for place, (t_s, edge) in enumerate(((start_s, "start"), (end_s, "end"))):
        for (metric, subject), ends in counts.items():
            count = ends[place]
            rows.append((t_s, phase, edge, metric, subject, count, None, reason if count is None else None, "probe"))
    types = {"f64": pl.Float64, "i64": pl.Int64, "str": pl.String}
    return pl.DataFrame(rows, schema={name: types[kind] for name, kind in SAMPLE_COLUMNS.items()}, orient="row")


def work(new_orders: int = 100, rolled_back: int = 1, payments: int = 100) -> Counts:
    return {
        ("transactions_committed", "new_order"): (7, 7 + new_orders - rolled_back),
        ("transactions_rolled_back", "new_order"): (2, 2 + rolled_back),
        ("transactions_committed", "payment"): (5, 5 + payments),
        ("transactions_rolled_back", "payment"): (0, 0),
    }


def test_per_new_order_divides_by_new_orders_completed_rolled_back_included() -> None:
    values = derived_values(samples(0, 10, {**work(100, 1), ("pages_read", ""): (1000, 1970)}))
    assert values["reads_per_new_order"].value == pytest.approx(9.70)
    assert values["new_orders"].value == 100


def test_per_transaction_divides_by_transactions_of_every_type() -> None:
    values = derived_values(samples(0, 10, {**work(100, 1, 130), ("pages_read", ""): (0, 460)}))
    assert values["reads_per_transaction"].value == pytest.approx(2.0)


def test_rates_are_over_the_time_between_the_edges() -> None:
    values = derived_values(samples(3.5, 13.5, {**work(100, 1, 100), ("pages_read", ""): (0, 50)}))
    assert values["reads_per_s"].value == pytest.approx(5.0)
    assert values["new_orders_per_s"].value == pytest.approx(10.0)
    assert values["new_orders_committed_per_s"].value == pytest.approx(9.9)
    assert values["new_orders_rolled_back_per_s"].value == pytest.approx(0.1)
    assert values["transactions_per_s"].value == pytest.approx(19.9)


def test_the_hit_ratio_comes_from_counters_not_from_a_floored_screen() -> None:
    values = derived_values(samples(0, 1, {("page_gets", ""): (10, 100_010), ("demand_misses", ""): (4, 349)}))
    assert values["hit_ratio"].value == pytest.approx(1 - 345 / 100_000)


def test_nanoseconds_of_reads_become_microseconds_a_read() -> None:
    counts: Counts = {("db_read_ns", ""): (0, 3_000_000), ("pages_read", ""): (0, 28), ("db_other_reads", ""): (0, 2)}
    assert derived_values(samples(0, 1, counts))["read_us"].value == pytest.approx(100.0)


def test_device_columns_are_those_iostat_prints() -> None:
    """Ten seconds of a disk; the expected row was computed with the formulas of iostat(1)."""
    counts: Counts = {
        (f"device_{name}", "vda"): (500, 500 + change)
        for name, change in {
            "reads": 4000, "reads_merged": 1000, "read_bytes": 4000 * 8192, "read_ms": 2000,
            "writes": 1000, "writes_merged": 0, "write_bytes": 1000 * 16384, "write_ms": 3000,
            "busy_ms": 2500, "queue_ms": 5200, "flushes": 20, "flush_ms": 200,
            "discards": 0, "discards_merged": 0, "discard_bytes": 0, "discard_ms": 0,
        }.items()
    }  # fmt: skip
    values = derived_values(samples(100, 110, counts))
    expected = {
        "device_reads_per_s": 400.0,
        "device_read_kib_per_s": 3200.0,
        "device_reads_merged_per_s": 100.0,
        "device_reads_merged_ratio": 0.2,
        "device_read_await_ms": 0.5,
        "device_read_size_kib": 8.0,
        "device_writes_per_s": 100.0,
        "device_write_kib_per_s": 1600.0,
        "device_write_await_ms": 3.0,
        "device_write_size_kib": 16.0,
        "device_queue_length": 0.52,
        "device_busy_ratio": 0.25,
        "device_flushes_per_s": 2.0,
        "device_flush_await_ms": 10.0,
    }
    assert {name: values[name].value for name in expected} == pytest.approx(expected)
    assert values["device_discard_await_ms"].value is None


def test_cpu_shares_add_up_to_one_on_every_core() -> None:
    ends = dict(zip(metrics.CPU_COLUMNS, (300, 10, 100, 200, 5, 15, 20, 0, 0, 350), strict=True))
    counts: Counts = {
        (f"cpu_{column}_us", core): (9, 9 + factor * change)
        for core, factor in (("all", 2), ("cpu0", 1), ("cpu1", 1))
        for column, change in ends.items()
    }
    table = shares_of_cores(Window.of(samples(0, 1, counts)))
    assert set(table) == {"all", "cpu0", "cpu1"}
    for columns in table.values():
        assert sum(value.value or 0 for value in columns.values()) == pytest.approx(1.0)
    assert derived_values(samples(0, 1, counts))["cpu_iowait_share"].value == pytest.approx(0.2)


def with_a_scan() -> pl.DataFrame:
    """Return a measured window of 10 s and a phase of 4 s; the core samples every type at every edge."""
    main: Counts = {
        **work(100, 1, 100),
        ("transactions_committed", "scan.read"): (0, 0),
        ("transactions_rolled_back", "scan.read"): (0, 0),
        ("rows_returned", "payment"): (0, 300),
        ("rows_returned", "scan.read"): (0, 0),
        ("pages_read", ""): (1000, 1970),
        ("process_user_us", ""): (0, 900),
        ("process_system_us", ""): (0, 100),
    }
    after: Counts = {key: (ends[1], ends[1]) for key, ends in main.items()}
    after |= {
        ("transactions_committed", "scan.read"): (0, 20),
        ("rows_returned", "scan.read"): (0, 8000),
        ("pages_read", ""): (1970, 2370),
        ("db_read_bytes", ""): (0, 400 * 4096),
        ("process_user_us", ""): (900, 16_900),
    }
    return pl.concat([samples(0, 10, main), samples(10.5, 14.5, after, phase="scan")])


def test_a_phase_after_the_window_changes_nothing_in_it() -> None:
    values = derived_values(with_a_scan())
    assert values["reads_per_new_order"].value == pytest.approx(9.70)
    assert values["transactions"].value == 200
    assert values["rows_per_s"].value == pytest.approx(30.0)


def test_a_phase_has_figures_of_its_own_per_row_and_per_second() -> None:
    values = derived_values(with_a_scan(), "scan")
    assert values["measured_seconds"].value == pytest.approx(4.0)
    assert values["transactions"].value == 20
    assert values["rows_per_s"].value == pytest.approx(2000.0)
    assert values["rows_per_transaction"].value == pytest.approx(400.0)
    assert values["reads_per_row"].value == pytest.approx(0.05)
    assert values["read_bytes_per_row"].value == pytest.approx(0.05 * 4096)
    assert values["cpu_us_per_row"].value == pytest.approx(2.0)


def test_a_phase_that_returns_no_rows_says_so_instead_of_dividing_by_them() -> None:
    values = derived_values(
        samples(0, 4, {("rows_returned", "add.x"): (0, 0), ("pages_read", ""): (0, 9)}, phase="add"), "add"
    )
    assert values["reads_per_row"].value is None
    assert "rows_returned is zero" in (values["reads_per_row"].reason or "")


def test_a_phase_that_never_began_has_no_figures() -> None:
    assert all(value.value is None for value in derived_values(with_a_scan(), "insert").values())


def test_arrivals_are_counted_apart_from_transactions() -> None:
    counts: Counts = {
        **work(90, 0, 90),
        ("arrivals", "new_order"): (3, 103),
        ("arrivals", "payment"): (0, 100),
        ("arrivals_late", "new_order"): (0, 8),
        ("arrivals_late", "payment"): (0, 2),
        ("arrivals_dropped", "new_order"): (1, 11),
        ("arrivals_dropped", "payment"): (0, 10),
    }
    values = derived_values(samples(0, 10, counts))
    assert values["arrivals_per_s"].value == pytest.approx(20.0)
    assert values["transactions_per_s"].value == pytest.approx(18.0)
    assert values["late_share"].value == pytest.approx(0.05)
    assert values["dropped_share"].value == pytest.approx(0.10)


def test_in_closed_loop_there_are_no_arrivals_and_no_share_of_them() -> None:
    counts: Counts = {**work(), ("arrivals", "payment"): (0, 0), ("arrivals_late", "payment"): (0, 0)}
    assert derived_values(samples(0, 10, counts))["late_share"].reason == "arrivals is zero in the measured window"


def test_pages_created_are_told_per_new_order_and_per_transaction() -> None:
    values = derived_values(samples(0, 10, {**work(100, 1, 130), ("pages_created", ""): (40, 86)}))
    assert values["pages_created_per_new_order"].value == pytest.approx(0.46)
    assert values["pages_created_per_transaction"].value == pytest.approx(0.2)


def test_a_missing_counter_gives_null_and_its_reason_in_every_figure_made_from_it() -> None:
    counts: Counts = {**work(), ("device_reads", ""): (None, None)}
    values = derived_values(samples(0, 10, counts, reason="overlay has no block device"))
    for name in ("device_reads_per_s", "device_reads_per_new_order"):
        assert values[name].value is None
        assert values[name].reason == "overlay has no block device"


def test_a_counter_that_went_backwards_gives_no_number() -> None:
    values = derived_values(samples(0, 10, {**work(), ("pages_read", ""): (500, 400)}))
    assert values["reads_per_new_order"].value is None
    assert "pages_read went backwards, from 500 to 400" in (values["reads_per_new_order"].reason or "")


def test_dividing_by_no_new_orders_is_a_reason_not_an_error() -> None:
    values = derived_values(samples(0, 10, {**work(0, 0, 5), ("pages_read", ""): (0, 10)}))
    assert values["reads_per_new_order"].value is None
    assert "zero" in (values["reads_per_new_order"].reason or "")


def test_a_run_without_edges_has_no_figures_and_says_why() -> None:
    values = derived_values(samples(0, 10, work()).filter(pl.col("edge") == "start"))
    assert all(value.value is None for value in values.values())
    assert "ended before its measured window did" in (values["new_orders"].reason or "")


@given(
    st.lists(st.tuples(st.integers(0, 2**50), st.integers(0, 2**50)), min_size=4, max_size=4),
    st.floats(0.001, 1e5),
)
def test_no_figure_is_ever_negative_or_infinite(ends: list[tuple[int, int]], seconds: float) -> None:
    names = ("pages_read", "rows_returned", "pages_created", "arrivals")
    counts: Counts = {**work(), **{(name, ""): pair for name, pair in zip(names, ends, strict=True)}}
    for value in derived_values(samples(0, seconds, counts)).values():
        assert value.value is None or (value.value >= 0 and math.isfinite(value.value))
        assert (value.value is None) == (value.reason is not None)


def test_the_figures_of_a_stored_sweep_are_what_it_was_told_to_be(tmp_path: Path) -> None:
    quiet = build(tmp_path, Sweep(blocks=1, noise=0.0, block_noise=0.0, throughput_noise=0.0))
    truths = {truth.pool: truth for truth in BUFFER_SIZE}
    for record in quiet.runs():
        truth = truths[record.run.point.swept["pool_size"]]
        values = {name: value.value for name, value in record.values().items()}
        assert values["reads_per_new_order"] == pytest.approx(truth.reads_per_new_order, rel=1e-4)
        assert values["writes_per_new_order"] == pytest.approx(truth.writes_per_new_order, rel=1e-4)
        assert values["page_gets_per_transaction"] == pytest.approx(truth.page_gets_per_transaction, rel=1e-6)
        assert values["measured_seconds"] == pytest.approx(record.run.measured.seconds)


def drifting(values: list[int], seconds: float = 1.0) -> pl.DataFrame:
    """Return samples a second apart: page gets rise by 100 each time, misses by the given values."""
    rows: list[dict[str, Any]] = []
    misses = 0
    for place, step in enumerate([0, *values]):
        misses += step
        edge = "start" if place == 0 else "end" if place == len(values) else None
        for metric, count in (("page_gets", 100 * place), ("demand_misses", misses), ("pages_read", misses)):
            rows.append(
                {"t_s": place * seconds, "phase": "measure", "edge": edge, "metric": metric, "subject": "",
                 "count": count, "value": None, "reason": None, "probe": "engine"}
            )  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"value": pl.Float64, "reason": pl.String, "edge": pl.String})


def test_parts_of_the_window_show_a_drift_that_the_mean_hides() -> None:
    points = measured_instants(drifting([10] * 10 + [5] * 10))
    share = finest_share(points)
    assert share == 0.1
    start, end = (part(points, at, at + share) for at in (0.0, 0.9))
    assert start.change("demand_misses").value == pytest.approx(20)
    assert end.change("demand_misses").value == pytest.approx(10)


def test_counters_between_samples_are_interpolated() -> None:
    points = measured_instants(drifting([10, 20]))
    middle = part(points, 0.25, 0.75)
    assert middle.change("demand_misses").value == pytest.approx(5 + 10)


def test_sparse_samples_are_not_cut_finer_than_they_are() -> None:
    assert finest_share(measured_instants(drifting([1] * 3))) == pytest.approx(1 / 3)
    assert finest_share(measured_instants(drifting([1]))) is None


def test_per_second_rates_follow_the_samples() -> None:
    seconds = per_second(drifting([10, 30, 20]), [Rates.reads_per_s])
    assert [second.t_s for second in seconds] == [1.0, 2.0, 3.0]
    assert [second.values["reads_per_s"].value for second in seconds] == pytest.approx([10, 30, 20])


def histogram(*buckets: tuple[float, float, int]) -> pl.DataFrame:
    rows = [("payment", "service", low, high, count) for low, high, count in buckets]
    return pl.DataFrame(rows, schema=["transaction_type", "time", "low_us", "high_us", "count"], orient="row")


def test_percentiles_are_of_all_transactions_of_all_runs() -> None:
    fast, slow = histogram((10.0, 11.0, 990)), histogram((10.0, 11.0, 0), (1000.0, 1001.0, 10))
    (found,) = latency_values([fast, slow])
    assert found.n == 1000
    assert found.percentiles_us[0.5] == pytest.approx(10.5, abs=0.1)
    assert found.percentiles_us[0.99] == pytest.approx(11.0)
    assert found.percentiles_us[0.999] == pytest.approx(1000.9)
    assert found.max_us == 1001.0
    assert found.mean_us == pytest.approx((990 * 10.5 + 10 * 1000.5) / 1000)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=60))
def test_percentiles_never_fall_and_never_pass_the_maximum(times_us: list[int]) -> None:
    frame = histogram(*((float(us), us + 1.0, times_us.count(us)) for us in sorted(set(times_us))))
    (found,) = latency_values([frame])
    shares = list(found.percentiles_us.values())
    assert shares == sorted(shares)
    assert min(times_us) <= shares[0] <= shares[-1] <= found.max_us
    assert total_us(frame)["service"] == pytest.approx(found.mean_us * found.n)


def test_a_gauge_is_sampled_from_edge_to_edge() -> None:
    """The sampler begins before the window and continues after it, when no transaction runs."""
    told = ((0.5, None, 900.0), (1.0, "start", 100.0), (2.0, None, 40.0), (3.0, "end", 100.0), (3.4, None, 0.0))
    rows = [(t_s, "measure", edge, "level", "", None, value, None, "engine") for t_s, edge, value in told]
    types = {"f64": pl.Float64, "i64": pl.Int64, "str": pl.String}
    schema = {name: types[kind] for name, kind in SAMPLE_COLUMNS.items()}
    window = Window.of(pl.DataFrame(rows, schema=schema, orient="row"))
    assert window.course["level"] == ((1.0, 100.0), (2.0, 40.0), (3.0, 100.0))
    assert (window.time_mean("level").value, window.lowest("level").value) == (70.0, 40.0)


def test_a_formula_names_every_metric_that_decides_its_value(tmp_path: Path) -> None:
    kinds = {"sqlite": Sweep(), "innodb": scan_depth(), "postgres": memory_split()}
    one = {"blocks": 1, "transactions": 4600, "warm_up_seconds": 2}
    made = [build(tmp_path / name, replace(of, truths=of.truths[:1], **one)) for name, of in kinds.items()]
    real = [open_sweep(FIXTURES / name) for name in ("prediction/measured", "sweeps/before")]
    for sweep in (*made, *real):
        rows = next(record for record in sweep.runs() if record.ok).samples()
        whole = derived_values(rows)
        windows: dict[frozenset[str], Window] = {}
        for name, value in whole.items():
            formula = registry().metric(name).quantity()
            if formula.reads not in windows:
                those = rows.filter(rows["metric"].is_in(formula.reads))
                windows[formula.reads] = Window.of(those, courses=registry().courses)
            needed = windows[formula.reads]
            if needed.seconds is not None:
                assert formula.evaluate(needed) == value, name


@pytest.mark.parametrize(
    ("phase", "probe", "subject", "called"),
    [
        ("measure", "workload", "new_order", "new_order"),
        ("measure", "workload", "scan.read", None),
        ("scan", "workload", "scan.read", "read"),
        ("scan", "workload", "new_order", None),
        ("scan", "engine", "", ""),
        ("scan", "device", "sda", "sda"),
        ("measure", "device", "dm.0", "dm.0"),
    ],
)
def test_only_transaction_types_belong_to_a_phase(phase: str, probe: str, subject: str, called: str | None) -> None:
    assert _subject_in(phase, probe, subject) == called
