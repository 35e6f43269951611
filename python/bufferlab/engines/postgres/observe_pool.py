"""The questions who fills PostgreSQL's shared buffers, and the names of what fills them.

The view pg_buffercache has a row for each buffer (contrib/pg_buffercache/pg_buffercache_pages.c). It takes each
buffer's header lock for a moment, and no other. A relation's file is named by pg_filenode_relation, which looks into
the catalogue of its own database only.
"""

from __future__ import annotations

from collections.abc import Mapping

from bufferlab.engines.servers.questions import Question, Refusal, Row, text

MOST_BUFFERS = 131_072
"""Buffers up to which the full view is read without a confirmation: 1 GiB."""
PAGE_S = 0.5e-6
"""Seconds for each buffer, the grouping included. Versions 15 and 17 took 0.23 to 0.43 us of processor time,
in pools of 128 MiB and 1 GiB.
"""

_REMEDIES: Mapping[Refusal, str] = {
    "rights": "GRANT pg_monitor TO the role",
    "missing": "CREATE EXTENSION pg_buffercache, in the database that is looked at (package postgresql-contrib)",
}
NO_EXTENSION = ("who fills the pool: the database has no extension pg_buffercache", _REMEDIES["missing"])

WHERE = Question(
    "SELECT pg_catalog.quote_ident(n.nspname) AS place FROM pg_catalog.pg_extension AS e "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'pg_buffercache'",
    "who fills the pool",
)

FREE, OTHERS = "(free)", "(other databases)"


def contents(place: str) -> Question:
    """Return the question for the buffers of each relation. `place` is the extension's schema, quoted by the server."""
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
        _REMEDIES,
    )


def names(row: Row) -> tuple[str, str | None]:
    """Return the table and the index that a row's pages belong to; words in parentheses where they have no table."""
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
