"""Chapters of a report: present and correct if a sweep has their data, absent otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Dot, Figure, PointsPlot, Section, Series, Table, TimePlot
from bufferlab.report.build import build as build_report
from bufferlab.report.chapters.latency_rate import latency_rate
from bufferlab.report.document import Report
from bufferlab.report.figures.svg import draw
from bufferlab.report.html import render_html
from bufferlab.report.markdown import render_markdown
from bufferlab.report.terminal import text
from bufferlab.results.store import SweepFolder
from bufferlab.results.window import Value
from bufferlab.theory.hot_rows import predicted_knee
from support.fake import Bench
from support.synthetic import BUFFER_SIZE, Sweep, Truth, build, reseal

PHASE = '[phases.{name}]\nscript = "{name}.sql"\ntransactions = 200\nmax_duration = "20s"\n'


def chapter(report: Report, id: str) -> Section:
    (found,) = [section for section in report.sections if section.id == id]
    return found


def table(section: Section, id: str) -> Table:
    (found,) = [block for block in section.blocks if block.id == id]
    assert isinstance(found, Table)
    return found


def figure(section: Section, id: str) -> Figure:
    (found,) = [block for block in section.blocks if block.id == id]
    assert isinstance(found, Figure)
    return found


def first_figure(report: Report, id: str) -> Figure:
    """Return the figure next to the answer; no chapter repeats it."""
    assert report.headline is not None
    assert report.headline.id == id
    assert not [block for section in report.sections for block in section.blocks if block.id == id]
    return report.headline


def column(found: Table, title: str) -> list[str]:
    place = [column.title for column in found.columns].index(title)
    return [row.cells[place] for row in found.rows]


def points(found: Figure) -> PointsPlot:
    assert isinstance(found.plot, PointsPlot)
    return found.plot


@pytest.fixture(scope="module")
def hot_rows(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    bench = Bench(tmp_path_factory.mktemp("hot") / "bench")
    sweep = (
        'page_size = ["4k", "16k"]\nlayout = ["scattered", "clustered"]\n'
        'hot_rows = ["40%", "80%", "115%", "140%", "250%"]'
    )
    workload = 'name = "hot_rows"\nrows = 200000'
    bench.measure(bench.experiment(workload=workload, knobs='pool_size = "2MiB"', sweep=sweep, repetitions=2))
    return bench.sweep()


@pytest.fixture(scope="module")
def of_hot_rows(hot_rows: SweepFolder) -> Report:
    return build_report(hot_rows)


@pytest.fixture(scope="module")
def of_pages(tmp_path_factory: pytest.TempPathFactory) -> Report:
    bench = Bench(tmp_path_factory.mktemp("pages") / "bench")
    bench.root.mkdir(parents=True)
    for name in ("range_scan", "insert"):
        (bench.root / f"{name}.sql").write_text("-- transaction: x\nSELECT 1;\n")
    sweep = 'page_size = ["4k", "16k", "64k"]\npool_size = ["128KiB", "20%"]'
    more = "".join(PHASE.format(name=name) for name in ("range_scan", "insert"))
    bench.measure(bench.experiment(sweep=sweep, repetitions=2, more=more))
    return build_report(bench.sweep())


@pytest.fixture(scope="module")
def of_rates(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of a sweep over rates. The fake engine serves a thousand transactions a second at most."""
    bench = Bench(tmp_path_factory.mktemp("rates") / "bench")
    sweep = 'rate = ["200", "800", "3000"]'
    bench.measure(bench.experiment(knobs='patience = "500ms"', sweep=sweep, repetitions=2))
    return build_report(bench.sweep())


def test_a_sweep_has_the_chapters_of_its_data_and_no_others(
    tmp_path: Path, of_hot_rows: Report, of_pages: Report, of_rates: Report
) -> None:
    ordinary = build_report(build(tmp_path))
    kinds = {"knee", "response", "best", "pages", "time"}
    found = [{section.id for section in each.sections} & kinds for each in (ordinary, of_hot_rows, of_pages, of_rates)]
    assert found == [{"best", "time"}, {"knee", "pages", "time"}, {"pages", "time"}, {"response", "time"}]


def test_one_line_per_page_size_and_layout_stands_on_the_rows_there_really_were(of_hot_rows: Report) -> None:
    plot = points(first_figure(of_hot_rows, "knee-figure"))
    assert [series.label for series in plot.series] == [
        f"layout {layout}, page size {size}" for size in ("4 KiB", "16 KiB") for layout in ("scattered", "clustered")
    ]
    for series in plot.series:
        xs = [dot.x for dot in series.dots]
        assert xs == sorted(xs)
        assert xs[-1] == pytest.approx(2.5 / 0.4 * xs[0], rel=0.02)
        assert all(len(dot.runs) == 2 for dot in series.dots)
    assert plot.x_is_log


def test_the_predicted_curve_leaves_zero_at_the_predicted_knee(of_hot_rows: Report) -> None:
    plot = points(first_figure(of_hot_rows, "knee-figure"))
    assert len(plot.curves) == 4
    predicted = [mark for mark in plot.marks if mark.dashed]
    assert [mark.label for mark in predicted] == ["predicted knee", "", "", ""]
    for curve, mark in zip(plot.curves, predicted, strict=True):
        rising = next(x for x, y in zip(curve.xs, curve.ys, strict=True) if y > 0)
        assert rising == pytest.approx(mark.x, rel=0.04)
        assert rising > mark.x


def test_the_table_of_knees_holds_what_the_model_says_of_the_stored_tree(
    of_hot_rows: Report, hot_rows: SweepFolder
) -> None:
    found = table(chapter(of_hot_rows, "knee"), "knees")
    assert column(found, "Page") == ["4 KiB", "4 KiB", "16 KiB", "16 KiB"]
    assert column(found, "Layout") == ["scattered", "clustered"] * 2
    run = next(
        record.run.model_dump(mode="json")
        for record in hot_rows.runs()
        if record.run.settings["page_size"].actual == 16_384
    )
    (tree,) = run["database"]["shape"]["trees"]
    frames = 2 * 1024**2 // 16_384
    expected = predicted_knee(tree, 200_000, frames, "scattered")
    assert column(found, "Predicted knee (rows)")[2] == f"{expected:,}"
    assert column(found, "Frames")[2] == str(frames)
    assert column(found, "Leaf pages")[2] == f"{tree['leaf_pages']:,}"


def test_the_fitted_knee_is_near_what_the_engine_was_made_to_show(of_hot_rows: Report) -> None:
    """The fake engine's misses follow another formula; the fit must find its knee, and not repeat the prediction."""
    found = table(chapter(of_hot_rows, "knee"), "knees")
    for predicted, fitted, line in zip(
        column(found, "Predicted knee (rows)"),
        column(found, "Fitted knee (rows)"),
        column(found, "Straight line (rows)"),
        strict=True,
    ):
        at = [float(text.split()[0].replace(",", "")) for text in (predicted, fitted, line)]
        assert at[1] == pytest.approx(at[0], rel=0.10)
        assert at[2] == pytest.approx(at[0], rel=0.20)


def test_the_intervals_of_knees_say_over_how_many_blocks_they_are(of_hot_rows: Report) -> None:
    assert "95 % interval over 2 blocks." in table(chapter(of_hot_rows, "knee"), "knees").caption


def test_hot_rows_are_answered_by_their_knees_beside_the_predicted_ones(of_hot_rows: Report) -> None:
    said = re.findall(
        r"With layout (\w+), page size (\d+) KiB: the knee was found at ([\d,]+).*?, predicted at ([\d,]+): measured",
        of_hot_rows.answer,
    )
    assert [line[:2] for line in said] == [
        ("scattered", "4"), ("clustered", "4"), ("scattered", "16"), ("clustered", "16")
    ]  # fmt: skip
    for _, _, fitted, predicted in said:
        assert float(fitted.replace(",", "")) == pytest.approx(float(predicted.replace(",", "")), rel=0.1)


def test_how_far_the_knee_moves_with_page_size_and_layout_is_told_as_ratios(of_hot_rows: Report) -> None:
    found = table(chapter(of_hot_rows, "knee"), "knee-ratios")
    smaller = "layout scattered, page size 4 KiB against layout scattered, page size 16 KiB"
    place = column(found, "Knees").index(smaller)
    measured = float(column(found, "Measured ratio")[place].split()[0])
    assert 3.5 < measured < 4.3
    assert 0.9 < float(column(found, "Measured / predicted")[place]) < 1.1


@pytest.mark.figures
def test_groups_have_a_line_each_a_legend_and_names_in_every_table(of_hot_rows: Report) -> None:
    assert of_hot_rows.headline is not None
    plot = points(of_hot_rows.headline)
    assert len(plot.series) == 4
    svg = draw(of_hot_rows.headline)
    for series in plot.series:
        assert f">{series.label}<" in svg
    main = table(chapter(of_hot_rows, "numbers"), "per-transaction")
    names = column(main, "Point")
    assert len(set(names)) == 20
    assert re.fullmatch(r"40 % \(\d+\), layout scattered, page size 4 KiB", names[0])


def test_a_count_asked_as_a_share_is_shown_with_the_count(of_hot_rows: Report) -> None:
    settings = table(chapter(of_hot_rows, "setup"), "engine")
    rows = [row.cells for row in settings.rows if row.cells[0] == "hot_rows (swept)"]
    assert len(rows) == 20
    assert {row[3] for row in rows} == {"the count that this share is here"}
    sizes = [row.cells for row in settings.rows if row.cells[0] == "page_size (swept)"]
    assert [row[2] for row in sizes] == ["4 KiB", "16 KiB"]


def test_many_groups_show_ends_beside_the_figure_and_every_step_in_the_table(of_pages: Report) -> None:
    assert of_pages.steps is not None
    assert len(of_pages.steps.rows) == 2
    assert len(table(chapter(of_pages, "numbers"), "all-steps").rows) == 4


def test_what_the_sweep_asks_is_answered_first(of_hot_rows: Report, of_rates: Report, of_pages: Report) -> None:
    """A knee or a response time is in the answer, and its table comes first in the terminal; then the headline
    metric."""
    for report, chapter_id in ((of_hot_rows, "knee"), (of_rates, "response")):
        lead = table(chapter(report, chapter_id), report.lead)
        assert report.steps is None
        own, *_ = [block for block in chapter(report, "figures").blocks if isinstance(block, Figure)]
        assert report.headline is not None
        assert own.id != report.headline.id
        shown = text(report, 200)
        blocks = (block for section in report.sections for block in section.blocks)
        places = {block.id: shown.find(block.title) for block in blocks if isinstance(block, Table) and block.brief}
        assert 0 < places.pop(lead.id) < min(place for place in places.values() if place >= 0)
    assert of_pages.lead == ""
    assert of_pages.steps is not None


def test_the_file_is_described_by_page_size(of_pages: Report) -> None:
    found = table(chapter(of_pages, "pages"), "file-shape")
    assert column(found, "Page") == ["4 KiB", "16 KiB", "64 KiB"]
    per_leaf = [float(cell) for cell in column(found, "Rows per leaf page (order_line)")]
    assert per_leaf[1] == pytest.approx(4 * per_leaf[0], rel=0.05)
    levels = [int(cell) for cell in column(found, "Levels (order_line)")]
    assert levels == sorted(levels, reverse=True)


def test_pages_of_no_bytes_make_no_table_of_files(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    bench.measure(bench.experiment(sweep='page_size = ["4k", "16k"]', repetitions=1))
    sweep = reseal(bench.sweep(), lambda run: run["settings"]["page_size"].update(actual=0))
    assert "file-shape" not in {block.id for section in build_report(sweep).sections for block in section.blocks}


def test_every_phase_has_its_own_table_and_figures_per_row(of_pages: Report) -> None:
    pages = chapter(of_pages, "pages")
    for phase in ("range_scan", "insert"):
        found = table(pages, f"phase-{phase}")
        assert len(found.rows) == 6
        assert set(column(found, "n")) == {"2"}
        assert "200 transactions a run" in found.caption
        rate = figure(pages, f"{phase.replace('_', '-')}-rate")
        assert rate.title.startswith(phase.replace("_", " ").capitalize())
        assert len(points(rate).series) == 2
    summaries = {summary.metric for point in of_pages.data.points for summary in point.summaries}
    assert "range_scan.rows_per_s" in summaries
    assert "reads_per_new_order" in summaries


def test_a_phases_short_window_claims_nothing_of_rates(of_pages: Report) -> None:
    found = table(chapter(of_pages, "pages"), "phase-insert")
    assert re.search(r"not claimed \(window 0\.\d s, needs 60 s\)", found.caption)


def test_response_times_rise_with_the_rate_until_the_database_does_not_keep_up(of_rates: Report) -> None:
    response = chapter(of_rates, "response")
    found = table(response, "response-times")
    assert column(found, "Keeps up") == ["yes", "yes", "no"]
    assert float(column(found, "Dropped")[-1].split()[0]) > 50
    plot = points(first_figure(of_rates, "response-time"))
    assert [series.label for series in plot.series] == ["median", "p95", "p99", "p99.9", "maximum"]
    assert plot.y_is_log
    for series in plot.series:
        assert series.dots[-1].mean > 10 * series.dots[0].mean
    for dots in zip(*(series.dots for series in plot.series), strict=True):
        assert [dot.mean for dot in dots] == sorted(dot.mean for dot in dots)
    (mark,) = plot.marks
    assert mark.x == 3000
    assert "kept up with 800 a second and not with 3,000" in response.intro


def test_means_of_arrivals_and_of_transactions_given_up_have_their_intervals(tmp_path: Path) -> None:
    """The fake engine's runs at one rate are all equal, so two different runs replace them."""
    bench = Bench(tmp_path / "bench")
    bench.measure(bench.experiment(knobs='patience = "500ms"', sweep='rate = ["800", "3000"]', repetitions=2))
    analysis = Analysis.of(bench.sweep())
    for run, (arrived, dropped) in zip(analysis.points[-1].ok, ((3000.0, 0.60), (3010.0, 0.61)), strict=True):
        run.values.update(arrivals_per_s=Value(arrived), dropped_share=Value(dropped))
    response = latency_rate(analysis)
    assert response is not None
    found = table(response, "response-times")
    for title in ("Arrived per s", "Dropped"):
        shown = re.findall(r"[\d,.]+", column(found, title)[-1])
        value, low, high = (float(number.replace(",", "")) for number in shown)
        assert low < value < high


def test_an_open_loop_is_answered_by_the_rate_it_served(of_rates: Report) -> None:
    said = "The highest rate served was 800 transactions a second; of 3,000 it completed "
    assert of_rates.answer.startswith(said)
    assert re.match(r"[\d,]+ a second \(mean of 2 runs\)\.", of_rates.answer.removeprefix(said))


def test_the_best_setting_is_a_set_and_the_benefit_of_each_mib_is_told(tmp_path: Path) -> None:
    truths = (Truth("5%", 31.2), Truth("10%", 19.5), Truth("20%", 9.7), Truth("40%", 9.7), Truth("80%", 9.7))
    best = chapter(build_report(build(tmp_path, Sweep(truths=truths, blocks=5))), "best")
    (members,) = column(table(best, "best-set"), "May be the best")
    assert members == "20 %, 40 %, 80 %"
    (beaten,) = column(table(best, "best-set"), "Beaten")
    assert beaten == "5 %, 10 %"
    steps = table(best, "marginal")
    assert column(steps, "Resolved") == ["yes", "yes", "no", "no"]
    # From 5 to 10 % of 170 MiB are 8.5 MiB, for which reads fall from 31.2 to 19.5.
    saved = float(column(steps, next(c.title for c in steps.columns if "saved per MiB" in c.title))[0].split()[0])
    assert saved == pytest.approx((31.2 - 19.5) / 8.5, rel=0.15)
    assert "Up to 34 MiB, a larger size brought fewer reads per New-Order" in best.intro


@pytest.mark.parametrize(
    ("reads", "said"),
    [
        ((20, 20, 10), "1 of 2 steps up to 34 MiB were shown to bring fewer reads per New-Order."),
        ((20, 10, 15), "Up to 17 MiB, a larger size brought fewer reads per New-Order; the next step brought more."),
        ((20, 10, 5), "Every step up to the largest, 34 MiB, brought fewer reads per New-Order."),
    ],
)
def test_the_size_up_to_which_more_helps_hides_no_step(tmp_path: Path, reads: tuple[float, ...], said: str) -> None:
    truths = tuple(Truth(pool, of) for pool, of in zip(("5%", "10%", "20%"), reads, strict=True))
    assert chapter(build_report(build(tmp_path, Sweep(truths=truths, blocks=5))), "best").intro == said


def test_one_repetition_names_no_best_where_no_scatter_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bufferlab.chapter.known_scatter.COUNTED", {})
    best = chapter(build_report(build(tmp_path, Sweep(blocks=1))), "best")
    (behind,) = column(table(best, "best-set"), "Behind the best by at most")
    assert behind.startswith("not known: one repetition")


def test_one_run_a_point_says_nothing_of_single_mib(tmp_path: Path) -> None:
    best = chapter(build_report(build(tmp_path, Sweep(blocks=1))), "best")
    assert [block.id for block in best.blocks if isinstance(block, Table)] == ["best-set"]
    assert best.intro == ""


def test_over_time_shows_scatter_within_each_run(tmp_path: Path) -> None:
    sweep = Sweep(truths=BUFFER_SIZE[:2], blocks=2, transactions=40_000)
    time = chapter(build_report(build(tmp_path, sweep)), "time")
    found = table(time, "scatter")
    assert len(found.rows) == 2 * 2 * 2
    for cell in column(found, "Coefficient of variation"):
        value, low, high = (float(number) for number in re.findall(r"[\d.]+", cell))
        # The synthetic runs' speed scatters by 4 %.
        assert 2 < value < 6.5
        assert low < value < high
    assert set(column(found, "Levels inside the window")) == {"one"}


def test_a_change_of_level_inside_the_window_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples are those of the fixture, with the second half of the window at half speed."""
    import polars as pl

    from bufferlab.results.store import RunRecord

    sweep = build(tmp_path, Sweep(truths=BUFFER_SIZE[:1], blocks=1, transactions=40_000))
    whole = RunRecord.samples

    def slowed(record: RunRecord) -> pl.DataFrame:
        samples = whole(record)
        middle = (8 + float(samples["t_s"].max())) / 2  # type: ignore[arg-type]
        later = pl.when(pl.col("t_s") > middle).then(2 * pl.col("t_s") - middle).otherwise(pl.col("t_s"))
        return samples.with_columns(later.alias("t_s"))

    monkeypatch.setattr(RunRecord, "samples", slowed)
    time = chapter(build_report(sweep), "time")
    found = table(time, "scatter")
    for said in column(found, "Levels inside the window"):
        first, second = (float(number.replace(",", "")) for number in re.findall(r"([\d,.]+) from", said))
        assert second == pytest.approx(first / 2, rel=0.1)
    assert {row.mark for row in found.rows} == {"differs"}
    for rate in ("reads", "new-orders"):
        changed = figure(time, f"over-time-{rate}-per-s")
        assert isinstance(changed.plot, TimePlot)
        assert [len(trace.levels) for trace in changed.plot.traces[0]] == [2]
        assert "Heavy lines" in changed.caption


def test_every_chapter_is_in_every_format_with_words_for_its_figures_and_their_data(
    of_hot_rows: Report, of_pages: Report, of_rates: Report
) -> None:
    for report in (of_hot_rows, of_pages, of_rates):
        page, text = render_html(report), render_markdown(report)
        ids = [block.id for section in report.sections for block in section.blocks]
        assert len(ids) == len(set(ids))
        for section in report.sections:
            assert f'id="{section.id}-section"' in page
            for block in section.blocks:
                assert f'id="{block.id}"' in page
                if isinstance(block, Figure):
                    assert len(block.alt) > 30
                    assert block.data.rows
                    assert f"figures/{block.id}.svg" in text
                data = block.data if isinstance(block, Figure) else block
                assert all(len(row.cells) == len(data.columns) for row in data.rows), block.id


def test_points_of_an_a_a_sweep_keep_their_letters(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    bench.measure(bench.experiment(sweep='arm = ["a", "b"]', repetitions=2))
    analysis = Analysis.of(bench.sweep())
    assert analysis.axis == "arm"
    assert [analysis.name_of(point) for point in analysis.points] == ["a", "b"]
    assert not [section for section in build_report(bench.sweep()).sections if section.id == "best"]


@pytest.mark.parametrize(
    ("y_is_log", "ci_high", "is_cut"), [(False, 2.6, False), (False, 3.0, True), (True, 7.0, False), (True, 9.5, True)]
)
def test_only_an_interval_that_leaves_the_axis_is_said_to_leave_the_picture(
    y_is_log: bool, ci_high: float, is_cut: bool
) -> None:
    """The axis ends at 2.5 times the highest run (6.25 times on a logarithmic axis), plus some room."""
    series = Series("", (Dot(1.0, "1", (1.0, 1.0), 1.0, 0.9, ci_high),))
    assert (
        PointsPlot(x_label="", y_label="", series=(series,), x_is_log=False, y_is_log=y_is_log).cuts_intervals is is_cut
    )


@pytest.mark.figures
def test_an_interval_far_longer_than_its_runs_leaves_the_picture_and_the_caption_says_so(tmp_path: Path) -> None:
    """Two runs differ by half: the interval of their mean is many times as high as the runs."""
    found = build_report(build(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=2, block_noise=0.5, noise=0.0)))
    assert found.headline is not None
    plot = points(found.headline)
    highest = max(value for dot in plot.series[0].dots for value in dot.runs)
    assert max(dot.ci_high or 0 for dot in plot.series[0].dots) > 3 * highest
    assert "Intervals that leave the picture are longer than it." in found.headline.caption
    tick = max(float(text.replace(",", "")) for text in re.findall(r">([\d,.]+)</text>", draw(found.headline)))
    assert tick < 4 * highest
