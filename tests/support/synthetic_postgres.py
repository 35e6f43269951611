"""Synthetic sweeps of PostgreSQL whose true values are known: which reads shared buffers, page cache and device served.

Counters are chosen to give the wanted shares; no formula of `engines.postgres.formulas` is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.synthetic import MIB, Kind, Sweep, Truth

PAGE = 8192


@dataclass(frozen=True)
class Split(Truth):
    """A division of memory, and the share of the server's reads that the page cache serves."""

    cached_share: float = 0.5


SPLITS = (
    Split("4MiB", 60.0, cached_share=0.9),
    Split("64MiB", 20.0, cached_share=0.5),
    Split("128MiB", 9.0, cached_share=0.1),
)


@dataclass(frozen=True)
class Postgres(Kind):
    """PostgreSQL 15 to 18; the version decides which columns exist."""

    version: str = "15.18"
    io_direct: str = "off"
    read_ahead: float = 1.0
    """Bytes that the device reads, divided by the bytes asked of it."""
    hidden: bool = False
    """True if the server's processes are another user's, so that their /proc/PID/io cannot be read."""
    memory_limit_bytes: int | None = 192 * MIB
    """The common limit of shared buffers and page cache; None without a limit."""
    growth: float = 250.0
    """Pages by which tables and indexes grow in the window, half of them each."""
    watching: float = 4.0
    """Transactions of the connection that reads the counters, in the whole window."""

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    def settings(self, sweep: Sweep, truth: Truth) -> tuple[dict[str, str], dict[str, Any]]:
        size = int(truth.pool.removesuffix("MiB")) * MIB
        asked = {"server": f"postgres-{self.major}", "page_size": "8KiB", "pool_size": truth.pool,
                 "memory_limit": str(self.memory_limit_bytes or "off"), "debug_io_direct": self.io_direct,
                 "bgwriter_delay": "auto", "synchronous_commit": "off"}  # fmt: skip
        actual = {"server": f"postgres-{self.major}", "page_size": PAGE, "pool_size": size,
                  "memory_limit": self.memory_limit_bytes or "off", "debug_io_direct": self.io_direct,
                  "bgwriter_delay": 0.2, "synchronous_commit": "off"}  # fmt: skip
        return asked, actual

    def emits(self, name: str) -> bool:
        ours = ("page_gets", "demand_misses", "pages_read", "pages_written", "pool_frames", "db_bytes", "db_read_bytes")
        engine = ("innodb_", "com_", "questions", "wal_", "db_", "bounce_", "pool_", "pages_", "page_")
        return name in ours or not name.startswith(engine)

    def missing(self, name: str) -> str | None:
        if self.hidden and name.startswith("server_"):
            return "cannot open /proc/1/io: permission denied"
        if name.startswith("postgres_io_") and self.major < 16:
            return "PostgreSQL 15 has no pg_stat_io"
        if name.startswith("postgres_bgwriter_buffers_backend") and self.major >= 17:
            return f"PostgreSQL {self.major} has no such column in pg_stat_bgwriter"
        return None

    def changes(self, sweep: Sweep, truth: Truth, common: Mapping[str, float]) -> dict[str, float]:
        assert isinstance(truth, Split)
        reads, gets, written = common["pages_read"], common["page_gets"], common["pages_written"]
        asked_of_device = reads * (1 - truth.cached_share) if self.io_direct == "off" else reads
        counted_growth = self.growth if self.major <= 15 else 0.0
        device_bytes = round(asked_of_device * self.read_ahead) * PAGE
        return {
            "demand_misses": reads,
            "db_read_bytes": round(reads) * PAGE,
            "process_read_bytes": 0,
            "device_read_bytes": device_bytes,
            "server_read_bytes": device_bytes,
            "postgres_database_blks_read": reads + counted_growth,
            "postgres_database_blks_hit": gets - reads,
            "postgres_growth_pages": counted_growth,
            "postgres_growth_heap_pages": counted_growth / 2,
            "postgres_growth_idx_pages": counted_growth / 2,
            "postgres_statio_heap_blks_read": 0.7 * reads + counted_growth / 2,
            "postgres_statio_idx_blks_read": 0.3 * reads + counted_growth / 2,
            "postgres_statio_heap_blks_hit": 0.4 * (gets - reads),
            "postgres_statio_idx_blks_hit": 0.59 * (gets - reads),
            # Ten of 23 transactions are New-Orders, of which one in a hundred is rolled back.
            "postgres_database_xact_commit": sweep.transactions * (1 - 0.01 * 10 / 23) + self.watching,
            "postgres_bgwriter_buffers_alloc": reads + 100,
            "postgres_bgwriter_buffers_checkpoint": 0.5 * written,
            "postgres_bgwriter_buffers_clean": 0.3 * written,
            "postgres_bgwriter_buffers_backend": 0.2 * written,
            "postgres_io_pages_read": reads,
            "postgres_io_normal_reads": reads - 10,
            "postgres_io_bulkread_reads": 10,
            "postgres_io_normal_writes": 0.2 * written,
            "postgres_checkpointer_num_requested": 1,
            "postgres_wal_bytes": 3000.0 * sweep.transactions,
            "postgres_wal_fpi": 0.2 * sweep.transactions,
            "server_user_us": sweep.transactions * 700,
            "server_system_us": sweep.transactions * 300,
        }


def memory_split(**changes: Any) -> Sweep:
    """Return the sweep memory-split on PostgreSQL 15, with five repetitions."""
    whole: dict[str, Any] = {
        "truths": SPLITS,
        "blocks": 5,
        "kind": Postgres(),
        "experiment": "memory-split",
        "question": "How much of it to shared_buffers, and how much to the page cache?",
        "engine": "postgres",
        "page_size_bytes": PAGE,
        "io_mode": "buffered",
        "workload": {"connections": 8},
    }
    return Sweep(**{**whole, **changes})
