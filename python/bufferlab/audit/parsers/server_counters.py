"""Parses servers' counters as clients print them, into printouts: SHOW GLOBAL STATUS, and views of PostgreSQL.

SHOW GLOBAL STATUS may be a framed table, tab-separated, in the form of \\G, or from `mysqladmin extended-status`. With
mysqladmin's option -r the first block counts from the server's start, and each later block from the block before. The
views of PostgreSQL are pg_stat_database, pg_stat_bgwriter, pg_stat_checkpointer (from version 17 on) and pg_stat_io,
in psql's aligned and expanded forms. Names follow `innodb_status_variables` (ha_innodb.cc), and the output of MySQL 5.7
and 8.0, MariaDB 10.11 and PostgreSQL 15 and 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from bufferlab.audit.parsers.captions import Caption, Place
from bufferlab.audit.parsers.innodb_status import MAX_DUMPS, StatusDump

#: Variable of InnoDB -> field of a printout (`StatusDump`) with the same number.
_FIELDS = {
    "innodb_pages_read": "pages_read",
    "innodb_pages_created": "pages_created",
    "innodb_pages_written": "pages_written",
    "innodb_data_reads": "os_reads",
    "innodb_data_writes": "os_writes",
    "innodb_data_fsyncs": "os_fsyncs",
    "innodb_buffer_pool_read_requests": "gets",
    "innodb_buffer_pool_reads": "misses",
    "innodb_buffer_pool_pages_total": "pool_pages",
    "innodb_buffer_pool_pages_free": "free_buffers",
    "innodb_buffer_pool_pages_data": "database_pages",
    "innodb_buffer_pool_pages_dirty": "modified_pages",
    "innodb_buffer_pool_pages_old": "old_database_pages",
    "innodb_page_size": "page_bytes",
    "innodb_lsn_current": "lsn",
    "innodb_redo_log_current_lsn": "lsn",
    "innodb_lsn_last_checkpoint": "checkpoint_lsn",
    "innodb_redo_log_checkpoint_lsn": "checkpoint_lsn",
    "uptime": "uptime_s",
}
#: The patterns of variables that only MariaDB has, and of variables that only MySQL has.
_OF_MARIADB = re.compile(r"aria_|innodb_lsn_|innodb_buffer_pool_pages_made_")
_OF_MYSQL = re.compile(r"mysqlx_|innodb_redo_log_|innodb_data_pending_fsyncs$")
#: Fields whose totals are never 0. A 0 shows that the block of the text has changes since the block before, not totals.
_NEVER_ZERO = ("page_bytes", "pool_pages")
_HEAD = re.compile(r"\|?\s*variable_name\s*[|\t]\s*(?:variable_)?value\b", re.IGNORECASE)
_RULER = re.compile(r"\+-[-+]*\+?\s*$")
_ROW = re.compile(r"\*{5,} \d{1,9}\. row \*{5,}$")
#: Matches a row with a variable. mysqladmin may add a letter and a number after the name.
_VARIABLE = re.compile(
    r"\|?\s*(?P<name>[A-Za-z]\w{0,63})\s*(?:\|\s*[A-Z]\d{1,4}\s*)?[|\t]\s*(?P<value>[^|\t]*?)\s*\|?\s*$"
)
_NAME = re.compile(r"variable_name:\s*(\w{1,64})\s*$", re.IGNORECASE)
_VALUE = re.compile(r"(?:variable_)?value:\s?(.*)$", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?")

#: Column that only one of PostgreSQL's statistics views has -> that view's columns which only grow.
_VIEWS: dict[str, tuple[str, ...]] = {
    "blks_hit": ("xact_commit", "xact_rollback", "blks_read", "blks_hit", "tup_returned", "tup_fetched", "tup_inserted",
                 "tup_updated", "tup_deleted", "temp_files", "temp_bytes"),
    "buffers_alloc": ("checkpoints_timed", "checkpoints_req", "buffers_checkpoint", "buffers_clean", "maxwritten_clean",
                      "buffers_backend", "buffers_backend_fsync", "buffers_alloc"),
    "buffers_written": ("num_timed", "num_requested", "restartpoints_timed", "restartpoints_req", "restartpoints_done",
                        "buffers_written"),
    "backend_type": ("reads", "read_bytes", "writes", "write_bytes", "writebacks", "extends", "extend_bytes", "hits",
                     "evictions", "reuses", "fsyncs"),
}  # fmt: skip
_OTHER_COLUMNS = {
    *("datid", "datname", "numbackends", "conflicts", "deadlocks", "checksum_failures", "checksum_last_failure"),
    *("blk_read_time", "blk_write_time", "session_time", "active_time", "idle_in_transaction_time", "sessions"),
    *("sessions_abandoned", "sessions_fatal", "sessions_killed", "stats_reset", "parallel_workers_to_launch"),
    *("parallel_workers_launched", "checkpoint_write_time", "checkpoint_sync_time", "write_time", "sync_time"),
    *("num_done", "slru_written", "object", "context", "read_time", "writeback_time", "extend_time", "op_bytes"),
    "fsync_time",
}
_COLUMNS = _OTHER_COLUMNS.union(*_VIEWS.values(), _VIEWS)
#: psql's lines with \\pset linestyle unicode.
_LINES_OF_UNICODE = str.maketrans("│─┼┬┴┌┐└┘├┤", "|-+++++++++")
_RECORD = re.compile(r"-\[ RECORD (\d{1,9}) \][-+]*$")
_EXPANDED = re.compile(r"(?P<name>[a-z_]{1,40})\s*\|\s?(?P<value>.*)$")
_FOOT = re.compile(r"\(\d{1,9} rows?\)$")
_WATCH = re.compile(r"\s*(?:.{0,80}?\s)?(?P<time>\S.{9,60}) \(every [\d.]{1,12}s\)\s*$")
_CLOCK = re.compile(r"\b(\d{1,2}):(\d\d):(\d\d)(?: ([AP]M))?\b")
_DAY = re.compile(
    r"\b(?:(?P<first>\d{1,2}) )?(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?: +(?P<last>\d{1,2}))?\b"
)
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_PAGE_BYTES = 8192
_MOST_COUNTERS = 20_000


class ServerCountersParser:
    """A parser that takes lines one after another; `printouts` ends the text and returns the printouts found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._dumps: list[StatusDump] = []
        self._caption: Caption | None = None
        self._is_open = False
        """Whether rows of SHOW GLOBAL STATUS may follow."""
        self._name = ""
        """In the form of \\G, the variable whose value is on the next line; else ""."""
        self._view: _View | None = None
        self._parts: set[str] = set()
        """The fields or views that the last printout already has."""
        self._at: datetime | None = None

    def printouts(self) -> list[StatusDump]:
        """End the text and return the printouts. Blocks of changes are added to the totals before them."""
        self._end_view()
        self._dumps = _of_several_results(self._dumps)
        _add_up(self._dumps)
        return self._dumps

    def take(self, number: int, text: str, caption: Caption | None) -> bool:
        """Parse a line under a caption; return whether it belongs to counters."""
        if not text.isascii():
            text = text.translate(_LINES_OF_UNICODE)
        if self._view is not None and self._row_of_view(number, text, caption):
            return True
        if self._is_open and _RULER.match(text):
            return True
        if "_" in text or "ptime" in text or "PTIME" in text:
            return self._variable(number, text, caption) or self._head_of_view(text)
        if text.startswith("-[ RECORD"):
            return self._record(text)
        if self._name or text.startswith("*****"):
            return self._of_rows(number, text.strip(), caption)
        if "(every " in text and (match := _WATCH.match(text)):
            self._at, self._parts = _time(match["time"]), set()
            self._is_open = False
            return True
        if self._is_open and (match := _VARIABLE.match(text)) and match["name"][0].isupper():
            return True  # A variable without an underscore: Questions, Queries, Connections.
        if not text or text.isspace():
            self._is_open = False
        return False

    def may_take(self, number: int, text: str) -> bool:
        """Return whether the next line belongs to counters, without parsing it."""
        in_record = self._view is not None and self._view.is_expanded and _EXPANDED.match(text.strip()) is not None
        return in_record or ServerCountersParser(self.file).take(number, text, None)

    def _variable(self, number: int, text: str, caption: Caption | None) -> bool:
        """Parse a row or the head of SHOW GLOBAL STATUS; return whether the line is one."""
        if _HEAD.match(text):
            self._is_open, self._parts = True, set()
            return True
        if match := _NAME.match(text.strip()):
            self._name = match[1]
            return True
        if self._name:
            return self._of_rows(number, text.strip(), caption)
        match = _VARIABLE.match(text)
        if match is None or not (match["name"][0].isupper() or match["name"].startswith("wsrep_")):
            return False
        name = match["name"].lower()
        if name not in _FIELDS:
            # A name in upper case may be a variable of a set-up, not of this table.
            self._tell_server(name)
            return self._is_open and not match["name"].isupper()
        return self._add_variable(number, name, match["value"], caption)

    def _of_rows(self, number: int, bare: str, caption: Caption | None) -> bool:
        """Parse a value in the form of \\G, or the line between two rows; return whether the line is one of these."""
        name, self._name = self._name, ""
        if match := _VALUE.match(bare) if name else None:
            self._tell_server(name.lower())
            if name[0].isupper() and name.lower() in _FIELDS:
                return self._add_variable(number, name.lower(), match[1].strip(), caption)
            return name[0].isupper()
        return _ROW.match(bare) is not None

    def _tell_server(self, name: str) -> None:
        if self._dumps and not self._dumps[-1].server and self._is_open:
            self._dumps[-1].server = "mariadb" if _OF_MARIADB.match(name) else "mysql" if _OF_MYSQL.match(name) else ""

    def _add_variable(self, number: int, name: str, value: str, caption: Caption | None) -> bool:
        if not _NUMBER.fullmatch(value):
            return False
        self._is_open = True
        field = _FIELDS[name]
        dump = self._dump(number, field, caption)
        dump.fields[field] = float(value)
        dump.words[field] = name.capitalize()
        self._tell_server(name)
        return True

    def _dump(self, number: int, part: str, caption: Caption | None) -> StatusDump:
        """Return the printout that a field or view belongs to: a new printout if the last one already has it."""
        if not self._parts or part in self._parts or caption is not self._caption or not self._dumps:
            self._caption, self._parts = caption, set()
            place = Place(self.file, number, caption.label if caption else "")
            dump = StatusDump(place, caption.t_s if caption else None, self._at)
            self._at = None
            if len(self._dumps) < MAX_DUMPS:
                self._dumps.append(dump)
            else:
                self._dumps[-1] = dump
        self._parts.add(part)
        return self._dumps[-1]

    def _head_of_view(self, text: str) -> bool:
        """Begin to read a view if the line is its head in psql's aligned form; return whether it is."""
        if "|" not in text or len(text) > 4000:
            return False
        # With \\pset border 2 psql frames each line. Only the header shows whether it does: in rows, empty outer cells
        # look like a frame.
        bare = text.strip()
        is_framed = bare.startswith("|") and bare.endswith("|")
        names = _cells(text, is_framed=is_framed)
        key = next((key for key in _VIEWS if key in names), None)
        if key is None or not {*_VIEWS[key]} & {*names} or not all(re.fullmatch(r"[a-z_]{1,40}", one) for one in names):
            return False
        self._end_view()
        self._view = _View(key, names, is_framed=is_framed)
        return True

    def _record(self, text: str) -> bool:
        match = _RECORD.match(text.rstrip())
        if match is None:
            return False
        if match[1] == "1":
            self._end_view()
        if self._view is None or not self._view.is_expanded:
            self._view = _View("", [], is_expanded=True)
        self._view.rows.append({})
        return True

    def _row_of_view(self, number: int, text: str, caption: Caption | None) -> bool:
        view = self._view
        assert view is not None
        if not view.number:
            view.number, view.caption = number, caption
        bare = text.strip()
        if view.is_expanded:
            match = _EXPANDED.match(bare)
            if match and view.rows:
                view.rows[-1][match["name"]] = match["value"].strip()
                return match["name"] in _COLUMNS
            if not text.startswith("-[ RECORD"):
                self._end_view()
            return False
        if _FOOT.match(bare):
            self._end_view()
            return True
        if bare and set(bare) <= set("-+"):
            return True
        cells = _cells(text, is_framed=view.is_framed) if "|" in text else []
        if len(cells) != len(view.names):
            self._end_view()
            return False
        if len(view.rows) < _MOST_COUNTERS:
            view.rows.append(dict(zip(view.names, cells, strict=True)))
        return True

    def _end_view(self) -> None:
        """End the view that is being read, and add its rows to a printout."""
        view, self._view = self._view, None
        if view is None or not view.rows:
            return
        key = view.key or next((key for key in _VIEWS if key in view.rows[0]), "")
        if not key:
            return
        dump = self._dump(view.number, key, view.caption)
        dump.server = "postgres"
        for at, row in enumerate(view.rows, 1):
            name = _row_name(key, row, at)
            of = f" of {name}" if name else ""
            if reset := row.get("stats_reset"):
                dump.resets[f"{key}{of}"] = reset
            numbers = {one: float(row[one]) for one in _VIEWS[key] if _NUMBER.fullmatch(row.get(one, ""))}
            if len(dump.counters) < _MOST_COUNTERS:
                dump.counters |= {f"{one}{of}": value for one, value in numbers.items()}
            for field, value in _of_view(key, row, numbers):
                dump.fields[field] = dump.fields.get(field, 0.0) + value


@dataclass
class _View:
    """The rows of a view that is being read."""

    key: str
    names: list[str]
    is_expanded: bool = False
    is_framed: bool = False
    """Whether each line of the printed view also begins and ends with a |."""

    def __post_init__(self) -> None:
        self.rows: list[dict[str, str]] = []
        self.number = 0
        self.caption: Caption | None = None


def _cells(text: str, *, is_framed: bool) -> list[str]:
    return [cell.strip() for cell in (text.strip()[1:-1] if is_framed else text).split("|")]


def _row_name(key: str, row: dict[str, str], at: int) -> str:
    if key == "blks_hit":
        is_shared = "datname" in row or row.get("datid") == "0"
        return row.get("datname") or ("shared objects" if is_shared else f"row {at}")
    if key == "backend_type":
        return " ".join(row.get(one, "") for one in ("backend_type", "object", "context")).strip()
    return ""


def _of_view(key: str, row: dict[str, str], numbers: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Yield (field, number of pages) for each field to which a view's row adds pages."""
    if key == "blks_hit" and "blks_read" in numbers:
        yield "pages_read", numbers["blks_read"]
        yield "misses", numbers["blks_read"]
        if "blks_hit" in numbers:
            yield "gets", numbers["blks_read"] + numbers["blks_hit"]
    if key == "buffers_alloc" and {"buffers_checkpoint", "buffers_clean", "buffers_backend"} <= numbers.keys():
        yield "pages_written", sum(numbers[one] for one in ("buffers_checkpoint", "buffers_clean", "buffers_backend"))
    if key == "backend_type" and row.get("object", "relation").endswith("relation"):
        each = float(row["op_bytes"]) / _PAGE_BYTES if _NUMBER.fullmatch(row.get("op_bytes", "")) else 1.0
        reads = numbers["read_bytes"] / _PAGE_BYTES if "read_bytes" in numbers else numbers.get("reads", 0.0) * each
        yield "io_pages_read", reads
        yield "io_gets", reads + numbers.get("hits", 0.0)


def _of_several_results(dumps: list[StatusDump]) -> list[StatusDump]:
    """Return the printouts of SHOW GLOBAL STATUS. Results of one moment (LIKE 'Innodb%', LIKE 'Up%') are joined.

    Neighbouring results without a common variable are assumed to be of one moment. They are joined only if all moments
    then have the same variables.
    """
    moments: list[list[StatusDump]] = []
    known: set[str] = set()
    for dump in dumps:
        if dump.counters or not moments or dump.place.label != moments[-1][0].place.label or known & dump.fields.keys():
            moments.append([])
            known = set()
        moments[-1].append(dump)
        known |= dump.fields.keys()
    if len({frozenset(name for part in moment for name in part.fields) for moment in moments}) > 1:
        return dumps
    for first, *others in moments:
        for other in others:
            first.fields |= other.fields
            first.words |= other.words
            first.server = first.server or other.server
            first.at = first.at or other.at
    return [moment[0] for moment in moments]


def _add_up(dumps: list[StatusDump]) -> None:
    """Turn blocks of changes into totals. If a printout lacks pg_stat_database, use pg_stat_io for reads and gets.

    The printouts are changed in place.
    """
    before: StatusDump | None = None
    are_changes = _are_changes([dump.fields["uptime_s"] for dump in dumps if "uptime_s" in dump.fields])
    for dump in dumps:
        fields = dump.fields
        is_change = are_changes or any(fields.get(name) == 0 for name in _NEVER_ZERO)
        if before is not None and not dump.counters and is_change:
            dump.fields = {name: before.fields.get(name, 0.0) + value for name, value in fields.items()}
        before = dump
        read, gets = fields.pop("io_pages_read", None), fields.pop("io_gets", None)
        if read is not None and gets is not None and "pages_read" not in fields:
            fields |= {"pages_read": read, "misses": read, "gets": gets}


def _are_changes(uptimes: list[float]) -> bool:
    """Return whether the uptimes after the first are seconds between two blocks: then they do not grow."""
    return len(uptimes) > 2 and max(uptimes[1:]) < uptimes[0] and uptimes[-1] <= uptimes[1]


def _time(text: str) -> datetime | None:
    """Return the time that psql prints above each result of \\watch, in English or in the C locale."""
    clock, day, year = _CLOCK.search(text), _DAY.search(text), re.search(r"\b(\d{4})\b", text)
    if not clock or not day or not year or not (number := day["last"] or day["first"]):
        return None
    hour = int(clock[1]) % 12 + 12 * (clock[4] == "PM") if clock[4] else int(clock[1])
    month = _MONTHS.index(day["month"]) // 3 + 1
    try:
        return datetime(int(year[1]), month, int(number), hour, int(clock[2]), int(clock[3]))
    except ValueError:
        return None
