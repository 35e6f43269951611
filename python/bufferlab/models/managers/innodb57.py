"""InnoDB of MySQL 5.6 to 8.0 and MariaDB 10.2 to 10.4 (crates/bufferlab-sim/src/managers/innodb/innodb57.rs)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bufferlab.models.managers import innodb
from bufferlab.models.managers.declaration import BufferManager, Server, Settings

_WAKES_CLEANER = "mysql >= 5.7; mariadb"
"""The servers in which a thread that finds no free frame wakes the page cleaner."""


def _settings(server: Server, values: Mapping[str, int]) -> Settings:
    return {
        **innodb.common(values),
        "flush_neighbors": values["flush_neighbors"],
        "wakes_cleaner": server.is_in(_WAKES_CLEANER),
    }


_UP_TO_5_7 = BufferManager(
    name="innodb57",
    version=2,
    meaning=(
        "InnoDB: a list with a midpoint, and a cleaner that works once a second or when the tail is dirty and no frame "
        "is free"
    ),
    servers="mysql >= 5.6, < 8.0; mariadb >= 10.2, < 10.5",
    defaults={"lru_scan_depth": 1024, "old_blocks_pct": 37, "old_blocks_time": 1000, "flush_neighbors": 1},
    settings=_settings,
    presumes=innodb.PRESUMES,
    read_ahead=innodb.READ_AHEAD,
    filled=innodb.FILLED,
    by_speed=innodb.by_speed,
    doubts=innodb.doubts,
)
_8_0 = replace(_UP_TO_5_7, servers="mysql >= 8.0, < 8.1", defaults={**_UP_TO_5_7.defaults, "flush_neighbors": 0})

MANAGERS = (_UP_TO_5_7, _8_0)
"""One model. The servers' own settings differ."""
