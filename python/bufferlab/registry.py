"""Makes the registry from the declarations of all engines and workloads, and opens sweep folders with it."""

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
    """Return the registry of all metrics, engines and parameters."""
    results = {name: engines.declaration(name).results for name in engines.names(hidden=True)}
    return Registry.of(results, workloads.WORKLOADS)


def open_sweep(path: Path | str) -> SweepFolder:
    """Open the sweep folder at a path with the registry. Raises the errors of `SweepFolder.open`."""
    from bufferlab.results.store import SweepFolder  # Imported late: `bufferlab list` needs no schema.

    return SweepFolder.open(path, registry())


def declared(name: str) -> Metric:
    """Return the declaration of a metric, for callers without a sweep."""
    return registry().metric(name)
