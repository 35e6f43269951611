"""The question who fills InnoDB's pool, what it costs the server, and the names of what fills it.

INNODB_BUFFER_PAGE has a row for each page (i_s.cc, i_s_innodb_fill_buffer_pool). Its rows pass through a temporary
table of the server. MySQL 5.7 and 9 write that table into the pool: by Innodb_pages_created it took 41 and 46 new pages
of a pool of 4,096, and 170 and 128 of one of 16,384. MariaDB 10.2 and 11.8 wrote none.
"""

from __future__ import annotations

from bufferlab.engines.servers.questions import Question, Row, text

FIRST_PAGE_S, NEXT_PAGE_S = 15e-6, 5e-6
"""Measured seconds for each page of the pool: of the first query after a start, and of one after it."""
TEMPORARY_TABLE_RATIO = 0.01
"""Share of the pool that the answer's temporary table takes in MySQL."""

# A page that MariaDB has written keeps 1 there until it leaves the flush list, and a changed page of its temporary
# tablespace has 2: neither is counted as dirty (buf0buf.h, oldest_modification_).
# IS_OLD is YES or NO in MySQL, and a number in later versions of MariaDB.
CONTENTS = Question(
    "SELECT table_name AS table_name, index_name AS index_name, page_type AS page_type, page_state AS page_state, "
    "COUNT(*) AS pages, SUM(oldest_modification > 2) AS dirty_pages, "
    "SUM(CAST(is_old AS CHAR) IN ('YES', '1')) AS old_pages "
    "FROM information_schema.INNODB_BUFFER_PAGE GROUP BY table_name, index_name, page_type, page_state",
    "who fills the pool",
    {"rights": "GRANT PROCESS ON *.* TO the account"},
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
    """Return the table and the index that a row's pages belong to; words in parentheses where they have no table."""
    if text(row["page_state"]) in ("NOT_USED", "READY_FOR_USE"):
        return FREE, None
    if text(row["page_state"]) != "FILE_PAGE":
        return _MEMORY, None
    if table := text(row["table_name"]):
        return table.replace("`", ""), text(row["index_name"])
    kind = text(row["page_type"]) or "UNKNOWN"
    if kind.startswith(_LARGE):
        return "(large values, whose table is not told)", None
    # The rest manages space: FILE_SPACE_HEADER, EXTENT_DESCRIPTOR, INODE, IBUF_BITMAP, ALLOCATED, ...
    return _OF_TYPE.get(kind, "(space management)"), None
