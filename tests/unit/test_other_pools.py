"""Reads of other pools, from a sweep's own traces: the run that predicts them, the pool sizes, and the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.errors import DataFileError, Interrupted
from bufferlab.models import other_pools as module
from bufferlab.models.other_pools import other_pools
from bufferlab.models.predict import predict, target
from bufferlab.models.source import read
from bufferlab.report.build import build as build_report
from bufferlab.report.chapters.other_pools import _figure, _groups, _lead
from bufferlab.report.chapters.other_pools import other_pools as chapter
from bufferlab.report.figures.svg import draw
from bufferlab.results.metrics import WORK
from bufferlab.results.page_traces import OtherPools, Verdict
from bufferlab.results.store import OTHER_POOLS_FILE, SweepFolder
from bufferlab.spec import Overrides
from bufferlab.traces.middle_run import groups, middle, pool_bytes_of
from bufferlab.units import KIB
from support.traced import GET, Access, build, repeat

LOOP: list[Access] = [(page, GET) for page in range(300)]
POOLS = 'pool_size = ["512KiB", "1024KiB", "2048KiB"]'


def nothing(_share: float = 0.0) -> None:
    """Report progress to no display, and request no stop."""


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """Return a sweep of three pools, whose smallest was traced: a loop that only the largest pool holds."""
    return repeat(build(tmp_path, LOOP, LOOP + LOOP, sweep=POOLS, reads=600), [[600], [605, 595], [0]])


def test_the_traced_run_tells_the_reads_of_the_measured_pools_and_of_those_between(sweep: SweepFolder) -> None:
    (of,), why_not = other_pools(sweep, nothing)
    assert why_not == []
    assert [pool.pool_bytes // KIB for pool in of.pools] == [512, 724, 1024, 1448, 2048]
    # Pools of 128, 181 and 256 frames miss every page of a loop of 300 pages; 362 and 512 frames hold the loop.
    assert [pool.reads for pool in of.pools] == [600, 600, 600, 0, 0]
    assert [pool.is_traced_point for pool in of.pools] == [True, False, False, False, False]
    assert [verdict.name for verdict in of.pools[-1].verdicts] == ["holds_all"]
    assert (of.model, of.traced.measured_reads, of.traced.modelled_reads) == ("sqlite", 600, 600)


def test_the_run_that_tells_has_the_middle_pool_of_points_that_differ_in_nothing_else(
    sweep: SweepFolder, tmp_path: Path
) -> None:
    (group,) = groups(sweep.runs())
    assert pool_bytes_of(middle(group)) == 1024 * KIB
    sizes = f'page_size = ["4KiB", "8KiB"]\n{POOLS}'
    both = repeat(build(tmp_path / "both", LOOP, LOOP, sweep=sizes), [[600]] * 6)
    assert [len(one) for one in groups(both.runs())] == [4, 3], "one point has two runs"


def test_they_are_what_predict_tells(sweep: SweepFolder) -> None:
    of = other_pools(sweep, nothing)[0][0]
    predicted = target(read(sweep.path), Overrides())
    points = {one.pool_bytes: one for one in (predict(predicted, point, nothing) for point in predicted.plan.points)}
    for pool in of.pools:
        if one := points.get(pool.pool_bytes):
            assert one.found is not None
            assert (one.found.reads, one.pool_frames, one.verdicts) == (pool.reads, pool.pool_frames, pool.verdicts)


def test_between_measured_pools_nothing_is_replayed_where_that_would_take_long(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_BETWEEN", 100)
    assert [pool.pool_bytes // KIB for pool in other_pools(sweep, nothing)[0][0].pools] == [512, 1024, 2048]


def test_the_only_pool_of_a_sweep_has_others_around_it(tmp_path: Path) -> None:
    sweep = build(tmp_path, LOOP, LOOP, sweep='pool_size = ["512KiB"]', reads=300)
    assert [pool.pool_bytes // KIB for pool in other_pools(sweep, nothing)[0][0].pools] == [
        128,
        256,
        512,
        1024,
        2048,
    ]


@pytest.mark.parametrize(("status", "what"), [("failed", "failed"), ("dropped", "was dropped")])
def test_a_sweep_without_a_good_trace_says_why(tmp_path: Path, status: str, what: str) -> None:
    found, why_not = other_pools(build(tmp_path, LOOP, LOOP, trace={"status": status, "reason": "full"}), nothing)
    assert (found, why_not) == ([], [f"the page trace {what}: full"])


def test_a_stop_ends_the_replays(sweep: SweepFolder) -> None:
    def stop(_share: float) -> None:
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        other_pools(sweep, stop)


def test_it_tells_how_many_of_the_pools_are_replayed(sweep: SweepFolder) -> None:
    shares: list[float] = []
    other_pools(sweep, shares.append)
    # Five pools of one group; the progress of a long replay is reported again.
    assert list(dict.fromkeys(shares)) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])


def kept(sweep: SweepFolder) -> SweepFolder:
    sweep.write_other_pools(OtherPools(of=other_pools(sweep, nothing)[0]))
    return sweep


def test_the_report_shows_the_line_beside_the_measured_points_and_replays_nothing(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(sweep)
    monkeypatch.setattr("bufferlab.models.predict.replay", lambda *_: pytest.fail("a report replays nothing"))
    report = build_report(sweep)
    (section,) = [one for one in report.sections if one.id == "other-pools"]
    figure, table = section.blocks
    labels = {one.label: [dot.mean for dot in one.dots] for one in figure.plot.series}
    assert labels["predicted by the model sqlite"] == [150.0, 150.0, 150.0]
    assert labels["predicted, with a doubt"] == [0.0, 0.0]
    assert labels["measured"] == pytest.approx([150.0, 150.0, 0.0], abs=1.0)
    assert labels["the traced run, as counted"] == [150.0]
    assert [row.cells[0] for row in table.rows] == ["512 KiB", "724 KiB", "1 MiB", "1.41 MiB", "2 MiB"]
    assert [row.cells[1] != "" for row in table.rows] == [True, False, True, False, True]
    assert table.rows[-1].cells[-1] == "holds all"
    assert "At the traced run's own point" in section.intro
    assert "holds all 300 pages" in section.intro


def test_points_that_differ_in_more_than_the_pool_have_a_panel_each(tmp_path: Path) -> None:
    two = 'pool_size = ["512KiB", "1024KiB"]\nsynchronous = ["off", "normal"]'
    sweep = kept(repeat(build(tmp_path, LOOP, LOOP, sweep=two, reads=300), [[300], [300], [300], [300]]))
    found, why_not = other_pools(sweep, nothing)
    assert len(found) == 1, "the other group has no trace"
    assert why_not == ["there is no page trace"]
    section = chapter(Analysis.of(sweep))
    assert section is not None
    assert section.intro.startswith("With synchronous off: at the traced run's own point")
    (group,) = _groups(Analysis.of(sweep), found)
    doubt = Verdict(name="short_trace", sentence="1 of 2 reads are first ones: a longer trace would predict fewer")
    pools = [pool.model_copy(update={"verdicts": [doubt]}) for pool in group.of.pools]
    doubted = replace(group, of=group.of.model_copy(update={"pools": pools}))
    both = " ".join(_lead([doubted, replace(doubted, label="synchronous normal")]))
    assert both.endswith("with synchronous normal. All pools: a longer trace would predict fewer.")
    assert " ".join(_lead([doubted, replace(group, label="other")])).count("With synchronous off: All pools: ") == 1
    figure = _figure(Analysis.of(sweep), [group, replace(group, label="synchronous normal")])
    assert [panel.title for panel in figure.plot.panels] == ["synchronous off", "synchronous normal"]
    assert {row.cells[0].split(",")[0] for row in figure.data.rows} == {"synchronous off", "synchronous normal"}
    assert "<svg" in draw(figure)


def test_where_all_predictions_have_a_doubt_the_line_keeps_its_colour(sweep: SweepFolder) -> None:
    analysis = Analysis.of(kept(sweep))
    (group,) = _groups(analysis, other_pools(sweep, nothing)[0])
    doubt = group.of.pools[-1].verdicts
    doubted = [pool.model_copy(update={"verdicts": doubt}) for pool in group.of.pools]
    figure = _figure(analysis, [replace(group, of=group.of.model_copy(update={"pools": doubted}))])
    assert [(one.label, len(one.dots)) for one in figure.plot.series] == [
        ("predicted by the model sqlite", 0),
        ("predicted, with a doubt", 5),
        ("measured", 3),
        ("the traced run, as counted", 1),
    ]
    assert figure.plot.curves[0].series == 0
    assert "<svg" in draw(figure)


def test_pools_with_the_same_doubt_share_a_sentence_and_reads_have_the_figures_unit(sweep: SweepFolder) -> None:
    (group,) = _groups(Analysis.of(kept(sweep)), other_pools(sweep, nothing)[0])
    pools = [
        pool.model_copy(
            update={"verdicts": [Verdict(name="short_trace", sentence=f"filled {n} times: a trace is short")]}
        )
        for n, pool in enumerate(group.of.pools[:2])
    ]
    own, *doubts = _lead([replace(group, of=group.of.model_copy(update={"pools": pools}))])
    assert f"pages a {WORK[group.unit]}, where" in own
    assert doubts == ["All pools: a trace is short."]


def test_a_sweep_that_kept_nothing_has_no_chapter(sweep: SweepFolder) -> None:
    assert chapter(Analysis.of(sweep)) is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda document: document.update(format_version=2), "is damaged at format_version"),
        (lambda document: document["of"][0].update(pools=[]), "is damaged at of.0.pools"),
        (lambda document: document["of"][0]["traced"].update(page_trace_sha256="00"), "not of this sweep"),
        (lambda document: document["of"][0]["traced"].update(run_id="00"), "not of this sweep"),
        (lambda document: document["of"][0]["traced"].update(work={}), "is damaged"),
    ],
)
def test_a_file_that_is_damaged_or_of_other_runs_is_refused_by_name(
    sweep: SweepFolder, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    path = kept(sweep).path / OTHER_POOLS_FILE
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(DataFileError, match=says) as refused:
        sweep.other_pools()
    assert refused.value.where == str(path)
    assert "--resume" in str(refused.value.hint)
