"""The questions what else PostgreSQL (15 to 18) does. They need pg_monitor; without it they see little.

Texts of other sessions' statements stay in the server: it returns the first words of the few kinds that matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bufferlab.engines.servers.questions import Question, Refusal

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

# A relation's name is known in its own database alone.
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
    """Return the question for long transactions, backup programs and slow utility statements of other sessions.

    A prepared transaction has no session and no program.
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
