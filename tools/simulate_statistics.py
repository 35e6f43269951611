"""Simulates sweeps with a known truth, and analyses them like real ones: coverage, false claims, power.

Called by simulate-statistics. Every scenario has its own seed, so that --only can repeat a single row. Nothing is
timed.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bufferlab.stats.best import equivalence_set
from bufferlab.stats.fit import Fit, fit
from bufferlab.stats.known_scatter import known_scatters
from bufferlab.stats.series import batch_means, dispersion, regimes
from bufferlab.stats.stopping import FIRST_LOOK_BLOCKS, LOOKS, Aim, blocks_needed, is_enough

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.normal(size=shape)


def _heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_t(4, size=shape) / 2**0.5


def _skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return noise that is lognormal even on the logarithmic scale. Its skewness is 2.3, far more than that of counts
    or times."""
    drawn = np.exp(0.6 * rng.normal(size=shape))
    return (drawn - np.exp(0.18)) / ((np.exp(0.36) - 1) * np.exp(0.36)) ** 0.5


NOISE: dict[str, Draw] = {"normal": _normal, "t, 4 df": _heavy, "skewed": _skewed}


@dataclass(frozen=True)
class Scenario:
    """One kind of sweep. The noise is the standard deviation of logarithms within a block."""

    points: int = 5
    blocks: int = 5
    kind: str = "normal"
    noise: float = 0.007
    spread: str = "even"
    missing: int = 0
    block_noise: float = 0.01

    @property
    def name(self) -> str:
        """Return the name of the scenario's row in the table."""
        what = [f"{self.points} points x {self.blocks}", self.kind, f"{100 * self.noise:g} %", self.spread]
        what += [f"{self.missing} missing"] if self.missing else []
        what += [f"blocks {100 * self.block_noise:g} %"] if self.block_noise != 0.01 else []
        return ", ".join(what)

    def deviations(self) -> Array:
        """Return the noise of each point."""
        word, _, by = self.spread.partition(" x")
        shape = np.ones(self.points)
        if word == "last":
            shape[-1] = float(by)
        elif word == "ramp":
            shape = np.geomspace(1, float(by), self.points)
        return self.noise * shape


def sweeps(scenario: Scenario, truth: Array, seed: int, count: int) -> Iterator[Fit]:
    """Yield the fits of simulated sweeps about the truth (logarithms)."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        shape = (scenario.points, scenario.blocks)
        logs = truth[:, None] + NOISE[scenario.kind](rng, shape) * scenario.deviations()[:, None]
        logs = logs + rng.normal(0, scenario.block_noise, scenario.blocks)
        cells = [(i, j, float(np.exp(logs[i, j]))) for i, j in np.ndindex(shape)]
        for place in sorted(rng.choice(len(cells), scenario.missing, replace=False), reverse=True):
            del cells[place]
        places = range(scenario.points)
        pairs = [(i, i + 1) for i in places[:-1]] + ([(0, places[-1])] if scenario.points > 2 else [])
        yield fit(sorted(cells), comparisons=pairs)


def _covers(low: float | None, truth: float, high: float | None) -> bool:
    return low is not None and high is not None and low <= truth <= high


def sweep_row(scenario: Scenario, seed: int, count: int) -> list[str]:
    """Return a row: coverage of means and of all steps together, false claims in a flat sweep, detectable effects."""
    flat = np.zeros(scenario.points)
    means = np.zeros(scenario.points)
    together = 0
    said = []
    step = (scenario.points - 2, scenario.points - 1)
    widths = []
    for found in sweeps(scenario, flat, seed, count):
        estimates = [found.mean(point) for point in range(scenario.points)]
        means += [_covers(mean.ci_low, 1.0, mean.ci_high) for mean in estimates]
        steps = [found.step(a, b) for a, b in found.comparisons]
        together += all(_covers(one.ci_low, 1.0, one.ci_high) for one in steps if one.has_interval)
        widths += [100 * ((one.ci_high or 1) / (one.ci_low or 1) - 1) / 2 for one in steps if one.has_interval]
        if len(said) < 300:
            said.append(found.detectable(*step) or np.nan)
    planted, could = flat.copy(), float(np.nanmedian(said))
    planted[-1] = np.log(could)
    kept = sum((f.step(*step).ci_low or 0) > 1 for f in sweeps(scenario, planted, seed + 1, count))
    planted[-1] = np.log(1.05)
    five = sum((f.step(*step).ci_low or 0) > 1 for f in sweeps(scenario, planted, seed + 2, count))
    # The last point is the best by 2 %; all others are equal.
    best = flat + np.log(1.02)
    best[-1] = 0.0
    held = sum(
        scenario.points - 1 in equivalence_set(f, "less").members for f in sweeps(scenario, best, seed + 3, count // 4)
    )
    return [
        scenario.name,
        f"{100 * means.mean() / count:.1f} (worst {100 * means.min() / count:.1f})",
        f"{100 * together / count:.1f}",
        f"{100 * (1 - together / count):.1f}",
        f"±{np.median(widths):.2f} %",
        f"{100 * five / count:.0f}",
        f"{100 * (could - 1):.2g} %: {100 * kept / count:.0f}",
        f"{100 * held / (count // 4):.1f}",
        str(count),
    ]


def _autoregressive(rng: np.random.Generator, phi: float, n: int, kind: str) -> Array:
    steps = NOISE[kind](rng, (n + 40,))
    for place in range(1, len(steps)):
        steps[place] = phi * steps[place - 1] + (1 - phi**2) ** 0.5 * steps[place]
    return 100 + 10 * steps[40:]


def series_row(phi: float, kind: str, n: int, seed: int, count: int) -> list[str]:
    """Return a row: coverage of mean and dispersion, false cuts, and how often ten seconds that are two deviations off
    are found."""
    rng = np.random.default_rng(seed)
    mean = spread = cut = hit = 0
    for _ in range(count):
        series = _autoregressive(rng, phi, n, kind)
        one, other = batch_means(series), dispersion(series)
        mean += _covers(one.ci_low, 100, one.ci_high)
        spread += _covers(other.ci_low, 0.1, other.ci_high)
        cut += len(regimes(series)) > 1
        start = int(rng.integers(5, n - 15))
        series[start : start + 10] += 20
        hit += any(min(r.end, start + 10) - max(r.start, start) >= 5 and r.end - r.start <= 20 for r in regimes(series))
    shares = [f"{100 * found / count:.1f}" for found in (mean, spread, cut)]
    return [f"{n} s, lag-one {phi:g}, {kind}", *shares, f"{100 * hit / count:.0f}", str(count)]


SWEEP_HEAD = [
    "sweep (points x repetitions, noise inside a block)", "means covered %", "all steps covered %", "false claims %",
    "median interval of a step", "planted 5 % found %", "said to be found: found %", "best in its set %", "sweeps",
]  # fmt: skip
SERIES_HEAD = [
    "series",
    "mean covered %",
    "dispersion covered %",
    "cut for nothing %",
    "10 s at 2 sd found %",
    "series",
]

STOPPING_HEAD = [
    "recorded scatter", "at most", "all steps held %", "means held %", "blocks", "no step: held %",
    "no step: means held %", "no step: blocks", "no step: false claims %", "sweeps",
]  # fmt: skip

SCENARIOS = (
    *(Scenario(points=points, blocks=5) for points in (2, 3, 5, 8, 12)),
    *(Scenario(blocks=blocks) for blocks in (3, 4, 7, 10)),
    Scenario(noise=0.003),
    Scenario(noise=0.02),
    Scenario(noise=0.05),
    *(Scenario(spread=spread) for spread in ("last x2", "last x3", "last x5", "ramp x3", "ramp x5")),
    *(Scenario(points=3, spread=spread) for spread in ("last x3", "ramp x5")),
    *(Scenario(points=8, spread=spread) for spread in ("last x3", "ramp x5")),
    *(Scenario(blocks=3, spread=spread) for spread in ("last x3", "ramp x5")),
    *(Scenario(blocks=10, spread=spread) for spread in ("last x3", "ramp x5")),
    *(Scenario(kind=kind, spread=spread) for kind in ("t, 4 df", "skewed") for spread in ("even", "last x3")),
    Scenario(missing=2),
    Scenario(missing=5),
    Scenario(missing=2, spread="last x3"),
    Scenario(block_noise=0.0),
    Scenario(block_noise=0.05),
)
QUICK = (Scenario(), Scenario(blocks=3), Scenario(spread="last x3"), Scenario(kind="skewed"), Scenario(missing=2))
#: (lag-one correlation, noise, seconds) of the series. Long series are slow, so there are only two.
SERIES = (
    *((phi, kind, 60) for kind in ("normal", "t, 4 df") for phi in (0.0, 0.2, 0.3, 0.6)),
    *((phi, "normal", 300) for phi in (0.0, 0.2)),
)


@dataclass(frozen=True)
class Recorded:
    """The points of a measured sweep: the count of each point in its window, and the scatter of its runs'
    logarithms."""

    name: str
    counted: Array
    deviations: Array

    @property
    def points(self) -> int:
        """Return the number of points."""
        return len(self.counted)


def recorded() -> list[Recorded]:
    """Return the measured sweeps whose scatter of reads is recorded and is not zero."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with (Path(__file__).parent / "known-scatter.csv").open() as file:
        for row in csv.DictReader(file):
            if row["counter"] == "pages_read":
                key = (row["sweep"], f"{row['workload']}, {row['engine']}")
                found.setdefault(key, []).append((float(row["counted"]), float(row["deviation"])))
    sweeps = {key: np.array(rows).T for key, rows in found.items()}
    return [Recorded(key[1], *rows) for key, rows in sweeps.items() if rows.shape[1] > 1 and rows[1].any()]


def stopped(of: Recorded, truth: Array, at_most: int, rng: np.random.Generator) -> Fit:
    """Return the fit, at its end, of a simulated sweep that does as many blocks as it needs."""
    logs = truth[:, None] + of.deviations[:, None] * rng.normal(size=(of.points, at_most))
    logs = logs + rng.normal(0, 0.01, at_most)
    known = known_scatters()["pages_read"]
    aim = Aim(smallest_effect=0.05)
    steps = [(i, i + 1) for i in range(of.points - 1)]
    pairs = [*steps, *([(0, of.points - 1)] if of.points > 2 else [])]

    def after(blocks: int) -> Fit:
        values = [(i, j, float(np.exp(logs[i, j]))) for i in range(of.points) for j in range(blocks)]
        means = [float(np.mean([value for at, _, value in values if at == i])) for i in range(of.points)]
        scatter = {i: known.deviation(count) / count * means[i] for i, count in enumerate(of.counted)}
        return fit(values, comparisons=pairs, looks=LOOKS, known_scatter=scatter)

    first = after(FIRST_LOOK_BLOCKS)
    if is_enough(first, steps, aim):
        return first
    return after(blocks_needed(first, steps, aim, at_most))


def stopping_row(of: Recorded, at_most: int, seed: int, count: int) -> list[str]:
    """Return a row: how often all intervals contain the true steps between points (as recorded, or no steps), and the
    blocks needed."""
    cells = [f"{of.name}, {of.points} points", str(at_most)]
    for truth in (np.log(of.counted), np.zeros(of.points)):
        rng, held, claims, blocks, means = np.random.default_rng(seed), 0, 0, 0, 0
        for _ in range(count):
            found = stopped(of, truth, at_most, rng)
            told = [(found.step(a, b), float(np.exp(truth[b] - truth[a]))) for a, b in found.comparisons]
            held += all(_covers(one.ci_low, ratio, one.ci_high) for one, ratio in told if one.has_interval)
            claims += any(not _covers(one.ci_low, 1.0, one.ci_high) for one, _ in told if one.has_interval)
            blocks += len(found.blocks)
            each = [(found.mean(i), float(np.exp(truth[i]))) for i in range(of.points)]
            means += sum(_covers(one.ci_low, value, one.ci_high) for one, value in each)
        cells += [f"{100 * held / count:.1f}", f"{100 * means / count / of.points:.1f}", f"{blocks / count:.2f}"]
    return [*cells, f"{100 * claims / count:.1f}", str(count)]


def _print_row(cells: list[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="tools/simulate-statistics", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few scenarios, few sweeps each: seconds, not minutes")
    parser.add_argument("--sweeps", type=int, help="sweeps a scenario (default 2000, with --quick 200)")
    parser.add_argument("--only", default="", help="only scenarios whose name holds this text")
    asked = parser.parse_args()
    count = asked.sweeps or (200 if asked.quick else 2000)
    if count < 4:
        parser.error("--sweeps: at least 4, or nothing is left for the set of best points; try 200")
    _print_row(SWEEP_HEAD)
    _print_row(["---", *["---:"] * (len(SWEEP_HEAD) - 1)])
    for place, scenario in enumerate(QUICK if asked.quick else SCENARIOS):
        if asked.only in scenario.name:
            _print_row(sweep_row(scenario, 1000 * (place + 1), count))
    print()
    _print_row(SERIES_HEAD)
    _print_row(["---", *["---:"] * (len(SERIES_HEAD) - 1)])
    for place, (phi, kind, n) in enumerate(SERIES[:2] if asked.quick else SERIES):
        if asked.only in f"{n} s, lag-one {phi:g}, {kind}":
            _print_row(series_row(phi, kind, n, 77_000 + place, max(4, count // 4)))
    print()
    _print_row(STOPPING_HEAD)
    _print_row(["---", *["---:"] * (len(STOPPING_HEAD) - 1)])
    for place, one in enumerate(recorded()):
        if asked.only in one.name:
            _print_row(stopping_row(one, 5, 88_000 + place, count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
