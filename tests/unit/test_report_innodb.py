"""Reports of InnoDB sweeps: the sentence on the scan depth, the victim path, the pool that ran, and unknown values."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bufferlab.chapter.elements import Figure, PanelsPlot, Section, StackedPlot, Table, TimePlot
from bufferlab.report.build import build as build_report
from bufferlab.report.build import publish
from bufferlab.report.document import Report
from bufferlab.report.figures.svg import draw, for_page
from bufferlab.report.markdown import figures_of
from support.synthetic import MIB, Sweep, build, reseal
from support.synthetic_innodb import LACKS_56, LACKS_1011, SCAN_DEPTH, Depth, Innodb, scan_depth

#: Transactions of a window; LONG is enough for a claim on throughput. Both are multiples of the deck of 23.
LONG, SHORT = 22_080, 2_300


def report(folder: Path, **changes: Any) -> Report:
    # Samples of every fifth second are enough of long windows.
    interval_s = 5 if changes.get("transactions") == LONG else 1
    return build_report(build(folder, scan_depth(**{"transactions": SHORT, "interval_s": interval_s, **changes})))


def section(found: Report, id: str) -> Section:
    (one,) = [section for section in found.sections if section.id == id]
    return one


def table(found: Report, id: str) -> Table:
    (one,) = [block for section in found.sections for block in section.blocks if block.id == id]
    assert isinstance(one, Table)
    return one


def column(found: Table, title: str) -> list[str]:
    place = [column.title for column in found.columns].index(title)
    return [row.cells[place] for row in found.rows]


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report(tmp_path_factory.mktemp("deep"), transactions=LONG, throughput_noise=0.01, block_noise=0.005)


def test_the_answer_to_a_scan_depth_sweep_is_its_trends_and_what_throughput_tells(deep: Report) -> None:
    assert deep.answer.startswith(
        "With every doubling of the scan depth, on average from 128 to 2,048 (2 to 32 % of the pool), reads per "
        "New-Order rise by "
    )
    for said in (
        "the effective cache falls by ",
        "the LRU-scan share falls by 40",
        "the single-page share falls by 38",
    ):
        assert said in deep.answer
    assert "(41.2 to 5.50 % of the searches)" in deep.answer
    assert "(95 % intervals that hold together, 5 runs a point)" in deep.answer
    assert re.search(
        r"(Throughput is best at 128|In throughput 128 and 256 cannot be told apart as the best)\.$", deep.answer
    )
    assert deep.banners == ()


def test_the_slope_claimed_for_reads_holds_the_planted_one(deep: Report) -> None:
    found = re.search(r"reads per New-Order rise by ([\d.]+)–([\d.]+) %", deep.answer)
    assert found is not None
    planted = 100 * ((73.0 / 61.9) ** (1 / 4) - 1)
    assert float(found[1]) - 0.2 <= planted <= float(found[2]) + 0.2


def test_the_first_figure_shows_reads_cache_and_both_slow_paths_over_the_depth(deep: Report) -> None:
    assert deep.headline is not None
    plot = deep.headline.plot
    assert isinstance(plot, PanelsPlot)
    assert [panel.y_label for panel in plot.panels] == [
        "Reads per New-Order (pages)",
        "Effective cache (pages)",
        "LRU-scan share (%)",
        "Single-page share (%)",
    ]
    assert all(panel.x_is_log for panel in plot.panels)
    assert [dot.x for dot in plot.panels[0].series[0].dots] == [128, 256, 512, 1024, 2048]
    assert deep.lead == "scan-depth-points"


def test_the_depth_is_told_as_a_share_of_the_pool_and_the_cache_in_pages_and_bytes(deep: Report) -> None:
    found = table(deep, "scan-depth-points")
    assert column(found, "Of the pool") == ["2.00 %", "4.00 %", "8.00 %", "16.0 %", "32.0 %"]
    mib = [float(cell) for cell in column(found, "Effective cache (MiB)")]
    for truth, cell in zip(SCAN_DEPTH, mib, strict=True):
        assert cell == pytest.approx((6400 - 45 - 1.15 * truth.depth) / 64, rel=0.01)


def test_trends_have_their_intervals_and_the_p_value_of_the_order(deep: Report) -> None:
    found = table(deep, "trends")
    assert len(found.rows) == 4
    assert column(found, "Change per doubling")[0].startswith("rises by ")
    assert all(float(p) < 1e-6 for p in column(found, "p of the order"))


def test_reads_that_fall_and_then_rise_are_told_by_both_sides_and_not_by_a_slope(tmp_path: Path) -> None:
    truths = (
        Depth.of(128, 34.0, 0.36, 0.018),
        Depth.of(256, 30.3, 0.26, 0.012),
        Depth.of(512, 29.4, 0.15, 0.009),
        Depth.of(2048, 33.0, 0.06, 0.003),
        Depth.of(8192, 53.8, 0.014, 0.0014),
    )
    found = report(tmp_path, truths=truths)
    said = re.match(
        r"Reads per New-Order fall by (\d+)–(\d+) % from 128 \(3\d\.\d\) to 512 \(2\d\.\d\) and rise by (\d+)–(\d+) % "
        r"from there to 8,192 \(5\d\.\d\); with every doubling of the scan depth, on average from 128 to 8,192 .*, the "
        r"effective",
        found.answer,
    )
    assert said is not None, found.answer
    low, high, least, most = map(float, said.groups())
    assert low <= 100 * (1 - 29.4 / 34.0) <= high
    assert least <= 100 * (53.8 / 29.4 - 1) <= most
    assert column(table(found, "trends"), "Change per doubling")[0].startswith("turns: fall by ")


def test_a_flat_sweep_claims_no_trend_and_says_what_it_could_have_found(tmp_path: Path) -> None:
    truths = tuple(Depth.of(depth, 60.0, 0.2, 0.01, lost_frames=0.0) for depth in (128, 512, 2048))
    found = report(tmp_path, truths=truths, blocks=4, noise=0.02)
    assert "reads per New-Order: not resolved (" in found.answer
    assert "rise by" not in found.answer
    assert column(table(found, "trends"), "Would have been found")[0].endswith(" %")


def test_depths_that_are_alike_in_throughput_are_called_so(tmp_path: Path) -> None:
    truths = tuple(Depth.of(depth, 60.0, 0.2, 0.01) for depth in (128, 512, 2048))
    found = report(tmp_path, truths=truths, blocks=4, transactions=LONG, throughput_noise=0.03)
    assert "No depth can be told apart in throughput: 128, 512 and 2,048 may each be the best." in found.answer
    assert column(table(found, "throughput-alike"), "Cannot be told apart from") == [
        "512, 2,048",
        "128, 2,048",
        "128, 512",
    ]


def test_short_windows_tell_counts_but_not_throughput(tmp_path: Path) -> None:
    found = report(tmp_path)
    assert "reads per New-Order rise by" in found.answer
    assert re.search(r"Throughput: not claimed \(window \d+ s, needs 60 s\)\.$", found.answer)


def test_one_repetition_has_no_trend(tmp_path: Path) -> None:
    found = report(tmp_path, blocks=1)
    assert "doubling" not in found.answer
    assert "(1 run a point; " in found.answer
    assert all("one whole repetition" in cell for cell in column(table(found, "trends"), "Change per doubling"))
    for id in ("scan-depth-points", "victim-path-table", "pool-levels", "server-work"):
        assert "One run of each point: no interval" in table(found, id).caption, id
    figure = next(block for block in section(found, "scan-depth").blocks if isinstance(block, Figure))
    assert figure.caption.startswith("Each dot is one run, without an interval.")


def test_titles_say_the_depth_as_the_axis_does(deep: Report) -> None:
    titles = [figure.title for figure in figures_of(deep)]
    assert any("over LRU scan depth" in title for title in titles), titles


def test_the_bars_of_the_victim_path_add_to_one(deep: Report) -> None:
    (figure, counts) = section(deep, "victim-path").blocks
    assert isinstance(figure, Figure)
    assert isinstance(figure.plot, StackedPlot)
    assert all(sum(shares) == pytest.approx(1.0, abs=1e-12) for shares in figure.plot.shares)
    assert figure.plot.shares[0][1] == pytest.approx(0.412, abs=1e-3)
    assert isinstance(counts, Table)
    assert counts.rows[0].cells[2].startswith("56.7")


@pytest.mark.parametrize(
    ("engine", "version", "lacks", "why"),
    [
        ("mysql", "5.6.24", LACKS_56, "does not count the passes"),
        ("mariadb", "10.11.14", LACKS_1011, "wait for the page cleaner"),
    ],
)
def test_where_the_victim_path_cannot_be_told_the_report_says_why(
    tmp_path: Path, engine: str, version: str, lacks: tuple[str, ...], why: str
) -> None:
    found = report(tmp_path, engine=engine, kind=Innodb(version=version, lacks=lacks), blocks=3)
    assert section(found, "victim-path").blocks == ()
    assert why in section(found, "victim-path").intro
    assert why in found.answer
    assert "the effective cache falls by" in found.answer
    assert isinstance(found.headline and found.headline.plot, PanelsPlot)
    assert len(found.headline.plot.panels) == 2  # type: ignore[union-attr]
    assert not any(check.status == "failed" for check in found.checks)


def test_the_server_is_shown_from_inside(deep: Report) -> None:
    blocks = {block.id: block for block in section(deep, "innodb").blocks}
    courses = ("lru-batch-writes-per-s", "flush-list-writes-per-s", "free-list-pages", "dirty-share")
    drawn = [f"innodb-over-time-{course}" for course in courses]
    assert list(blocks) == ["pool-levels", "flush-rates", *drawn, "server-work"]
    course = blocks["innodb-over-time-free-list-pages"]
    assert isinstance(course, Figure)
    assert isinstance(course.plot, TimePlot)
    free = course.plot.traces[0][0].values
    assert max(value for value in free if value) > min(value for value in free if value)
    levels = blocks["pool-levels"]
    assert isinstance(levels, Table)
    assert all(cell.startswith("30.0") or cell.startswith("29.99") for cell in column(levels, "Dirty"))


def test_a_point_whose_runs_failed_is_a_row_of_dashes_in_every_table_of_points(tmp_path: Path) -> None:
    statuses = {(1, block): ("failed", "the server went away") for block in range(2)}
    found = report(tmp_path, blocks=2, statuses=statuses)
    for id in ("scan-depth-points", "victim-path-table", "pool-levels", "flush-rates", "server-work", "device"):
        one = table(found, id)
        (failed,) = [row for row in one.rows if row.mark == "failed"]
        assert failed.cells[:2] == ("256", "0"), id
        assert set(failed.cells[2:]) == {"–"}, id
        assert len(one.rows) == 5, id


def test_every_share_of_an_innodb_server_is_shown_per_cent(deep: Report) -> None:
    shares = {
        "pool-levels": ("of the pool", "Dirty"),
        "victim-path-table": ("Free list", "LRU scan", "Single page", "Given back"),
        "server-work": ("Doublewritten pages / pages written", "Read-ahead of all reads"),
        "device": ("Merged, of all reads (%rrqm)", "Device busy (%util)"),
    }
    for id, titles in shares.items():
        for title in titles:
            assert all(cell.endswith(" %") for cell in column(table(deep, id), title)), (id, title)


def test_a_pool_that_was_rounded_up_is_said_with_its_rule_and_marked(tmp_path: Path) -> None:
    kind = Innodb(asked_pool="210MiB", pool_bytes=256 * MIB)
    sweep = scan_depth(kind=kind, blocks=2, transactions=SHORT)
    found = build_report(build(tmp_path, sweep))
    rule = "sizes are rounded up to chunks of 128 MiB times 1"
    assert section(found, "innodb").intro == f"210 MiB asked is 256 MiB run: {rule}."
    pools = table(found, "sizes")
    assert column(pools, "Asked in bytes") == ["210 MiB"] * 5
    assert column(pools, "Pool") == ["256 MiB"] * 5
    assert column(pools, "Frames") == ["16,384"] * 5
    assert {row.mark for row in pools.rows} == {"differs"}
    settings = {row.cells[0]: row for row in table(found, "engine").rows}
    assert settings["pool_size"].cells[3] == f"differs from what was asked by 46 MiB: {rule}"
    assert settings["pool_size"].mark == "differs"
    assert settings["io_capacity"].cells[3] == "the server's own"
    assert settings["io_capacity"].mark == ""


def test_settings_that_differ_between_points_unasked_are_called_confounded(tmp_path: Path) -> None:
    class Eight(Innodb):
        def settings(self, sweep: Sweep, truth: Any) -> tuple[dict[str, str], dict[str, Any]]:
            asked, actual = super().settings(sweep, truth)
            return asked, {**actual, "buffer_pool_instances": 8 if truth.depth == 2048 else 1}

    found = report(tmp_path, kind=Eight(), blocks=2)
    assert "Confounded: innodb_buffer_pool_instances is 1 and 8 at different points" in section(found, "innodb").intro
    assert column(table(found, "scan-depth-points"), "Of the pool")[-1] == "256 %"


def test_a_chunk_that_is_the_pool_of_each_point_is_shown_at_each_and_is_not_confounded(tmp_path: Path) -> None:
    note = "set by bufferlab: one chunk for each instance"

    class OneChunk(Innodb):
        def settings(self, sweep: Sweep, truth: Any) -> tuple[dict[str, str], dict[str, Any]]:
            asked, actual = super().settings(sweep, truth)
            return {**asked, "buffer_pool_chunk_size": "auto"}, {
                **actual,
                "buffer_pool_chunk_size": actual["pool_size"],
            }

        def notes(self) -> dict[str, str]:
            return {"buffer_pool_chunk_size": note}

    pools = zip(SCAN_DEPTH[::2], ("10%", "20%", "40%"), strict=True)
    truths = tuple(replace(truth, pool=pool) for truth, pool in pools)
    found = report(tmp_path, truths=truths, kind=OneChunk(axis="pool_size"), blocks=2)
    assert "Confounded" not in section(found, "innodb").intro
    rows = [row.cells for row in table(found, "engine").rows if row.cells[0].startswith("buffer_pool_chunk_size")]
    assert [cells[0] for cells in rows] == [f"buffer_pool_chunk_size at {pool}" for pool in ("10 %", "20 %", "40 %")]
    assert len({cells[2] for cells in rows}) == 3
    assert {cells[3] for cells in rows} == {note}


def test_an_innodb_sweep_of_pools_keeps_the_headlines_answer_and_tells_redo_instead_of_a_log_it_has_not(
    tmp_path: Path,
) -> None:
    truths = tuple(
        replace(truth, pool=pool) for truth, pool in zip(SCAN_DEPTH[::2], ("10%", "20%", "40%"), strict=True)
    )
    found = report(tmp_path, truths=truths, kind=Innodb(axis="pool_size"), blocks=3)
    assert found.answer.startswith("Reads per New-Order")
    assert not any(section.id == "scan-depth" for section in found.sections)
    titles = [column.title for column in table(found, "all-steps").columns]
    assert "Redo bytes per New-Order" in titles
    assert "Server CPU per transaction" in titles
    assert "Log bytes written per New-Order" not in titles
    assert section(found, "victim-path").blocks


def test_other_engines_have_none_of_these_chapters(tmp_path: Path) -> None:
    found = build_report(build(tmp_path, Sweep(blocks=2)))
    assert not {"victim-path", "innodb", "scan-depth"} & {section.id for section in found.sections}


@pytest.mark.figures
def test_every_figure_of_the_report_is_drawn_alike_twice_in_the_pages_own_colours(deep: Report) -> None:
    figures = figures_of(deep)
    assert len({figure.id for figure in figures}) == len(figures)
    for figure in figures:
        assert "#1b1f24" not in for_page(draw(figure), figure)
    for figure in {type(figure.plot): figure for figure in figures}.values():
        assert draw.__wrapped__(figure) == draw(figure)


def test_all_formats_are_written(tmp_path: Path) -> None:
    folder = build(tmp_path, scan_depth(blocks=2, transactions=SHORT))
    publish(folder)
    assert (folder.path / "figures/scan-depth-figure.svg").is_file()
    assert (folder.path / "figures/victim-path-figure.svg").is_file()
    assert "With every doubling of the scan depth" in (folder.path / "report.md").read_text()
    shares = folder.summary().filter(folder.summary()["metric"] == "single_page_share")
    assert shares.height


def test_a_scan_depth_below_zero_which_no_server_has_makes_no_trend(tmp_path: Path) -> None:
    sweep = build(tmp_path, scan_depth(transactions=SHORT, blocks=2))
    reseal(sweep, lambda run: run["settings"]["lru_scan_depth"].update(actual=-1))
    assert build_report(sweep).answer
