"""Simulations of what the intervals claim: they cover the truth, make few false claims, and find planted changes.

Every simulation has a seed and states its number of sweeps, so that a failure can be repeated. The binomial error of a
share of 1,000 near 0.95 is 0.7 %. `tools/simulate-statistics` repeats this over many more kinds of noise.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from bufferlab.stats.fit import Fit, fit

SWEEPS = 1000
TRUTH = np.log([31.2, 19.5, 9.7, 3.1, 0.9])
FLAT = np.zeros(5)


def sweeps(
    truth: npt.NDArray[np.float64],
    *,
    blocks: int,
    noise: float | list[float],
    block_noise: float,
    seed: int,
    missing: int = 0,
) -> Iterator[Fit]:
    """Return the fits of simulated sweeps: all noise is drawn at once, and some cells are left out at random."""
    rng = np.random.default_rng(seed)
    shape = (SWEEPS, len(truth), blocks)
    logs = truth[None, :, None] + rng.normal(size=shape) * np.reshape(noise, (1, -1, 1))
    logs += rng.normal(0, block_noise, (SWEEPS, 1, blocks)) if block_noise else 0.0
    values = np.exp(logs)
    for table in values:
        cells = [(i, j, float(table[i, j])) for i in range(len(truth)) for j in range(blocks)]
        if missing:
            for place in sorted(rng.choice(len(cells), missing, replace=False), reverse=True):
                del cells[place]
        pairs = [(i, i + 1) for i in range(len(truth) - 1)] + [(0, len(truth) - 1)]
        yield fit(sorted(cells), comparisons=pairs)


def any_claim(sweep: Fit) -> bool:
    """Return whether a sweep would call any comparison a difference."""
    steps = [sweep.step(a, b) for a, b in sweep.comparisons]
    return any((step.ci_low or 0) > 1 or (step.ci_high or 2) < 1 for step in steps)


@pytest.mark.parametrize(
    ("blocks", "noise", "block_noise", "missing"),
    [(3, 0.03, 0.0, 0), (3, 0.03, 0.03, 0), (3, 0.03, 0.1, 0), (5, 0.05, 0.02, 0), (3, 0.03, 0.02, 2)],
)
def test_95_per_cent_intervals_of_a_mean_cover_93_to_97(
    blocks: int, noise: float, block_noise: float, missing: int
) -> None:
    inside = 0
    for found in sweeps(TRUTH, blocks=blocks, noise=noise, block_noise=block_noise, seed=1, missing=missing):
        mean = found.mean(2)
        assert mean.ci_low is not None
        assert mean.ci_high is not None
        inside += mean.ci_low <= np.exp(TRUTH[2]) <= mean.ci_high
    assert 0.93 <= inside / SWEEPS <= 0.97, f"{inside} of {SWEEPS} intervals covered"


@pytest.mark.parametrize(("blocks", "missing"), [(3, 0), (5, 0), (3, 2)])
def test_all_steps_of_a_sweep_are_covered_together_in_93_per_cent_or_more(blocks: int, missing: int) -> None:
    """Šidák's correction is conservative for neighbours, and so is a noise that is estimated from both sides."""
    together = 0
    for found in sweeps(TRUTH, blocks=blocks, noise=0.04, block_noise=0.05, seed=2, missing=missing):
        steps = [(found.step(a, b), np.exp(TRUTH[b] - TRUTH[a])) for a, b in found.comparisons]
        together += all((step.ci_low or 0) <= truth <= (step.ci_high or 0) for step, truth in steps)
    assert 0.94 <= together / SWEEPS <= 0.995, f"{together} of {SWEEPS} sweeps were covered whole"


@pytest.mark.parametrize("blocks", [2, 3, 5])
def test_at_most_5_per_cent_of_sweeps_without_any_difference_claim_one(blocks: int) -> None:
    false = sum(any_claim(sweep) for sweep in sweeps(FLAT, blocks=blocks, noise=0.03, block_noise=0.03, seed=3))
    # Three binomial standard errors above 5 %.
    assert false / SWEEPS <= 0.05 + 3 * (0.05 * 0.95 / SWEEPS) ** 0.5, f"{false} of {SWEEPS} claimed a difference"


def test_a_planted_difference_of_5_per_cent_is_found_in_80_per_cent_of_default_sweeps() -> None:
    """The noise is 1 %; real counts per transaction scatter less within one seed."""
    planted = FLAT.copy()
    planted[2:] = np.log(0.95)
    found = 0
    for sweep in sweeps(planted, blocks=3, noise=0.01, block_noise=0.02, seed=4):
        found += (sweep.step(1, 2).ci_high or 2) < 1
    assert found / SWEEPS >= 0.8, f"found in {found} of {SWEEPS}"


@pytest.mark.parametrize("noise", [0.005, 0.03])
def test_what_a_sweep_says_it_could_have_found_is_found_four_times_out_of_five(noise: float) -> None:
    said = np.median([one.detectable(1, 2) or 0 for one in sweeps(FLAT, blocks=3, noise=noise, block_noise=0, seed=5)])
    planted = FLAT.copy()
    planted[2:] = np.log(said)
    found = 0
    for sweep in sweeps(planted, blocks=3, noise=noise, block_noise=0, seed=6):
        found += (sweep.step(1, 2).ci_low or 0) > 1
    assert 0.75 <= found / SWEEPS <= 0.90, f"{said - 1:.2%} was found in {found} of {SWEEPS}"


#: One point with few reads scatters ten times as much as the rest.
UNEVEN = [0.02, 0.02, 0.02, 0.02, 0.2]


@pytest.mark.parametrize("point", [0, 4])
def test_intervals_cover_although_one_point_scatters_far_more(point: int) -> None:
    inside = 0
    for found in sweeps(TRUTH, blocks=5, noise=UNEVEN, block_noise=0.01, seed=7):
        mean = found.mean(point)
        inside += (mean.ci_low or 0) <= np.exp(TRUTH[point]) <= (mean.ci_high or 0)
    assert 0.93 <= inside / SWEEPS <= 0.97, f"{inside} of {SWEEPS} intervals covered"


def test_uneven_scatter_makes_no_false_claims() -> None:
    false = sum(any_claim(sweep) for sweep in sweeps(FLAT, blocks=5, noise=UNEVEN, block_noise=0.01, seed=8))
    assert false / SWEEPS <= 0.05 + 3 * (0.05 * 0.95 / SWEEPS) ** 0.5, f"{false} of {SWEEPS} claimed a difference"


def test_the_command_for_large_simulations_prints_its_tables() -> None:
    tool = Path(__file__).parents[2] / "tools/simulate-statistics"
    done = subprocess.run([tool, "--quick", "--sweeps", "8"], capture_output=True, text=True, check=True, timeout=120)
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("|")]
    # Heads with their rules, and a cell for every column.
    assert len([row for row in rows if "---" in row[1]]) == 3
    assert {len(row) for row in rows} == {12, 11, 8}
