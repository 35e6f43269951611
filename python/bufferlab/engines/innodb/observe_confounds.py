"""The questions what else MySQL (5.7 to 9) or MariaDB (10.2 to 11.8) does. They need PROCESS.

Texts of other sessions' statements stay in the server: it returns the first two words of the few kinds that matter.
mysqldump and its kin begin each table's statement with /*!40001 SQL_NO_CACHE */. xtrabackup and mariabackup copy files
while their session sleeps; a lock of theirs is seen where performance_schema instruments metadata locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bufferlab.engines.servers.questions import Question, Refusal, Server

_REMEDIES: Mapping[Refusal, str] = {"rights": "GRANT PROCESS ON *.* TO the account"}
_B = "[[:space:]]"
_KINDS = {
    "backup": f"^{_B}*(BACKUP{_B}+STAGE|LOCK{_B}+(INSTANCE|TABLES){_B}+FOR{_B}+BACKUP"
    f"|FLUSH{_B}+TABLES{_B}+WITH{_B}+READ{_B}+LOCK)",
    "definition": f"^{_B}*(ALTER{_B}+TABLE|OPTIMIZE|REPAIR|TRUNCATE|DROP{_B}+(TABLE|INDEX)"
    f"|CREATE{_B}+((UNIQUE|FULLTEXT|SPATIAL){_B}+)?INDEX)",
    "maintenance": f"^{_B}*(ANALYZE|CHECK|CHECKSUM){_B}",
}
_DUMP = "SELECT /*!40001 SQL_NO_CACHE */%"

HISTORY = Question(
    "SELECT count AS length FROM information_schema.INNODB_METRICS WHERE name = 'trx_rseg_history_len'",
    "how far purge is behind",
    _REMEDIES,
)
POOL_LOAD = Question(
    "SHOW GLOBAL STATUS WHERE variable_name = 'Innodb_buffer_pool_load_status'",
    "whether the pool is being loaded from its dump",
)
LOADING = ("Loaded ", "Loading buffer pool")
"""How the status begins while the pool is loaded (buf0dump.cc, buf_load)."""

# MySQL: LOCK INSTANCE FOR BACKUP. MariaDB from 10.5: BACKUP STAGE, and FLUSH TABLES WITH READ LOCK. Other sessions
# hold locks of this object for their changes, of other types.
BACKUP_LOCKS = Question(
    "SELECT t.processlist_id AS id, t.processlist_user AS account, l.lock_type AS type "
    "FROM performance_schema.metadata_locks AS l "
    "JOIN performance_schema.threads AS t ON t.thread_id = l.owner_thread_id "
    "WHERE l.lock_status = 'GRANTED' AND (l.object_type = 'BACKUP LOCK' AND l.lock_type = 'SHARED' "
    "OR l.object_type = 'BACKUP' AND (l.lock_type IN ('BACKUP_START', 'BACKUP_BLOCK_DDL', 'BACKUP_FLUSH') "
    "OR l.lock_type LIKE 'BACKUP_WAIT%' OR l.lock_type LIKE 'BACKUP_FTWRL%'))",
    "whether a backup holds a lock",
    {"rights": "GRANT SELECT ON performance_schema.* TO the account"},
)


def sessions(server: Server) -> Question:
    """Return the question for sessions that do more than an application's work."""
    matches = " ".join(f"WHEN info REGEXP '{pattern}' THEN '{kind}'" for kind, pattern in _KINDS.items())
    kind = f"CASE WHEN info LIKE '{_DUMP}' THEN 'dump' {matches} END"
    progress = (
        "stage AS stage, max_stage AS stages, progress AS done_percent" if server.flavour == "mariadb"
        else "NULL AS stage, NULL AS stages, NULL AS done_percent"
    )  # fmt: skip
    return Question(
        f"SELECT id AS id, user AS account, command AS command, time AS seconds, state AS state, {kind} AS kind, "
        f"UPPER(LEFT(SUBSTRING_INDEX(LTRIM(info), ' ', 2), 40)) AS words, {progress} "
        "FROM information_schema.PROCESSLIST "
        f"WHERE id <> CONNECTION_ID() AND ({kind} IS NOT NULL OR command LIKE 'Binlog Dump%' OR user = 'system user')",
        "what other sessions do",
        _REMEDIES,
    )


def transactions(long_s: float, own_ids: Iterable[int]) -> Question:
    """Return the question for the five oldest transactions that are open for `long_s`.

    trx_started is in the time zone of the host, whatever the session's is.
    """
    age = "TIMESTAMPDIFF(SECOND, t.trx_started, CONVERT_TZ(NOW(), @@session.time_zone, 'SYSTEM'))"
    ours = ", ".join(["CONNECTION_ID()", *(str(int(one)) for one in own_ids)])
    return Question(
        f"SELECT t.trx_mysql_thread_id AS id, {age} AS seconds, t.trx_rows_modified AS rows_modified, "
        "p.user AS account, p.command AS command FROM information_schema.INNODB_TRX AS t "
        "LEFT JOIN information_schema.PROCESSLIST AS p ON p.id = t.trx_mysql_thread_id "
        f"WHERE {age} >= {int(long_s)} AND t.trx_mysql_thread_id NOT IN ({ours}) "
        "ORDER BY t.trx_started LIMIT 5",
        "what other sessions and their transactions do",
        _REMEDIES,
    )
