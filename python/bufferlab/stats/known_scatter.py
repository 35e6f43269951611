"""The scatter of counts from run to run, known before a sweep.

With it, sweeps of one or two runs per point can be judged.


`known_scatter.toml` holds the numbers, with their sources. The relative variance of a run is floor^2 + events / count,
where `count` is the count in the run's window. (A Poisson count would have 1 / count, but misses come in groups.) Both
numbers are upper bounds over the repeated runs that were given to tools/known-scatter. The scatter of times is not
known, because it depends on the host.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

#: With the known scatter, a step is claimed if it is more than this many times its standard error.
CLAIM_TIMES = 5.0
#: Runs that scatter by more than this many times the known scatter contradict it.
DOUBT_TIMES = 2.0
#: The degrees of freedom of a mean's interval whose scatter comes from known_scatter.toml: one less than the eleven
#: sweeps behind that file, as if each sweep gave a single value.
MEAN_DF = 10.0
_FILE = Path(__file__).with_name("known_scatter.toml")


@dataclass(frozen=True)
class KnownScatter:
    """The scatter of one counter's count from run to run."""

    floor: float
    """The relative standard deviation that remains even for the largest counts."""
    events: float
    """The mean size of the groups in which events come.

    For small counts, it is the relative variance times the count.
    """
    runs: int
    """The number of repeated runs behind `floor` and `events`."""

    def deviation(self, count: float) -> float:
        """Return the standard deviation of this count, in events; a count below one is taken as one."""
        seen = max(1.0, count)
        return float(((self.floor * seen) ** 2 + self.events * seen) ** 0.5)


@cache
def known_scatters() -> Mapping[str, KnownScatter]:
    """Return the scatter that `known_scatter.toml` holds, by counter."""
    return {name: KnownScatter(**row) for name, row in _shipped()["counters"].items()}


@cache
def workloads() -> frozenset[str]:
    """Return the workloads whose repeated runs the scatter comes from; it is not valid for others."""
    return frozenset(_shipped()["workloads"])


@cache
def source() -> str:
    """Return a sentence that says which repeated runs the scatter comes from."""
    return str(_shipped()["source"])


@cache
def _shipped() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))
