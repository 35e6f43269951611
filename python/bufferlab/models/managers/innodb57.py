"""InnoDB of MySQL 5.6 to 8.0 and MariaDB 10.2 to 10.4 (crates/bufferlab-sim/src/managers/innodb/innodb57.rs)."""

from __future__ import annotations

from collections.abc import Mapping

from bufferlab.models.managers import innodb
from bufferlab.models.managers.declaration import BufferManager, Server, Settings

_WAKES_CLEANER = "mysql >= 5.7; mariadb"
"""The servers in which a thread that finds no free frame wakes the page cleaner."""


def _settings(server: Server, values: Mapping[str, int]) -> Settings:
    return {**innodb.common(values), "wakes_cleaner": server.is_in(_WAKES_CLEANER)}


MANAGER = BufferManager(
    name="innodb57",
    version=1,
    meaning="InnoDB: a list with a midpoint, and a cleaner that works once a second or when no frame is free",
    servers="mysql >= 5.6, < 8.1; mariadb >= 10.2, < 10.5",
    defaults={"lru_scan_depth": 1024, "old_blocks_pct": 37, "old_blocks_time": 1000},
    settings=_settings,
    presumes=innodb.PRESUMES,
    read_ahead=innodb.READ_AHEAD,
    both_ends=innodb.both_ends(_settings),
)
