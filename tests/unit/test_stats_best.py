"""The set of best points: it contains the best point, leaves out points that are beaten, and says when it cannot
decide."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import pytest

from bufferlab.stats import best
from bufferlab.stats.best import equivalence_set
from bufferlab.stats.fit import Cell, Fit, fit

SWEEPS = 500


def table(rng: np.random.Generator, means: list[float], blocks: int = 5, noise: float = 0.01) -> list[Cell]:
    logs = np.log(means)[:, None] + rng.normal(0, 0.02, blocks) + rng.normal(0, noise, (len(means), blocks))
    return [(i, j, float(np.exp(logs[i, j]))) for i, j in np.ndindex(logs.shape)]


def sweeps(means: list[float], seed: int, noise: float = 0.01) -> list[Fit]:
    rng = np.random.default_rng(seed)
    return [fit(table(rng, means, noise=noise)) for _ in range(SWEEPS)]


def test_the_set_holds_the_best_point_in_95_per_cent_of_sweeps_or_more() -> None:
    held = sum(4 in equivalence_set(found, "less").members for found in sweeps([1.03, 1.02, 1.01, 1.01, 1.0], seed=1))
    assert held / SWEEPS >= 0.95 - 3 * (0.05 * 0.95 / SWEEPS) ** 0.5, f"held in {held} of {SWEEPS}"


def test_of_points_all_alike_all_stay_in_95_per_cent_of_sweeps_each() -> None:
    inside: npt.NDArray[np.float64] = np.zeros(5)
    for found in sweeps([1.0] * 5, seed=2):
        members = equivalence_set(found, "less").members
        inside += [point in members for point in range(5)]
    assert inside.min() / SWEEPS >= 0.95 - 3 * (0.05 * 0.95 / SWEEPS) ** 0.5, f"{inside} of {SWEEPS}"


def test_what_is_five_per_cent_behind_is_left_out_in_80_per_cent_of_sweeps() -> None:
    out = sum(equivalence_set(found, "less").members == (3, 4) for found in sweeps([1.3, 1.2, 1.06, 1.0, 1.0], seed=3))
    assert out / SWEEPS >= 0.8, f"exactly the two best in {out} of {SWEEPS}"


def test_how_far_a_point_may_be_behind_holds_in_95_per_cent_of_sweeps() -> None:
    means = [1.1, 1.02, 1.01, 1.0]
    kept = 0
    for found in sweeps(means, seed=4):
        best = equivalence_set(found, "less")
        kept += 3 in best.members and all(means[point] <= behind for point, behind in best.behind.items())
    assert kept / SWEEPS >= 0.95 - 3 * (0.05 * 0.95 / SWEEPS) ** 0.5, f"held in {kept} of {SWEEPS}"


def test_more_may_be_better() -> None:
    found = fit(table(np.random.default_rng(5), [1.0, 1.5, 1.5]))
    assert equivalence_set(found, "more").members == (1, 2)
    assert equivalence_set(found, "more").others == (0,)
    assert equivalence_set(found, "more").observed in (1, 2)
    best = equivalence_set(found, "more")
    assert min(best.behind[member] for member in best.members) > 1
    assert equivalence_set(found, "less").observed == 0
    assert equivalence_set(found, "less").members == (0,)


def test_a_linear_scale_gives_differences() -> None:
    rng = np.random.default_rng(6)
    values = np.array([0.0, 0.01, 5.0])[:, None] + rng.normal(0, 0.05, (3, 5))
    found = fit([(i, j, float(values[i, j])) for i, j in np.ndindex(values.shape)])
    best = equivalence_set(found, "less")
    assert found.contrast == "difference"
    assert best.others == (2,)
    assert best.beat_all_others
    assert 0 < max(best.behind[member] for member in best.members) < 0.5


def test_every_member_beats_all_others_only_when_each_pair_is_resolved() -> None:
    rng = np.random.default_rng(7)
    clear = equivalence_set(fit(table(rng, [2.0, 1.0, 1.0])), "less")
    assert (clear.members, clear.beat_all_others) == ((1, 2), True)
    # The third point is in the set because it is not resolved from the best. Nor is it resolved from the first, which
    # the best beats.
    cells = [(p, b, v) for p, row in enumerate(([1.06, 1.07, 1.06], [1.0, 1.01, 1.0], [0.9, 1.2, 1.05]))
             for b, v in enumerate(row)]  # fmt: skip
    vague = equivalence_set(fit(cells, pooling="never"), "less")
    assert 2 in vague.members
    assert 0 in vague.others
    assert not vague.beat_all_others


def test_one_repetition_leaves_all_in_and_says_why() -> None:
    best = equivalence_set(fit([(0, 0, 1.0), (1, 0, 2.0)]), "less")
    assert best.members == (0, 1)
    assert "one repetition" in (best.note or "")


def test_identical_points_are_best_together() -> None:
    cells = table(np.random.default_rng(8), [2.0, 1.0])
    twin = [(2, block, value) for point, block, value in cells if point == 1]
    assert equivalence_set(fit([*cells, *twin]), "less").members == (1, 2)


@pytest.mark.parametrize(("low", "still"), [(0.0, 0.0), (1.0, 1.0)])
def test_points_with_the_same_numbers_are_not_behind_each_other(low: float, still: float) -> None:
    """With a zero the scale is linear, and "not behind" is a difference of zero; otherwise it is a factor of one."""
    rows = {"a": (low, 2.0, 3.0), "b": (low, 2.0, 3.0), "c": (50.0, 61.0, 72.0)}
    best = equivalence_set(
        fit([(point, at, value) for point, row in rows.items() for at, value in enumerate(row)]), "less"
    )
    assert best.members == ("a", "b")
    assert (best.behind["a"], best.behind["b"]) == (still, still)
    assert best.behind["c"] > 10


def test_the_level_of_a_pair_is_shared_by_all_pairs_of_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three points make three pairs; the error of each is so small that all hold together in 95 % of sweeps."""
    levels = []

    class Compared:
        points = ("a", "b", "c")

        def compare(self, _a: str, _b: str, level: float) -> None:
            levels.append(level)

    monkeypatch.setattr(best, "_worse", lambda *_: True)
    assert best._all_beaten(cast("Fit", Compared()), ["a"], ["b", "c"], "less", 0.95)
    assert levels == [pytest.approx(0.95 ** (1 / 3))] * 2
