"""Estimates the effect of each of several factors on a number, all else being equal, as ratios with intervals.

Runs of one block that agree in every other factor are compared in pairs, level by level. The mean over a block's pairs,
on the log scale, is one number per block. Blocks are independent; pairs inside a block are not. So the interval is
Student's over the blocks, at Sidak's level: all effects of one call hold together. If a factor's effect depends on a
second factor (an interaction), the result is the mean effect. To see the effects separately, pass the runs of one level
of the second factor at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.rounding import is_rounding, sample_deviation

_ONE_BLOCK = "one block: nothing says how much another would differ"
_NO_NOISE = "every block gave the same ratio: no noise to compute an interval from"


@dataclass(frozen=True)
class FactorRun:
    """One run: the level of every factor, its block, and the measured number, which should be positive."""

    levels: Mapping[str, str]
    block: Hashable
    value: float


@dataclass(frozen=True)
class Effect:
    """The effect of a factor's change from level `base` to `level`: the ratio of the runs' numbers, over blocks."""

    factor: str
    base: str
    level: str
    ratio: Estimate

    @property
    def resolved(self) -> bool:
        """Whether a direction may be claimed, because the interval does not contain a ratio of one."""
        low, high = self.ratio.ci_low, self.ratio.ci_high
        return low is not None and high is not None and not low <= 1 <= high

    @property
    def size(self) -> float:
        """The size of the effect regardless of its direction: |ln(ratio)|."""
        return abs(float(np.log(self.ratio.value)))


def effects(
    observations: Sequence[FactorRun], factors: Mapping[str, Sequence[str]], level: float = 0.95
) -> list[Effect]:
    """Return the effect of each further level of a factor against its first; `factors` has the levels in order.

    Numbers that are not above zero have no ratio and are left out. A level without a pair of runs has no effect.
    """
    told = [seen for seen in observations if seen.value > 0]
    pairs = [(factor, levels[0], other) for factor, levels in factors.items() for other in levels[1:]]
    found = {pair: _by_block(told, *pair) for pair in pairs}
    found = {pair: blocks for pair, blocks in found.items() if blocks}
    single = level ** (1 / max(1, len(found)))
    return [Effect(*pair, _ratio(list(blocks.values()), single)) for pair, blocks in found.items()]


def _by_block(observations: Sequence[FactorRun], factor: str, base: str, level: str) -> dict[Hashable, float]:
    """Return block -> mean over its pairs of ln(number at `level` / number at `base`)."""
    sides: dict[tuple[Hashable, tuple[tuple[str, str], ...]], dict[str, list[float]]] = {}
    for seen in observations:
        rest = tuple(sorted((name, at) for name, at in seen.levels.items() if name != factor))
        sides.setdefault((seen.block, rest), {}).setdefault(seen.levels[factor], []).append(float(np.log(seen.value)))
    differences: dict[Hashable, list[float]] = {}
    for (block, _), found in sides.items():
        if base in found and level in found:
            differences.setdefault(block, []).append(float(np.mean(found[level]) - np.mean(found[base])))
    return {block: float(np.mean(values)) for block, values in differences.items()}


def _ratio(blocks: Sequence[float], level: float) -> Estimate:
    mean, n = float(np.mean(blocks)), len(blocks)
    value = float(np.exp(mean))
    if n < 2:
        return Estimate(value, None, None, n, note=_ONE_BLOCK)
    deviation = sample_deviation(blocks)
    if not deviation:
        return Estimate(value, None, None, n, note=_NO_NOISE, identical=is_rounding(abs(mean), blocks))
    error = deviation / n**0.5
    half = quantile_of_t(1 - (1 - level) / 2, n - 1.0) * error
    return Estimate(value, float(np.exp(mean - half)), float(np.exp(mean + half)), n, n - 1.0)
