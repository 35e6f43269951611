"""The knee and the step of a curve, compared with a hull that a slow program finds corner by corner."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bufferlab.report.curve_page import answer
from bufferlab.traces import curve, files
from bufferlab.traces.curve import CurveStep, MissCurve
from bufferlab.traces.page_trace import Accesses
from support.core import ROOT
from support.fake import Bench

RNG = np.random.default_rng(11)


def curve_of(pages: NDArray[np.int64]) -> MissCurve:
    dense = np.unique(pages, return_inverse=True)[1].astype(np.uint32)
    return curve.curve(
        Accesses(dense, np.zeros(len(dense), np.uint8), np.arange(len(dense), dtype=np.float64)), None, lambda _: None
    )


def hull_of(misses: list[int]) -> list[int]:
    """Return the corners of the lower convex hull, from 1 to all pages: each edge is the steepest possible one."""
    corners = [1]
    while corners[-1] < len(misses) - 1:
        here = corners[-1]
        slope = {at: (misses[at] - misses[here]) / (at - here) for at in range(here + 1, len(misses))}
        corners.append(max(at for at in slope if slope[at] == min(slope.values())))
    return corners


def slow_knee(misses: list[int]) -> int | None:
    last = len(misses) - 1
    fall = misses[1] - misses[-1]
    below = {at: (misses[1] - misses[at]) * (last - 1) - fall * (at - 1) for at in hull_of(misses)[1:-1]}
    far = [at for at in below if 20 * below[at] >= fall * (last - 1)]
    return max(far, key=lambda at: below[at]) if far and misses[1] > misses[-1] else None


def slow_step(misses: list[int]) -> tuple[int, int, int] | None:
    corners = hull_of(misses)
    for left, right in pairwise(corners):
        for at in range(left + 1, right):
            length, drop = right - left, misses[left] - misses[right]
            above = (misses[at] - misses[left]) * length + drop * (at - left)
            if 2 * above >= (misses[1] - misses[-1]) * length > 0:
                return right, misses[right - 1], misses[right]
    return None


def zipf() -> NDArray[np.int64]:
    return RNG.zipf(1.4, 4000) % 300


STRINGS = {
    "loop of 3": np.arange(300) % 3,
    "loop of 25": np.arange(500) % 25,
    "loop of 1,011": np.arange(5055) % 1011,
    "loop with a hot page": np.where(np.arange(900) % 2, 99, np.arange(900) // 2 % 40),
    "loop with some others": np.where(RNG.random(3000) < 0.1, 100 + RNG.integers(0, 60, 3000), np.arange(3000) % 80),
    "two loops": np.where(np.arange(6000) // 50 % 2, np.arange(6000) % 20, 100 + np.arange(6000) % 90),
    "scan": np.arange(60),
    "even": RNG.integers(0, 60, 6000),
    "even, of three": RNG.integers(0, 3, 900),
    "one page": np.zeros(50, np.int64),
    "two pages": np.arange(50) % 2,
    "zipf": zipf(),
    "hot and cold": np.where(RNG.random(4000) < 0.9, RNG.integers(0, 20, 4000), 20 + RNG.integers(0, 400, 4000)),
    "scans over hot pages": np.concatenate([zipf(), np.arange(400), zipf(), np.arange(400), zipf()]),
}


@pytest.mark.parametrize("name", STRINGS)
def test_knee_and_step_are_those_of_the_slow_hull(name: str) -> None:
    found = curve_of(STRINGS[name])
    misses = [int(count) for count in found.misses]
    if found.pages < 3:
        assert (found.knee_pages, found.step) == (None, None)
        return
    step = found.step
    assert found.knee_pages == slow_knee(misses)
    assert (step and (step.pages, step.misses_below, step.misses)) == slow_step(misses)


def test_knee_and_step_of_random_curves_are_those_of_the_slow_hull() -> None:
    rng = np.random.default_rng(3)
    kinds = {"knee": 0, "step": 0, "neither": 0}
    for _ in range(300):
        falls = rng.integers(0, rng.choice((2, 10, 1000)), rng.integers(2, 40)) * (rng.random() < 0.9)
        falls[rng.integers(0, len(falls))] += rng.choice((0, 0, 100, 5000))
        misses = np.concatenate([[falls.sum() + 10], np.cumsum(np.append(0, falls)[::-1])[::-1] + 3])
        found = MissCurve(misses.astype(np.uint64))
        as_list = [int(count) for count in misses]
        step = found.step
        assert found.knee_pages == slow_knee(as_list)
        assert (step and (step.pages, step.misses_below, step.misses)) == slow_step(as_list)
        kinds["knee" if found.knee_pages else "step" if step else "neither"] += 1
    assert min(kinds.values()) > 10, "each kind is among them"


@pytest.mark.parametrize(("pages", "rounds"), [(25, 20), (1011, 5), (64, 3), (3, 100)])
def test_a_loop_has_a_step_and_no_knee(pages: int, rounds: int) -> None:
    found = curve_of(np.arange(pages * rounds) % pages)
    assert found.knee_pages is None
    assert found.step == CurveStep(pages, pages * rounds, pages)
    said = answer(found, None)
    assert f"Misses fall in a step at {pages:,} pages" in said
    assert f"misses {pages * rounds:,} times, and one of that size {pages:,} times" in said
    assert said.endswith("The curve has no knee.")


def test_a_flat_and_a_straight_curve_have_neither() -> None:
    flat, straight = (
        curve_of(np.arange(60)),
        curve.curve(files.read(ROOT / "tests/fixtures/traces/even.txt"), None, lambda _: None),
    )
    for found in (flat, straight):
        assert (found.knee_pages, found.step) == (None, None)
    assert answer(flat, None) == "There is no knee: an LRU pool of any size misses 60 of 60 gets."
    assert answer(straight, None).startswith("There is neither a knee nor a step")
    assert MissCurve(np.arange(100, -1, -1, dtype=np.uint64)).step is None


def test_the_command_says_which_it_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    path = tmp_path / "loop.txt"
    path.write_text("".join(f"{at % 30}\n" for at in range(90)))
    document = bench.bufferlab("curve", path, "--json").json
    assert document["lru"]["knee_pages"] is None
    assert document["lru"]["step"] == {"pages": 30, "misses_below": 90, "misses": 30}
    path.write_text("".join(f"{at}\n" for at in range(90)))
    document = bench.bufferlab("curve", path, "--json").json
    assert (document["lru"]["knee_pages"], document["lru"]["step"]) == (None, None)


def test_a_curve_of_many_pages_is_judged_at_once() -> None:
    pages = np.arange(2_000_000, dtype=np.float64)
    misses = np.concatenate([[3_000_001], np.round(3e6 / (1 + pages / 1e5)).astype(np.uint64)]).astype(np.uint64)
    found = MissCurve(misses)
    # For 1 / (1 + x / a) from 0 to n, the tangent parallel to the chord touches at x = sqrt(a * (a + n)) - a.
    assert found.knee_pages == pytest.approx((1e5 * 21e5) ** 0.5 - 1e5, rel=0.01)
    assert found.step is None
