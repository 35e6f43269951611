"""Sweeps of connections with a known law, fitted as real ones are: coverage, peaks found, peaks claimed for nothing.

Called by simulate-law. The rivals of the method that bufferlab uses are made here, beside it: the scatter of all runs
(block effects removed), a bootstrap of the blocks, and a fit in each block. Every scenario has its own seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from bufferlab.stats import scalability
from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.fit import fit
from bufferlab.stats.scalability import Law, law, why_no_peak

Array = npt.NDArray[np.float64]
Rival = Literal["runs", "bootstrap", "blocks"]
Method = Literal["means"] | Rival
DOUBLINGS = (1, 2, 4, 8, 16, 32, 64)
MANY = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
#: The throughput of one connection; nothing depends on it.
ONE = 100.0
_BLOCK_NOISE = 0.02
_RESAMPLES = 100


@dataclass(frozen=True)
class Scenario:
    """One kind of sweep. Noise and misfit are standard deviations of logarithms."""

    counts: tuple[int, ...] = DOUBLINGS
    blocks: int = 3
    contention: float = 0.05
    peak_at: float = 16.0
    """Infinite: no coherency, so throughput never falls."""
    noise: float = 0.03
    misfit: float = 0.0
    """How far the system is from the law, at each number of connections anew, in all blocks alike."""
    last_times: float = 1.0
    """The noise of the most connections over that of one; it grows from point to point."""
    kind: Literal["normal", "t, 4 df"] = "normal"

    @property
    def name(self) -> str:
        """What the row is called in the table."""
        what = [f"{len(self.counts)} x {self.blocks}", f"contention {self.contention:g}", f"peak {self.peak_at:g}"]
        what += [self.kind] if self.kind != "normal" else []
        what += [f"{100 * self.noise:g} %"]
        what += [f"ramp x{self.last_times:g}"] if self.last_times != 1 else []
        what += [f"misfit {100 * self.misfit:g} %"] if self.misfit else []
        return ", ".join(what)

    @property
    def coherency(self) -> float:
        """The cost of each pair of connections."""
        return (1 - self.contention) / self.peak_at**2

    def draw(self, rng: np.random.Generator) -> Array:
        """Logarithms of throughput: [connections, block]."""
        n = np.array(self.counts, dtype=np.float64)
        truth = np.log(ONE * n / (1 + self.contention * (n - 1) + self.coherency * n * (n - 1)))
        shape = (len(n), self.blocks)
        drawn = rng.normal(size=shape) if self.kind == "normal" else rng.standard_t(4, size=shape) / 2**0.5
        deviations = self.noise * np.geomspace(1, self.last_times, len(n))
        far = rng.normal(0, self.misfit, len(n)) if self.misfit else np.zeros(len(n))
        blocks = rng.normal(0, _BLOCK_NOISE, self.blocks)
        return np.asarray((truth + far)[:, None] + drawn * deviations[:, None] + blocks)

    def truths(self) -> tuple[float, float, float, float]:
        """One connection's throughput, contention, coherency, and the peak's connections."""
        return ONE, self.contention, self.coherency, self.peak_at


Four = tuple[Estimate, Estimate, Estimate, Estimate]


def cells(counts: Sequence[int], logs: Array) -> list[tuple[int, int, float]]:
    """Rows as `law` takes them."""
    return [(counts[i], j, float(np.exp(logs[i, j]))) for i, j in np.ndindex(logs.shape)]


def by_rival(method: Rival, scenario: Scenario, logs: Array) -> Four:
    """The four estimates of a sweep by another method than bufferlab's own, which is "means"."""
    if method == "runs":
        return _four(_by_all_runs(scenario.counts, logs))
    x = np.array(scenario.counts, dtype=np.float64)
    if method == "blocks":
        return _by_blocks(x, logs)
    return _by_bootstrap(x, logs)


def _four(found: Law) -> Four:
    return found.one, found.contention, found.coherency, found.peak_at


def _by_all_runs(counts: Sequence[int], logs: Array) -> Law:
    """Take the noise from what all runs leave of the law and of their blocks' effects."""
    x, means = np.array(counts, dtype=np.float64), logs.mean(axis=1)
    points, blocks = logs.shape
    best = scalability._best(x, means)
    apart = logs - means[:, None] - logs.mean(axis=0) + logs.mean()
    df = points - 3 + (points - 1) * (blocks - 1)
    squares = blocks * float(scalability._left(x, means, *best)[0]) + float((apart**2).sum())
    return scalability._law(x, means, best, squares / df / blocks, df, logs.size, 0.95, 0.0, (0.0, 0.0, 0.0))


def _fitted(x: Array, y: Array) -> tuple[float, float, float, float]:
    contention, coherency = scalability._best(x, y)
    one = float(np.exp(scalability._one(x, y, contention, coherency)))
    at = scalability._peak_at(np.array([contention]), np.array([coherency]))
    return one, contention, coherency, float(at[0])


def _by_bootstrap(x: Array, logs: Array) -> Four:
    """Percentiles over resampled blocks."""
    blocks = logs.shape[1]
    chosen = np.random.default_rng(1).integers(0, blocks, (_RESAMPLES, blocks))
    found = np.array([_fitted(x, logs[:, one].mean(axis=1)) for one in chosen])
    low, high = np.quantile(found, [0.025, 0.975], axis=0, method="nearest")
    values = _fitted(x, logs.mean(axis=1))
    a, b, c, d = (Estimate(values[i], float(low[i]), float(high[i]), logs.size) for i in range(4))
    return a, b, c, d


def _by_blocks(x: Array, logs: Array) -> Four:
    """Student's interval over the blocks' own laws; of throughput and peak on a scale of logarithms."""
    found = np.array([_fitted(x, logs[:, j]) for j in range(logs.shape[1])])

    def over(values: Array, *, log: bool) -> Estimate:
        on = np.log(values) if log else values
        centre, n = float(on.mean()), len(on)
        half = quantile_of_t(0.975, n - 1) * float(on.std(ddof=1)) / n**0.5
        ends = (centre, centre - half, centre + half)
        value, low, high = (float(np.exp(end)) if log else end for end in ends)
        return Estimate(value, low, high, n)

    a, b, c, d = (over(found[:, i], log=i in (0, 3)) for i in range(4))
    return a, b, c, d


def covered(found: Estimate, truth: float) -> bool:
    """Whether an interval holds the truth. One without ends holds everything."""
    low, high = found.ci_low, found.ci_high
    return low is None or high is None or low <= truth <= high


@dataclass(frozen=True)
class Shares:
    """What came of one scenario by one method, as shares of its sweeps."""

    covered: tuple[float, float, float, float]
    """One connection, contention, coherency, the peak's connections."""
    width: float
    """The median ratio of the ends of the peak's interval."""
    claimed: float
    """Sweeps in which a peak is claimed; of "means" alone."""
    wrong: float
    """Sweeps that claim a peak whose interval does not hold the true one."""


def shares(scenario: Scenario, seed: int, count: int, method: Method = "means") -> Shares:
    """Simulate one scenario."""
    rng = np.random.default_rng(seed)
    holds, widths, claimed, wrong = np.zeros(4), [], 0, 0
    for _ in range(count):
        logs = scenario.draw(rng)
        rows = cells(scenario.counts, logs)
        own = None
        if method == "means":
            own = law(rows)
            found = _four(own)
        else:
            found = by_rival(method, scenario, logs)
        holds += [covered(one, truth) for one, truth in zip(found, scenario.truths(), strict=True)]
        low, high = found[3].ci_low, found[3].ci_high
        widths.append(high / low if low and high else np.inf)
        if own:
            says = why_no_peak(own, fit(rows, comparisons=())) is None
            claimed += says
            wrong += says and not covered(found[3], scenario.peak_at)
    a, b, c, d = holds / count
    return Shares((a, b, c, d), float(np.median(widths)), claimed / count, wrong / count)


SCENARIOS = (
    Scenario(),
    Scenario(noise=0.01),
    Scenario(noise=0.05),
    Scenario(contention=0.3, peak_at=6.0),
    Scenario(contention=0.02, peak_at=32.0),
    Scenario(contention=0.0),
    Scenario(blocks=5),
    Scenario(counts=MANY, blocks=5),
    Scenario(counts=(1, 4, 8, 16, 64)),
    Scenario(kind="t, 4 df"),
    Scenario(noise=0.01, last_times=5.0),
    Scenario(misfit=0.03),
    Scenario(noise=0.01, misfit=0.05),
)
#: Systems without a peak among the connections that are measured.
WITHOUT = (
    Scenario(peak_at=float("inf")),
    Scenario(contention=0.3, peak_at=float("inf")),
    Scenario(contention=0.02, peak_at=100.0),
    Scenario(contention=0.3, peak_at=float("inf"), misfit=0.05),
)
#: Where methods are compared.
RIVALS = (Scenario(), Scenario(blocks=5), Scenario(noise=0.01, last_times=5.0), Scenario(noise=0.01, misfit=0.05))
HEAD = [
    "connections measured x blocks, contention, true peak, noise", "one covered %", "contention covered %",
    "coherency covered %", "peak covered %", "ends of the peak's interval", "peak claimed %", "claimed and wrong %",
    "sweeps",
]  # fmt: skip


def row(scenario: Scenario, seed: int, count: int) -> list[str]:
    """One row of the first table."""
    found = shares(scenario, seed, count)
    return [
        scenario.name,
        *(f"{100 * share:.1f}" for share in found.covered),
        f"x {found.width:.2f}" if np.isfinite(found.width) else "no end",
        f"{100 * found.claimed:.1f}",
        f"{100 * found.wrong:.1f}",
        str(count),
    ]


def rival_row(scenario: Scenario, seed: int, count: int) -> list[str]:
    """One row of the second table: the peak's coverage by each method, and its interval's width."""
    methods: tuple[Method, ...] = ("means", "runs", "bootstrap", "blocks")
    found = [shares(replace(scenario), seed, count, method) for method in methods]
    return [scenario.name, *(f"{100 * one.covered[3]:.1f} (x {one.width:.2f})" for one in found), str(count)]


def _print_row(row: Sequence[str]) -> None:
    print("| " + " | ".join(row) + " |", flush=True)


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="tools/simulate-law", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few sweeps each: seconds, not minutes")
    parser.add_argument("--sweeps", type=int, help="sweeps a scenario (default 1000, with --quick 100)")
    asked = parser.parse_args()
    count = asked.sweeps or (100 if asked.quick else 1000)
    if count < 2:
        parser.error("--sweeps: at least 2; try 100")
    _print_row(HEAD)
    _print_row(["---", *["---:"] * (len(HEAD) - 1)])
    for place, scenario in enumerate((*SCENARIOS, *WITHOUT)):
        _print_row(row(scenario, 1000 * (place + 1), count))
    print()
    _print_row(["sweep", "means", "all runs", "bootstrap of blocks", "a law a block", "sweeps"])
    _print_row(["---", *["---:"] * 5])
    for place, scenario in enumerate(RIVALS):
        _print_row(rival_row(scenario, 500_000 + place, max(2, count // 10)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
