"""The list of engines and workloads whose page accesses the Rust core can generate, one entry each.

This file has only data. The rules themselves are in Rust (crates/bufferlab-generate), under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bufferlab.versions import has


@dataclass(frozen=True)
class KnownError:
    """The errors of reads predicted by the rules, from the comparisons with measured reads in docs/prediction.md."""

    most: float
    """The largest error: relative to the reads if `mean` is known, else a difference in reads per transaction."""
    cells: int
    mean: float | None = None
    """The mean error, relative to the reads; None if most cells have so few reads that a relative error is useless."""


@dataclass(frozen=True)
class KnownRedo:
    """The bytes of redo that some versions of InnoDB write per generated change.

    A change is a page get under an exclusive latch, or the creation of a page.


    The redo log's position (LSN) advances by `bytes_per_change`. The server writes more to the log's files, because
    each write is rounded up to whole blocks.
    """

    servers: str
    bytes_per_change: float
    written_per_change: float
    """The bytes per change that the server writes to the log's files, if it writes the log once a second."""

    def written(self, changes: int, _found: object) -> int:
        """Return the bytes that this many changes write to the log's files."""
        return round(self.written_per_change * changes)


@dataclass(frozen=True)
class KnownWal:
    """The bytes of WAL that some versions of PostgreSQL write per generated change, and per full-page image.

    With data checksums hint bits would be logged too, so the cluster must have no checksums.
    """

    servers: str
    bytes_of_change: int
    bytes_of_image: int


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
    """Workload -> the known error on the calibrated servers."""
    written: tuple[str, ...] = ()
    """The workloads whose changed pages the rules know."""
    calibrated_page_bytes: int = 0
    """The smallest page size, in bytes, at which the rules were fitted to traces table by table; 0 for all."""


RULES: tuple[AccessRules, ...] = (
    AccessRules(
        "innodb",
        5,
        ("mysql", "mariadb"),
        "mysql < 8.0; mariadb",
        "mysql >= 5.7, < 5.8",
        {"statements": "spec"},
        errors={"tpcc": KnownError(0.127, 11, 0.031), "hot_rows": KnownError(0.023, 8)},
        written=("tpcc",),
    ),
    AccessRules(
        "innodb80",
        1,
        ("mysql",),
        "mysql >= 8.0",
        "mysql >= 8.0, < 8.1; mysql >= 9.7, < 10",
        {"statements": "spec"},
        errors={"tpcc": KnownError(0.032, 2, 0.023)},
        written=("tpcc",),
    ),
    AccessRules(
        "postgres",
        1,
        ("postgres",),
        "",
        "postgres >= 17, < 19",
        {"statements": "spec", "autovacuum": "off"},
        errors={"tpcc": KnownError(0.014, 10, 0.007), "hot_rows": KnownError(0.019, 9)},
        written=("tpcc",),
    ),
    AccessRules(
        "sqlite",
        3,
        ("sqlite",),
        "",
        "sqlite",
        {"pcache": "ours"},
        errors={"tpcc": KnownError(0.012, 5, 0.005), "hot_rows": KnownError(0.0, 4)},
        written=("tpcc",),
        calibrated_page_bytes=4096,
    ),
)

KNOWN_REDO: tuple[KnownRedo, ...] = (
    KnownRedo("mysql >= 5.7, < 5.8", 54.2, 55.2),
    KnownRedo("mysql >= 8.0, < 8.1", 56.2, 70.0),
    KnownRedo("mysql >= 9.7, < 10", 53.8, 54.0),
)
"""Measured in seven runs of 130 s of each server (TPC-C, 4 warehouses, 8 connections, pools of 15, 30 and 60 %,
innodb_flush_log_at_trx_commit 0): MySQL 5.7.22, 8.0.15 and 9.7.4 wrote 2,955, 3,139 and 3,006 bytes of redo a
transaction, and 3,010, 3,914 and 3,019 bytes to the log's files. The rules generate 54.5 changes a transaction for 5.7
and 55.9 for later versions."""


def redo_of(engine: str, version: str) -> KnownRedo | None:
    """Return the redo of a server's changes; None if it was not measured."""
    return next((one for one in KNOWN_REDO if has(one.servers, engine, version)), None)


KNOWN_WAL: tuple[KnownWal, ...] = (KnownWal("postgres >= 17, < 18", 115, 7200),)
"""Measured in seven runs of 130 s of PostgreSQL 17.2 (TPC-C, 4 warehouses, 8 connections, pools of 15, 30 and 60 %,
checkpoint_timeout 30 s): a page logged whole takes 7,089 to 7,279 bytes, and without such pages a transaction writes
4,354 bytes of WAL. The rules generate 37.9 changes a transaction."""


def wal_of(engine: str, version: str) -> KnownWal | None:
    """Return the WAL of a server's changes; None if it was not measured."""
    return next((one for one in KNOWN_WAL if has(one.servers, engine, version)), None)


def of_server(engine: str, version: str = "") -> AccessRules | None:
    """Return the access rules of an engine's version, or the engine's first rules without a version; None if it has
    none."""
    found = (rules for rules in RULES if engine in rules.engines)
    return next((rules for rules in found if not version or has(rules.servers, engine, version)), None)
