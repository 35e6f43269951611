"""How InnoDB writes dirty pages in a generated run: the shortest and the longest time that pages may stay dirty.

The page cleaner writes the oldest dirty pages. How old pages get depends on the device and on the load's speed, which
are unknown without a run. The server's rules limit this age on both sides. Below `innodb_adaptive_flushing_lwm`, 10 %
of the redo log, the cleaner writes no page because of its age (buf0flu.cc, af_get_pct_for_lsn). At the largest age,
transactions wait until the page is written (log0log.cc, log_calc_max_ages).

With `innodb_max_dirty_pages_pct_lwm` the cleaner also writes some pages each second while many pages are dirty. A
slower load then writes more pages per transaction, so the end with more writes assumes a slow load.
"""

from __future__ import annotations

from collections.abc import Mapping

from bufferlab.models.access_rules import KnownRedo, redo_of
from bufferlab.models.managers.declaration import Server, Traced
from bufferlab.models.managers.flushing import (
    DIRTY_LIMIT,
    EARLIEST_SHARE,
    OF_CLEANER,
    Limit,
    capacity_settings,
    most_dirty,
)
from bufferlab.models.managers.untraced import CLOCK_PER_S, AgeWriting, uncalibrated
from bufferlab.units import format_bytes
from bufferlab.versions import SERVERS

_CAPACITY, _FILE_BYTES = "redo_log_capacity", "log_file_size"
_OWN_CAPACITY = (("mysql >= 8.0.30", 100 << 20), ("mysql", 2 * (48 << 20)))
"""The default total bytes of all redo log files: innodb_redo_log_capacity, or two files of innodb_log_file_size
(ha_innodb.cc, srv0srv.cc)."""
_FILES = 2
_HEADER_BYTES = 2048
"""The bytes of a redo log file's header (log0log.h, LOG_FILE_HDR_SIZE)."""
_LATEST = 15 / 16
"""The largest age as a share of the log's usable bytes (log0types.h, LOG_POOL_PREFLUSH_RATIO_SYNC)."""
_USABLE_OF_9 = 0.8859
"""The usable share of the log's capacity from 8.0.30 on (log0files_capacity.cc).

It follows from the metric log_max_modified_age_sync of MySQL 9.7.4: 87,086,592 of 104,857,600 bytes.
"""
_SLOWER = 2
"""A safety margin: the slow load, at the end with more writes, is slower than the generator's clock by this factor."""
_DOUBLEWRITE, _COMMIT = "doublewrite", "flush_log_at_trx_commit"
SETTINGS = (_CAPACITY, _FILE_BYTES, *OF_CLEANER, _DOUBLEWRITE, _COMMIT)
"""The settings that change the writes of a generated run."""
_COPIES = {None: 1.0, "on": 1.0, "off": 0.0, "detect_only": 0.0}
"""Value of doublewrite (None is the default, on) -> the copies of each page written to the doublewrite buffer."""
_ONCE_A_SECOND = "0"
_MOST_CHANGES = (1 << 32) - 1


def untraced_flushing(seen: Traced) -> AgeWriting | str:
    """Return how the server writes dirty pages in a generated run, or why that is unknown."""
    redo = redo_of(seen.server.engine, seen.server.version)
    if redo is None:
        return uncalibrated(f"{SERVERS[seen.server.engine]} {seen.server.version}")
    usable_bytes = _usable_bytes(seen.server, _capacity_bytes(seen), seen.ran["page_size"])
    cleaner, most = capacity_settings(seen), most_dirty(seen)
    early = _limit(
        redo, round(EARLIEST_SHARE * usable_bytes), most, "from which on the cleaner writes the oldest pages"
    )
    late = _limit(redo, round(_LATEST * usable_bytes), most, "from which on changes wait for flushing")
    if cleaner:
        early = _of_slow_load(early, cleaner)
    return AgeWriting(
        ends=(early, late),
        times=(_SLOWER if cleaner else 1.0, 1.0),
        copies_per_page=_COPIES.get(seen.words.get(_DOUBLEWRITE)),
        log_bytes=redo.written if seen.words.get(_COMMIT) == _ONCE_A_SECOND else None,
        depends_on="how long pages stay dirty, and so on the device",
        notes=(_SLOW_NOTE,) if cleaner else (),
    )


_SLOW_NOTE = (
    f"The larger ends of writes are those of {CLOCK_PER_S // _SLOWER} transactions a second: while more pages are "
    "dirty than max_dirty_pages_pct_lwm allows, a slower load writes more pages a transaction."
)


def _limit(redo: KnownRedo, age_bytes: int, most: int, why: str) -> Limit:
    settings = {"flush_age": [(0, min(round(age_bytes / redo.bytes_per_change), _MOST_CHANGES))], DIRTY_LIMIT: most}
    return Limit(settings, f"an age of {format_bytes(age_bytes)}, {why}", age_bytes)


def _of_slow_load(early: Limit, cleaner: Mapping[str, float]) -> Limit:
    why = f"{early.why}, and {CLOCK_PER_S // _SLOWER} transactions a second"
    return Limit({**early.settings, "io_capacity": {**cleaner, "speed": 1.0}}, why, early.age_bytes)


def _capacity_bytes(seen: Traced) -> int:
    own = next(value for servers, value in _OWN_CAPACITY if seen.server.is_in(servers))
    files = seen.ran.get(_FILE_BYTES)
    return seen.ran.get(_CAPACITY, own if files is None else _FILES * files)


def _usable_bytes(server: Server, capacity_bytes: int, page_bytes: int) -> int:
    """Return the bytes of the log from which the largest ages follow (log0log.cc, log0chkp.cc: log_calc_max_ages)."""
    if server.is_in("mysql >= 8.0.30"):
        return round(_USABLE_OF_9 * capacity_bytes)
    real = capacity_bytes - _FILES * _HEADER_BYTES
    if server.is_in("mysql >= 8.0"):
        # Subtract two margins: the one that the server never uses, and the one for many threads that write at once.
        writer = real - min(real // 10, 256 * 4 * page_bytes)
        return writer - writer // 20
    # The server reserves four pages for each of ten threads, and eight more. It subtracts 10 % before and after this.
    rest = real - real // 10 - (4 * 10 + 8) * page_bytes
    return rest - rest // 10
