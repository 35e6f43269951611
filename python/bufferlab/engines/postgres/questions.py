"""The queries by which bufferlab observes PostgreSQL: contents of shared buffers, statements, and other work.

Contents of shared buffers: the view pg_buffercache has a row for each buffer
(contrib/pg_buffercache/pg_buffercache_pages.c). It takes each buffer's header lock for a moment, and no other lock.
pg_filenode_relation names the relation of a file, but only for the session's database, because it uses that database's
catalogue.

Statements: the extension pg_stat_statements 1.9 to 1.12 (PostgreSQL 14 to 18). Its columns depend on the version of the
extension, not of the server: an upgraded cluster may have kept an older extension. Counts are read without texts
(`showtext` false), because the server would read its whole file of texts. If the table is full, entries are evicted
(entry_dealloc); a statement that is executed again later gets a new entry, whose counts begin at zero.

Other work (PostgreSQL 15 to 18): an account without pg_monitor sees little. bufferlab does not read the texts of other
sessions' statements: its queries return only the first words, for the few kinds that matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bufferlab.engines.servers.look import NotTold, Query, Question, Refusal, Row, ask, text
from bufferlab.versions import numbers

MOST_BUFFERS = 131_072
"""The number of buffers (1 GiB) above which the full view of the pool is read only after the user's confirmation."""
PAGE_S = 0.5e-6
"""The seconds per buffer that a query of the view takes, including its GROUP BY.

Versions 15 and 17 took 0.23 to 0.43 us of processor time, in pools of 128 MiB and 1 GiB.
"""

_POOL_REMEDIES: Mapping[Refusal, str] = {
    "rights": "GRANT pg_monitor TO the role",
    "missing": "CREATE EXTENSION pg_buffercache, in the database that is looked at (package postgresql-contrib)",
}

POOL_PLACE = Question(
    "SELECT pg_catalog.quote_ident(n.nspname) AS place FROM pg_catalog.pg_extension AS e "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'pg_buffercache'",
    "who fills the pool",
)


def pool_place(query: Query) -> str | NotTold:
    """Return the schema of pg_buffercache as the server quotes it, or why the view cannot be queried."""
    rows = ask(query, POOL_PLACE)
    if isinstance(rows, NotTold):
        return rows
    if not rows:
        return NotTold("who fills the pool: the database has no extension pg_buffercache", _POOL_REMEDIES["missing"])
    return str(rows[0]["place"])


FREE, OTHERS = "(free)", "(other databases)"


def contents(place: str) -> Question:
    """Return the query for the buffers of each relation. `place` is the extension's schema as the server quotes it."""
    return Question(
        f"""
        SELECT o.kind, n.nspname AS schema, c.relname AS relation, tn.nspname AS table_schema, t.relname AS of_table,
               on_.nspname AS toast_schema, ot.relname AS toast_of,
               sum(o.pages) AS pages, sum(o.dirty_pages) AS dirty_pages, sum(o.cold_pages) AS cold_pages
        FROM (SELECT b.*, CASE WHEN b.kind = 'own' THEN
                              pg_catalog.pg_filenode_relation(b.reltablespace, b.relfilenode) END AS relation
              FROM (SELECT CASE WHEN reldatabase IS NULL THEN 'free'
                                WHEN reldatabase IN (0, (SELECT oid FROM pg_catalog.pg_database
                                                         WHERE datname = pg_catalog.current_database())) THEN 'own'
                                ELSE 'other' END AS kind,
                           reltablespace, relfilenode, count(*) AS pages,
                           count(*) FILTER (WHERE isdirty) AS dirty_pages,
                           count(*) FILTER (WHERE usagecount = 0) AS cold_pages
                    FROM {place}.pg_buffercache GROUP BY 1, 2, 3) AS b) AS o
        LEFT JOIN pg_catalog.pg_class AS c ON c.oid = o.relation
        LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        LEFT JOIN pg_catalog.pg_index AS i ON i.indexrelid = c.oid
        LEFT JOIN pg_catalog.pg_class AS t ON t.oid = i.indrelid
        LEFT JOIN pg_catalog.pg_namespace AS tn ON tn.oid = t.relnamespace
        LEFT JOIN pg_catalog.pg_class AS ot ON ot.oid = pg_catalog.substring(
                      coalesce(t.relname, c.relname)::pg_catalog.text, '^pg_toast_([0-9]+)$')::pg_catalog.oid
        LEFT JOIN pg_catalog.pg_namespace AS on_ ON on_.oid = ot.relnamespace
        GROUP BY 1, 2, 3, 4, 5, 6, 7
        """,
        "who fills the pool",
        _POOL_REMEDIES,
    )


def names(row: Row) -> tuple[str, str | None]:
    """Return the table and the index of a row's pages; for pages of no table, a description in parentheses."""
    if row["kind"] != "own":
        return (FREE if row["kind"] == "free" else OTHERS), None
    relation = text(row["relation"])
    if relation is None:
        return "(relations that are gone, or of open transactions)", None
    table = text(row["of_table"])
    whole = f"{text(row['table_schema'])}.{table}" if table else f"{text(row['schema'])}.{relation}"
    if toast_of := text(row["toast_of"]):
        whole = f"{text(row['toast_schema'])}.{toast_of} (TOAST)"
    return whole, relation if table else None


_DATA = "how large the data are"
_DATA_RIGHT: Mapping[Refusal, str] = {"rights": "GRANT pg_monitor TO the role"}
DATABASES = Question(
    "SELECT datname AS name, pg_catalog.pg_database_size(oid) AS size_bytes, "
    "pg_catalog.pg_stat_get_db_tuples_returned(oid) AS rows_read, datname = pg_catalog.current_database() AS is_ours "
    "FROM pg_catalog.pg_database UNION ALL SELECT NULL, sum(pg_catalog.pg_relation_size(oid))::bigint, 0, true "
    "FROM pg_catalog.pg_class WHERE relisshared",
    _DATA,
    _DATA_RIGHT,
)
"""The query for the size of each database, and of the shared catalogs. The server adds up the sizes of all files."""


def large_indexes(pool_pages: int) -> Question:
    """Return the query for the indexes of the session's database that are larger than the pool."""
    return Question(
        "SELECT oid::regclass::text AS name, pg_catalog.pg_stat_get_tuples_returned(oid) AS rows_read, "
        f"reltuples::float8 * {pool_pages} / relpages AS pool_rows FROM pg_catalog.pg_class "
        f"WHERE relkind = 'i' AND relpages > {pool_pages}",
        "which indexes are larger than the pool",
        _DATA_RIGHT,
    )


UNITS_PER_S = 1e3
"""Time units per second in pg_stat_statements, which counts milliseconds."""
_SUBJECT = "what each statement does"
_LOAD = "shared_preload_libraries = 'pg_stat_statements' in postgresql.conf, a restart of the server, and " \
        "CREATE EXTENSION pg_stat_statements"  # fmt: skip
_STATEMENT_REMEDIES: Mapping[Refusal, str] = {"rights": "GRANT pg_monitor TO the role", "missing": _LOAD}
_OLDEST, _WITH_SINCE = (1, 9), (1, 11)
_QUERY_ID = re.compile(r"-?[0-9]{1,20}")

STATEMENTS_PLACE = Question(
    "SELECT pg_catalog.quote_ident(n.nspname) AS place, e.extversion AS version, "
    "pg_catalog.current_setting('pg_stat_statements.track', true) AS track "
    "FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace "
    "WHERE e.extname = 'pg_stat_statements'",
    _SUBJECT,
)


def unavailable(where: list[dict[str, object]]) -> NotTold | None:
    """Return why statements are not counted, given the answer to STATEMENTS_PLACE; None if they are counted."""
    if not where:
        return NotTold(f"{_SUBJECT}: the database has no extension pg_stat_statements", _LOAD)
    if numbers(str(where[0]["version"])) < _OLDEST:
        return NotTold(
            f"{_SUBJECT}: the extension pg_stat_statements is of version {where[0]['version']}",
            "ALTER EXTENSION pg_stat_statements UPDATE",
        )
    if where[0]["track"] == "none":
        return NotTold(f"{_SUBJECT}: pg_stat_statements counts none", "ALTER SYSTEM SET pg_stat_statements.track = top")
    return None


def counts(where: Row) -> Question:
    """Return the query for the counts of each client statement.

    Statements inside a function count as work of the statement that calls it.
    """
    new = numbers(str(where["version"])) >= _WITH_SINCE
    read_time = "shared_blk_read_time" if new else "blk_read_time"
    since = "stats_since" if new else "NULL"
    return Question(
        f"SELECT d.datname AS place, s.queryid AS id, s.userid AS account, {since} AS since, s.calls AS calls, "
        "s.total_exec_time AS time, s.rows AS rows_returned, s.shared_blks_hit AS hit_pages, "
        f"s.shared_blks_read AS read_pages, s.{read_time} AS read_time "
        f"FROM {where['place']}.pg_stat_statements(false) AS s "
        "LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.dbid WHERE s.toplevel",
        _SUBJECT,
        _STATEMENT_REMEDIES,
    )


def table(where: Row) -> Question:
    """Return the query for the number of entries evicted from pg_stat_statements, and the time of its last reset."""
    return Question(
        f"SELECT dealloc AS evictions, stats_reset AS reset FROM {where['place']}.pg_stat_statements_info",
        _SUBJECT,
        _STATEMENT_REMEDIES,
    )


def texts(where: Row, ids: Iterable[str]) -> Question:
    """Return the query for the texts of the statements with these identifiers."""
    listed = ", ".join(one for one in sorted(ids) if _QUERY_ID.fullmatch(one))
    return Question(
        f"SELECT queryid AS id, min(query) AS text FROM {where['place']}.pg_stat_statements(true) "
        f"WHERE queryid IN ({listed or 'NULL'}) GROUP BY queryid",
        _SUBJECT,
        _STATEMENT_REMEDIES,
    )


REMEDY = "GRANT pg_monitor TO the role"
_REMEDIES: Mapping[Refusal, str] = {"rights": REMEDY}
_BACKUPS = "^(pg_dump|pg_dumpall|pg_basebackup|pgbackrest|pg_probackup|barman|wal-g)"
_SLOW = "REINDEX|REFRESH MATERIALIZED|ALTER TABLE|CHECKPOINT"

MAY_SEE = Question(
    "SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') AS may_see, "
    "pg_catalog.pg_is_in_recovery() AS is_replica, "
    "(SELECT count(*) FROM pg_catalog.pg_stat_replication WHERE state IS DISTINCT FROM 'backup') AS replicas",
    "what other sessions do",
)

# A relation's name can be looked up only in its own database.
_NAME = "CASE WHEN datname = pg_catalog.current_database() THEN relid::pg_catalog.regclass::pg_catalog.text END"
PROGRESS = Question(
    f"""
    SELECT p.*, a.usename AS account, a.backend_type = 'autovacuum worker' AS is_automatic
    FROM (SELECT 'maintenance' AS kind, 'VACUUM' AS words, pid, datname, {_NAME} AS relation, phase,
                 heap_blks_scanned AS done, heap_blks_total AS whole FROM pg_catalog.pg_stat_progress_vacuum
          UNION ALL
          SELECT 'maintenance', 'ANALYZE', pid, datname, {_NAME}, phase, sample_blks_scanned, sample_blks_total
          FROM pg_catalog.pg_stat_progress_analyze
          UNION ALL
          SELECT 'definition', command, pid, datname, {_NAME}, phase, blocks_done, blocks_total
          FROM pg_catalog.pg_stat_progress_create_index
          UNION ALL
          SELECT 'definition', command, pid, datname, {_NAME}, phase, heap_blks_scanned, heap_blks_total
          FROM pg_catalog.pg_stat_progress_cluster
          UNION ALL
          SELECT 'backup', 'BASE_BACKUP', pid, NULL, NULL, phase, backup_streamed / 8192, backup_total / 8192
          FROM pg_catalog.pg_stat_progress_basebackup) AS p
    LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = p.pid
    """,
    "which vacuum, index build or base backup runs",
    _REMEDIES,
)
SLOTS = Question(
    """
    SELECT slot_name AS name, slot_type AS type, active, wal_status,
           greatest(age(xmin), age(catalog_xmin)) AS held_transactions,
           CASE WHEN NOT pg_catalog.pg_is_in_recovery()
                THEN pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn) END AS kept_bytes
    FROM pg_catalog.pg_replication_slots
    """,
    "what replication slots keep",
    _REMEDIES,
)


def sessions(long_s: float, own_ids: Iterable[int]) -> Question:
    """Return the query for long transactions, backup programs and slow utility statements of other sessions.

    Prepared transactions count as long ones; they have no session and no program.
    """
    ours = ", ".join(["pg_catalog.pg_backend_pid()", *(str(int(one)) for one in own_ids)])
    open_s, prepared_s = (
        f"extract(epoch FROM pg_catalog.clock_timestamp() - {since})::float8" for since in ("xact_start", "prepared")
    )
    return Question(
        f"""
        SELECT pid, datname, usename AS account, application_name AS program, state, {open_s} AS seconds,
               application_name ~* '{_BACKUPS}' AS is_backup,
               CASE WHEN state = 'active' THEN upper(substring(query, '(?i)^\\s*({_SLOW})')) END AS words
        FROM pg_catalog.pg_stat_activity
        WHERE pid NOT IN ({ours}) AND backend_type IN ('client backend', 'walsender', 'parallel worker')
          AND leader_pid IS NULL
          AND (application_name ~* '{_BACKUPS}' OR {open_s} >= {float(long_s)}
               OR state = 'active' AND query ~* '^\\s*({_SLOW})')
        UNION ALL
        SELECT NULL, database, owner, NULL, 'prepared', {prepared_s}, false, NULL
        FROM pg_catalog.pg_prepared_xacts WHERE {prepared_s} >= {float(long_s)}
        ORDER BY 6 DESC NULLS LAST LIMIT 20
        """,
        "what other sessions do",
        _REMEDIES,
    )
