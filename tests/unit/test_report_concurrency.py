"""A report on throughput against connections: which number of connections may be the best, and when that is claimed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bufferlab.chapter import analysis as of_analysis
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Figure, PointsPlot, Section, Table
from bufferlab.report.build import build as build_report
from bufferlab.report.chapters.concurrency import concurrency
from bufferlab.report.document import Report
from bufferlab.report.figures.svg import draw
from support.synthetic import Sweep, build
from support.synthetic_connections import Load, connections, law_per_s
from support.synthetic_innodb import Innodb


@pytest.fixture(autouse=True)
def _short_windows_may_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow claims from short windows: building a sweep with windows of minutes would take minutes."""
    monkeypatch.setattr(of_analysis, "LONG_WINDOW_SECONDS", 0.1)


def report(tmp_path: Path, sweep: Sweep) -> Report:
    return build_report(build(tmp_path, sweep))


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_analysis, "LONG_WINDOW_SECONDS", 0.1)
        return report(tmp_path_factory.mktemp("ordinary"), connections())


def chapter(found: Report) -> Section:
    (section,) = [section for section in found.sections if section.id == "concurrency"]
    return section


def cells(section: Section, id: str) -> dict[str, list[str]]:
    (found,) = [block for block in section.blocks if block.id == id]
    assert isinstance(found, Table)
    return {column.title: [row.cells[place] for row in found.rows] for place, column in enumerate(found.columns)}


def test_the_answer_names_the_numbers_that_may_be_the_best(ordinary: Report) -> None:
    found = ordinary
    # The synthetic curve has its peak at 12.6 connections, between 8 and 16.
    assert found.answer.startswith("Throughput is highest at ")
    assert "8 and 16 connections cannot be told apart as the best; each is " in found.answer
    assert found.answer.endswith("Our own client took at most 6 % of the processors, at 16 connections.")
    assert found.headline is not None
    plot = found.headline.plot
    assert isinstance(plot, PointsPlot)
    assert [dot.x for dot in plot.series[0].dots] == [1, 2, 4, 8, 16, 32, 64]
    assert "</svg>" in draw(found.headline)
    table = cells(chapter(found), "best-connections")
    assert dict(zip(table["Connections"], table["May be the best"], strict=True)) == {
        "1": "no", "2": "no", "4": "no", "8": "yes", "16": "yes", "32": "no", "64": "no"
    }  # fmt: skip
    behind = dict(zip(table["Connections"], table["Behind the best by at most"], strict=True))
    most, one = max(law_per_s(count, 500, 0.2, 0.005) for count in (8, 16)), law_per_s(1, 500, 0.2, 0.005)
    assert float(behind["1"].removesuffix(" %")) == pytest.approx(100 * (1 - one / most), abs=2)


def test_where_a_transactions_time_goes_adds_up(ordinary: Report) -> None:
    section = chapter(ordinary)
    times = cells(section, "transaction-times")

    def value(cell: str) -> float:
        mean, *bounds = map(float, re.findall(r"[\d.]+", cell))
        assert not bounds or bounds[0] <= mean <= bounds[1]
        return mean

    assert all(" (" in cell for cell in times["A transaction (ms)"])

    whole = [value(cell) for cell in times["A transaction (ms)"]]
    parts = ("Server's CPU (ms)", "Client's CPU (ms)", "Waiting for a processor (ms)", "Other waits (ms)")
    summed = [sum(value(times[part][place]) for part in parts) for place in range(len(whole))]
    assert summed == pytest.approx(whole, rel=0.01)
    # One connection at 500 a second takes 2 ms each; the server computes for 1.1 ms of it and our client for 0.08 ms.
    assert whole[0] == pytest.approx(2.0, rel=0.05)
    assert [value(times[part][0]) for part in parts[:3]] == pytest.approx([1.1, 0.08, 0.03], rel=0.01)
    assert times["Row-lock time per transaction (ms)"][0].startswith("0.4")


def test_the_second_figure_has_median_and_p99(ordinary: Report) -> None:
    section = chapter(ordinary)
    (figure,) = [block for block in section.blocks if isinstance(block, Figure)]
    assert isinstance(figure.plot, PointsPlot)
    assert [series.label for series in figure.plot.series] == ["median", "p99"]
    assert figure.plot.y_is_log
    assert "</svg>" in draw(figure)


@pytest.mark.parametrize(
    ("sweep", "why"),
    [
        (connections(client=2.0), "our own client took"),
        (connections(blocks=1), "one repetition: nothing says how much another would differ"),
    ],
)
def test_a_best_number_that_may_not_be_claimed_is_refused_in_words(tmp_path: Path, sweep: Sweep, why: str) -> None:
    found = report(tmp_path, sweep)
    assert "no number can be claimed as the best: " in found.answer
    assert why in found.answer
    assert "is highest at" in found.answer
    assert found.answer.count("own client took") == 1
    assert not [block for block in chapter(found).blocks if block.id == "best-connections"]


def test_a_single_best_number_is_named(tmp_path: Path) -> None:
    found = report(tmp_path, connections((1, 2, 4), coherency=0.0, contention=0.02, client=0.03))
    assert "is highest at 4 connections" in found.answer
    assert "more than at any other number of them" in found.answer


def test_short_windows_claim_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_analysis, "LONG_WINDOW_SECONDS", 60.0)
    answer = report(tmp_path, connections()).answer
    assert "no number can be claimed as the best: the runs allow no claim about a rate (window" in answer


def test_windows_of_transactions_ask_for_the_headline_and_show_the_chapter_all_the_same(tmp_path: Path) -> None:
    found = report(tmp_path, connections(measure=""))
    assert found.answer.startswith("Reads per New-Order")
    assert "Throughput is highest at " in chapter(found).intro


def test_every_pool_has_a_best_number_of_its_own(tmp_path: Path) -> None:
    small, large = connections().truths, connections(contention=0.05).truths
    truths = (*small, *(Load(**{**vars(truth), "pool": "200MiB"}) for truth in large))  # type: ignore[arg-type]
    kind = type(connections().kind)(pools=True)  # type: ignore[call-arg]
    found = report(tmp_path, connections(truths=truths, kind=kind))
    assert found.answer.count("is highest at") == 2
    assert set(cells(chapter(found), "best-connections")["Points"]) == {"pool size 100 MiB", "pool size 200 MiB"}


def test_a_pool_of_which_one_number_of_connections_was_measured_is_refused_in_words(tmp_path: Path) -> None:
    small, large = connections().truths, connections((8,)).truths
    truths = (*small, *(Load(**{**vars(truth), "pool": "200MiB"}) for truth in large))  # type: ignore[arg-type]
    kind = type(connections().kind)(pools=True)  # type: ignore[call-arg]
    found = report(tmp_path, connections(truths=truths, kind=kind, blocks=1))
    assert found.answer.count("no number can be claimed as the best") == 2


def test_other_sweeps_have_no_such_chapter(tmp_path: Path) -> None:
    assert isinstance(connections().kind, Innodb)
    assert concurrency(Analysis.of(build(tmp_path))) is None
