"""Observes a PostgreSQL server: the statistics views of all databases together, in one statement a second.

crates/bufferlab-drive/src/postgres/counters.rs says which column is which counter, and how versions differ. Processes
publish their counts at most once a second, when a transaction ends. bufferlab's session publishes at the end of each
sample (pg_stat_force_next_flush), so that its own commits are known exactly.

Up to version 15 gets and reads are those of pg_stat_database, which also counts temporary tables and pages by which
tables grow. From 16 on they are those of pg_stat_io, on objects of the pool only ('relation'). From 17 on
pg_stat_database counts a page twice if another session reads the page just before this one does (bufmgr.c,
WaitReadBuffers; from 18 on StartReadBuffersImpl).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from bufferlab.engines.postgres import connection as postgres
from bufferlab.engines.postgres.questions import DATABASES, POOL_PLACE, large_indexes
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.counts import TITLES
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
    Unpublished,
    ask,
    integer,
    seconds,
    text,
)

OLDEST = 14
"""The first version that counts how long statements were active (pg_stat_database.active_time)."""
_RELOAD = "and then SELECT pg_reload_conf() would let it"
_NO_TIME = {
    "io_timing": f"track_io_timing is off; ALTER SYSTEM SET track_io_timing = on {_RELOAD} (pg_test_timing tells its "
    "cost)",
    "activities": f"track_activities is off; ALTER SYSTEM SET track_activities = on {_RELOAD}",
}
"""For each setting among the columns of `_FACTS`, why the time of reads is unknown if the setting is off."""
_FACTS = """\
SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
current_setting('block_size')::bigint AS page_size, pg_backend_pid() AS pid,
(SELECT setting::bigint FROM pg_settings WHERE name = 'shared_buffers') AS pool_pages,
(SELECT setting::bigint * 1048576 FROM pg_settings WHERE name = 'max_wal_size') AS max_wal_size,
current_setting('track_io_timing') AS io_timing, current_setting('track_activities') AS activities,
current_setting('track_counts') AS counts,
extract(epoch FROM now() - pg_postmaster_start_time()) AS uptime_s,
(SELECT json_object_agg(name, CASE unit WHEN '8kB' THEN 8192 * setting::bigint ELSE setting::bigint END)::text
FROM pg_settings WHERE name IN ('io_combine_limit', 'io_max_combine_limit', 'effective_io_concurrency',
'max_connections', 'autovacuum_worker_slots', 'max_worker_processes', 'max_wal_senders')) AS of_rings,
(SELECT extract(epoch FROM max(backend_start)) FROM pg_stat_get_activity(NULL) WHERE backend_type = 'checkpointer')
AS pool_s"""
_LOG_AGE = """\
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
- redo_lsn)::bigint AS value FROM pg_control_checkpoint()"""
_UNPUBLISHED = """\
SELECT count(*) FILTER (WHERE works AND leader_pid IS NULL) AS sessions,
count(*) FILTER (WHERE backend_type IS NULL AND datid IS NOT NULL) AS hidden,
array_to_string(array_agg(pid) FILTER (WHERE works OR backend_type = 'io worker'), ' ') AS readers,
current_setting('io_method', true) AS io_method
FROM (SELECT *, (state = 'active' OR state_change > looked_from) AND xact_start < looked_from
AND backend_type IN ('client backend', 'parallel worker', 'autovacuum worker') AS works
FROM pg_stat_activity, LATERAL (SELECT clock_timestamp() - interval '{seconds:.3f} s' AS looked_from) AS look
WHERE pid <> pg_backend_pid()) AS others"""
"""The query for `Unpublished`.

Without pg_read_all_stats the kind and the transaction of other roles' sessions are null (pgstatfuncs.c).
"""
_BUFFERCACHE = (
    "pg_buffercache tells it from PostgreSQL 16 on: CREATE EXTENSION pg_buffercache in the database of the URL, and "
    "GRANT pg_monitor to the account"
)


class PostgresLook(Look):
    """The queries by which bufferlab observes PostgreSQL."""

    def watch(self, address: Address) -> Client:
        limits = {"default_transaction_read_only": "on", "lock_timeout": str(1000 * LOCK_SECONDS)}
        return postgres.connect(
            address, seconds=STATEMENT_SECONDS, search_path="pg_catalog", settings=limits, name=NAME, prepares=True
        )

    def own_at_start(self, connection: Client) -> int:
        # The two are the transaction of the login (InitPostgres), and the statement of `connect`.
        return 2

    def facts(self, query: Query) -> Facts:
        (told,) = query(_FACTS)
        if told["number"] < 10_000 * OLDEST:
            raise Refused(f"PostgreSQL {told['version']} is too old to be looked at: {OLDEST} is the oldest")
        if told["counts"] != "on":
            raise Refused("track_counts is off, so that the server counts no reads; ALTER SYSTEM SET track_counts = on")
        page_size = int(told["page_size"])
        identity, data_directory = "", None
        with suppress(Refused):
            identity = str(query("SELECT system_identifier AS value FROM pg_control_system()")[0]["value"])
        with suppress(Refused):
            data_directory = str(query("SELECT current_setting('data_directory') AS value")[0]["value"])
        major = told["number"] // 10_000
        facts = Facts(
            flavour="postgres",
            version=str(told["version"]),
            numbers=(major, told["number"] % 10_000),
            identity=identity,
            page_size_bytes=page_size,
            pool_size_bytes=int(told["pool_pages"]) * page_size,
            transactions="transaction",
            no_time=next((why for name, why in _NO_TIME.items() if told[name] != "on"), ""),
            uptime_s=float(told["uptime_s"]),
            thread=int(told["pid"]),
            data_directory=data_directory,
            # After a session's crash the postmaster goes on, but shared_buffers is emptied and the checkpointer is
            # started again.
            settings={
                "max_wal_size_bytes": str(told["max_wal_size"] or 0),
                "pool_s": str(told["pool_s"] or 0),
                **_numbers_of(told["of_rings"]),
            },
        )
        return replace(facts, settings={**facts.settings, "own_gets": str(_own_gets(query, major))})

    def sample(self, query: Query, facts: Facts, t_s: float, own: Callable[[], int]) -> Sample:
        (row,) = query(_sample_sql(facts.numbers[0]))
        counters = {name: int(value) for name, value in row.items() if value is not None and name in _COUNTED}
        if facts.no_time:
            counters.pop("read_us"), counters.pop("active_us")
        # Subtract 1: the server counts this statement only after the statement has ended.
        before = own() - 1
        mine = {"transactions": before, "page_gets": before * int(facts.settings["own_gets"])}
        levels = {
            "connections": float(row["connections"] or 0),
            "pool_pages": facts.pool_size_bytes / facts.page_size_bytes,
        }
        reset = None if row["reset_s"] is None else float(row["reset_s"])
        started_s = max(float(row["started_s"]), float(facts.settings["pool_s"]))
        return Sample(t_s, counters, levels, mine, started_s, reset)

    def derive(self, grown: Mapping[str, int], facts: Facts) -> dict[str, float]:
        found: dict[str, float] = dict(grown)
        found["misses"] = found.get("pages_read", 0)
        for name, ours in (("read_us", "read_ms"), ("active_us", "statement_ms")):
            if name in found:
                found[ours] = found.pop(name) / 1000
        return found

    def pool(self, query: Query, facts: Facts) -> PoolLevels:
        values: dict[str, float] = {
            "pool_size_bytes": facts.pool_size_bytes,
            "pool_pages": facts.pool_size_bytes / facts.page_size_bytes,
            "log_capacity_bytes": int(facts.settings["max_wal_size_bytes"]),
        }
        why: dict[str, str] = {}
        try:
            values["log_age_bytes"] = int(query(_LOG_AGE)[0]["value"])
        except (Refused, TypeError) as error:
            why["log_age_bytes"] = str(error)
        try:
            values |= _buffers(query)
        except (Refused, ValueError):
            why |= dict.fromkeys(("free_pages", "data_pages", "dirty_pages", "pages_by_usage_count"), _BUFFERCACHE)
        return PoolLevels(values, why)

    def data(self, query: Query, facts: Facts) -> DataSize | NotTold:
        pool_pages = facts.pool_size_bytes // facts.page_size_bytes
        databases, indexes = ask(query, DATABASES), ask(query, large_indexes(pool_pages))
        if isinstance(databases, NotTold):
            return databases
        if isinstance(indexes, NotTold):
            return indexes
        larger = {
            str(text(row["name"])): LargeObject(integer(row["rows_read"]), seconds(row["pool_rows"])) for row in indexes
        }
        # The indexes of other databases are unknown. A session that reads a page reads at least one row of the page.
        larger |= {
            f"the database {text(row['name'])}": LargeObject(integer(row["rows_read"]), pool_pages)
            for row in databases
            if not row["is_ours"] and integer(row["size_bytes"]) > facts.pool_size_bytes
        }
        return DataSize(sum(integer(row["size_bytes"]) for row in databases), larger)

    def unpublished(self, query: Query, seconds: float) -> Unpublished:
        (row,) = query(_UNPUBLISHED.format(seconds=seconds))
        # The kernel does not add reads by io_uring to those of read calls.
        readers = () if row["io_method"] == "io_uring" else map(int, str(row["readers"] or "").split())
        return Unpublished(int(row["sessions"]), int(row["hidden"]), tuple(readers))


def _numbers_of(told: object) -> dict[str, str]:
    """Return the integers of a JSON object by name. Raises ValueError if the argument is anything else."""
    found = json.loads(str(told or "{}"))
    if not isinstance(found, dict):
        raise ValueError("the server's settings are no object")
    return {str(name): str(int(value)) for name, value in found.items()}


_COUNTED = {"read_us", "active_us", *TITLES}
"""The columns of a sample that are counters: counts under their own names, and two times in the server's units."""


def _sample_sql(major: int) -> str:
    """Return the SQL statement that reads all counters of a sample, for one major version of the server."""
    columns = """\
d.*, extract(epoch FROM pg_postmaster_start_time()) AS started_s,
(SELECT wal_bytes::bigint FROM pg_stat_wal) AS log_bytes,
(SELECT maxwritten_clean FROM pg_stat_bgwriter) AS cleaner_stops"""
    if major >= 17:
        columns += """,
(SELECT num_requested FROM pg_stat_checkpointer) AS checkpoints_requested,
(SELECT num_timed FROM pg_stat_checkpointer) AS checkpoints_timed,
(SELECT c.buffers_written + b.buffers_clean FROM pg_stat_checkpointer AS c, pg_stat_bgwriter AS b)
+ io.other_written_pages AS pages_written"""
    else:
        columns += """,
(SELECT checkpoints_req FROM pg_stat_bgwriter) AS checkpoints_requested,
(SELECT checkpoints_timed FROM pg_stat_bgwriter) AS checkpoints_timed,
(SELECT buffers_backend FROM pg_stat_bgwriter) AS backend_written_pages,
(SELECT buffers_checkpoint + buffers_clean + buffers_backend FROM pg_stat_bgwriter) AS pages_written"""
    sums = """\
sum(xact_commit)::bigint AS transactions, sum(xact_rollback)::bigint AS rollbacks,
(1000 * sum(active_time))::bigint AS active_us, sum(numbackends)::bigint AS connections,
extract(epoch FROM max(stats_reset)) AS reset_s"""
    views = "AS d"
    if major >= 16:
        columns += ", io.*"
        views += f", (SELECT {_io_sums(major)} FROM pg_stat_io) AS io"
    else:
        sums += """,
sum(blks_hit + blks_read)::bigint AS page_gets, sum(blks_read)::bigint AS pages_read,
(1000 * sum(blk_read_time))::bigint AS read_us"""
    if major >= 15:
        columns += ", pg_stat_force_next_flush()::text AS flushed"
    return f"SELECT {columns} FROM (SELECT {sums} FROM pg_stat_database) {views}"


def _io_sums(major: int) -> str:
    """Return the SQL sums over pg_stat_io. From 18 on it counts operations of several pages each, and their bytes."""
    pages = "{}_bytes / current_setting('block_size')::bigint" if major >= 18 else "{}s"
    read, written, made = (pages.format(operation) for operation in ("read", "write", "extend"))
    ours = "object = 'relation'"
    sums = {
        "page_gets": (f"hits + {read}", ours),
        "pages_read": (read, ours),
        "ring_pages_read": (read, f"{ours} AND context = 'bulkread'"),
        "temporary_pages_read": (read, "object = 'temp relation'"),
        "read_us": ("1000 * read_time", ours),
        "evicted_pages": ("evictions", ours),
        "pages_created": (made, ours),
    }
    if major >= 17:
        sums["backend_written_pages"] = (written, f"{ours} AND backend_type IN ('client backend', 'background worker')")
        # These other processes include autovacuum's workers, and the startup process of a standby.
        sums["other_written_pages"] = (written, f"{ours} AND backend_type NOT IN ('checkpointer', 'background writer')")
    return ",\n".join(
        f"coalesce(sum({what}) FILTER (WHERE {where}), 0)::bigint AS {name}" for name, (what, where) in sums.items()
    )


def _own_gets(query: Query, major: int) -> int:
    """Return how many page gets a sample makes: the server's count for the second of two samples."""
    explained = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {_sample_sql(major)}"
    try:
        for _ in range(2):
            (row,) = query(explained)
    except Refused:
        return 0
    (told,) = row.values()
    plan = (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]
    return int(plan.get("Shared Hit Blocks", 0)) + int(plan.get("Shared Read Blocks", 0))


def _buffers(query: Query) -> dict[str, float]:
    """Return the pool's use by pg_buffercache. Its schema is named, because a search path may lead to other objects."""
    (told,) = query(POOL_PLACE.sql)
    schema = told["place"]
    (row,) = query(f"SELECT * FROM {schema}.pg_buffercache_summary()")
    values = {
        "data_pages": float(row["buffers_used"]),
        "free_pages": float(row["buffers_unused"]),
        "dirty_pages": float(row["buffers_dirty"]),
    }
    for count in query(f"SELECT usage_count, buffers FROM {schema}.pg_buffercache_usage_counts()"):
        values[f"usage_count_{count['usage_count']}_pages"] = float(count["buffers"])
    return values
