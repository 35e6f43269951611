"""Observes a MySQL or MariaDB server: SHOW GLOBAL STATUS once a second, and performance_schema if it is on.

crates/bufferlab-drive/src/mysql/counters.rs says which counter is a miss, and how versions differ. A sample of SHOW
GLOBAL STATUS makes no page get. Handler_commit is not used: it counts a transaction once for each storage engine and
for the binary log.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

from bufferlab.engines.innodb import connection as innodb
from bufferlab.engines.innodb import questions, redo_log
from bufferlab.engines.innodb.metrics import LOOK_COUNTERS, LOOK_LEVELS
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.look import (
    LOCK_SECONDS,
    NAME,
    STATEMENT_SECONDS,
    DataSize,
    Facts,
    LargeObject,
    Look,
    NotTold,
    PoolLevels,
    Query,
    Refused,
    Sample,
    ask,
    integer,
    text,
)

_OTHERS = ("uptime", "uptime_since_flush_status", "innodb_redo_log_current_lsn", "innodb_redo_log_checkpoint_lsn")
_IDENTITY = ("server_uuid", "server_uid", "hostname", "port", "datadir")
_DATA_FILE = "wait/io/file/innodb/innodb_data_file"
_STATEMENTS = "statement/sql/select"
_NEEDED_TIMERS = (_DATA_FILE, _STATEMENTS)
_TIMES = f"""\
SELECT 'read_ps' AS name, SUM(SUM_TIMER_READ) AS value
FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME = '{_DATA_FILE}'
UNION ALL SELECT 'statement_ps', SUM(SUM_TIMER_WAIT)
FROM performance_schema.events_statements_summary_global_by_event_name
"""
_TRANSACTIONS = (
    "SELECT SUM(COUNT_STAR) AS value FROM performance_schema.events_transactions_summary_global_by_event_name"
)
_OWN = """\
SELECT SUM(s.{column}) AS value FROM performance_schema.{table} AS s JOIN performance_schema.threads AS t
USING (THREAD_ID) WHERE t.PROCESSLIST_ID = CONNECTION_ID()"""
_PS_PER_MS = 10**9
_OWN_ROWS = "own_rows"
_NO_PERFORMANCE_SCHEMA = (
    "performance_schema is off; performance_schema = ON below [mysqld] in the server's option file, and a restart, "
    "would let it"
)
_OF_ONE_STATEMENT = "; without a restart ANALYZE FORMAT=JSON times the reads of one statement (pages_read_time_ms)"
_SINCE = (10, 11, 5)
"""The first version of MariaDB whose ANALYZE FORMAT=JSON times reads; 10.11.19 does so too."""
_TIMERS_OFF = (
    "performance_schema does not time reads or statements; UPDATE performance_schema.setup_instruments SET "
    f"ENABLED = 'YES', TIMED = 'YES' WHERE NAME = '{_DATA_FILE}' OR NAME LIKE 'statement/%' would let it"
)
_NO_RIGHT = (
    "the account may not read performance_schema; GRANT SELECT ON performance_schema.* TO the account would let it"
)
_LSN = {"current": r"Log sequence number\s+(\d+)", "checkpoint": r"Last checkpoint at\s+(\d+)"}


class InnodbLook(Look):
    """The queries by which bufferlab observes MySQL and MariaDB."""

    def watch(self, address: Address) -> Client:
        connection = innodb.connect(address, seconds=2.0 * STATEMENT_SECONDS, name=NAME)
        limits = (
            "SET SESSION TRANSACTION READ ONLY",
            f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}",
            f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}",
            f"SET SESSION max_statement_time = {STATEMENT_SECONDS}",  # MariaDB, in seconds.
            f"SET SESSION max_execution_time = {1000 * STATEMENT_SECONDS}",  # MySQL from 5.7.8 on, in ms.
        )
        return innodb.set_session(connection, limits)

    def own_at_start(self, connection: Client) -> int:
        ((_, told),) = connection.rows("SHOW SESSION STATUS LIKE 'Questions'")
        return int(told)

    def facts(self, query: Query) -> Facts:
        told = _pairs(query("SHOW GLOBAL VARIABLES"))
        if "innodb_buffer_pool_size" not in told:
            raise Refused("this server has no InnoDB, and so no buffer pool of it")
        version = told.get("version", "")
        is_mariadb = "mariadb" in version.lower()
        has_transactions, no_time = _instruments(query, told)
        return Facts(
            flavour="mariadb" if is_mariadb else "mysql",
            version=version,
            numbers=tuple(map(int, re.findall(r"\d+", version)[:3])),
            identity="|".join(told.get(name, "") for name in _IDENTITY),
            page_size_bytes=int(told.get("innodb_page_size", 16384)),
            pool_size_bytes=int(told["innodb_buffer_pool_size"]),
            transactions="transaction" if has_transactions else "explicit commit",
            no_time=no_time,
            uptime_s=float(_pairs(query("SHOW GLOBAL STATUS LIKE 'Uptime'"))["uptime"]),
            thread=_thread(query, is_mariadb, told),
            data_directory=told.get("datadir"),
            settings={**told, _OWN_ROWS: str(_own_rows(query))},
        )

    def sample(self, query: Query, facts: Facts, t_s: float, own: Callable[[], int]) -> Sample:
        names, begun_s, read_s = [*LOOK_COUNTERS, *LOOK_LEVELS, *_OTHERS], time.monotonic(), dict[str, float]()
        status = _pairs(query(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({_quoted(names)})"))
        numbers = {name: int(value) for name, value in status.items() if value.isdecimal()}
        counters = {ours: numbers[name] for name, ours in LOOK_COUNTERS.items() if name in numbers}
        levels: dict[str, float] = {ours: numbers[name] for name, ours in LOOK_LEVELS.items() if name in numbers}
        if (lsn := numbers.get("innodb_redo_log_current_lsn")) is not None:
            levels["log_age_bytes"] = lsn - numbers.get("innodb_redo_log_checkpoint_lsn", lsn)
        own_then = own()
        # A privilege may be revoked at any time. Counts that the server then no longer reports are missing.
        with suppress(Refused):
            if not facts.no_time:
                read_s |= dict.fromkeys(("read_ms", "statement_ms"), t_s + time.monotonic() - begun_s)
                counters |= {str(row["name"]): int(row["value"] or 0) for row in query(_TIMES)}
            if facts.transactions == "transaction":
                read_s["transactions"] = t_s + time.monotonic() - begun_s
                counters["transactions"] = int(query(_TRANSACTIONS)[0]["value"] or 0)
        uptime = numbers.get("uptime", 0)
        flushed = numbers.get("uptime_since_flush_status", uptime)
        reset_s = float(uptime - flushed)
        return Sample(t_s, counters, levels, {"statements": own_then}, t_s - uptime, reset_s, read_s)

    def derive(self, grown: Mapping[str, int], facts: Facts) -> dict[str, float]:
        found: dict[str, float] = dict(grown)
        ahead, at_random = found.get("read_ahead_pages", 0), found.pop("random_read_ahead_pages", 0)
        # From MariaDB 10.5 on Innodb_buffer_pool_reads counts linear read-ahead too.
        one_pool = facts.flavour == "mariadb" and facts.numbers >= (10, 5)
        found["misses"] = max(0, found.pop("reads_told", 0) - at_random - (ahead if one_pool else 0))
        found["read_ahead_pages"] = ahead + at_random
        if facts.transactions == "explicit commit":
            found["transactions"] = found.get("commits", 0)
        for name in ("read", "statement"):
            if f"{name}_ps" in found:
                found[f"{name}_ms"] = found.pop(f"{name}_ps") / _PS_PER_MS
        return found

    def pool(self, query: Query, facts: Facts) -> PoolLevels:
        levels = self.sample(query, facts, 0.0, lambda: 0).levels
        values = {name: value for name, value in levels.items() if name not in ("connections", "history_list_length")}
        why: dict[str, str] = {}
        values["pool_size_bytes"] = facts.pool_size_bytes
        for name in ("instances", "chunk_size"):
            # MariaDB chooses the chunk size itself if the variable is 0, and has no instances from 10.5 on.
            if told := int(facts.settings.get(f"innodb_buffer_pool_{name}", 0)):
                values["instances" if name == "instances" else "chunk_size_bytes"] = told
            else:
                why[name] = f"{facts.engine} {facts.version} does not tell it"
        if "old_pages" not in values:
            try:
                (row,) = query(
                    "SELECT SUM(OLD_DATABASE_PAGES) AS value FROM information_schema.INNODB_BUFFER_POOL_STATS"
                )
                values["old_pages"] = int(row["value"] or 0)
            except Refused as error:
                why["old_pages"] = f"{error}; GRANT PROCESS ON *.* TO the account would let it"
        if "log_age_bytes" not in values:
            try:
                values["log_age_bytes"] = _log_age(str(query("SHOW ENGINE INNODB STATUS")[0]["status"]))
            except (Refused, ValueError) as error:
                why["log_age_bytes"] = f"{error}; GRANT PROCESS ON *.* TO the account would let it"
        if capacity := redo_log.capacity_bytes(facts.settings):
            values["log_capacity_bytes"] = capacity
        return PoolLevels(values, why)

    def data(self, query: Query, facts: Facts) -> DataSize | NotTold:
        pool_pages = facts.pool_size_bytes // facts.page_size_bytes
        rows = ask(query, questions.data(facts.flavour, facts.numbers, facts.pool_size_bytes))
        if isinstance(rows, NotTold):
            return rows
        if why := questions.incomplete(rows):
            return why
        size_of = {text(row["name"]): integer(row["size_bytes"]) for row in rows}
        larger = {
            name: size
            for name, size in size_of.items()
            if name and size > facts.pool_size_bytes and not questions.is_without_tables(name)
        }
        told = ask(query, questions.table_rows(pool_pages)) if larger else []
        remedy = told.remedy if isinstance(told, NotTold) else None
        rows_of = {} if isinstance(told, NotTold) else {text(row["name"]): integer(row["table_rows"]) for row in told}
        ours = _sequential(query, "SESSION")
        shown = int(_pairs(query("SHOW SESSION STATUS LIKE 'Com_show_status'")).get("com_show_status", 0))
        read = _sequential(query, "GLOBAL") - ours - shown * int(facts.settings[_OWN_ROWS])
        # The server does not report to which table the rows belong. A session that reads a page reads at least one row
        # of the page.
        return DataSize(size_of[None], {
            name: LargeObject(read, max(pool_pages, rows_of.get(name, 0) * facts.pool_size_bytes / size), remedy)
            for name, size in larger.items()
        })  # fmt: skip

    def own_total(self, query: Query) -> Mapping[str, float]:
        found = {}
        for name, column, table, unit in (
            ("transactions", "COUNT_STAR", "events_transactions_summary_by_thread_by_event_name", 1),
            ("statement_ms", "SUM_TIMER_WAIT", "events_statements_summary_by_thread_by_event_name", _PS_PER_MS),
        ):
            with suppress(Refused):
                (row,) = query(_OWN.format(column=column, table=table))
                found[name] = int(row["value"] or 0) / unit
        return found


def _sequential(query: Query, scope: str) -> int:
    """Return how many rows were read sequentially: by all sessions (GLOBAL), or by bufferlab's (SESSION)."""
    told = _pairs(query(f"SHOW {scope} STATUS WHERE Variable_name IN ({_quoted(questions.SEQUENTIAL)})"))
    return sum(int(told.get(name, 0)) for name in questions.SEQUENTIAL)


def _own_rows(query: Query) -> int:
    """Return how many sequential reads one SHOW STATUS adds to the server's global count (sql_show.cc).

    It does not add them to its session's count.
    """
    counts = [_sequential(query, "GLOBAL") for _ in range(3)]
    return max(0, min(second - first for first, second in pairwise(counts)))


def _pairs(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {str(row["variable_name"]).lower(): str(row["value"]) for row in rows}


def _quoted(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _instruments(query: Query, told: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether performance_schema counts transactions, and why it does not time statements and reads.

    The reason is "" if it times them.
    """
    if told.get("performance_schema", "OFF") != "ON":
        version = told.get("version", "")
        times_one = "mariadb" in version.lower() and tuple(map(int, re.findall(r"\d+", version)[:3])) >= _SINCE
        return False, _NO_PERFORMANCE_SCHEMA + (_OF_ONE_STATEMENT if times_one else "")
    names = _quoted(("transaction", *_NEEDED_TIMERS))
    try:
        rows = query(f"SELECT NAME, ENABLED, TIMED FROM performance_schema.setup_instruments WHERE NAME IN ({names})")
        found = {str(row["name"]): (row["enabled"] == "YES", row["timed"] == "YES") for row in rows}
        query(_TIMES)
        if found.get("transaction", (False, False))[0]:
            query(_TRANSACTIONS)
    except Refused:
        return False, _NO_RIGHT
    timed = all(found.get(name) == (True, True) for name in _NEEDED_TIMERS)
    return found.get("transaction", (False, False))[0], "" if timed else _TIMERS_OFF


def _thread(query: Query, is_mariadb: bool, told: Mapping[str, str]) -> int | None:
    """Return the kernel's thread id of bufferlab's session on the server's host.

    Return None for a server with a thread pool, and if the server does not show the id.
    """
    if told.get("thread_handling", "one-thread-per-connection") != "one-thread-per-connection":
        return None
    if is_mariadb:
        sql = "SELECT TID AS value FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
    else:
        sql = "SELECT THREAD_OS_ID AS value FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"
    with suppress(Refused, IndexError, TypeError):
        return int(query(sql)[0]["value"])
    return None


def _log_age(status: str) -> int:
    """Return the bytes of log since the last checkpoint, from SHOW ENGINE INNODB STATUS, or raise ValueError."""
    found = {name: re.search(pattern, status) for name, pattern in _LSN.items()}
    if not found["current"] or not found["checkpoint"]:
        raise ValueError("SHOW ENGINE INNODB STATUS does not tell the log's numbers")
    return int(found["current"][1]) - int(found["checkpoint"][1])
