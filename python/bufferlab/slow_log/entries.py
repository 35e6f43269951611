"""Reads the entries of a slow query log, of MySQL 5.6 to 9, Percona Server and MariaDB, in bounded memory.

It follows the servers' code (MySQL sql/log.cc, `File_query_log::write_slow`; MariaDB sql/log.cc,
`MYSQL_QUERY_LOG::write`). An entry has lines that begin with #, perhaps `use schema;`, `SET timestamp=...;`, and the
statement, which ends with `;` and the end of a line. The servers do not escape the lines of a statement, so a line in a
statement may look like the first line of an entry. This module treats such a line as the first line of an entry. The
statement that the line cuts is counted, but left out of scripts. So is a statement that the file's end cuts. Lines
outside of entries are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

MOST_STATEMENT_BYTES = 256 << 10
"""The size of the longest statement that is kept. Longer ones load many rows; scripts do not repeat them."""
_PIECE_BYTES = 64 << 10

_FIRST = re.compile(rb"# (?:Time: [0-9]|User@Host: |Thread_id: [0-9]|Query_time: [0-9]|Schema: )")
"""Matches the beginning of an entry after the end of a statement."""
_SURELY_FIRST = re.compile(
    rb"# (?:Time: [0-9]{2}[-0-9]+[T ]+[0-9]+:[0-9]{2}:[0-9]{2}|User@Host: [^\n\[]*+\[[^\n]*?\] {0,9}@ )"
)
"""Matches the beginning of an entry even after a statement without an end."""
_COMMAND = re.compile(rb"# administrator command: ([A-Za-z ]+)")
_USE = re.compile(rb"use (.+);(?:\r?\n|\Z)")
_SET = re.compile(rb"SET (?:(?:last_insert_id|insert_id|timestamp)=[0-9.]+,?)+;(?:\r?\n|\Z)")
_SESSION = re.compile(rb"\b(?:Thread_id|Id): +([0-9]{1,20})\b")
_SCHEMA = re.compile(rb"\bSchema: (.*?)(?=  ?[A-Z][A-Za-z_]+: |\r?\n|\Z)")
_SECONDS = re.compile(rb"\bQuery_time: ([0-9]{1,9}(?:\.[0-9]{1,9})?)")
_ERROR = re.compile(rb"\b(?:Last_errno|Errno): 0*[1-9][0-9]{0,8}\b")
_ROUTINE = re.compile(rb"(?m)^# Stored_routine: \S")
_LIMIT = re.compile(rb"\bLog_slow_rate_limit: ([0-9]{1,9})\b")


# It is not frozen, because frozen objects take three times as long to make, and a log has millions of entries.
@dataclass(slots=True)
class LogEntry:
    """One entry: a statement, an administrator's command, or a server's start (`command` is "start").

    If the lines of a server's start begin a file, `command` is "open": a server also writes them when it reopens its
    log.
    """

    session: int | None = None
    """The connection's number; None if the log lacks it."""
    schema: str = ""
    """The connection's default schema; "" if the log lacks it."""
    seconds: float = 0.0
    failed: bool = False
    sampled: bool = False
    """Whether the server logs only a sample of its statements (log_slow_rate_limit)."""
    inside: bool = False
    """Whether a stored routine ran the statement, so that it has the routine's variables in place of values."""
    command: str = ""
    sql: str = ""
    """The statement without its final `;`. Bytes that are not UTF-8 are lone surrogates."""
    unread: str = ""
    """The reason why the statement was not read (it is incomplete, or too large); "" if it was read."""


def entries(file: BinaryIO, reader: Reader | None = None) -> Iterator[LogEntry]:
    """Yield the entries of a log. The caller's `reader`, if given, counts the lines outside of entries."""
    reader = reader or Reader()
    begins_line = True
    while piece := file.readline(_PIECE_BYTES):
        if found := reader.take(piece, begins_line):
            yield from found
        begins_line = piece.endswith(b"\n")
    yield from reader.end()


class Reader:
    """A reader that makes entries from the lines of one file."""

    def __init__(self) -> None:
        self.lines_outside = 0
        """The number of lines that belong to no entry, and not to a server's start."""
        self.header: list[bytes] = []
        self.is_timed = False
        """Whether the header already has the statement's time, so that a further beginning starts a new entry."""
        self.body: list[bytes] = []
        self.size = 0
        self.tail = b""
        """The last bytes of the entry's body, which show whether it has ended."""
        self.schema = ""
        self.is_first = True
        self.skips = 0
        """The number of following lines that may still belong to a server's start."""

    def take(self, piece: bytes, begins_line: bool) -> Sequence[LogEntry]:
        """Read a line, or a piece of a long one. Return the entries that it completes (statement, server's start)."""
        is_first, self.is_first = self.is_first, False
        if begins_line:
            if self.skips:
                self.skips -= 1
                if piece.startswith((b"Tcp port:", b"TCP Port:", b"Time ", b"Time\t")):
                    return ()
            if piece.startswith(b"#") and not self._is_statement(piece):
                begins = self.body or (self.is_timed and _SURELY_FIRST.match(piece))
                ended = self.end() if begins else ()
                if len(self.header) < 100:
                    self.header.append(piece[:4096])
                    self.is_timed = self.is_timed or b"Query_time: " in piece
                return ended
            if b", Version: " in piece and _is_start(piece):
                ended = self.end()
                self.schema, self.skips = "", 2
                return (*ended, LogEntry(command="open" if is_first else "start"))
        if not self.header:
            self.lines_outside += begins_line and not piece.isspace()
            return ()
        self.size += len(piece)
        self.tail = piece if len(piece) > 2 else (self.tail + piece)[-3:]
        if self.size <= MOST_STATEMENT_BYTES:
            self.body.append(piece)
        return ()

    def _is_statement(self, line: bytes) -> bool:
        """Return whether a line that begins with # is part of the entry's statement."""
        if not self.header:
            return False
        is_between = not self.body or self._ended()
        if is_between and _COMMAND.match(line):
            return True
        if not self.body:
            return False
        return not (_SURELY_FIRST.match(line) or (is_between and _FIRST.match(line)))

    def _ended(self) -> bool:
        return self.tail.endswith((b";\n", b";\r\n"))

    def end(self) -> Sequence[LogEntry]:
        """End the entry that is being read; return it if its header has a time."""
        header, body = b"".join(self.header), b"".join(self.body)
        unread = ""
        if self.size > MOST_STATEMENT_BYTES:
            unread = f"longer than {MOST_STATEMENT_BYTES >> 10} KiB"
        elif not (self._ended() or self.tail.endswith(b";")):  # The file's last line may be without a line end.
            unread = "without an end"
        self.header, self.is_timed, self.body, self.size, self.tail = [], False, [], 0, b""
        seconds = _SECONDS.search(header)
        return (self._entry(header, float(seconds[1]), body, unread),) if seconds else ()

    def _entry(self, header: bytes, seconds: float, body: bytes, unread: str) -> LogEntry:
        # Look for the word first: this takes a tenth of the pattern's time.
        if b"Schema: " in header and (schema := _SCHEMA.search(header)):
            self.schema = _decoded(schema[1]).strip()
        at = 0
        if use := _USE.match(body):
            self.schema, at = _decoded(use[1]).strip("`"), use.end()
        if times := _SET.match(body, at):
            at = times.end()
        command = _COMMAND.match(body, at)
        sql = _decoded(body[at:]).rstrip()
        if not sql:
            unread = "without an end"  # The entry was cut after `SET timestamp`, which comes before each statement.
        session = _SESSION.search(header)
        limit = _LIMIT.search(header) if b"Log_slow_rate_limit: " in header else None
        return LogEntry(
            int(session[1]) if session else None,
            self.schema,
            seconds,
            b"rrno: " in header and _ERROR.search(header) is not None,
            limit is not None and int(limit[1]) > 1,
            b"# Stored_routine: " in header and _ROUTINE.search(header) is not None,
            command[1].decode() if command else "",
            "" if command or unread else sql.removesuffix(";"),
            "" if command else unread,
        )


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _is_start(line: bytes) -> bool:
    """Return whether a line is the first line that a server writes when it starts or reopens its log."""
    return b", Version: " in line and not line[:1].isspace() and line.rstrip().endswith(b"started with:")
