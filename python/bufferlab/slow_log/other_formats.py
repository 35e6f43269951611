"""Recognises, by their first lines, files that people mistake for a slow query log.

It knows the general log of MySQL and MariaDB (sql/log.cc) and printed rows of their log tables, PostgreSQL's
log_line_prefix, csvlog and jsonlog, compressed files, and the output of mysqlbinlog, mysqldumpslow and
pt-query-digest.
"""

from __future__ import annotations

import re
from pathlib import Path

_HEAD_BYTES = 256 << 10
_AS_A_FILE = "SET GLOBAL log_output = 'FILE', and give the file that slow_query_log_file names"
_COMMANDS = (
    rb"(?:Query|Connect|Quit|Init DB|Prepare|Execute|Close stmt|Reset stmt|Ping|Statistics|Field List|Change user)"
)
_TIME = (
    rb"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}(?:Z|[+-][0-9:]{5})|[0-9]{6} {1,2}[0-9]{1,2}:[0-9]{2}:[0-9]{2}|\t)"
)
_KINDS: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (
        re.compile(rb"\A(?:\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd)"),
        "the log is compressed",
        "unpack it first, as by zcat",
    ),
    (
        re.compile(rb"^" + _TIME + rb"[ \t]+[0-9]+ " + _COMMANDS + rb"(?:[\t\r\n]|\Z)", re.MULTILINE),
        "this is a general query log, which tells no times",
        "give the slow query log: SET GLOBAL slow_query_log = ON, long_query_time = 0",
    ),
    (
        re.compile(rb"\b(?:LOG|STATEMENT|FATAL|DETAIL):  |,LOG,00000,|\"error_severity\":\"LOG\""),
        "this is PostgreSQL's log",
        "a script is made of MySQL's and MariaDB's logs alone; write one by hand, as docs/scripts.md says",
    ),
    (
        re.compile(
            rb"\bstart_time\b[ \t|\",]+user_host\b|^ *start_time: |^ *event_time: |\bevent_time\b[ \t|\",]+user_host\b|"
            rb"INSERT INTO [`.\w]*(?:slow|general)_log\b|"
            rb"^\"?[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]{8,15}\"?[,\t]\"?[^\n\[]{0,99}\[[^\n\]]{0,99}\] @ ",
            re.MULTILINE,
        ),
        "this is a log that the server kept as a table (log_output = TABLE)",
        _AS_A_FILE,
    ),
    (
        re.compile(rb"^#[0-9]{6} {1,2}[0-9]{1,2}:[0-9]{2}:[0-9]{2} server id [0-9]+ ", re.MULTILINE),
        "this is a binary log, as mysqlbinlog prints it, which holds no reads",
        "give the slow query log, written with long_query_time = 0",
    ),
    (
        re.compile(rb"^Count: [0-9]+ +Time=[0-9.]+s |^# Query [0-9]+: |^# Profile$|^# Overall: ", re.MULTILINE),
        "this is a summary of a slow query log, as mysqldumpslow and pt-query-digest print it",
        "give the log itself",
    ),
)


def kind_of(path: Path) -> tuple[str, str] | None:
    """Return (kind, advice to the user) for a file that is not a slow query log; None for an unknown kind.

    Raises OSError if the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return next(((what, hint) for pattern, what, hint in _KINDS if pattern.search(head)), None)
