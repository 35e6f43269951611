"""The questions what statements did, to performance_schema of MySQL 5.7 to 9 and MariaDB 10.2 to 11.8.

The server itself replaces literals in a digest's text (sql_digest.cc). QUERY_SAMPLE_TEXT of MySQL 8, which holds them,
is never read. A statement is counted when it has ended. When the table is full, further digests are counted in one row
without a digest (pfs_digest.cc, find_or_create_digest); none is evicted.

MariaDB and MySQL up to 8.0.15 have no digests of statements that a client prepared by the protocol (COM_STMT_EXECUTE):
the summary by event name alone counts them, all together. MariaDB counts none in prepared_statements_instances (10.11,
11.8). MySQL 9 has digests of them, with the word EXECUTE before their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bufferlab.engines.servers.questions import NotTold, Question, Refusal, Row, integer, text

UNITS_PER_S = 1e12
"""Timers count picoseconds."""
_TABLE = "performance_schema.events_statements_summary_by_digest"
_SUBJECT = "what each statement does"
_REMEDIES: Mapping[Refusal, str] = {
    "rights": "GRANT SELECT ON performance_schema.* TO the account",
    "missing": "performance_schema = ON in the option file, and a restart of the server",
}
PREPARED = "prepared"
"""The identifier of all prepared statements together, where the server has no digests of them."""
PREPARED_TEXT = "(prepared statements, all together: this server has no digests of them)"
_CONSUMERS = ("global_instrumentation", "thread_instrumentation", "statements_digest")

# Without performance_schema these tables exist and are empty.
IS_ON = Question("SELECT @@global.performance_schema AS is_on", _SUBJECT)
CONSUMERS = Question(
    "SELECT name AS name FROM performance_schema.setup_consumers WHERE enabled = 'NO' "
    f"AND name IN ({', '.join(repr(name) for name in _CONSUMERS)})",
    _SUBJECT,
    _REMEDIES,
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
    _REMEDIES,
)
_DIGEST = re.compile(r"[0-9a-f]{32,64}")


def unavailable(is_on: Sequence[Row], off: Sequence[Row]) -> NotTold | None:
    """Return why digests are not told, from the answers to IS_ON and CONSUMERS; None where they are."""
    if not integer(is_on[0]["is_on"]):
        return NotTold(f"{_SUBJECT}: performance_schema is off", _REMEDIES["missing"])
    if off:
        names = ", ".join(f"'{text(row['name'])}'" for row in off)
        line = f"UPDATE performance_schema.setup_consumers SET enabled = 'YES' WHERE name IN ({names})"
        return NotTold(f"{_SUBJECT}: performance_schema does not collect digests", line)
    return None


def texts(ids: Iterable[str]) -> Question:
    """Return the question for the texts of these digests."""
    listed = ", ".join(f"'{one}'" for one in sorted(ids) if _DIGEST.fullmatch(one))
    return Question(
        f"SELECT digest AS id, MAX(digest_text) AS text FROM {_TABLE} WHERE digest IN ({listed or 'NULL'}) "
        "GROUP BY digest",
        _SUBJECT,
        _REMEDIES,
    )
