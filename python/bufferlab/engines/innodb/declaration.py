"""The declaration that MySQL and MariaDB share. Pure data."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bufferlab.engines.declaration import RATES_OF_SERVERS, EngineDeclaration
from bufferlab.engines.innodb.knobs import knobs_of
from bufferlab.engines.innodb.results import RESULTS
from bufferlab.knob import PREFIX, Value
from bufferlab.units import MIB

_DEPTH = 1536
"""MariaDB's own LRU scan depth from 10.11 on, where none was asked for. The value that a server reports replaces it."""


def _mariadb_data_frames(values: Mapping[str, Value], frames: int) -> int:
    """Return how many of a pool's frames hold pages. A build whose version is not known yet is taken for a new one."""
    from bufferlab.theory.hot_rows import frames_of_data  # It imports numpy, which a declaration must not need.

    found = re.search(r"(\d+)\.(\d+)", str(values.get("version") or values.get("server") or ""))
    if found and (int(found[1]), int(found[2])) < (10, 5):
        return frames
    return frames_of_data(frames, int(values.get("lru_scan_depth") or _DEPTH))


def _declared(name: str, title: str) -> EngineDeclaration:
    """Return the declaration of the engine `name`, shown to people as `title`."""
    return EngineDeclaration(
        name=name,
        meaning=f"{title} with InnoDB: a private server for each run, on a copy of a loaded data directory",
        knobs=knobs_of(name),
        rates=RATES_OF_SERVERS,
        max_connections=1000,
        connections_reason=f"{title} keeps a thread for each connection; more than a thousand measure the scheduler",
        results=RESULTS,
        chapters="bufferlab.engines.innodb.chapters",
        # Of pages of 64 KiB the servers ask for 24 MiB; of small pages the minimum of pool_size is more than this.
        min_frames=384,
        # A record takes 18 bytes more than in SQLite, and a load by district leaves pages of order_line half empty.
        size_factor=1.35,
        base_bytes=300 * MIB,
        start_seconds=6.0,
        family="innodb",
        data_kind="directory",
        is_server=True,
        needs_unprivileged_user=True,
        default_connections=8,
        # A lookup of the first or the last row of a leaf gets the leaf before or after it as well: seen in all versions
        # from MySQL 5.6 to MariaDB 11.4, row by row in 5.7 (INNODB_BUFFER_PAGE).
        edge_rows=2,
        data_frames=_mariadb_data_frames if name == "mariadb" else None,
        pool_unit_bytes=MIB,
        rounds=("pool_size", "log_file_size", *(("redo_log_capacity",) if name == "mysql" else ())),
        passes_through=PREFIX,
        changes_host=True,
        notes=(
            "the redo log and the doublewrite buffer are written beside the pages that are counted",
            "adaptive hash index off: page gets per transaction then do not depend on the pool",
        ),
    )


MYSQL = _declared("mysql", "MySQL")
MARIADB = _declared("mariadb", "MariaDB")
