"""The report's contents: the right answer for each kind of sweep, and never more than the intervals allow."""

from __future__ import annotations

import re
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest

from bufferlab.chapter import analysis, words
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Figure, HistogramPlot, PointsPlot, Table, TimePlot
from bufferlab.chapter.point_table import headed, point_table
from bufferlab.execute.run import run_checks
from bufferlab.report.build import build as build_report
from bufferlab.report.document import Report
from bufferlab.report.html import render_html
from bufferlab.report.terminal import text
from bufferlab.results.window import Value
from support.synthetic import BUFFER_SIZE, Kind, Sweep, Truth, build, reseal
from support.synthetic_postgres import SPLITS, memory_split

LEVEL = tuple(Truth(pool, 9.7) for pool in ("5%", "10%", "20%"))
ENDS = (Truth("10%", 30.0), Truth("20%", 12.0))
#: All runs of a point are equal, except at the second point.
WITHOUT_NOISE: dict[str, Any] = {"noise": 0.0, "block_noise": 0.0, "noise_at": {1: 0.015}, "transactions": 4000}


def report(tmp_path: Path, sweep: Sweep | None = None) -> Report:
    return build_report(build(tmp_path, sweep))


def table(report: Report, id: str) -> Table:
    found = [block for section in report.sections for block in section.blocks if block.id == id]
    assert len(found) == 1, f"{len(found)} tables are called {id}"
    assert isinstance(found[0], Table)
    return found[0]


def terminal_text(found: Report) -> str:
    return text(found, 300).strip()


def column(found: Table, title: str) -> list[str]:
    place = [column.title for column in found.columns].index(title)
    return [row.cells[place] for row in found.rows]


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report(tmp_path_factory.mktemp("sweep"))


def test_the_answer_says_what_falls_from_where_to_where_by_how_much_and_how_sure(ordinary: Report) -> None:
    assert ordinary.answer == (
        "Reads per New-Order fall at every step as the buffer pool grows from 5 % (8.5 MiB) to 80 % (136 MiB) "
        "of the database: from 31.5 to 0.903 pages, 96.9–97.3 % less (95 % intervals, 3 runs a point). "
        "The step from 68 MiB to 136 MiB saved 2.01–2.51 pages per New-Order."
    )
    assert ordinary.question.startswith("How does the size of the buffer pool")
    assert ordinary.banners == ()
    assert ordinary.status == "ok"


def test_the_claimed_range_holds_the_planted_truth(ordinary: Report) -> None:
    planted = 1 - BUFFER_SIZE[-1].reads_per_new_order / BUFFER_SIZE[0].reads_per_new_order
    assert 0.969 <= planted <= 0.973


def test_misses_that_the_log_served_are_said_as_their_share(ordinary: Report) -> None:
    # The synthetic runs miss 2 % more than they read.
    assert any("write-ahead log served up to 2.0 % of the misses" in limit for limit in ordinary.limits)


def test_every_step_has_a_verdict(ordinary: Report) -> None:
    assert ordinary.steps is not None
    assert [row.cells[0] for row in ordinary.steps.rows] == ["5 % → 10 %", "10 % → 20 %", "20 % → 40 %", "40 % → 80 %"]
    assert all(row.cells[1].startswith("falls by ") for row in ordinary.steps.rows)


def test_short_windows_claim_nothing_about_throughput_and_writes(ordinary: Report) -> None:
    steps = table(ordinary, "all-steps")
    for title in ("Transactions per second", "Writes per New-Order"):
        assert all(cell.startswith("not claimed (window 5 s, needs 60 s)") for cell in column(steps, title))
    assert any("Throughput and writes are not claimed" in limit for limit in ordinary.limits)
    blocked = [step for step in ordinary.data.steps if step.metric == "transactions_per_s"]
    assert blocked
    assert {step.direction for step in blocked} == {"not_resolved"}


def test_long_windows_may_claim_throughput(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:2], transactions=60_000, blocks=3))
    (cell,) = column(table(found, "all-steps"), "Transactions per second")
    assert cell.startswith("rises by")


def test_every_table_has_as_many_cells_as_columns(ordinary: Report) -> None:
    blocks = [block for section in ordinary.sections for block in section.blocks]
    tables = [block.data if isinstance(block, Figure) else block for block in blocks]
    assert len(tables) > 15
    for found in tables:
        assert found.rows, found.id
        for row in found.rows:
            assert len(row.cells) == len(found.columns), found.id


def test_ids_are_unique_so_that_links_work(ordinary: Report) -> None:
    ids = [block.id for section in ordinary.sections for block in section.blocks]
    assert len(ids) == len(set(ids))


def test_n_and_units_stand_with_every_mean(ordinary: Report) -> None:
    for id in ("per-new-order", "per-transaction", "per-second", "device", "cpu"):
        found = table(ordinary, id)
        assert set(column(found, "n")) == {"3"}
    assert "Reads (pages)" in [column.title for column in table(ordinary, "per-new-order").columns]


def test_it_says_it_is_not_comparable_with_published_results(ordinary: Report) -> None:
    assert any("not comparable with published TPC-C results" in limit for limit in ordinary.limits)


def test_asked_and_actual_stand_side_by_side(ordinary: Report) -> None:
    knobs = table(ordinary, "engine")
    swept = [row.cells for row in knobs.rows if row.cells[0] == "pool_size (swept)"]
    assert swept[0] == ("pool_size (swept)", "5 %", "8.5 MiB", "5.0 % of the database as loaded")
    assert len(swept) == 5


def test_parts_of_the_window_are_start_middle_and_end(ordinary: Report) -> None:
    parts = table(ordinary, "parts")
    assert [found.title for found in parts.columns][2:5] == ["Hit ratio, start", "50 %", "end"]
    assert parts.rows[0].cells[2].startswith("95.")


def test_the_headline_figure_shows_every_run_and_the_actual_bytes(ordinary: Report) -> None:
    assert ordinary.headline is not None
    plot = ordinary.headline.plot
    assert isinstance(plot, PointsPlot)
    (series,) = plot.series
    assert [len(dot.runs) for dot in series.dots] == [3] * 5
    assert series.dots[0].tick == "5 %\n8.5 MiB"
    assert all(dot.ci_low is not None and dot.ci_low < dot.mean for dot in series.dots)
    assert plot.y_is_log
    (more,) = [section for section in ordinary.sections if section.id == "figures"]
    linear = more.blocks[0]
    assert isinstance(linear, Figure)
    assert isinstance(linear.plot, PointsPlot)
    assert (linear.title, linear.plot.x_is_log) == (f"{ordinary.headline.title}, linear axes", False)
    assert (linear.plot.y_is_log, linear.plot.y_from_zero) == (False, True)
    assert [dot.mean for dot in linear.plot.series[0].dots] == [dot.mean for dot in series.dots]


def test_the_time_figure_has_every_run_and_marks_the_warm_up(ordinary: Report) -> None:
    (time,) = [section for section in ordinary.sections if section.id == "time"]
    drawn = [block for block in time.blocks if isinstance(block, Figure)]
    rates = ("miss-ratio", "device-requests-per-s", "new-orders-per-s", "writes-per-s", "reads-per-s")
    assert [figure.id for figure in drawn] == [f"over-time-{rate}" for rate in rates]
    plot = drawn[0].plot
    assert isinstance(plot, TimePlot)
    assert [len(traces) for traces in plot.traces] == [3] * 5
    trace = plot.traces[0][0]
    assert trace.window_start_s == pytest.approx(8.0)
    assert trace.t_s[0] == pytest.approx(1.0)


def test_hit_ratio_requests_and_latency_are_open_figures_that_say_what_is_not_resolved(ordinary: Report) -> None:
    (section,) = [one for one in ordinary.sections if one.id == "io"]
    figures = {block.id: block for block in section.blocks if isinstance(block, Figure)}
    assert [*figures] == ["hit-ratio", "iops", "latency-percentiles", "latency-histogram", "time-in-reads"]
    assert section.open_figures == len(figures)
    misses, latency = figures["hit-ratio"].plot, figures["latency-percentiles"].plot
    assert isinstance(misses, PointsPlot)
    assert isinstance(latency, PointsPlot)
    assert (misses.y_label, misses.y_is_log, misses.note) == ("Miss ratio (%)", True, "")
    assert [one.label for one in latency.series] == ["p50", "p95", "p99", "p99.9"]
    assert all(dot.ci_low is not None and len(dot.runs) == 3 for one in latency.series for dot in one.dots)
    assert re.fullmatch(r"not resolved \(window \d+ s, needs 60 s\)", latency.note)
    assert "no step is claimed" in figures["latency-percentiles"].caption
    histograms = figures["latency-histogram"].plot
    assert isinstance(histograms, HistogramPlot)
    assert [sum(steps.shares) for steps in histograms.panels[0]] == pytest.approx([1.0] * 5)


def test_one_run_a_point_claims_no_difference_where_no_scatter_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bufferlab.chapter.known_scatter.COUNTED", {})
    found = report(tmp_path, Sweep(blocks=1))
    assert found.answer.endswith("but each point ran once (n = 1), so no difference is claimed.")
    assert found.steps is None
    assert not [block for section in found.sections for block in section.blocks if block.id == "all-steps"]
    assert [limit for limit in found.limits if "One repetition (n = 1)" in limit and "--repetitions 5" in limit]
    assert "less" not in found.answer


def test_a_sweep_without_any_difference_claims_none_and_says_what_it_could_have_found(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=LEVEL, seed=5))
    assert found.answer.startswith("Reads per New-Order: no step is resolved as the buffer pool grows")
    assert "would have been found" in found.answer


def test_identical_counts_are_reported_as_identical(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=LEVEL, noise=0.0))
    assert "are identical in every run" in found.answer


def test_a_sweep_that_turns_is_not_said_to_fall(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=(Truth("5%", 9), Truth("10%", 3), Truth("20%", 9))))
    assert "do not move one way" in found.answer
    assert "10 % to 20 % rises by" in found.answer


def test_steps_are_claimed_where_the_ends_have_no_interval_and_no_size_is_said_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first pool to the last all blocks changed equally; only the pool between them scatters."""
    monkeypatch.setattr("bufferlab.chapter.known_scatter.COUNTED", {})
    found = report(tmp_path, Sweep(truths=(*ENDS, Truth("40%", 0.0)), **WITHOUT_NOISE))
    assert found.answer.startswith(
        "Reads per New-Order fall at every step as the buffer pool grows from 10 % (17 MiB) to 40 % (68 MiB) of the "
        "database: from 30.0 to 0 pages (95 % intervals, 3 runs a point)."
    )


def test_resolved_steps_between_unresolved_ends_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bufferlab.chapter.known_scatter.COUNTED", {})
    found = report(tmp_path, Sweep(truths=(*ENDS, Truth("40%", 0.0), Truth("80%", 0.0)), **WITHOUT_NOISE))
    assert re.match(
        r"Reads per New-Order: 2 of 3 steps are resolved as the buffer pool grows .* of the database: "
        r"10 % to 20 % falls by [\d.]+–[\d.]+ pages/New-Order; 20 % to 40 % falls by [\d.]+–[\d.]+ "
        r"pages/New-Order; from first to last not resolved \(95 % intervals, 3 runs a point\)\.",
        found.answer,
    )


def test_a_single_point_of_an_embedded_engine_has_an_interval_and_no_more(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:1]))
    assert "n = 3)." in found.answer
    assert "two such sweeps" not in found.answer
    assert found.steps is None


def test_a_single_point_of_a_server_says_which_change_two_such_sweeps_would_show(tmp_path: Path) -> None:
    """Student's t with 2 degrees of freedom is 4.303 at 97.5 % and 1.061 at 80 %, and a pair's difference has twice a
    run's variance."""
    built = build(tmp_path, memory_split(truths=SPLITS[:1], blocks=3))
    found = build_report(built)
    (point,) = Analysis.of(built).points
    logs = [log(run.values["reads_per_transaction"].value or 0.0) for run in point.ok]
    change = exp((4.3027 + 1.0607) * stdev(logs) * (2 / 3) ** 0.5) - 1
    said = re.search(r"find a change of about ([\d.]+) %; more --repetitions find smaller changes", found.answer)
    assert said
    assert float(said[1]) == pytest.approx(100 * change, rel=0.05)


def test_a_failed_point_is_a_row_without_numbers_and_its_reason_is_told_once(tmp_path: Path) -> None:
    statuses = {(2, block): ("failed", "the device went away") for block in range(3)}
    found = report(tmp_path, Sweep(statuses=statuses))
    failed = [row for row in table(found, "per-new-order").rows if row.mark == "failed"]
    assert len(failed) == 1
    assert failed[0].cells[:2] == ("20 %", "0")
    assert set(failed[0].cells[2:]) == {"–"}
    assert [row.cells for row in table(found, "failures").rows] == [("failed: the device went away", "3", "20 %")]
    assert render_html(found).count("the device went away") == 1
    assert terminal_text(found).count("the device went away") == 1
    assert found.status == "failed"
    assert "3 runs did not end well" in found.banners[0].text
    assert [row.cells[0] for row in (found.steps or table(found, "checks")).rows][1] == "10 % → 40 %"
    assert sum(row.mark == "failed" for row in table(found, "runs").rows) == 3


def test_a_point_that_lost_one_run_keeps_its_figures_and_says_so(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(statuses={(1, 2): ("interrupted", "stopped by the user")}))
    rows = [row for row in table(found, "per-new-order").rows if row.cells[0] == "10 %"]
    assert [row.mark for row in rows] == [""]
    assert rows[0].cells[1] == "2 of 3"
    assert table(found, "failures").rows[0].cells == ("interrupted: stopped by the user", "1", "10 %")
    assert "fall at every step" in found.answer
    assert "2 to 3 runs a point" in found.answer


def test_a_sweep_in_which_every_run_failed_says_why_and_nothing_else(tmp_path: Path) -> None:
    statuses = {(point, 0): ("failed", "no space left on device") for point in range(2)}
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=1, statuses=statuses))
    assert found.answer == "None of 2 runs ended well: no space left on device."
    assert found.headline is None
    assert "No run could be checked" in (page := render_html(found))
    assert "✓" not in page
    assert page.count("no space left on device") == terminal_text(found).count("no space left on device") == 1
    assert [section.id for section in found.sections] == ["setup", "details"], (
        "chapters that would be empty are left out"
    )
    assert found.limits == ()
    assert terminal_text(found).endswith("Checks: no run could be checked.")


def test_a_sweep_that_failed_for_several_reasons_has_each_of_them_once(tmp_path: Path) -> None:
    statuses = {(point, 0): ("failed", f"reason {min(point, 1)}") for point in range(3)}
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:3], blocks=1, statuses=statuses))
    assert found.answer == "None of 3 runs ended well, for 2 reasons."
    rows = [row.cells for row in table(found, "failures").rows]
    assert rows == [("failed: reason 0", "1", "5 %"), ("failed: reason 1", "2", "10 % and 20 %")]
    assert not table(found, "failures").folds
    assert terminal_text(found).count("reason 1") == 1


class Rounded(Kind):
    """A server that rounds a pool below one MiB up to one."""

    def settings(self, sweep: Sweep, truth: Truth) -> tuple[dict[str, str], dict[str, Any]]:
        asked, actual = super().settings(sweep, truth)
        return asked, {**actual, "pool_size": max(1 << 20, actual["pool_size"])}


def test_points_that_ran_the_same_setting_are_no_step(tmp_path: Path) -> None:
    truths = (Truth("10%", 19.5), Truth("30%", 19.0), Truth("80%", 5.0))
    same = "10 % and 30 % (1 MiB) ran the same setting, so there is no step between them."
    found = report(tmp_path / "two", Sweep(truths=truths[:2], kind=Rounded(), database_bytes=2 << 20))
    assert found.answer.startswith("Reads per New-Order at 10 % (1 MiB): ")
    assert found.answer.endswith(same)
    assert "grows" not in found.answer
    assert found.steps is None
    found = report(tmp_path / "three", Sweep(truths=truths, kind=Rounded(), database_bytes=2 << 20))
    assert "from 10 % (1 MiB) to 80 % (1.6 MiB)" in found.answer
    assert found.answer.endswith(same)
    assert found.steps is not None
    assert column(found.steps, "Step") == ["10 % → 80 %"]
    assert column(table(found, "marginal"), "From") == ["1 MiB"]


def test_a_failed_check_is_shown_before_the_answer(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:2], condition_fails=4))
    assert found.banners[0].kind == "danger"
    assert re.match(
        r"1 of \d+ checks failed\. In doubt: every number; do not use the numbers before", found.banners[0].text
    )
    assert any(row.mark == "failed" and row.cells[0] == "4" for row in table(found, "consistency").rows)


@pytest.mark.parametrize(("profile", "status"), [("smoke", "not_applicable"), ("quick", "failed")])
def test_only_a_smoke_size_may_end_its_warm_ups_at_their_cap_and_its_answer_says_so(
    tmp_path: Path, profile: str, status: str
) -> None:
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=1, gate="cap", profile=profile))
    (check,) = (check for check in found.checks if check.name == "warm_up_gates")
    assert check.status == status
    assert [banner.kind for banner in found.banners] == (["danger"] if profile == "quick" else [])
    assert ("This is a smoke size" in found.answer) == (profile == "smoke")


@pytest.mark.parametrize(("profile", "status"), [("smoke", "not_applicable"), ("quick", "failed")])
def test_only_a_smoke_size_may_measure_for_too_short_a_time(tmp_path: Path, profile: str, status: str) -> None:
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=1, latency_scale=1.08, profile=profile))
    (check,) = (check for check in found.checks if check.name == "littles_law")
    assert check.status == status


def test_a_check_of_times_leaves_the_counts_standing_and_marks_the_times_alone(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:2], latency_scale=1.08))
    (banner,) = found.banners
    assert banner.kind == "warning"
    assert (
        "In doubt: times and rates; of the other numbers these checks say nothing. What should hold: Little's law"
        in banner.text
    )
    assert "in doubt" not in found.answer
    assert table(found, "per-new-order").caption.endswith("In doubt by a check that failed: New-Orders per second.")
    assert found.steps is not None
    assert "In doubt" not in found.steps.caption
    assert column(table(found, "failed-checks"), "In doubt") == ["times and rates"]


def test_a_check_that_touches_the_answer_is_named_in_it(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:2], gate="cap"))
    assert found.banners[0].kind == "danger"
    titles = "Every warm-up met a condition of its gate before its cap"
    assert found.answer.endswith(f"Reads per New-Order are in doubt, because this did not hold: {titles}.")


def test_the_failed_checks_are_one_number_above_and_below(tmp_path: Path) -> None:
    sweep = Sweep(truths=BUFFER_SIZE[:2], condition_fails=4, scale={"device_read_bytes": 0.5})
    found = report(tmp_path, sweep)
    (banner,) = found.banners
    made = sum(check.status != "not_applicable" for check in found.checks)
    assert banner.text.startswith(f"2 of {made} checks failed.")
    assert f"Checks: {made - 2} passed, 2 failed" in terminal_text(found)


def test_numbers_that_nobody_measured_get_a_loud_banner_whatever_the_engine(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:2], source="predicted"))
    assert found.banners[0].kind == "danger"
    assert found.banners[0].text.startswith("Not a result")


def test_a_device_that_cannot_be_seen_is_missing_with_its_reason(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:2], device_reason="overlay has no block device"))
    assert "overlay has no block device" in table(found, "device").caption


def test_a_point_that_scatters_more_than_the_rest_is_named(tmp_path: Path) -> None:
    sweep = build(tmp_path, Sweep(noise=0.001, blocks=5, seed=3, noise_at={4: 0.2}))
    (said,) = [limit for limit in build_report(sweep).limits if limit.startswith("Runs at 80 % scatter more")]
    assert "leans on its own runs" in said


def test_every_check_of_the_executor_says_what_should_hold() -> None:
    made = set(re.findall(r'_row\("(\w+)"', Path(run_checks.__file__).read_text(encoding="utf-8")))
    assert made
    assert made <= analysis._TITLES.keys()


def test_the_same_samples_give_the_same_report(tmp_path: Path) -> None:
    sweep = build(tmp_path, replace(Sweep(), truths=BUFFER_SIZE[:3]))
    assert build_report(sweep) == build_report(sweep)


def test_a_device_that_others_read_too_fails_nothing_and_its_figures_say_so(tmp_path: Path) -> None:
    found = report(tmp_path, Sweep(truths=BUFFER_SIZE[:2], scale={"device_read_bytes": 3.0}))
    assert not found.banners
    (check,) = [check for check in found.checks if check.name == "device_read_bytes"]
    assert check.status == "not_applicable"
    assert "other programs read from the device" in check.detail
    captions = [block.caption for section in found.sections for block in section.blocks if isinstance(block, Table)]
    said = [caption for caption in captions if "Other programs read from the device meanwhile: " in caption]
    assert said
    assert all("Reads per" not in caption.partition("meanwhile: ")[2] for caption in said)


def test_the_device_under_a_query_is_busy_and_waited_for_in_per_cent(tmp_path: Path) -> None:
    analysis = Analysis.of(build(tmp_path, Sweep(blocks=2)))
    found = point_table(analysis, "query-device", "", headed(analysis, ("device_busy_ratio", "cpu_iowait_share")), "")
    assert [found.title for found in found.columns] == ["Point", "n", "Device busy", "Waiting for I/O"]
    busy = analysis.mean("device_busy_ratio", analysis.points[0])
    assert busy is not None
    shown = column(found, "Device busy")[0]
    assert shown.endswith(" %")
    assert float(shown.split()[0]) == pytest.approx(100 * busy.value, rel=0.02)
    assert all(cell.endswith(" %") for cell in column(found, "Waiting for I/O"))


def test_columns_that_no_run_has_are_left_out_where_asked_and_a_table_of_none_has_no_rows(tmp_path: Path) -> None:
    analysis = Analysis.of(build(tmp_path, Sweep(blocks=1)))
    heads = {"Reads": "reads_per_new_order", "Redo": "redo_bytes_per_new_order"}
    assert [found.title for found in point_table(analysis, "x", "", heads, "").columns] == [
        "Point",
        "n",
        "Reads",
        "Redo",
    ]
    known = point_table(analysis, "x", "", heads, "", known_only=True)
    assert [found.title for found in known.columns] == ["Point", "n", "Reads"]
    assert point_table(analysis, "x", "", {"Redo": heads["Redo"]}, "", known_only=True).rows == ()


def test_a_column_that_some_runs_do_not_have_is_named_below_the_table(tmp_path: Path) -> None:
    analysis = Analysis.of(build(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=3)))
    heads = {"Reads": "reads_per_new_order", "Writes": "writes_per_new_order"}
    assert "Of fewer runs" not in point_table(analysis, "x", "", heads, "Means.").caption
    analysis = Analysis.of(analysis.sweep)
    analysis.points[0].ok[1].values["writes_per_new_order"] = Value(None, "the counter was reset")
    found = point_table(analysis, "x", "", heads, "Means.")
    assert column(found, "n") == ["3", "3"]
    assert found.caption == "Means. Of fewer runs than n: writes per New-Order."


def test_a_pool_is_no_share_of_an_empty_database(tmp_path: Path) -> None:
    sweep = build(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=1))
    reseal(sweep, lambda run: run["database"].update(bytes_loaded=0))
    assert column(table(build_report(sweep), "sizes"), "Pool / loaded") == [words.NOTHING] * 2
