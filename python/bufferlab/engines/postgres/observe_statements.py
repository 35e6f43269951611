"""The questions what statements did, to the extension pg_stat_statements 1.9 to 1.12 (PostgreSQL 14 to 18).

The columns follow the extension's version, which an upgraded cluster may have kept, not the server's. Counts are read
without texts (`showtext` false), for which the server would read its whole file of texts. Entries are evicted when
the table is full (entry_dealloc), and come back with new counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bufferlab.engines.servers.questions import NotTold, Question, Refusal, Row
from bufferlab.versions import numbers

UNITS_PER_S = 1e3
"""Times are milliseconds."""
_SUBJECT = "what each statement does"
_LOAD = "shared_preload_libraries = 'pg_stat_statements' in postgresql.conf, a restart of the server, and " \
        "CREATE EXTENSION pg_stat_statements"  # fmt: skip
_REMEDIES: Mapping[Refusal, str] = {"rights": "GRANT pg_monitor TO the role", "missing": _LOAD}
_OLDEST, _WITH_SINCE = (1, 9), (1, 11)
_QUERY_ID = re.compile(r"-?[0-9]{1,20}")

WHERE = Question(
    "SELECT pg_catalog.quote_ident(n.nspname) AS place, e.extversion AS version, "
    "pg_catalog.current_setting('pg_stat_statements.track', true) AS track "
    "FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace "
    "WHERE e.extname = 'pg_stat_statements'",
    _SUBJECT,
)


def unavailable(where: list[dict[str, object]]) -> NotTold | None:
    """Return why statements are not told, from the answer to WHERE; None where they are."""
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
    """Return the question for the counts of each statement of a client; what functions run is in their caller's."""
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
        _REMEDIES,
    )


def table(where: Row) -> Question:
    """Return the question how often the table evicted entries, and when it was last reset."""
    return Question(
        f"SELECT dealloc AS evictions, stats_reset AS reset FROM {where['place']}.pg_stat_statements_info",
        _SUBJECT,
        _REMEDIES,
    )


def texts(where: Row, ids: Iterable[str]) -> Question:
    """Return the question for the texts of the statements with these identifiers."""
    listed = ", ".join(one for one in sorted(ids) if _QUERY_ID.fullmatch(one))
    return Question(
        f"SELECT queryid AS id, min(query) AS text FROM {where['place']}.pg_stat_statements(true) "
        f"WHERE queryid IN ({listed or 'NULL'}) GROUP BY queryid",
        _SUBJECT,
        _REMEDIES,
    )
