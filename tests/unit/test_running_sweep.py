"""A running or interrupted sweep: the word for it in its report, and how incomplete blocks are judged."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Hashable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from bufferlab import spec
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.errors import EnvironmentLackingError
from bufferlab.execute.host.storage import folder_lock
from bufferlab.execute.progress import Pace
from bufferlab.registry import open_sweep
from bufferlab.report.build import build as build_report
from bufferlab.report.build import publish
from bufferlab.report.html import render_html
from bufferlab.report.running import Running, write_page
from bufferlab.results.store import SweepFolder
from support.fake import Bench, Heard
from support.synthetic import Sweep, build


def without(sweep: SweepFolder, *cells: tuple[int, int]) -> SweepFolder:
    """Return the sweep without these runs, each given as a point and a block."""
    for record in sweep.runs():
        if (record.run.point.index, record.run.block) in cells:
            shutil.rmtree(record.folder)
    return open_sweep(sweep.path)


def test_while_runs_are_added_the_report_says_running_and_not_interrupted(tmp_path: Path) -> None:
    sweep = without(build(tmp_path, Sweep(blocks=2)), (3, 1), (4, 1))
    with folder_lock(sweep.path):
        running = build_report(sweep)
    after = build_report(sweep)
    assert (running.status, after.status) == ("running", "ok")
    assert "Running: 8 runs are done, and more are to come." in running.warnings
    assert not [text for text in running.warnings if "are missing" in text]
    assert [text for text in after.warnings if text.startswith("Interrupted: 2 of 10 runs are missing")]


def test_one_run_that_is_done_is_told_in_the_singular(tmp_path: Path) -> None:
    sweep = without(build(tmp_path, Sweep(blocks=1)), (1, 0), (2, 0), (3, 0), (4, 0))
    with folder_lock(sweep.path):
        assert "Running: 1 run is done, and more are to come." in build_report(sweep).warnings


def test_only_the_page_of_a_sweep_that_runs_refreshes_itself(tmp_path: Path) -> None:
    sweep = without(build(tmp_path, Sweep(blocks=2)), (4, 1))
    refresh = '<meta http-equiv="refresh" content="5">'
    with folder_lock(sweep.path):
        assert refresh in render_html(replace(build_report(sweep), headline=None, sections=()))
    assert refresh not in render_html(replace(build_report(sweep), headline=None, sections=()))


def test_the_page_of_a_sweep_that_runs_says_when_it_was_written_and_which_silence_is_an_end(tmp_path: Path) -> None:
    sweep = without(build(tmp_path, Sweep(blocks=2)), (4, 1))
    before = datetime.now(UTC).replace(microsecond=0)
    write_page(Running().answer(sweep, sweep.runs(), 30), sweep, 301)
    page = (sweep.path / "report.html").read_text()
    told = re.search(r"written ([-0-9]+ [:0-9]+) UTC", page)
    assert told
    assert before <= datetime.fromisoformat(f"{told[1]}+00:00") <= datetime.now(UTC)
    assert f"more than 6 min ago, the sweep was probably stopped: bufferlab report {sweep.path}" in page
    publish(sweep)
    assert "probably stopped" not in (sweep.path / "report.html").read_text()


def test_the_silence_that_is_an_end_follows_the_longest_run(tmp_path: Path) -> None:
    pace = Pace(load_seconds=10, run_seconds=30, runs=4)
    assert pace.longest_s == 30
    for seconds in (5, 20, 10):
        pace.finish(0, seconds)
    assert pace.longest_s == 20
    bench, heard = Bench(tmp_path), Heard()
    bench.measure(bench.experiment(repetitions=1), heard)
    silent = spec.loads(bench.sweep().experiment_toml, "experiment.toml").limits.worker_silent
    assert all(standing.silence_s > silent for standing in heard.looks)
    assert heard.looks[1].silence_s != heard.looks[0].silence_s, "the first run was timed"


def test_looking_whether_a_sweep_runs_holds_nothing(tmp_path: Path) -> None:
    sweep = build(tmp_path, Sweep(blocks=1))
    assert not sweep.is_running
    with folder_lock(sweep.path):
        assert sweep.is_running
        with pytest.raises(EnvironmentLackingError, match="another process is adding runs"), folder_lock(sweep.path):
            pass
    before = len(os.listdir("/proc/self/fd"))
    assert not sweep.is_running
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_run_that_failed_is_not_missing(tmp_path: Path) -> None:
    whole = build(tmp_path, Sweep(blocks=2))
    failed = [replace(record, run=record.run.model_copy(update={"status": "failed"})) for record in whole.runs()[:1]]
    assert Analysis.of(whole, [(record, None) for record in failed]).missing_cells == whole.planned_cells - {
        (record.run.point.index, record.run.block) for record in failed
    }
    assert Analysis.of(without(whole, (3, 1), (4, 1))).missing_cells == {(3, 1), (4, 1)}


@pytest.mark.parametrize("lacking", [(4,), (1, 3), (0, 1, 2, 3), (0, 2, 4)])
def test_steps_of_counts_stay_resolved_while_the_second_block_is_not_whole(
    tmp_path: Path, lacking: tuple[int, ...]
) -> None:
    analysis = Analysis.of(without(build(tmp_path, Sweep(blocks=2)), *((point, 1) for point in lacking)))
    (group,) = analysis.groups
    found = analysis.verdicts(analysis.headline, group)
    assert found is not None
    assert [step.direction for step in (*found.steps, found.span)] == ["falls"] * 5
    assert found.shape == "falls_at_every_step"


def test_no_step_is_unresolved_whose_means_have_intervals_that_lie_apart(tmp_path: Path) -> None:
    whole = build(tmp_path, Sweep(blocks=3, noise=0.01, block_noise=0.01))
    records = {(record.run.point.index, record.run.block): record for record in whole.runs()}
    read = {cell: (record, record.measured()) for cell, record in records.items()}
    for block, count in ((1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (2, 4)):
        for done in combinations(range(5), count):
            cells = [cell for cell in read if cell[1] < block or (cell[1] == block and cell[0] in done)]
            analysis = Analysis.of(whole, [read[cell] for cell in cells])
            for metric in ("reads_per_new_order", "new_orders_per_s"):
                for a, b in pairwise(analysis.points):
                    means, verdict = (
                        [analysis.mean(metric, point) for point in (a, b)],
                        analysis.verdict(metric, a.index, b.index),
                    )
                    assert verdict is not None
                    if all(mean and mean.has_interval for mean in means):
                        (low, high) = sorted((mean for mean in means if mean), key=lambda mean: mean.value)
                        apart = (low.ci_high or 0) < (high.ci_low or 0)
                        assert verdict.direction != "not_resolved" or not apart, (metric, cells, a.label, b.label)


def test_a_point_whose_only_values_are_of_a_block_that_is_not_whole_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis = Analysis.of(without(build(tmp_path, Sweep(blocks=2)), (4, 1)))
    whole = PointRuns.values

    def values(point: PointRuns, metric: str) -> list[tuple[Hashable, Hashable, float]]:
        return [value for value in whole(point, metric) if point.index != 1 or value[1] == 1]

    monkeypatch.setattr(PointRuns, "values", values)
    for metric in (analysis.headline, analysis.work_per_s):
        fit = analysis.fit(metric)
        assert fit
        assert {point for pair in fit.comparisons for point in pair} <= set(fit.points)
        assert (1 in fit.points) is (metric == analysis.headline)
        assert [fit.step(a, b) for a, b in fit.comparisons]
