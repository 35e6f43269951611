"""Estimates the differences between hosts that each measured every point in their own blocks, and compares them with
the differences between points.

Each block that has all points gives one number: the mean of the logarithms of its values. The ratio of a host to the
first host has Student's interval over their blocks. Its variance is estimated between the blocks of each host, and
pooled over all hosts (one-way analysis of variance). Blocks also differ in their transactions. So if each host measured
only one block, the ratio has no interval.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bufferlab.stats.estimate import Estimate, quantile_of_t
from bufferlab.stats.fit import Cell
from bufferlab.stats.rounding import is_rounding

_ROUNDING = 1e-9
_ONE_BLOCK_EACH = "one block a host: nothing tells the host from its block's transactions"
_NO_NOISE = "the blocks of each host gave the same numbers: no noise to compute an interval from"


@dataclass(frozen=True)
class HostsCompared:
    """The differences between hosts in one metric."""

    ratios: Mapping[Hashable, Estimate]
    """Host -> its value divided by that of the first host; `n` is the smaller of the two hosts' numbers of blocks."""
    hosts_factor: float
    """The largest ratio between the means of two hosts."""
    points_factor: float
    """The largest ratio between the means of two points."""

    @property
    def differ_more(self) -> bool:
        """Whether hosts differ more than points do, beyond the chance differences of blocks.

        With one block per host, differences of hosts cannot be separated from those of blocks. Then the result says
        whether hosts, together with their blocks, differ more than points.
        """
        told = [one for one in self.ratios.values() if one.ci_low is not None and one.ci_high is not None]
        by_chance = bool(told) and all((one.ci_low or 0) <= 1 <= (one.ci_high or 0) for one in told)
        return self.hosts_factor > self.points_factor * (1 + _ROUNDING) and not by_chance


def compare_hosts(
    cells: Sequence[Cell], host_of: Mapping[Hashable, Hashable], level: float = 0.95
) -> HostsCompared | None:
    """Return how much hosts differ, from rows (point, block, value); `host_of` has block -> host, in block order.

    The intervals hold together at `level` (Sidak). None without rows, if a value is not above zero, or if fewer than
    two hosts have a block with all points.
    """
    if not cells or any(value <= 0 for _, _, value in cells):
        return None
    points = list(dict.fromkeys(point for point, _, _ in cells))
    logs = {(point, block): float(np.log(value)) for point, block, value in cells}
    whole = [block for block in host_of if all((point, block) in logs for point in points)]
    by_host: dict[Hashable, list[float]] = {}
    for block in whole:
        by_host.setdefault(host_of[block], []).append(float(np.mean([logs[point, block] for point in points])))
    if len(by_host) < 2:
        return None
    first, *others = by_host
    df = len(whole) - len(by_host)
    squares = sum(float(np.sum((np.array(values) - np.mean(values)) ** 2)) for values in by_host.values())
    variance = squares / df if df else 0.0
    if is_rounding(variance**0.5, np.concatenate(list(by_host.values()))):
        variance = 0.0
    single = level ** (1 / len(others))
    ratios = {host: _ratio(by_host[first], by_host[host], variance, df, single) for host in others}
    host_means = [float(np.mean(values)) for values in by_host.values()]
    point_means = [float(np.mean([logs[point, block] for block in whole])) for point in points]
    return HostsCompared(ratios, _factor(host_means), _factor(point_means))


def _ratio(first: Sequence[float], other: Sequence[float], variance: float, df: int, level: float) -> Estimate:
    difference, n = float(np.mean(other) - np.mean(first)), min(len(first), len(other))
    error = (variance * (1 / len(first) + 1 / len(other))) ** 0.5
    if not error:
        return Estimate(float(np.exp(difference)), None, None, n, note=_NO_NOISE if df else _ONE_BLOCK_EACH)
    half = quantile_of_t(1 - (1 - level) / 2, df) * error
    low, high = float(np.exp(difference - half)), float(np.exp(difference + half))
    return Estimate(float(np.exp(difference)), low, high, n, df)


def _factor(logs: Sequence[float]) -> float:
    return float(np.exp(max(logs) - min(logs)))
