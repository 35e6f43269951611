"""InnoDB of MariaDB from 10.5 on (crates/bufferlab-sim/src/managers/innodb/innodb1011.rs)."""

from __future__ import annotations

from collections.abc import Mapping

from bufferlab.models.managers import innodb
from bufferlab.models.managers.declaration import BufferManager, Server, Settings


def _settings(_server: Server, values: Mapping[str, int]) -> Settings:
    return innodb.common(values)


MANAGER = BufferManager(
    name="innodb1011",
    version=1,
    meaning="InnoDB: a list with a midpoint, and a cleaner that is woken when half of lru_scan_depth is left free",
    servers="mariadb >= 10.5",
    defaults={"lru_scan_depth": 1536, "old_blocks_pct": 37, "old_blocks_time": 1000},
    settings=_settings,
    presumes=innodb.PRESUMES,
    read_ahead=innodb.READ_AHEAD,
    filled=innodb.FILLED,
    by_speed=innodb.by_speed,
    doubts=innodb.doubts,
)
