"""Turns: chance is rarely called a turn, a straight trend is none, and a planted turn is found at its place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from bufferlab.stats.fit import fit
from bufferlab.stats.trend import Turn, turn

SWEEPS = 300
NOISE = 0.01


def turns(truth: list[float], *, seed: int, blocks: int = 5) -> list[Turn | None]:
    """Return the turns found in sweeps with these true values (logarithms), with shared block effects and noise of one
    per cent."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(SWEEPS):
        shared = rng.normal(0, 0.03, blocks)
        table: npt.NDArray[np.float64] = np.exp(
            np.array(truth)[:, None] + shared + rng.normal(0, NOISE, (len(truth), blocks))
        )
        cells = [(i, j, float(table[i, j])) for i in range(len(truth)) for j in range(blocks)]
        found.append(turn(fit(cells), range(len(truth)), 0.95))
    return found


@pytest.mark.parametrize("truth", [[0.0] * 7, [0.0] * 3, [0.1 * i for i in range(7)], [0.2, 0.1, 0, 0, 0, 0, 0]])
def test_chance_is_called_a_turn_in_at_most_5_per_cent_of_sweeps(truth: list[float]) -> None:
    slack = 3 * (0.05 * 0.95 / SWEEPS) ** 0.5
    assert sum(one is not None for one in turns(truth, seed=1)) / SWEEPS <= 0.05 + slack


def test_a_planted_turn_is_found_at_its_lowest_point() -> None:
    found = turns([0.15, 0.05, 0.0, 0.10, 0.40], seed=2)
    seen = [one for one in found if one is not None]
    assert len(seen) >= 0.95 * SWEEPS
    assert sum(one.point == 2 for one in seen) >= 0.95 * len(seen)
    covered = [
        one.before.estimate.ci_low is not None
        and one.after.estimate.ci_high is not None
        and one.before.estimate.ci_low <= np.exp(-0.15) <= (one.before.estimate.ci_high or 0)
        and (one.after.estimate.ci_low or 9) <= np.exp(0.40) <= one.after.estimate.ci_high
        for one in seen
        if one.point == 2
    ]
    assert sum(covered) / len(covered) >= 0.95
    assert all((one.before.direction, one.after.direction) == ("falls", "rises") for one in seen)


def test_a_highest_point_is_a_turn_too_and_of_two_turns_the_larger_is_told() -> None:
    found = turns([0.0, 0.30, 0.28, 0.24, 0.02], seed=3)
    assert all(one is not None and one.point == 1 and one.before.direction == "rises" for one in found)


def test_two_points_cannot_turn() -> None:
    assert turn(fit([(0, 0, 1.0), (1, 0, 2.0), (0, 1, 1.1), (1, 1, 2.1)]), [0, 1], 0.95) is None
