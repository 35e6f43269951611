"""The storage engines of MariaDB besides InnoDB: their settings, counters and files. Pure data.

InnoDB runs in every MariaDB server. If a run's tables are in another storage engine, InnoDB is idle with a small pool,
and its settings are left out. To be comparable, all engines run without compression, with the same block size
(`page_size`), and with the same memory budget, of which each declaration gives a fraction to its cache. `differs` names
the differences that remain, and the report has a row for them.

Sources: MyRocks, storage/rocksdb/ha_rocksdb.cc of MariaDB 10.11 (variables, status) and RocksDB's table.h
(block_align); Aria, storage/maria/ha_maria.cc and ma_pagecache.c; MyISAM, mysys/mf_keycache.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bufferlab.engines.memory_limit_knob import NAME as LIMIT
from bufferlab.engines.memory_limit_knob import POOL
from bufferlab.knob import Values
from bufferlab.units import KIB, MIB, format_bytes

KNOB = "storage_engine"
INNODB = "innodb"
LEVELS = "lsm_levels"
"""The name, in a run's results, of the number of LSM tree levels that have files."""
BESIDE_CACHE_BYTES = 16 * MIB
"""The part of one memory budget that no cache gets: connections, statements and the allocator need it.

With 8 connections a server used 9 MiB more than its pool of 24 MiB, as its cgroup counted (10.11.19).
"""
_LEAST_BUDGET = 2 * BESIDE_CACHE_BYTES
_IDLE_POOL = 8 * MIB
_OF_ALL = ("innodb_page_size", "innodb_buffer_pool_size")
"""The variables of InnoDB whose knobs apply to every storage engine; each engine translates them to its own
variables."""
_MEMTABLES = 4 * MIB


@dataclass(frozen=True)
class StorageEngine:
    """A storage engine other than InnoDB."""

    name: str
    """The value of the knob `storage_engine`."""
    sql_name: str
    """The storage engine's name in `ENGINE =`."""
    cache: str
    """The variable that sets the bytes of its cache."""
    blocks: tuple[str, ...]
    """The variables that set the bytes of a block."""
    counters: Mapping[str, tuple[str, ...]]
    """For each shared metric, the status variables, in lower case, whose sum is its value."""
    endings: tuple[str, ...]
    """The suffixes of its files' names."""
    differs: str
    """One sentence on what cannot be made equal to InnoDB."""
    folder: str | None = None
    """The folder of its files in the data directory; None if they are in the schema's folder."""
    plugin: str = ""
    """The file of its plug-in; "" if it is built in."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Additional variables that make it comparable with the other engines."""
    loads_with: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set only for the load."""
    settles_by: tuple[str, ...] = ()
    """Statements at the end of a load that finish its background work, so that no run pays for it."""
    memory: Mapping[str, str] = field(default_factory=dict)
    """Queries by the name that their answer has in a run's results: the bytes of a part of the engine's memory, or
    another number."""
    cache_share: float = 1.0
    """The fraction of the budget that its cache gets."""
    beside_cache_bytes: int = 0
    """The most memory that it uses for writes, in addition to the cache."""
    smallest_block_bytes: int = 4 * KIB
    largest_block_bytes: int = 64 * KIB
    reads_directly: bool = False
    """Whether its reads bypass the page cache."""
    caches_rows: bool = True
    """Whether its cache holds rows.

    If False, only the page cache holds rows, and the engine's counters are of indexes only.
    """
    is_transactional: bool = False

    def cache_bytes(self, budget_bytes: int, *, whole: bool) -> int:
        """Return the bytes of its cache. If `whole`, the budget also covers the rest of the server's memory."""
        left = budget_bytes - self.beside_cache_bytes - (BESIDE_CACHE_BYTES if whole else 0)
        return max(MIB, int(left * self.cache_share) // MIB * MIB)

    def block_size_bytes(self, asked_bytes: int) -> int:
        """Return the bytes of its blocks if the user sets this page size."""
        return min(max(asked_bytes, self.smallest_block_bytes), self.largest_block_bytes)

    def job(self, page_size_bytes: int) -> dict[str, Any]:
        """Return the declaration in the form of a core's run job, for this value of page_size."""
        return {
            "name": self.sql_name,
            "counters": {metric: list(names) for metric, names in self.counters.items()},
            "block_size_bytes": self.block_size_bytes(page_size_bytes),
            "folder": self.folder,
            "endings": list(self.endings),
        }


_SUM = "SELECT SUM(value) FROM information_schema.rocksdb_{}stats WHERE stat_type = '{}'"

ROCKSDB = StorageEngine(
    "rocksdb",
    "RocksDB",
    cache="rocksdb_block_cache_size",
    blocks=("rocksdb_block_size",),
    counters={
        "page_gets": ("rocksdb_block_cache_hit", "rocksdb_block_cache_miss"),
        "pages_read": ("rocksdb_block_cache_miss",),
        "demand_misses": ("rocksdb_block_cache_miss",),
    },
    endings=("sst",),
    differs="an LSM tree, compacted to one level before the runs: its blocks are full, pages of a B-tree have room; "
    "the index of its blocks is in memory",
    folder="#rocksdb",
    plugin="ha_rocksdb.so",
    settings={
        "rocksdb_use_direct_reads": "ON",
        "rocksdb_use_direct_io_for_flush_and_compaction": "ON",
        # A block of the index or of the filter would be larger than a shard of a small cache, so that every select
        # would read it again (findings/myrocks-filter-in-a-small-cache.sh). The memory of these blocks outside the
        # cache is counted too.
        "rocksdb_cache_index_and_filter_blocks": "OFF",
        # Align blocks to multiples of their size: otherwise direct I/O reads two of them for most rows.
        "rocksdb_default_cf_options": "compression=kNoCompression;bottommost_compression=kNoCompression;"
        "write_buffer_size=2097152;"
        "block_based_table_factory={block_align=1;filter_policy=bloomfilter:10:false;format_version=5}",
        "rocksdb_db_write_buffer_size": str(_MEMTABLES),
        # As with bufferlab's default for InnoDB's log, no commit waits for the device.
        "rocksdb_flush_log_at_trx_commit": "0",
    },
    loads_with={"rocksdb_commit_in_the_middle": "ON"},
    settles_by=(
        "SET GLOBAL rocksdb_force_flush_memtable_now = 1",
        "SET GLOBAL rocksdb_compact_cf = 'default'",
    ),
    memory={
        "memory_memtables_bytes": _SUM.format("CF", "CUR_SIZE_ALL_MEM_TABLES"),
        "memory_readers_bytes": _SUM.format("CF", "NON_BLOCK_CACHE_SST_MEM_USAGE"),
        "memory_cache_bytes": _SUM.format("DB", "DB_BLOCK_CACHE_USAGE"),
        LEVELS: "SELECT COUNT(*) FROM information_schema.rocksdb_compaction_stats "
        "WHERE cf_name = 'default' AND type = 'NumFiles' AND value > 0 AND level LIKE 'L%'",
    },
    # Each block is allocated separately, next to an aligned buffer for direct I/O. After evictions the C library's
    # allocator holds twice the cache's bytes: 70 to 74 MiB for a cache of 35 MiB (10.11.19, 8 connections).
    cache_share=0.5,
    beside_cache_bytes=_MEMTABLES,
    reads_directly=True,
    is_transactional=True,
)

ARIA = StorageEngine(
    "aria",
    "Aria",
    cache="aria_pagecache_buffer_size",
    blocks=("aria_block_size",),
    counters={
        "page_gets": ("aria_pagecache_read_requests",),
        "pages_read": ("aria_pagecache_reads",),
        "demand_misses": ("aria_pagecache_reads",),
        "pages_written": ("aria_pagecache_writes",),
    },
    endings=("MAD", "MAI"),
    differs="a row lies apart from its key's index; reads pass the page cache, which may hold a page a second time",
    # The server's system tables are in Aria too; in blocks of 4 KiB their keys would be too long (error 1071).
    smallest_block_bytes=8 * KIB,
    largest_block_bytes=32 * KIB,
)

MYISAM = StorageEngine(
    "myisam",
    "MyISAM",
    cache="key_buffer_size",
    blocks=("key_cache_block_size", "myisam_block_size"),
    counters={
        "page_gets": ("key_read_requests",),
        "pages_read": ("key_reads",),
        "demand_misses": ("key_reads",),
        "pages_written": ("key_writes",),
    },
    endings=("MYD", "MYI"),
    differs="its cache holds indexes alone; the page cache holds rows, by pages of 4 KiB of any block size",
    # As MariaDB's manual recommends ("Optimizing key_buffer_size"): a quarter of the memory, the rest for the page
    # cache.
    cache_share=0.25,
    largest_block_bytes=16 * KIB,
    caches_rows=False,
)

STORAGE_ENGINES: Mapping[str, StorageEngine] = {each.name: each for each in (ROCKSDB, ARIA, MYISAM)}
"""The storage engines besides InnoDB, by the knob's value."""


def of(knobs: Values) -> StorageEngine | None:
    """Return the storage engine of a point's tables; None for InnoDB."""
    return STORAGE_ENGINES.get(str(knobs.get(KNOB, INNODB)).lower())


def settings(engine: StorageEngine, knobs: Values, innodb: Mapping[str, str]) -> dict[str, str]:
    """Return the option file's variables for tables in this storage engine; `innodb` are those for InnoDB.

    InnoDB's settings are left out, because InnoDB idles.
    """
    kept = {name: value for name, value in innodb.items() if not name.startswith("innodb_")}
    block = str(engine.block_size_bytes(int(knobs["page_size"])))
    return {
        **kept,
        "default_storage_engine": engine.sql_name,
        # The checks use temporary tables, which RocksDB does not support.
        "default_tmp_storage_engine": "InnoDB",
        "innodb_buffer_pool_size": str(_IDLE_POOL),
        **engine.settings,
        **dict.fromkeys(engine.blocks, block),
        engine.cache: str(engine.cache_bytes(int(knobs.get("pool_size", 0)), whole=is_whole(knobs))),
    }


def is_whole(knobs: Values) -> bool:
    """Return whether `pool_size` is a budget for all memory beyond the idle server's (memory_limit = pool)."""
    return knobs.get(LIMIT) == POOL


def notes(engine: StorageEngine | None, knobs: Values) -> dict[str, str]:
    """Return by knob why cache size and block size differ from the requested values. `engine` is None for InnoDB."""
    if engine is None:
        kept = f"{LIMIT} = {POOL} keeps {BESIDE_CACHE_BYTES // MIB} MiB of it for connections"
        return {"pool_size": kept} if is_whole(knobs) else {}
    held = f"{engine.cache} is the part of pool_size that {engine.sql_name} gives its cache"
    asked = int(knobs["page_size"])
    smallest, largest = engine.smallest_block_bytes // KIB, engine.largest_block_bytes // KIB
    block = {} if engine.block_size_bytes(asked) == asked else {
        "page_size": f"blocks of {engine.sql_name} have {smallest} to {largest} KiB here"
    }  # fmt: skip
    return {"pool_size": held, **block}


def refused(knobs: Values, workload: str) -> tuple[str, str] | None:
    """Return why the workload cannot run with these settings, and a hint; None if it can."""
    engine, pool_size_bytes = of(knobs), int(knobs.get("pool_size", 0))
    if is_whole(knobs) and pool_size_bytes < _LEAST_BUDGET:
        what = f"{LIMIT} = {POOL} with pool_size = {format_bytes(pool_size_bytes)} leaves no room for a cache"
        return what, f"ask for a pool_size of {format_bytes(_LEAST_BUDGET)} or more"
    if engine is None:
        return None
    if workload not in ("hot_rows", "script") and not engine.is_transactional:
        what = f"{KNOB} = {engine.name} has no transactions, and {workload} needs them"
        return what, f"choose {KNOB}=innodb or {KNOB}=rocksdb"
    return None


def applies(variable: str, knobs: Values) -> bool:
    """Return whether the knob for `variable` applies to a point: most of InnoDB's apply only to tables in InnoDB."""
    return of(knobs) is None or not variable.startswith("innodb_") or variable in _OF_ALL
