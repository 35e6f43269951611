"""Tells which points somebody looked at while the models were developed: every other point is held out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from bufferlab import versions

_USUAL = {"lru_scan_depth": ["100"], "old_blocks_time": ["0"]}
"""The settings of a cell that does not name them."""
_DECIDED_ELSEWHERE = {"server", "warehouses"}


@dataclass(frozen=True)
class Cell:
    """One entry of development_cells.toml: each product of its lists was looked at."""

    engine: str
    engine_version: str
    workload: str
    warehouses: int
    swept: Mapping[str, list[str]]


@cache
def _cells() -> tuple[Cell, ...]:
    text = resources.files("bufferlab.models").joinpath("development_cells.toml").read_text(encoding="utf-8")
    return tuple(
        Cell(**{**cell, "swept": {name: list(map(str, values)) for name, values in cell["swept"].items()}})
        for cell in tomllib.loads(text)["cell"]
    )


def was_seen(engine: str, engine_version: str, asked: Mapping[str, str], swept: frozenset[str], workload: str) -> bool:
    """Return whether a point is among the cells; `asked` has all its settings, of which the sweep varied `swept`."""
    return any(
        cell.engine == engine
        and cell.workload == workload
        and str(cell.warehouses) == asked.get("warehouses")
        and versions.has(cell.engine_version, engine, engine_version)
        and all(
            asked.get(name) in cell.swept.get(name, _USUAL.get(name, []))
            for name in (swept | cell.swept.keys()) - _DECIDED_ELSEWHERE
        )
        for cell in _cells()
    )
