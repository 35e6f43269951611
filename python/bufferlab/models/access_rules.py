"""The list of engines and workloads whose page accesses the core can generate: one line each, nothing else to edit.

Pure data. The rules themselves are Rust (crates/bufferlab-generate), reached by their name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bufferlab.versions import has


@dataclass(frozen=True)
class KnownError:
    """How far predictions by the rules were from measured reads, in the cells of docs/prediction.md."""

    most: float
    """The largest error: a share of the reads if a mean is known, else a difference of reads per transaction."""
    cells: int
    mean: float | None = None
    """The mean error, a share of the reads; None if most cells have so few reads that a share says nothing."""


@dataclass(frozen=True)
class AccessRules:
    """The rules for the pages that an engine gets for each statement, under the core's name for them."""

    name: str
    version: int
    """The version of the rules. Raise it whenever a prediction by them may change."""
    engines: tuple[str, ...]
    """The engines whose accesses the rules generate. The model of the buffer manager limits the versions."""
    servers: str
    """The versions of these engines, in the notation of versions.py; "": all."""
    calibrated: str
    """The servers to whose page traces the rules were fitted, in the notation of versions.py."""
    presumes: Mapping[str, int | str] = field(default_factory=dict)
    """Settings of engine and workload that the rules take to have these values."""
    workloads: tuple[str, ...] = ("tpcc", "hot_rows")
    """The workloads whose statements the rules know."""
    errors: Mapping[str, KnownError] = field(default_factory=dict)
    """The known error on the calibrated servers, by workload."""
    calibrated_page_bytes: int = 0
    """The smallest page size at which the rules were fitted to traces table by table; 0: at every size."""


RULES: tuple[AccessRules, ...] = (
    AccessRules(
        "innodb",
        5,
        ("mysql", "mariadb"),
        "mysql < 8.0; mariadb",
        "mysql >= 5.7, < 5.8",
        {"statements": "spec"},
        errors={"tpcc": KnownError(0.127, 11, 0.031), "hot_rows": KnownError(0.023, 8)},
    ),
    AccessRules(
        "innodb80",
        1,
        ("mysql",),
        "mysql >= 8.0",
        "mysql >= 8.0, < 8.1; mysql >= 9.7, < 10",
        {"statements": "spec"},
        errors={"tpcc": KnownError(0.032, 2, 0.023)},
    ),
    AccessRules(
        "postgres",
        1,
        ("postgres",),
        "",
        "postgres >= 17, < 19",
        {"statements": "spec", "autovacuum": "off"},
        errors={"tpcc": KnownError(0.014, 10, 0.007), "hot_rows": KnownError(0.019, 9)},
    ),
    AccessRules(
        "sqlite",
        3,
        ("sqlite",),
        "",
        "sqlite",
        {"pcache": "ours"},
        errors={"tpcc": KnownError(0.012, 5, 0.005), "hot_rows": KnownError(0.0, 4)},
        calibrated_page_bytes=4096,
    ),
)


def of_server(engine: str, version: str = "") -> AccessRules | None:
    """Return the access rules of an engine's version; None if it has none. Without a version return any of them."""
    found = (rules for rules in RULES if engine in rules.engines)
    return next((rules for rules in found if not version or has(rules.servers, engine, version)), None)
