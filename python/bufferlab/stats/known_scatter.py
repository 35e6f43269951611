"""How far runs of one setting differ in a count, known before a sweep: it judges sweeps of one or two runs a point.

`known_scatter.toml` holds it, with its sources. The relative variance of a run is floor^2 + events / count, where
`count` is how often the window counted (1 / count for a Poisson count; misses come in groups). Both numbers are upper
bounds over the repeated runs that tools/known-scatter was given. Nothing is known of times: they depend on the host.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

#: A step is claimed from one run a point when it is more than this many times the difference of two runs.
CLAIM_TIMES = 5.0
#: Two runs that differ by more than this many times the known scatter speak against it.
DOUBT_TIMES = 2.0
#: The degrees of freedom of the known scatter in an interval of a mean: it is that of eleven sweeps.
MEAN_DF = 10.0
_FILE = Path(__file__).with_name("known_scatter.toml")


@dataclass(frozen=True)
class KnownScatter:
    """The scatter of one count per unit of work."""

    floor: float
    """The relative standard deviation that no number of events falls below."""
    events: float
    """The number of events that come together: the relative variance times the count, where the count is small."""
    runs: int
    """The repeated runs behind it."""

    def deviation(self, count: float) -> float:
        """Return the standard deviation of such a count, in events; as that of one event where none was counted."""
        seen = max(1.0, count)
        return float(((self.floor * seen) ** 2 + self.events * seen) ** 0.5)


@cache
def known_scatters() -> Mapping[str, KnownScatter]:
    """Return the shipped scatter, by counter."""
    return {name: KnownScatter(**row) for name, row in _shipped()["counters"].items()}


@cache
def workloads() -> frozenset[str]:
    """Return the workloads whose runs were repeated: nothing is known of others."""
    return frozenset(_shipped()["workloads"])


@cache
def source() -> str:
    """Return in words which runs were repeated."""
    return str(_shipped()["source"])


@cache
def _shipped() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))
