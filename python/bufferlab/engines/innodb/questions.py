"""The queries by which bufferlab observes MySQL (5.7 to 9) or MariaDB (10.2 to 11.8): pool, statements, other work.

INNODB_BUFFER_PAGE has a row for each page (i_s.cc, i_s_innodb_fill_buffer_pool). Its rows pass through a temporary
table of the server. MySQL 5.7 and 9 write that table into the pool: by Innodb_pages_created it took 41 and 46 new pages
of a pool of 4,096 pages, and 170 and 128 of one of 16,384. MariaDB 10.2 and 11.8 wrote none into the pool.

The server itself replaces literals in a digest's text (sql_digest.cc). QUERY_SAMPLE_TEXT of MySQL 8, which holds them,
is never read. A statement is counted when it has ended. When the table of digests is full, further ones are counted in
one row without a digest (pfs_digest.cc, find_or_create_digest); none is evicted. MariaDB and MySQL up to 8.0.15 have no
digests of statements that a client prepared by the protocol (COM_STMT_EXECUTE): the summary by event name counts all of
them together. MariaDB counts none in prepared_statements_instances (10.11, 11.8). MySQL 9 has digests of them, with the
word EXECUTE before their text.

An account needs PROCESS to see a server's other work. bufferlab does not read the texts of other sessions' statements:
its queries return only the first two words, for the few kinds that matter. mysqldump and similar programs begin each
table's statement with /*!40001 SQL_NO_CACHE */. xtrabackup and mariabackup copy files while their session sleeps, so
only their lock shows them, if performance_schema instruments metadata locks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.look import NotTold, Question, Refusal, Row, integer, text

_PROCESS_RIGHT: Mapping[Refusal, str] = {"rights": "GRANT PROCESS ON *.* TO the account"}
PAGE_S = 15e-6
"""Seconds per pool page that the first query of the pool's contents takes after a server's start; later ones take a
third."""
TEMPORARY_TABLE_RATIO = 0.01
"""The fraction of the pool that MySQL's temporary table takes when the pool's contents are queried."""

# MariaDB sets oldest_modification to 1 when it has written a page, until the page leaves the flush list, and to 2 for a
# changed page of its temporary tablespace: pages with either value are not counted as dirty (buf0buf.h,
# oldest_modification_). IS_OLD is YES or NO in MySQL, and a number in later versions of MariaDB.
CONTENTS = Question(
    "SELECT table_name AS table_name, index_name AS index_name, page_type AS page_type, page_state AS page_state, "
    "COUNT(*) AS pages, SUM(oldest_modification > 2) AS dirty_pages, "
    "SUM(CAST(is_old AS CHAR) IN ('YES', '1')) AS old_pages "
    "FROM information_schema.INNODB_BUFFER_PAGE GROUP BY table_name, index_name, page_type, page_state",
    "who fills the pool",
    _PROCESS_RIGHT,
)

FREE = "(free)"
_MEMORY, _LOST = "(memory of InnoDB)", "(index of no table that is known)"
_OF_TYPE = {
    "UNDO_LOG": "(undo)",
    "IBUF_INDEX": "(change buffer)",
    "SDI_INDEX": "(dictionary)",
    "INDEX": _LOST,
    "RTREE_INDEX": _LOST,
    "SYSTEM": "(system)",
    "TRX_SYSTEM": "(system)",
    "RSEG_ARRAY": "(system)",
    "UNKNOWN": "(unknown)",
}
_LARGE = ("BLOB", "LOB", "COMPRESSED_BLOB", "ZLOB", "COMPRESSED_LOB")


def names(row: Row) -> tuple[str, str | None]:
    """Return the table and the index of a row's pages; for pages of no table, a description in parentheses."""
    if text(row["page_state"]) in ("NOT_USED", "READY_FOR_USE"):
        return FREE, None
    if text(row["page_state"]) != "FILE_PAGE":
        return _MEMORY, None
    if table := text(row["table_name"]):
        return table.replace("`", ""), text(row["index_name"])
    kind = text(row["page_type"]) or "UNKNOWN"
    if kind.startswith(_LARGE):
        return "(large values, whose table is not told)", None
    # The other types manage space: FILE_SPACE_HEADER, EXTENT_DESCRIPTOR, INODE, IBUF_BITMAP, ALLOCATED, ...
    return _OF_TYPE.get(kind, "(space management)"), None


_DATA = "how large the data are"
_SYSTEM = "innodb_system"
_TABLE_OF = "SUBSTRING_INDEX(LOWER({name}), '#p#', 1)"
"""The SQL expression for a table's name, given the name of its file or of a partition's file."""


def data(flavour: Flavour, numbers: Sequence[int], pool_bytes: int) -> Question:
    """Return the query for the size of each InnoDB file larger than the pool, and for the total of all files (no name).

    MySQL lists the system tablespace, undo and temporary tables only in FILES; MariaDB from 10.5 on lists them with the
    others.
    """
    view = "INNODB_TABLESPACES" if flavour == "mysql" and numbers[0] >= 8 else "INNODB_SYS_TABLESPACES"
    files = (
        f"SELECT {_TABLE_OF.format(name='NAME')} AS name, FILE_SIZE AS size_bytes, "
        f"COALESCE(ROW_FORMAT = 'Compressed', 0) AS compressed FROM information_schema.{view}"
    )
    if flavour == "mysql":
        files += (
            " WHERE SPACE_TYPE NOT IN ('System', 'Undo') "
            "UNION ALL SELECT TABLESPACE_NAME, TOTAL_EXTENTS * EXTENT_SIZE, 0 FROM information_schema.FILES "
            f"WHERE ENGINE = 'InnoDB' AND (FILE_TYPE <> 'TABLESPACE' OR TABLESPACE_NAME = '{_SYSTEM}')"
        )
    return Question(
        f"SELECT files.name AS name, SUM(files.size_bytes) AS size_bytes, SUM(files.compressed) AS compressed "
        f"FROM ({files}) AS files GROUP BY files.name WITH ROLLUP "
        f"HAVING name IS NULL OR name = '{_SYSTEM}' OR size_bytes > {pool_bytes}",
        _DATA,
        _PROCESS_RIGHT,
    )


def is_without_tables(name: str) -> bool:
    """Return whether a tablespace's name belongs to undo logs or temporary tables, which no other session scans."""
    return name.startswith("innodb_") and name != _SYSTEM


def incomplete(rows: Sequence[Row]) -> NotTold | None:
    """Return why the answer to `data` does not show how many pages share the pool; None if it shows it."""
    if not any(text(row["name"]) == _SYSTEM for row in rows):
        return NotTold(f"{_DATA}: this version does not tell the size of its system tablespace")
    if any(integer(row["compressed"]) for row in rows):
        return NotTold(f"{_DATA}: a table is compressed (ROW_FORMAT=COMPRESSED), and its pages take more of the pool")
    return None


def table_rows(pool_pages: int) -> Question:
    """Return the query for the row counts of tables larger than half the pool, from InnoDB's stored statistics."""
    name = _TABLE_OF.format(name="CONCAT(database_name, '/', table_name)")
    return Question(
        f"SELECT {name} AS name, SUM(n_rows) AS table_rows FROM mysql.innodb_table_stats GROUP BY 1 "
        f"HAVING SUM(clustered_index_size + sum_of_other_index_sizes) > {pool_pages // 2}",
        "how many rows a table has",
        {"rights": "GRANT SELECT ON mysql.innodb_table_stats TO the account"},
    )


SEQUENTIAL = ("handler_read_rnd_next", "handler_read_next", "handler_read_prev")
"""Status variables of rows read sequentially: in a table, and in an index forwards and backwards."""


UNITS_PER_S = 1e12
"""Timer units per second in performance_schema, which counts picoseconds."""
_TABLE = "performance_schema.events_statements_summary_by_digest"
_SUBJECT = "what each statement does"
_DIGEST_REMEDIES: Mapping[Refusal, str] = {
    "rights": "GRANT SELECT ON performance_schema.* TO the account",
    "missing": "performance_schema = ON in the option file, and a restart of the server",
}
PREPARED = "prepared"
"""The identifier that stands for all prepared statements together, if the server has no digests of them."""
PREPARED_TEXT = "(prepared statements, all together: this server has no digests of them)"
_CONSUMERS = ("global_instrumentation", "thread_instrumentation", "statements_digest")

# Without performance_schema these tables exist and are empty.
IS_ON = Question("SELECT @@global.performance_schema AS is_on", _SUBJECT)
CONSUMERS = Question(
    "SELECT name AS name FROM performance_schema.setup_consumers WHERE enabled = 'NO' "
    f"AND name IN ({', '.join(repr(name) for name in _CONSUMERS)})",
    _SUBJECT,
    _DIGEST_REMEDIES,
)
COUNTS = Question(
    "SELECT schema_name AS place, digest AS id, first_seen AS since, count_star AS calls, sum_timer_wait AS time, "
    "sum_rows_examined AS rows_examined, sum_rows_sent + sum_rows_affected AS rows_returned "
    f"FROM {_TABLE} UNION ALL SELECT NULL, '{PREPARED}', NULL, "
    "count_star, sum_timer_wait, sum_rows_examined, sum_rows_sent + sum_rows_affected "
    "FROM performance_schema.events_statements_summary_global_by_event_name WHERE count_star > 0 "
    "AND event_name IN ('statement/com/Execute', 'statement/com/Bulk_execute') AND NOT EXISTS "
    f"(SELECT 1 FROM {_TABLE} WHERE digest_text LIKE 'EXECUTE %' AND digest_text NOT LIKE 'EXECUTE `%')",
    _SUBJECT,
    _DIGEST_REMEDIES,
)
_DIGEST = re.compile(r"[0-9a-f]{32,64}")


def unavailable(is_on: Sequence[Row], off: Sequence[Row]) -> NotTold | None:
    """Return why digests are not counted, given the answers to IS_ON and CONSUMERS; None if they are counted."""
    if not integer(is_on[0]["is_on"]):
        return NotTold(f"{_SUBJECT}: performance_schema is off", _DIGEST_REMEDIES["missing"])
    if off:
        names = ", ".join(f"'{text(row['name'])}'" for row in off)
        line = f"UPDATE performance_schema.setup_consumers SET enabled = 'YES' WHERE name IN ({names})"
        return NotTold(f"{_SUBJECT}: performance_schema does not collect digests", line)
    return None


def texts(ids: Iterable[str]) -> Question:
    """Return the query for the texts of the statements with these digests.

    The server has replaced the literals in them.
    """
    listed = ", ".join(f"'{one}'" for one in sorted(ids) if _DIGEST.fullmatch(one))
    return Question(
        f"SELECT digest AS id, MAX(digest_text) AS text FROM {_TABLE} WHERE digest IN ({listed or 'NULL'}) "
        "GROUP BY digest",
        _SUBJECT,
        _DIGEST_REMEDIES,
    )


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
    _PROCESS_RIGHT,
)
POOL_LOAD = Question(
    "SHOW GLOBAL STATUS WHERE variable_name = 'Innodb_buffer_pool_load_status'",
    "whether the pool is being loaded from its dump",
)
LOADING = ("Loaded ", "Loading buffer pool")
"""The first words of the status variable while the pool is being loaded (buf0dump.cc, buf_load)."""

# A backup takes these locks by LOCK INSTANCE FOR BACKUP in MySQL, by BACKUP STAGE and FLUSH TABLES WITH READ LOCK in
# MariaDB from 10.5 on. Other sessions hold locks of other types on the same object for their changes.
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


def sessions(flavour: Flavour) -> Question:
    """Return the query for sessions that do other work than an application, such as backups and dumps."""
    matches = " ".join(f"WHEN info REGEXP '{pattern}' THEN '{kind}'" for kind, pattern in _KINDS.items())
    kind = f"CASE WHEN info LIKE '{_DUMP}' THEN 'dump' {matches} END"
    progress = (
        "stage AS stage, max_stage AS stages, progress AS done_percent" if flavour == "mariadb"
        else "NULL AS stage, NULL AS stages, NULL AS done_percent"
    )  # fmt: skip
    return Question(
        f"SELECT id AS id, user AS account, command AS command, time AS seconds, state AS state, {kind} AS kind, "
        f"UPPER(LEFT(SUBSTRING_INDEX(LTRIM(info), ' ', 2), 40)) AS words, {progress} "
        "FROM information_schema.PROCESSLIST "
        f"WHERE id <> CONNECTION_ID() AND ({kind} IS NOT NULL OR command LIKE 'Binlog Dump%' OR user = 'system user')",
        "what other sessions do",
        _PROCESS_RIGHT,
    )


def transactions(long_s: float, own_ids: Iterable[int]) -> Question:
    """Return the query for the five oldest transactions that are open for at least `long_s` seconds.

    trx_started is in the host's time zone, even if the session has another.
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
        _PROCESS_RIGHT,
    )
