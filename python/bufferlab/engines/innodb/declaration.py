"""The knobs and the declaration of MySQL 5.6 to 9.7 and MariaDB 10.2 to 11.8. Pure data.

The knobs follow the servers' manuals and sources (storage/innobase/handler/ha_innodb.cc, srv/srv0start.cc). bufferlab
sets few of them itself, for the reasons below. Every other knob is "auto", which leaves it to the server, so that a
point has the version's own defaults and the requested settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from bufferlab.engines.declaration import RATES_OF_SERVERS, EngineDeclaration
from bufferlab.engines.innodb import storage_engines
from bufferlab.engines.memory_limit_knob import POOL, memory_limit
from bufferlab.engines.read_ahead_knob import READ_AHEAD
from bufferlab.engines.servers.server_names import ON_PATH, url_pattern
from bufferlab.knob import PREFIX, Knob, Value
from bufferlab.units import GIB, KIB, MIB, TIB

_CHUNKS = "mysql >= 5.7.5; mariadb >= 10.2.2, < 10.11.12; mariadb >= 11.0, < 11.4.6; mariadb >= 11.5, < 11.8.2"
"""The server versions whose pool consists of chunks; newer MariaDB ignores the chunk size."""
LARGE_PAGES = "mysql >= 5.7.6; mariadb >= 10.1"
_ON_OFF = ("on", "off")
_OWN = ""
"""The resolved value of "auto" for a knob that bufferlab does not set, so that the server's default applies."""


_size, _count, _choice = (
    partial(form, spelling="innodb_{}", default="auto", auto=_OWN, versions="mysql; mariadb")
    for form in (Knob.size, Knob.count, Knob.choice)
)


def server_knob(flavour: str) -> Knob:
    """Return the knob that names the server's build.

    It is a knob like any other, so that a sweep can compare builds and interleave their runs.
    """
    return Knob.text(
        "server",
        f"the build: {ON_PATH} (the first on $PATH), a fetched one's name, the path of its binary or folder; "
        "or the URL of a server that runs already, of which one schema is used (docs/existing-server.md)",
        pattern=rf"{ON_PATH}|{flavour}-[0-9][A-Za-z0-9.+_-]*|/[^\x00-\x1f]*|{url_pattern('mysql', 'mariadb')}",
        example=f"{ON_PATH} | a name such as {flavour}-{_SOME_VERSION[flavour]}, see `bufferlab engines` | a path | "
        "mysql://user@host:3306/schema, a server that runs already (without a password)",
        default=ON_PATH,
        spelling="",
        decides_file=True,
    )


_SOME_VERSION = {"mysql": "8.0", "mariadb": "10.11"}

INNODB_KNOBS: tuple[Knob, ...] = (
    Knob.size("page_size", "innodb_page_size: bytes of a page; the data directory is made for it", default="16k",
              spelling="innodb_page_size", minimum=4 * KIB, maximum=64 * KIB, power_of_two=True, decides_file=True,
              value_versions=(("32KiB", LARGE_PAGES), ("64KiB", LARGE_PAGES))),
    Knob.size_or_share("pool_size",
                       "innodb_buffer_pool_size: the server may round it up to whole chunks of all instances",
                       default="20%", spelling="innodb_buffer_pool_size", minimum=5 * MIB, maximum=16 * TIB),
    # The server's default is 8 from 1 GiB on and 1 below it. A sweep across 1 GiB would then change two things at once.
    _count("buffer_pool_instances", "pools the buffer pool is divided into",
           auto="1", minimum=1, maximum=64, versions="mysql; mariadb < 10.5",
           confounds="instances: lists, scan depth and locks are per instance"),
    _size("buffer_pool_chunk_size", "the unit a pool is rounded up to, times the instances; auto: an instance has one",
          minimum=MIB, maximum=64 * GIB,
          versions=_CHUNKS,
          confounds="chunk size, of which the pool is a multiple"),
    _count("lru_scan_depth", "free pages the page cleaner keeps in each instance, and so pages lost to the cache",
           minimum=100, maximum=2**32 - 1),
    # With O_DIRECT reads bypass the page cache, which would otherwise serve the misses from memory.
    _choice("flush_method", ("O_DIRECT", "O_DIRECT_NO_FSYNC", "O_DSYNC", "fsync"),
            "how data files are opened and flushed; O_DIRECT goes past the page cache", auto=None, default="O_DIRECT",
            confounds="flush method"),
    # The default is 0, as tpcc-mysql's guides recommend: a sweep about reads should not wait for the log's fsync at
    # every commit.
    _choice("flush_log_at_trx_commit", ("0", "1", "2"),
            "0: the log is written and flushed once a second, a crash may lose that second; 1: at every commit; "
            "2: written at commit, flushed once a second", auto=None, default="0"),
    _choice("flush_neighbors", ("0", "1", "2"),
            "what is written with a dirty page: nothing (0), the dirty run around it (1), its extent (2)"),
    _count("io_capacity", "pages a second the server thinks the device can write in the background",
           minimum=100, maximum=2**32 - 1),
    _count("io_capacity_max", "pages a second it may write when it must hurry", minimum=100, maximum=2**32 - 1),
    _count("max_dirty_pages_pct", "per cent of dirty pages above which it flushes as fast as it may", maximum=99),
    _count("max_dirty_pages_pct_lwm", "per cent of dirty pages at which it begins to flush early; 0: never",
           maximum=99),
    _choice("doublewrite", (*_ON_OFF, "detect_only"),
            "every page is written twice, so that a torn write can be repaired; detect_only (MySQL): its number alone",
            value_versions=(("detect_only", "mysql >= 8.0.30"),),
            confounds="doublewrite buffer"),
    _size("log_file_size", "bytes of one redo log file; two of them before MariaDB 10.5", minimum=4 * MIB,
          maximum=512 * GIB, versions="mysql < 8.0.30; mariadb"),
    # redo_log.py says which variable of a version this knob sets.
    _size("redo_log_capacity", "bytes of all redo log files together: how old a dirty page may get", minimum=8 * MIB,
          maximum=128 * GIB),
    # If the index is on, accesses per transaction depend on the pool's size: a lookup that hits the index gets one page
    # instead of a whole path.
    _choice("adaptive_hash_index", _ON_OFF, "a hash index over hot pages; on, it hides page gets from the counters",
            auto=None, default="off",
            confounds="adaptive hash index, which changes page gets"),
    # The default is none, as in MySQL 8.4 (not in 8.0 and 9.7), and as in newer MariaDB, which has no change buffer. A
    # buffered change delays the read of its page: the read is counted later, or never. The smaller the pool, the more
    # changes are buffered.
    _choice("change_buffering", ("none", "inserts", "deletes", "changes", "purges", "all"),
            "changes of secondary index pages that are kept aside until the page is read", auto="none",
            versions="mysql; mariadb < 11.0"),
    # The default is off, as in all versions before 11.6.2, so that the work is the same. If it is on, transactions that
    # change the same row fail and are retried (error 1020, "Record has changed since last read"). 11.6.2 turned it on
    # (MariaDB's manual, InnoDB variables).
    _choice("snapshot_isolation", _ON_OFF, "a transaction fails that locks a row changed since its snapshot",
            auto="off", versions="mariadb >= 11.6.2"),
    _count("old_blocks_pct", "per cent of the LRU list that is its old part, where pages enter", minimum=5,
           maximum=95),
    _count("old_blocks_time", "milliseconds after its first access before another one makes a page young",
           maximum=2**32 - 1),
    _count("read_ahead_threshold", "pages of an extent read in order before the next extent is read ahead",
           maximum=64),
    _choice("random_read_ahead", _ON_OFF, "the rest of an extent is read when many of its pages are in the pool"),
    _count("page_cleaners", "threads that flush and evict in the background", minimum=1, maximum=64,
           versions="mysql >= 5.7.4; mariadb >= 10.2.2, < 10.5",
           confounds="page cleaner threads"),
    READ_AHEAD,
    memory_limit(POOL, versions="mariadb", meaning="; pool: a server's memory at rest, and pool_size for all besides"),
    Knob.choice(storage_engines.KNOB, (storage_engines.INNODB, *storage_engines.STORAGE_ENGINES),
                "the storage engine of the workload's tables; page_size is then its block, pool_size its cache, and "
                "InnoDB's settings do not apply", default=storage_engines.INNODB, spelling="default_storage_engine",
                decides_file=True, versions="mariadb >= 10.2",
                confounds="storage engine"),
    Knob.choice("statements", ("spec", "batched"),
                "spec: each statement of TPC-C on its own; batched: the same work in the fewest round trips",
                default="spec", spelling=""),
)  # fmt: skip


def knobs_of(flavour: str) -> tuple[Knob, ...]:
    """Return the knobs that at least one version of this flavour's server has, and the knob `server`."""
    known = (knob for knob in INNODB_KNOBS if not knob.versions or flavour in knob.versions)
    return (server_knob(flavour), *(_values_of(flavour, knob) for knob in known))


def _values_of(flavour: str, knob: Knob) -> Knob:
    """Return the knob without the values that no version of this flavour's server supports."""
    own = tuple((value, versions) for value, versions in knob.value_versions if flavour in versions)
    lacking = {value for value, _ in knob.value_versions} - {value for value, _ in own}
    return replace(knob, choices=tuple(word for word in knob.choices if word not in lacking), value_versions=own)


_DEPTH = 1536
"""The default LRU scan depth of MariaDB from 10.11 on, assumed until the server reports its value."""


def _mariadb_data_frames(values: Mapping[str, Value], frames: int) -> int:
    """Return how many of a pool's frames hold pages. A build whose version is unknown is treated as a recent one."""
    from bufferlab.theory.hot_rows import frames_of_data  # Import late: a declaration must not need numpy.

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
        results_in="bufferlab.engines.innodb.results",
        chapters="bufferlab.engines.innodb.chapters",
        # With pages of 64 KiB the servers need a pool of 24 MiB, which are 384 frames. With small pages the minimum of
        # `pool_size` is the stricter limit.
        min_frames=384,
        # The factor covers the 18 bytes that a record takes more than in SQLite, and half-empty pages of order_line,
        # which a load by districts leaves.
        size_factor=1.35,
        base_bytes=300 * MIB,
        start_seconds=6.0,
        family="innodb",
        data_kind="directory",
        is_server=True,
        needs_unprivileged_user=True,
        default_connections=8,
        # A lookup of the first or the last row of a leaf gets the neighbouring leaf as well. This was measured in all
        # versions from MySQL 5.6 to MariaDB 11.4, row by row in 5.7 (INNODB_BUFFER_PAGE).
        edge_rows=2,
        data_frames=_mariadb_data_frames if name == "mariadb" else None,
        refused=storage_engines.refused,
        applies=storage_engines.applies if name == "mariadb" else None,
        # A percentage always refers to the size of the database in InnoDB, so that all storage engines get the same hot
        # rows and the same memory.
        shares_refer_to={storage_engines.KNOB: storage_engines.INNODB} if name == "mariadb" else {},
        pool_unit_bytes=MIB,
        # `page_size` is in the list because Aria and MyISAM do not support every block size.
        rounds=("pool_size", "log_file_size", "redo_log_capacity" if name == "mysql" else "page_size"),
        passes_through=PREFIX,
        changes_host=True,
        notes=(
            "the redo log and the doublewrite buffer are written beside the pages that are counted",
            "adaptive hash index off: page gets per transaction then do not depend on the pool",
        ),
    )


MYSQL = _declared("mysql", "MySQL")
MARIADB = _declared("mariadb", "MariaDB")
