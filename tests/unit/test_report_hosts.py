"""Reports of sweeps that several hosts measured: hosts as a factor, and the claims that are allowed across hosts."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bufferlab.chapter import analysis as of_analysis
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Table
from bufferlab.registry import open_sweep
from bufferlab.report.answer import answer
from bufferlab.report.build import build as build_report
from bufferlab.report.chapters.hosts import differ_more
from bufferlab.report.comparison.compare_metrics import compare_sides
from bufferlab.report.comparison.sides import of_two_folders
from bufferlab.report.findings import instead
from bufferlab.results.blocks import said as named
from bufferlab.results.store import SweepFolder
from bufferlab.stats.fit import Cell
from bufferlab.stats.hosts import compare_hosts
from support.synthetic import HOST, Sweep, Truth, build
from support.synthetic_connections import connections
from support.synthetic_innodb import scan_depth

READS = "reads_per_new_order"


def across(folder: SweepFolder, *blocks: list[int]) -> SweepFolder:
    """Turn a folder into a merged one, with a host for each list of blocks."""
    stamp = {"format": "bufferlab-sweep", "format_version": 2}
    hosts = [{"host": {**HOST, "boot_key": str(number)}, "blocks": of} for number, of in enumerate(blocks)]
    (folder.path / "hosts.json").write_text(json.dumps({"hosts": hosts, **stamp}))
    return open_sweep(folder.path)


def test_the_interval_of_two_hosts_is_students_of_two_samples() -> None:
    rng = np.random.default_rng(3)
    effects = rng.normal(0, 0.1, 9)
    cells: list[Cell] = [
        (point, block, math.exp(effects[block] + point + (0.3 if block >= 5 else 0.0)))
        for point in range(3)
        for block in range(9)
    ]
    found = compare_hosts(cells, {block: block >= 5 for block in range(9)})
    assert found is not None
    means = [np.mean([math.log(value) for _, at, value in cells if at == block]) for block in range(9)]
    expected = stats.ttest_ind(means[5:], means[:5]).confidence_interval(0.95)
    ratio = found.ratios[True]
    assert (ratio.n, ratio.df) == (4, 7)
    assert [ratio.ci_low, ratio.ci_high] == pytest.approx([math.exp(expected.low), math.exp(expected.high)])
    assert found.points_factor == pytest.approx(math.exp(2))
    assert found.hosts_factor == pytest.approx(ratio.value)
    assert not found.differ_more


def test_a_host_that_differs_from_the_first_by_chance_alone_is_told_apart_in_one_case_of_twenty() -> None:
    rng = np.random.default_rng(5)
    host_of = {block: block % 3 for block in range(9)}
    wrong = 0
    for _ in range(1000):
        cells: list[Cell] = [(0, block, math.exp(effect)) for block, effect in enumerate(rng.normal(0, 0.2, 9))]
        found = compare_hosts(cells, host_of)
        assert found is not None
        wrong += any(not (one.ci_low or 0) <= 1 <= (one.ci_high or 0) for one in found.ratios.values())
    assert 20 <= wrong <= 70, "5 % of 1,000 over both intervals together; Sidak's level is a bound"


def test_hosts_of_one_block_each_have_ratios_without_an_interval() -> None:
    found = compare_hosts([("a", 0, 2.0), ("b", 0, 4.0), ("a", 1, 3.0), ("b", 1, 6.0)], {0: "x", 1: "y"})
    assert found is not None
    assert found.ratios["y"].value == pytest.approx(1.5)
    assert not found.ratios["y"].has_interval
    assert "one block a host" in str(found.ratios["y"].note)
    assert found.points_factor == pytest.approx(2.0)


def test_rounding_is_no_scatter_of_the_blocks_of_a_host() -> None:
    cells: list[Cell] = [
        ("a", block, value * times) for block, (value, times) in enumerate(product((10.0, 15.0), (1.0, 1 + 1e-15)))
    ]
    found = compare_hosts(cells, {0: "x", 1: "x", 2: "y", 3: "y"})
    assert found is not None
    ratio = found.ratios["y"]
    assert ratio.value == pytest.approx(1.5)
    assert not ratio.has_interval
    assert "no noise" in str(ratio.note)


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param([("a", 0, 1.0), ("b", 0, 1.0), ("a", 1, 1.0)], id="a host without a whole block"),
        pytest.param([("a", 0, 1.0), ("a", 1, 0.0)], id="a figure that is not above zero"),
        pytest.param([], id="no figure"),
    ],
)
def test_there_is_no_ratio_where_nothing_tells_it(cells: list[Cell]) -> None:
    assert compare_hosts(cells, {0: "x", 1: "y"}) is None


def test_one_whole_block_claims_nothing_across_hosts_and_is_refused_by_name(tmp_path: Path) -> None:
    lost = Sweep(blocks=2, statuses={(2, 1): ("failed", "the server went away")})
    folder = build(tmp_path, lost)
    assert " fall " in answer(Analysis.of(folder)), "one host may claim it from so few runs"
    merged = across(folder, [0], [1])
    said = answer(Analysis.of(merged))
    assert said.startswith("Reads per New-Order: not claimed (1 whole block, a claim across 2 hosts needs 2).")
    assert {step.direction for step in build_report(merged).data.steps} & {"falls", "rises"} == set()


def test_no_sentence_of_an_experiments_own_claims_across_hosts_from_too_few_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged = across(build(tmp_path, scan_depth()), [0, 1], [2, 3, 4])
    assert instead(Analysis.of(merged)) != "", "five blocks may claim a trend"
    monkeypatch.setattr(of_analysis, "_LEAST_ACROSS_HOSTS", 6)
    few = Analysis.of(merged)
    assert instead(few) == ""
    assert "5 whole blocks, a claim across 2 hosts needs 6" in answer(few)


def test_a_point_that_ran_nowhere_makes_no_block_incomplete(tmp_path: Path) -> None:
    never = {(2, block): ("failed", "the server refuses it") for block in range(3)}
    merged = across(build(tmp_path, Sweep(blocks=3, statuses=never)), [0, 1], [2])
    assert Analysis.of(merged).whole_blocks == (0, 1, 2)


def test_the_claim_from_few_runs_of_one_host_does_not_apply_across_hosts(tmp_path: Path) -> None:
    folder = build(tmp_path, Sweep(blocks=2))
    alone = Analysis.of(folder).fit(READS)
    together = Analysis.of(across(folder, [0], [1])).fit(READS)
    assert alone is not None
    assert together is not None
    assert alone.step(0, 1).times is not None
    assert (together.step(0, 1).times, together.step(0, 1).n) == (None, 2)


def flat(folder: Path) -> tuple[SweepFolder, list[int]]:
    """Return a sweep whose points hardly differ, and its blocks in the order of their reads."""
    truths = (Truth("10%", 20.0), Truth("20%", 19.9))
    sweep = build(folder, Sweep(truths=truths, blocks=8, block_noise=0.5, noise=0.001))
    values = Analysis.of(sweep).points[0].values(READS)
    return sweep, [int(str(block)) for _, block, _ in sorted(values, key=lambda cell: cell[2])]


def test_hosts_that_differ_more_than_points_are_named(tmp_path: Path) -> None:
    sweep, order = flat(tmp_path)
    low, high = sorted(order[:4]), sorted(order[4:])
    report = build_report(across(sweep, low, high))
    (said,) = (limit for limit in report.limits if "Hosts differ more than points in reads per New-Order" in limit)
    assert "means are of these hosts alone" in said
    (chapter,) = (section for section in report.sections if section.id == "hosts")
    assert f"host 1: {named(low)}; host 2: {named(high)}" in chapter.intro
    (table,) = chapter.blocks
    assert isinstance(table, Table)
    assert table.columns[1].title == "Host 2 / host 1"
    row = next(row for row in table.rows if row.cells[0] == "Reads per New-Order")
    assert row.mark == "differs"
    assert "(" in row.cells[1], "an interval"
    setup = next(section for section in report.sections if section.id == "setup")
    titles = [block.title for block in setup.blocks]
    assert [title for title in titles if title.startswith("Host")] == [
        f"Host 1, {named(low)}",
        f"Host 2, {named(high)}",
    ]
    assert f"Device of the data of host 2, {named(high)}" in titles


def test_hosts_of_a_sweep_of_connections_are_compared_in_throughput(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_analysis, "LONG_WINDOW_SECONDS", 0.1)
    level = connections((1, 2), contention=1.0, coherency=0.0, blocks=8, throughput_noise=0.2)
    sweep = build(tmp_path, level)
    analysis = Analysis.of(sweep)
    speeds = [{block: value for _, block, value in point.values(analysis.work_per_s)} for point in analysis.points]
    order = sorted(range(8), key=lambda block: math.prod(of[block] for of in speeds))
    (said,) = differ_more(Analysis.of(across(sweep, sorted(order[:4]), sorted(order[4:]))))
    assert "per second (up to" in said


def test_hosts_that_differ_by_the_chance_of_their_blocks_are_not_named(tmp_path: Path) -> None:
    sweep, order = flat(tmp_path)
    report = build_report(across(sweep, sorted(order[::2]), sorted(order[1::2])))
    assert not any("Hosts differ more" in limit for limit in report.limits)


def test_points_that_differ_more_than_hosts_bring_no_such_sentence(tmp_path: Path) -> None:
    report = build_report(across(build(tmp_path, Sweep(blocks=4)), [0, 2], [1, 3]))
    assert not any("Hosts differ more than points in reads" in limit for limit in report.limits)
    assert any(limit.startswith("2 hosts, each with its own blocks") for limit in report.limits)
    assert report.headline is not None
    assert "· 2 hosts ·" in report.headline.source


def test_a_sweep_of_one_host_has_no_chapter_on_hosts(tmp_path: Path) -> None:
    report = build_report(across(build(tmp_path, Sweep(blocks=2)), [0, 1]))
    assert [section.id for section in report.sections if section.id == "hosts"] == []
    assert any(limit.startswith("One host, one device") for limit in report.limits)


def test_a_comparison_with_a_sweep_of_many_hosts_says_so(tmp_path: Path) -> None:
    one = build(tmp_path / "one", Sweep(blocks=4))
    many = across(build(tmp_path / "many", Sweep(blocks=4, seed=2)), [0, 1], [2, 3])
    found = compare_sides(of_two_folders(one, many))
    assert "The hosts differ: A was measured on 1 host, B on 2 hosts." in found.warnings
