"""The list of engines and workloads whose page accesses the core can generate: one line each, nothing else to edit.

Pure data. The rules themselves are Rust (crates/bufferlab-generate), reached by their name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class AccessRules:
    """The rules for the pages that an engine gets for each statement, under the core's name for them."""

    name: str
    version: int
    """The version of the rules. Raise it whenever a prediction by them may change."""
    engines: tuple[str, ...]
    """The engines whose accesses the rules generate. The model of the buffer manager limits the versions."""
    calibrated: str
    """The servers to whose page traces the rules were fitted, in the notation of versions.py."""
    presumes: Mapping[str, int | str] = field(default_factory=dict)
    """Settings of engine and workload that the rules take to have these values."""
    workloads: tuple[str, ...] = ("tpcc", "hot_rows")
    """The workloads whose statements the rules know."""
    calibrated_page_bytes: int = 0
    """The smallest page size at which the rules were fitted to traces table by table; 0: at every size."""


RULES: tuple[AccessRules, ...] = (
    AccessRules("innodb", 5, ("mysql", "mariadb"), "mysql >= 5.7, < 5.8", {"statements": "spec"}),
    AccessRules("postgres", 1, ("postgres",), "postgres >= 17, < 18", {"statements": "spec", "autovacuum": "off"}),
    AccessRules("sqlite", 3, ("sqlite",), "sqlite", {"pcache": "ours"}, calibrated_page_bytes=4096),
)


def of_engine(name: str) -> AccessRules | None:
    """Return the rules of an engine; None without any."""
    return next((rules for rules in RULES if name in rules.engines), None)
