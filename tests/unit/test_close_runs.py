"""A report names the points whose few runs agree more closely than independent counts do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.report import answer, close_runs
from support.synthetic import BUFFER_SIZE, Sweep, build


def analysed(folder: Path, noise: float, noise_at: dict[int, float], points: int = 3) -> Analysis:
    sweep = Sweep(truths=BUFFER_SIZE[:points], noise=noise, noise_at=noise_at, block_noise=0.0)
    return Analysis.of(build(folder, sweep))


def test_a_point_whose_runs_agree_by_luck_is_named_alone(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, 0.015, {1: 1e-5})
    said = close_runs.sentence(analysis, analysis.headline)
    assert said is not None
    assert f"The runs of {analysis.short_label(analysis.points[1])} agree more closely" in said
    assert said in answer.limits(analysis)


def test_a_single_point_has_no_others_to_be_held_against_and_is_named(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, 1e-5, {}, points=1)
    assert close_runs.sentence(analysis, analysis.headline)


@pytest.mark.parametrize(
    ("noise", "noise_at"),
    [(0.015, {}), (0.0, {}), (1e-5, {}), (1e-5, {1: 0.015})],
    ids=["as counts scatter", "each run alike", "all agree", "most agree"],
)
def test_counts_that_scatter_and_runs_that_read_the_same_pages_are_not_named(
    tmp_path: Path, noise: float, noise_at: dict[int, float]
) -> None:
    analysis = analysed(tmp_path, noise, noise_at)
    assert close_runs.sentence(analysis, analysis.headline) is None


def test_throughput_counts_no_events(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, 1e-5, {}, points=1)
    assert close_runs.sentence(analysis, analysis.work_per_s) is None


def test_independent_counts_are_named_in_one_sweep_of_a_hundred_at_most() -> None:
    random = np.random.default_rng(7)
    named = sum(close_runs.is_close(list(draw), float(draw.mean()), 0.01) for draw in random.poisson(900, (4000, 3)))
    assert named <= 40 + 3 * 40**0.5


def test_half_of_the_points_are_not_named_nor_are_pairs_of_runs(tmp_path: Path) -> None:
    half = analysed(tmp_path / "half", 0.015, {1: 1e-5}, points=2)
    assert close_runs.sentence(half, half.headline) is None
    pairs = Analysis.of(build(tmp_path / "pairs", Sweep(blocks=2, noise_at={1: 1e-5}, block_noise=0.0)))
    assert close_runs.sentence(pairs, pairs.headline) is None
