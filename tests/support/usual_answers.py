"""Usual answers of a server to any statement of bufferlab: a table with as many columns as the statement asks for.

A column's name decides its cell if bufferlab's behaviour depends on the value; any other cell is a plain number.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from support import fake_mysql
from support.mysql_wire import Cell


@dataclass(frozen=True)
class Table:
    """A table of text cells. `kinds` are the columns' types (str, int, bool); empty means that all are text."""

    heads: Sequence[str]
    rows: Iterable[Sequence[Cell]]
    kinds: Sequence[type] = field(default=())

    @property
    def types(self) -> Sequence[type]:
        """Return the type of each column: text if none is given."""
        return self.kinds or [str] * len(self.heads)


@dataclass(frozen=True)
class Refusal:
    """An error in place of an answer, with its number or SQLSTATE."""

    code: int | str
    text: Cell
    severity: str = "ERROR"


Answer = Table | Refusal | None
"""None is an OK without rows."""

VARIABLES = fake_mysql.VARIABLES | {
    "basedir": "/usr/", "server_uuid": "6f8d9c2e-0000-11ee-8c99-0242ac120002", "innodb_log_files_in_group": "1",
    "thread_handling": "one-thread-per-connection", "innodb_buffer_pool_chunk_size": str(2 << 20),
    "innodb_buffer_pool_instances": "1",
    "innodb_lru_scan_depth": "100", "innodb_flush_method": "O_DIRECT", "innodb_doublewrite": "ON", "read_only": "OFF",
    "super_read_only": "OFF", "log_bin": "OFF", "innodb_page_cleaners": "1", "innodb_old_blocks_time": "0",
    "innodb_adaptive_hash_index": "OFF", "innodb_flush_log_at_trx_commit": "1", "innodb_io_capacity": "200",
    "innodb_io_capacity_max": "2000", "innodb_read_ahead_threshold": "56", "innodb_random_read_ahead": "OFF",
    "innodb_old_blocks_pct": "37", "innodb_flush_neighbors": "0", "innodb_change_buffering": "none",
}  # fmt: skip
STATUS = {
    "Questions": "5000", "Threads_connected": "3", "Innodb_buffer_pool_pages_total": "4096",
    "Innodb_buffer_pool_pages_dirty": "17", "Innodb_buffer_pool_load_status": "Buffer pool(s) load completed",
}  # fmt: skip
SETTINGS = {
    "shared_buffers": ("16384", "8kB"), "max_wal_size": ("1024", "MB"), "block_size": ("8192", None),
    "data_directory": ("/nowhere", None), "track_counts": ("on", None),
    "track_io_timing": ("on", None), "track_activities": ("on", None), "data_checksums": ("off", None),
    "default_transaction_read_only": ("off", None), "wal_segment_size": ("16777216", "B"), "fsync": ("on", None),
    "effective_cache_size": ("524288", "8kB"), "random_page_cost": ("4", None), "bgwriter_lru_maxpages": ("100", None),
    "bgwriter_delay": ("200", "ms"), "checkpoint_timeout": ("300", "s"), "autovacuum": ("on", None),
    "full_page_writes": ("on", None), "synchronous_commit": ("on", None), "wal_buffers": ("512", "8kB"),
}  # fmt: skip
_CELLS: Mapping[str, str | None] = {
    "count": "0", "kind": "definition", "words": "ALTER TABLE", "is_used_lock": None, "of_the_server": "7",
    "exists": "f", "shobj_description": None, "current_schema": "public", "pg_has_role": "t", "pg_get_userbyid": "me",
    "get_lock": "1", "pg_try_advisory_lock": "t",
    "block_size": "8192", "page_size": "8192", "pool_pages": "16384", "max_wal_size": "1073741824", "unit": "8kB",
    "data_directory": "/nowhere", "name": "usual",
    "rolsuper": "f", "rolcreatedb": "t", "pg_is_in_recovery": "f", "current_user": "me@localhost", "context": "user",
    "privilege_type": "PROCESS", "@@version_comment": "usual", "query plan": '[{"Plan": {"Shared Hit Blocks": 7}}]',
    "nspname": "public", "status": "enabled", "enabled": "YES", "timed": "YES", "text": "SELECT ?", "me": "me",
    "of_rings": '{"max_connections": 100, "max_wal_senders": 10}',
    "client_encoding": "UTF8", "server_encoding": "UTF8", "transaction_read_only": "off",
}  # fmt: skip
_STARS = {
    "pg_buffercache_summary": ["buffers_used", "buffers_unused", "buffers_dirty"],
    "pg_stat_progress_vacuum": [
        *("kind", "words", "pid", "datname", "relation", "phase", "done", "whole", "account", "is_automatic"),
    ],
    "HANDLER": ["id", "data_id", "state", "made", "objects", "changed"],
}
"""The columns of statements that use `*`."""
_EMPTY = (
    "HANDLER", "SELECT table_name", "trigger_name", "routine_name", "'event', event_name", "mysql.user", "mysql.db",
    "tables_priv",
    "aclexplode", "pg_describe_object", "c.relkind", "pg_db_role_setting", "pg_file_settings", "pg_stat_ssl",
    "pg_stat_progress_vacuum", "INNODB_TRX", "metadata_locks", "pg_replication_slots", "REGEXP",
    "column_name = 'changed'", "shobj_description",
)  # fmt: skip
"""Words of statements that a usual server answers without rows: no other client works there, and nothing was
planted."""
_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "INDEX", "ALTER", "LOCK TABLES", "PROCESS")
_POSTGRES_COUNTERS = ("page_gets", "pages_read", "transactions", "log_bytes", "pages_written", "evicted_pages")
_SETTING = re.compile(r"current_setting\('([^']+)'")
_INNODB_STATUS = "Log sequence number 2000\nLast checkpoint at 1000\n"
_ASKS = re.compile(r"\s*(SELECT|SHOW|WITH|EXPLAIN|TABLE|VALUES|HANDLER \S+ READ)\b", re.IGNORECASE)
_WORD = re.compile(r"""[A-Za-z_@$.0-9]+|"(?:[^"]|"")*"|'(?:[^']|'')*'|`[^`]*`|\s+|.""", re.DOTALL)
_ENDS = ("FROM", "UNION", "WHERE", "ORDER", "LIMIT", "GROUP", "HAVING")


@dataclass(frozen=True)
class Usual:
    """A usual server."""

    family: str
    version: str
    pid: int = 1
    """The process number and the thread number that it reports."""
    begun_s: float = field(default_factory=time.monotonic)
    is_busy: bool = False
    """Whether its counters grow."""
    is_full: bool = False
    """Whether it returns a row for everything that may exist: backups, replicas, tables of other users."""

    def answer(self, sql: str, session: Mapping[str, str]) -> Answer:
        """Return the answer to a statement in a session with these settings."""
        if not _ASKS.match(sql):
            return None
        asked = " ".join(sql.split())
        cells: dict[str, str | None] = {**_CELLS, **_of_version(self.version), **self._now()}
        first = asked.upper()
        if first.startswith("SHOW"):
            return self._shown(asked) if self.family == "mysql" else _table([asked.split()[-1]], cells)
        if first.startswith("EXPLAIN"):
            return _table(["QUERY PLAN"], cells)
        asked_for = [named for item in items(sql) for named in _columns(item, sql)]
        for item in asked_for:
            if setting := _SETTING.search(item):
                usual_value = SETTINGS.get(setting[1], (cells.get(setting[1]), None))[0]
                cells[_name(item)] = session.get(setting[1], usual_value)
            if item.upper().startswith(("TID ", "THREAD_OS_ID ")):
                cells[_name(item)] = str(self.pid)
        heads = next((heads for view, heads in _STARS.items() if view in asked), [_name(item) for item in asked_for])
        if self.family == "postgres" and "FROM pg_settings" in asked and heads[0] == "name":
            return Table(heads, [[_setting(head, name) for head in heads] for name in SETTINGS])
        if heads == ["privilege_type"]:
            return Table(heads, [[right] for right in _RIGHTS])
        found = _table(heads, cells)
        return found if self.is_full or not any(words in asked for words in _EMPTY) else replace(found, rows=[])

    def _now(self) -> dict[str, str | None]:
        """Return the cells that change over time."""
        age_s = time.monotonic() - self.begun_s
        counters = dict.fromkeys(_POSTGRES_COUNTERS, str(int(10_000 + self.is_busy * 1000 * age_s)))
        ids = dict.fromkeys(("pid", "pg_backend_pid"), str(self.pid))
        return {**counters, **ids, "uptime_s": f"{age_s:.3f}", "started_s": f"{time.time() - age_s:.3f}"}

    def _shown(self, sql: str) -> Table:
        """Return the answer to a SHOW statement of MySQL."""
        first = sql.upper()
        if " ENGINE " in first:
            return Table(["Type", "Name", "Status"], [["InnoDB", "", _INNODB_STATUS]])
        if "VARIABLES" not in first and "STATUS" not in first:
            grants = ("GRANT PROCESS ON *.* TO `me`@`localhost`", "GRANT ALL PRIVILEGES ON `lab`.* TO `me`@`localhost`")
            return Table(["Grants"], [[grant] for grant in grants])
        if "REPLICA" in first or "SLAVE" in first:
            return Table(["Replica_IO_State"], [])
        age_s = time.monotonic() - self.begun_s
        grown = {name: str(int(10**6 + self.is_busy * growth * age_s)) for name, growth in fake_mysql.GROWTH.items()}
        status = STATUS | grown | dict.fromkeys(("Uptime", "Uptime_since_flush_status"), str(int(age_s)))
        told = VARIABLES | {"version": self.version} if "VARIABLES" in first else status
        wanted = {name.lower() for name in re.findall(r"'([^'%]*)'", sql)}
        rows = [[name, value] for name, value in told.items() if not wanted or name.lower() in wanted]
        return Table(["Variable_name", "Value"], rows)


def items(sql: str) -> list[str]:
    """Return the columns that the outermost SELECT of a statement asks for.

    >>> items("WITH a AS (SELECT 1) SELECT count(*), x.y AS z, (SELECT 1 FROM t) AS b FROM pg_class")
    ['count(*)', 'x.y AS z', '(SELECT 1 FROM t) AS b']
    """
    found: list[str] = []
    depth, is_inside, item = 0, False, ""
    for word in _WORD.findall(sql):
        depth += (word == "(") - (word == ")")
        if depth == 0 and is_inside and word.upper() in _ENDS:
            break
        if depth == 0 and is_inside and word == ",":
            found.append(item.strip())
            item = ""
        elif depth == 0 and word.upper() == "SELECT":
            is_inside, item = True, ""
        else:
            item += word if is_inside else ""
    return [*found, item.strip()]


def _columns(item: str, sql: str) -> list[str]:
    """Return the columns of "alias.*" if the alias names a SELECT in parentheses; for any other item the item itself.

    >>> _columns("d.*", "SELECT d.* FROM (SELECT (a + b) AS one, two FROM t) AS d")
    ['(a + b) AS one', 'two']
    """
    end = sql.find(f") AS {item[:-2]}") if item.endswith(".*") else -1
    if end < 0:
        return [item]
    start, depth = end, 1
    while depth and start > 0:
        start -= 1
        depth += (sql[start] == ")") - (sql[start] == "(")
    return items(sql[start + 1 : end])


def _name(item: str) -> str:
    """Return the name of a column: its alias, or that of the function or column."""
    if alias := re.search(r"\bAS\s+[\"`]?(\w+)[\"`]?$", item, re.IGNORECASE):
        return alias[1]
    word = re.search(r"[\w@$.]+", item)
    return word[0].rpartition(".")[2].lower() if word else "x"


def _table(heads: Sequence[str], cells: Mapping[str, str | None]) -> Table:
    row = [cells.get(head.lower(), "1") for head in heads]
    return Table(heads, [row], [_kind(cell) for cell in row])


def _kind(cell: str | None) -> type:
    return bool if cell in ("t", "f") else int if cell is not None and cell.isdecimal() else str


def _setting(head: str, name: str) -> str | None:
    value, unit = SETTINGS[name]
    return {"name": name, "setting": value, "unit": unit, "context": "user"}.get(head, value)


def _of_version(version: str) -> dict[str, str | None]:
    parts = [int(part) for part in re.findall(r"\d+", version)[:2]] or [0]
    number = str(min(parts[0] * 10_000 + parts[-1], 1 << 30))
    words: dict[str, str | None] = {
        "version": version,
        "server_version": version,
        "number": number,
        "server_version_num": number,
    }
    return {**words, "setting": number}


def changed(answer: Answer, **more: object) -> Answer:
    """Return a table with some rows or column names replaced; any other answer unchanged."""
    return replace(answer, **more) if isinstance(answer, Table) else answer  # type: ignore[arg-type]
