"""The declaration that MySQL and MariaDB share. Pure data.

Rates were seen on two shared cores and a fast virtual disk; runs on a host replace them.
"""

from __future__ import annotations

from bufferlab.engines.declaration import EngineDeclaration, Rates
from bufferlab.engines.innodb.data_frames import mariadb_data_frames
from bufferlab.engines.innodb.knobs import knobs_of
from bufferlab.engines.innodb.results import RESULTS
from bufferlab.knob import PREFIX
from bufferlab.units import MIB


def declare(name: str, title: str) -> EngineDeclaration:
    """Return the declaration of the engine `name`, shown to people as `title`."""
    return EngineDeclaration(
        name=name,
        meaning=f"{title} with InnoDB: a private server for each run, on a copy of a loaded data directory",
        knobs=knobs_of(name),
        rates=Rates(
            load_bytes_per_s=20 * MIB,
            restore_bytes_per_s=250 * MIB,
            warm_up_bytes_per_s=15 * MIB,
            transactions_per_s=300.0,
            check_bytes_per_s=40 * MIB,
        ),
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
        data_frames=mariadb_data_frames if name == "mariadb" else None,
        pool_unit_bytes=MIB,
        rounds=("pool_size", "log_file_size", *(("redo_log_capacity",) if name == "mysql" else ())),
        passes_through=PREFIX,
        changes_host=True,
        notes=(
            "the redo log and the doublewrite buffer are written beside the pages that are counted",
            "adaptive hash index off: page gets per transaction then do not depend on the pool",
        ),
    )
