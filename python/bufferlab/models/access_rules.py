"""The list of engines and workloads whose page accesses the Rust core can generate, one entry each.

Pure data. The rules themselves are in Rust (crates/bufferlab-generate), which knows them by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bufferlab.versions import has


@dataclass(frozen=True)
class KnownError:
    """The errors of predictions by the rules against measured reads, in the cells of docs/prediction.md."""

    most: float
    """The largest error: relative to the reads if `mean` is known, else a difference in reads per transaction."""
    cells: int
    mean: float | None = None
    """The mean error, relative to the reads; None if most cells have so few reads that a relative error is useless."""


@dataclass(frozen=True)
class AccessRules:
    """The rules for which pages an engine gets in each statement, under the Rust core's name for them."""

    name: str
    version: int
    """The version of the rules. Raise it whenever their predictions may change."""
    engines: tuple[str, ...]
    """The engines whose accesses the rules generate."""
    servers: str
    """The versions of these engines, in the notation of versions.py; "" for all that have a buffer manager's model."""
    calibrated: str
    """The servers to whose page traces the rules were fitted, in the notation of versions.py."""
    presumes: Mapping[str, int | str] = field(default_factory=dict)
    """Settings of engine and workload -> the values that the rules assume."""
    workloads: tuple[str, ...] = ("tpcc", "hot_rows")
    """The workloads whose statements the rules cover."""
    errors: Mapping[str, KnownError] = field(default_factory=dict)
    """The known error on the calibrated servers, by workload."""
    calibrated_page_bytes: int = 0
    """The smallest page size at which the rules were fitted to traces, table by table; 0 if at every size."""


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
    """Return the access rules of an engine's version; None without any. Without a version, return the first match."""
    found = (rules for rules in RULES if engine in rules.engines)
    return next((rules for rules in found if not version or has(rules.servers, engine, version)), None)
