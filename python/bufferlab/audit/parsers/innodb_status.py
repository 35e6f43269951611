"""Parses SHOW ENGINE INNODB STATUS from MySQL 5.6 on: the lines about the buffer pool, the log and file I/O.

Follows `buf_print_io_instance` (storage/innobase/buf/buf0buf.cc) and `srv_printf_innodb_monitor` (srv0srv.cc) of
MySQL 5.6 to 9.7 and MariaDB 10.2 to 11.8. If lines are cut off, as in a screenshot, the parser reads what remains.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from bufferlab.audit.parsers.captions import Caption, Place

#: The least number of fields of a printout; fewer fields may be recognised by chance.
_ENOUGH_FIELDS = 3
MAX_DUMPS = 100_000

_N, _F = r"(\d{1,18})", r"(\d{1,15}(?:\.\d{1,6})?)"
#: The pattern of each line, matched at the line's start, and the names of the fields in its groups.
_LINES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), tuple(names.split()))
    for pattern, names in (
        (rf"Total (?:large )?memory allocated {_N}", "memory_bytes"),
        (rf"Dictionary memory allocated {_N}", "dictionary_bytes"),
        (rf"Buffer pool size, bytes\s+{_N}", "pool_bytes"),
        (rf"Buffer pool size\s+{_N}", "pool_pages"),
        (rf"Free buffers\s+{_N}", "free_buffers"),
        (rf"Database pages\s+{_N}", "database_pages"),
        (rf"Old database pages\s+{_N}", "old_database_pages"),
        (rf"Modified db pages\s+{_N}", "modified_pages"),
        (rf"Percent of dirty pages\(LRU & free pages\):\s*{_F}", "dirty_percent"),
        (rf"Max dirty pages percent:\s*{_F}", "max_dirty_percent"),
        (rf"Pending reads:?\s+{_N}", "pending_reads"),
        (
            rf"Pending writes: LRU {_N}(?:, flush list {_N})?(?:, single[ -]page(?: writes)? {_N})?",
            "pending_lru pending_flush_list pending_single_page",
        ),
        (rf"Pages made young {_N}(?:, not young {_N})?", "made_young not_made_young"),
        (rf"{_F} youngs?/s(?:, {_F} non-youngs?/s)?", "youngs_per_s non_youngs_per_s"),
        (rf"Pages read {_N}(?:, created {_N})?(?:, written {_N})?", "pages_read pages_created pages_written"),
        (
            rf"{_F} reads/s, {_N} avg bytes/read(?:, {_F} writes/s)?",
            "file_reads_per_s bytes_per_file_read file_writes_per_s",
        ),
        (rf"{_F} reads/s, {_F} creates/s(?:, {_F} writes/s)?", "reads_per_s creates_per_s writes_per_s"),
        (
            rf"Buffer pool hit rate {_N} / 1000(?:, young-making rate {_N} / 1000(?: not {_N} / 1000)?)?",
            "hit_permille young_permille not_young_permille",
        ),
        (
            rf"Pages read ahead {_F}/s(?:, evicted without access {_F}/s)?(?:, Random read ahead {_F}/s)?",
            "read_ahead_per_s evicted_unused_per_s random_read_ahead_per_s",
        ),
        (rf"LRU len: {_N}(?:, unzip_LRU len: {_N})?", "lru_pages unzip_lru_pages"),
        (rf"I/O sum\[{_N}\]:cur\[{_N}\]", "io_sum io_current"),
        (rf"Log sequence number:?\s+{_N}\s*$", "lsn"),
        (rf"Log flushed up to:?\s+{_N}\s*$", "lsn_flushed"),
        (rf"Pages flushed up to:?\s+{_N}\s*$", "pages_flushed_lsn"),
        (rf"Last checkpoint at:?\s+{_N}\s*$", "checkpoint_lsn"),
        (rf"{_N} OS file reads, {_N} OS file writes, {_N} OS fsyncs", "os_reads os_writes os_fsyncs"),
        (rf"Per second averages calculated from the last {_N} seconds", "averages_over_s"),
    )
)
#: The beginnings of lines that may match a pattern; the parser skips all other lines.
_START = re.compile(r"Total|Dict|Buff|Free|Data|Old|Modi|Perc|Max|Pend|Page|LRU|I/O|Log|Last|Per|[0-9]")
#: The fields that a printout has once. A second one belongs to the next printout.
_ONCE = ("memory_bytes", "pool_pages", "free_buffers", "database_pages", "pages_read")
_BEGIN = re.compile(r"^(\d{4}-\d\d-\d\d|\d{6})\s+(\d{1,2}:\d\d:\d\d) .*INNODB MONITOR OUTPUT")
_INSTANCE = re.compile(r"^---BUFFER POOL (\d{1,3})\s*$")


@dataclass
class StatusDump:
    """One printout of a server's counters: its fields by name, and those of each instance if the pool has several."""

    place: Place
    t_s: float | None = None
    """The seconds since the start of the load; None if the caption does not have them."""
    at: datetime | None = None
    """The server's time stamp; None if the printout lacks its head."""
    fields: dict[str, float] = field(default_factory=dict)
    instances: dict[int, dict[str, float]] = field(default_factory=dict)
    whole: bool = False
    """Whether the printout has both its head and its end. Then lines that are missing were never printed."""
    server: str = ""
    """The server: "mysql", "mariadb" or "postgres"; "" if its counters do not identify it."""
    words: dict[str, str] = field(default_factory=dict)
    """Field -> name of the server's variable, for fields that do not come from the status text."""
    counters: dict[str, float] = field(default_factory=dict)
    """PostgreSQL's counters that only grow, by their column and row of a view."""
    resets: dict[str, str] = field(default_factory=dict)
    """Row of a view of PostgreSQL -> time from which it counts."""

    @property
    def family(self) -> str:
        """Return the server: "mariadb", "mysql" or "postgres"; "" if a cut text does not show it.

        MariaDB prints the share of dirty pages between the modified pages and the pending reads; MySQL does not.
        """
        if self.server or "dirty_percent" in self.fields:
            return self.server or "mariadb"
        return "mysql" if {"modified_pages", "pending_reads"} <= self.fields.keys() else ""

    @property
    def bytes_per_page(self) -> float | None:
        """Return the memory of the pool divided by its pages; None if the text does not show the pool's memory.

        MariaDB's number includes twice innodb_log_buffer_size, and MySQL prints 0 from 8.4 on.
        """
        memory, pages = self.fields.get("memory_bytes"), self.fields.get("pool_pages")
        return memory / pages if memory and pages and self.family == "mysql" else None


class StatusParser:
    """A parser that takes lines one after another; `dumps` has the printouts found so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._dumps: list[StatusDump] = []
        self._caption: Caption | None = None
        self._instance: int | None = None

    @property
    def dumps(self) -> list[StatusDump]:
        """Return the printouts that have at least _ENOUGH_FIELDS fields."""
        return [dump for dump in self._dumps if len(dump.fields) >= _ENOUGH_FIELDS]

    def take(self, number: int, text: str, caption: Caption | None) -> bool:
        """Parse a line under a caption; return whether it belongs to a status printout."""
        bare = text.strip()
        if match := _BEGIN.match(bare):
            self._begin(number, caption).at = _time(match[1], match[2])
            return True
        if "INNODB MONITOR OUTPUT" in bare:
            if self._dumps and bare.startswith("END OF"):
                self._dumps[-1].whole = self._dumps[-1].at is not None
            self._instance = None
            return True
        if match := _INSTANCE.match(bare):
            self._instance = int(match[1])
            return True
        if not _START.match(bare):
            return False
        for pattern, names in _LINES:
            if match := pattern.match(bare):
                found = {
                    name: float(text) for name, text in zip(names, match.groups(), strict=True) if text is not None
                }
                self._add(number, caption, found)
                return True
        return False

    def _add(self, number: int, caption: Caption | None, found: dict[str, float]) -> None:
        if not self._dumps:
            self._begin(number, caption)
        dump = self._dumps[-1]
        if self._instance is not None:
            dump.instances.setdefault(self._instance, {}).update(found)
            return
        again = any(name in dump.fields for name in found if name in _ONCE)
        if again or caption is not self._caption:
            dump = self._begin(number, caption)
        dump.fields.update(found)

    def _begin(self, number: int, caption: Caption | None) -> StatusDump:
        self._instance, self._caption = None, caption
        dump = StatusDump(Place(self.file, number, caption.label if caption else ""), caption.t_s if caption else None)
        if len(self._dumps) < MAX_DUMPS:
            self._dumps.append(dump)
        return dump


def _time(day: str, clock: str) -> datetime | None:
    try:
        return datetime.strptime(f"{day} {clock}", "%Y-%m-%d %H:%M:%S" if "-" in day else "%y%m%d %H:%M:%S")
    except ValueError:
        return None
