"""Synthetic sweeps of InnoDB whose true values are known: where frames came from, and how much of the pool held pages.

Counters are chosen to give the wanted shares; no formula of `engines.innodb.formulas` is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.synthetic import MIB, Kind, Sweep, Truth

#: The counters that old or new servers lack, with the reason in the core's words.
LACKS_56 = ("innodb_metric_buffer_lru_get_free_loops", "innodb_metric_buffer_lru_get_free_waits")
LACKS_1011 = tuple(
    f"innodb_metric_buffer_lru_{name}"
    for name in (
        "get_free_waits",
        "single_flush_num_scan",
        "single_flush_scanned",
        "single_flush_failure_count",
        "batch_flush_count",
        "batch_evict_count",
    )
)


@dataclass(frozen=True)
class Depth(Truth):
    """One scan depth: shares of the searches for free frames, and frames in use, before noise."""

    depth: int = 1024
    lru_scan_share: float = 0.10
    single_page_share: float = 0.005
    lost_frames: float = 1.15
    """Frames on the free list, per page of depth."""

    @classmethod
    def of(cls, depth: int, reads: float, lru_scan: float, single_page: float, **more: Any) -> Depth:
        """Return a point of the sweep over scan depths."""
        return cls("100MiB", reads, 30.0, 300.0, depth, lru_scan, single_page, **more)


#: The shape of the source document's sweep: reads rise with the depth, and both slow paths become rare.
SCAN_DEPTH = (
    Depth.of(128, 61.9, 0.412, 0.0205),
    Depth.of(256, 64.1, 0.328, 0.0121),
    Depth.of(512, 66.2, 0.201, 0.0096),
    Depth.of(1024, 68.9, 0.106, 0.0052),
    Depth.of(2048, 73.0, 0.055, 0.0028),
)


@dataclass(frozen=True)
class Innodb(Kind):
    """An InnoDB server of the 5.7 generation, unless `lacks` says otherwise."""

    version: str = "5.7.22"
    lacks: Sequence[str] = ()
    pool_bytes: int = 100 * MIB
    page_bytes: int = 16384
    asked_pool: str = "100MiB"
    misc_frames: int = 45
    dead_lru_counter: bool = False
    """True for MariaDB 10.2, which does not count pages of LRU batches."""
    adaptive_hash_index: str = "off"
    gets_for_each_read: float = 1.0
    """Gets of the change buffer's bitmap page for each read, in versions that make them."""
    edge_read_bytes: float = 0.0
    """Bytes read while an edge was sampled."""
    axis: str = "lru_scan_depth"
    actual: Mapping[str, Any] = field(default_factory=dict)

    def swept(self, truth: Truth) -> dict[str, str]:
        assert isinstance(truth, Depth)
        return {"lru_scan_depth": str(truth.depth)} if self.axis == "lru_scan_depth" else {"pool_size": truth.pool}

    def settings(self, sweep: Sweep, truth: Truth) -> tuple[dict[str, str], dict[str, Any]]:
        assert isinstance(truth, Depth)
        asked = {
            "server": f"{sweep.engine}-5.7",
            "page_size": f"{self.page_bytes // 1024}KiB",
            "pool_size": self.asked_pool,
            "buffer_pool_instances": "1",
            "buffer_pool_chunk_size": "128MiB",
            "lru_scan_depth": str(truth.depth),
            "flush_method": "O_DIRECT",
            "io_capacity": "auto",
            "adaptive_hash_index": self.adaptive_hash_index,
        }
        # In a sweep of pools the server runs the asked pool exactly: 10 % is `pool_bytes`.
        tenths = float(truth.pool.removesuffix("%")) / 10 if self.axis == "pool_size" else 1
        actual = {
            "server": f"{sweep.engine}-5.7",
            "page_size": self.page_bytes,
            "pool_size": round(self.pool_bytes * tenths),
            "buffer_pool_instances": 1,
            "buffer_pool_chunk_size": 128 * MIB,
            "lru_scan_depth": truth.depth,
            "flush_method": "O_DIRECT",
            "io_capacity": 200,
            "adaptive_hash_index": self.adaptive_hash_index,
        }
        return asked, {**actual, **self.actual}

    def notes(self) -> dict[str, str]:
        return {"pool_size": "sizes are rounded up to chunks of 128 MiB times 1"}

    def emits(self, name: str) -> bool:
        of_sqlite = ("wal_", "db_syncs", "db_other", "bounce_", "pool_fetches", "pool_hits", "pool_ad", "pool_re",
                     "pool_ev", "pool_over", "pages_spilled", "db_read_ns", "db_write_ns", "postgres_")  # fmt: skip
        return not name.startswith(of_sqlite)

    def missing(self, name: str) -> str | None:
        return f"this server's INNODB_METRICS have no {name}" if name in self.lacks else None

    def changes(self, sweep: Sweep, truth: Truth, common: Mapping[str, float]) -> dict[str, float]:
        assert isinstance(truth, Depth)
        reads, written, created = (common[name] for name in ("pages_read", "pages_written", "pages_created"))
        searches = round(reads) + round(created) + 30
        single, scans = round(truth.single_page_share * searches), round(truth.lru_scan_share * searches)
        failures, batches, listed = 7, 240, round(0.55 * written)
        read_bytes = round(reads) * self.page_bytes
        raw = {
            "get_free_search": searches,
            "get_free_loops": scans + single + failures,
            "get_free_waits": 3,
            "search_scanned": 9 * scans,
            "search_num_scan": scans + 200,
            "single_flush_num_scan": 0.9 * single,
            "single_flush_failure_count": failures,
            "batch_num_scan": batches,
            "batch_scanned": 100 * batches,
            "batch_flush_total_pages": 0 if self.dead_lru_counter else round(written) - listed - single,
            "batch_flush_count": 0 if self.dead_lru_counter else batches - 20,
            "batch_evict_total_pages": 0.6 * reads,
            "batch_evict_count": batches - 10,
        }
        return {f"innodb_metric_buffer_lru_{name}": float(change) for name, change in raw.items()} | {
            # Reading a leaf page costs a get of the change buffer's bitmap page.
            "page_gets": common["page_gets"] + self.gets_for_each_read * reads,
            "demand_misses": reads * 0.998,
            "innodb_buffer_pool_wait_free": single + failures,
            "innodb_buffer_pool_read_ahead": 0.002 * reads,
            "innodb_metric_buffer_flush_batch_total_pages": listed,
            "innodb_metric_buffer_flush_adaptive_total_pages": 0.9 * listed,
            "innodb_metric_buffer_flush_background_total_pages": 0.1 * listed,
            "innodb_metric_buffer_flush_batch_num_scan": 40,
            "innodb_metric_index_page_splits": 0.004 * sweep.transactions,
            "innodb_os_log_written": 5600.0 * sweep.transactions,
            "innodb_dblwr_pages_written": written,
            "innodb_data_reads": reads,
            "innodb_rows_inserted": 5.6 * sweep.transactions,
            "innodb_rows_updated": 11.3 * sweep.transactions,
            "innodb_data_fsyncs": 500,
            "db_read_bytes": read_bytes,
            "db_write_bytes": round(written) * self.page_bytes * 2,
            "process_read_bytes": 0,
            "device_read_bytes": read_bytes * 1.001,
            "server_read_bytes": read_bytes,
            "server_write_bytes": round(written) * self.page_bytes * 2,
            "server_user_us": sweep.transactions * 900,
            "server_system_us": sweep.transactions * 200,
        }

    def level(self, sweep: Sweep, truth: Truth, name: str, t_s: float) -> float | None:
        assert isinstance(truth, Depth)
        total = self.pool_bytes // self.page_bytes
        free = round(truth.lost_frames * truth.depth * (1 + 0.2 * math.sin(t_s)))
        data = total - free - self.misc_frames
        pages = {"total": total, "free": free, "data": data, "dirty": round(0.3 * data), "misc": self.misc_frames}
        if name.startswith("innodb_buffer_pool_pages_"):
            return float(pages[name.rpartition("_")[2]]) * sweep.scale.get(name, 1.0)
        levels = {"pool_frames": total, "pool_frames_used": total - free, "innodb_lsn_age_bytes": 9.0 * MIB,
                  "server_edge_read_bytes": self.edge_read_bytes}  # fmt: skip
        return float(data) * self.page_bytes if name == "innodb_buffer_pool_bytes_data" else levels.get(name)


def scan_depth(**changes: Any) -> Sweep:
    """Return the sweep over scan depths on MySQL 5.7: 100 MiB of 16-KiB pages, five repetitions."""
    whole: dict[str, Any] = {
        "truths": SCAN_DEPTH,
        "blocks": 5,
        "kind": Innodb(),
        "experiment": "scan-depth",
        "question": "What does innodb_lru_scan_depth change?",
        "engine": "mysql",
        "page_size_bytes": 16384,
        "workload": {"connections": 8},
    }
    return Sweep(**{**whole, **changes})
