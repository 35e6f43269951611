"""A metric's declarations, and that `run` and `compare` use the same ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.registry import declared, registry
from bufferlab.report.comparison import compare_metrics as compare_metrics
from bufferlab.report.comparison.compare_metrics import compare_sides
from bufferlab.report.comparison.sides import of_one_folder
from bufferlab.results.check_parts import EngineResults
from bufferlab.results.metrics import Engine, per_work
from bufferlab.results.registry import Registry
from bufferlab.stats.estimate import Estimate
from support.synthetic import BUFFER_SIZE, Sweep, build


@pytest.fixture
def every_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every run every figure, each above zero and with noise."""

    def values(point: PointRuns, metric: str) -> list[tuple[object, object, float]]:
        return [
            (point.index, run.run.block, 0.2 + 0.1 * point.index + 0.01 * ((7 * run.run.block + point.index) % 5))
            for run in point.ok
        ]

    monkeypatch.setattr(PointRuns, "values", values)
    monkeypatch.setattr(compare_metrics, "_metrics", lambda sides: list(registry().derived))


@pytest.mark.usefixtures("every_metric")
def test_run_and_compare_judge_every_metric_on_the_same_scale(tmp_path: Path) -> None:
    sweep = build(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=4, warm_up_seconds=2, transactions=4000))
    of_run = Analysis.of(sweep)
    of_compare = {
        figure.metric: figure.found.verdict.contrast
        for figure in compare_sides(of_one_folder(sweep, "pool_size=5%", "pool_size=10%")).figures
        if figure.found
    }
    assert of_compare.keys() == registry().derived.keys()
    differing = [name for name, contrast in of_compare.items() if contrast != of_run.fit(name).contrast]  # type: ignore[union-attr]
    assert differing == []
    assert of_compare["reads_cv"] == of_compare["requests_cv"] == "ratio"
    assert of_compare["hit_ratio"] == of_compare["page_cache_share"] == "difference"


def test_a_share_is_a_number_without_a_unit_and_no_other_metric_is_shown_per_cent() -> None:
    for metric in registry().everything():
        shown = words.cell(metric, Estimate(0.291, 0.228, 0.353, n=5))
        assert shown.endswith(" %") == metric.is_share, metric.name
        assert not metric.is_share or metric.unit == "1"
    ratios = {name for name, metric in registry().derived.items() if metric.unit == "1" and not metric.is_share}
    assert ratios == {
        *("device_queue_length", "requests_over_expected", "read_amplification"),
        *("reads_cv", "reads_dispersion_index", "requests_cv"),
    }, "a new number without a unit is a share, or stands here"


@pytest.mark.parametrize(
    ("metric", "found", "shown"),
    [
        ("device_busy_ratio", 0.76, "76 %"),
        ("cpu_iowait_share", 0.291, "29.1 %"),
        ("cpu_iowait_share", Estimate(0.291, 0.228, 0.353, n=5), "29.1 (22.8–35.3) %"),
        ("device_busy_ratio", Estimate(0.76, 0.52, 1.03, n=3), "76 (52–100) %"),
        ("hit_ratio", 0.99987, "99.987 %"),
        ("reads_cv", 0.12, "0.120"),
        ("read_bytes_per_transaction", 8192.0, "8 KiB"),
        ("reads_per_new_order", Estimate(9.7, 9.51, 9.89, n=5), "9.70 (9.51–9.89)"),
        ("reads_per_new_order", None, "–"),
        ("range_scan.hit_ratio", 0.5, "50 %"),
    ],
)
def test_a_cell_has_the_unit_that_its_metric_declares(metric: str, found: Estimate | float | None, shown: str) -> None:
    assert words.cell(declared(metric), found) == shown


def test_rates_and_writes_need_a_long_window_and_counts_of_reads_do_not() -> None:
    needing = {name for name, metric in registry().derived.items() if metric.needs_long_window}
    assert {name for name, metric in registry().derived.items() if metric.per == "s"} < needing
    written = {"writes_per_new_order", "write_us", "wal_write_bytes_per_row", "device_write_size_kib"}
    assert written < needing
    assert not needing & {"reads_per_new_order", "hit_ratio", "device_reads_per_transaction", "cpu_us_per_row"}


def test_a_difference_of_shares_is_told_in_percentage_points_and_one_of_ratios_has_no_unit() -> None:
    assert words.unit_of_change(declared("effective_cache_share")) == words.POINTS
    assert words.unit_of_change(declared("requests_over_expected")) == ""
    assert words.unit_of_change(declared("reads_per_row")) == "pages/row"


def test_a_count_is_known_by_what_it_counts_and_by_the_work_it_is_told_per() -> None:
    assert (declared("reads_per_new_order").count, declared("reads_per_new_order").work) == ("reads", "new_order")
    assert declared("reads_per_s").work is None
    for name, metric in registry().derived.items():
        assert metric.work is None or per_work(metric.count, metric.work) == name


def test_a_metric_that_every_engine_may_have_says_what_each_counts_as_it() -> None:
    said = "InnoDB: data_read"
    assert declared("db_read_bytes").meaning == f"bytes read from the database file ({said})"
    gets = declared("page_gets")
    assert gets.meaning.startswith("logical page requests (SQLite's CACHE_HIT + CACHE_MISS; InnoDB's")
    assert "PostgreSQL's statistics views" in gets.source


def test_words_for_a_metric_that_is_not_shared_and_metrics_declared_twice_are_refused() -> None:
    with pytest.raises(AssertionError, match="page_getz"):
        Registry.of({"new": EngineResults(words={"page_getz": "gets"})}, {})
    with pytest.raises(AssertionError, match="pages_read is declared twice"):
        Registry.of({"new": EngineResults(raw=(Engine.pages_read,))}, {})
