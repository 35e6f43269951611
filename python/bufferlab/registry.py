"""Makes the one registry, from the declarations of all engines and workloads; opens sweep folders with it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bufferlab.engines import registry as engines
from bufferlab.results.metrics import Metric
from bufferlab.results.registry import Registry
from bufferlab.workloads import registry as workloads

if TYPE_CHECKING:
    from bufferlab.results.store import SweepFolder


@cache
def registry() -> Registry:
    """Return all metrics, engines and parameters there are."""
    results = {name: engines.declaration(name).results for name in engines.names(hidden=True)}
    return Registry.of(results, workloads.WORKLOADS)


def open_sweep(path: Path | str) -> SweepFolder:
    """Open the sweep folder at a path: see `SweepFolder.open`."""
    from bufferlab.results.store import SweepFolder  # It loads the whole schema, which `bufferlab list` never reads.

    return SweepFolder.open(path, registry())


def declared(name: str) -> Metric:
    """Return the declaration of a metric, for callers who have no sweep at hand."""
    return registry().metric(name)
