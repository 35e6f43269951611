"""Reads the entries of a slow query log, of MySQL 5.6 to 9, Percona Server and MariaDB, in bounded memory.

It follows the servers' writers (MySQL sql/log.cc, `File_query_log::write_slow`; MariaDB sql/log.cc,
`MYSQL_QUERY_LOG::write`). An entry has lines that begin with #, perhaps `use schema;`, `SET timestamp=...;`, and the
statement, which ends with `;` and a line's end. Nothing escapes a statement's own lines, so a line that only looks like
an entry's first begins one too; the statement that it cuts is counted, and no script holds it. So is a last one that
the file cuts. Lines outside of entries are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MOST_STATEMENT_BYTES = 256 << 10
"""The longest statement that is kept: longer ones are loads of rows, which no script repeats."""
_PIECE_BYTES = 64 << 10

_FIRST = re.compile(rb"# (?:Time: [0-9]|User@Host: |Thread_id: [0-9]|Query_time: [0-9]|Schema: )")
"""The beginning of an entry, behind the end of a statement."""
_SURELY_FIRST = re.compile(
    rb"# (?:Time: [0-9]{2}[-0-9]+[T ]+[0-9]+:[0-9]{2}:[0-9]{2}|User@Host: [^\n\[]*+\[[^\n]*?\] {0,9}@ )"
)
"""The beginning of an entry, also behind a statement that has no end."""
_COMMAND = re.compile(rb"# administrator command: ([A-Za-z ]+)")
_USE = re.compile(r"use (.+);\r?\n")
_SET = re.compile(r"SET (?:(?:last_insert_id|insert_id|timestamp)=[0-9.]+,?)+;\r?\n")
_FIELDS = {
    "session": re.compile(rb"\b(?:Thread_id|Id): +([0-9]{1,20})\b"),
    "schema": re.compile(rb"\bSchema: (.*?)(?=  ?[A-Z][A-Za-z_]+: |\r?\n|\Z)"),
    "seconds": re.compile(rb"\bQuery_time: ([0-9]{1,9}(?:\.[0-9]{1,9})?)"),
    "error": re.compile(rb"\b(?:Last_errno|Errno): ([0-9]{1,9})\b"),
    "routine": re.compile(rb"(?m)^# Stored_routine: \S"),
    "limit": re.compile(rb"\bLog_slow_rate_limit: ([0-9]{1,9})\b"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: a statement, an administrator's command, or a server's start (`command` is "start")."""

    session: int | None = None
    """The connection's number; None where the log does not tell it."""
    schema: str = ""
    """The default schema; "" where the log does not tell one."""
    seconds: float = 0.0
    failed: bool = False
    sampled: bool = False
    """Whether the server logs one of several statements (log_slow_rate_limit)."""
    inside: bool = False
    """Whether a stored routine ran the statement, with names of its own in place of values."""
    command: str = ""
    sql: str = ""
    """The statement without its `;`. Bytes that are not UTF-8 are lone surrogates."""
    unread: str = ""
    """The reason why the statement was not read: it is cut, or too large."""


def entries(file: BinaryIO, reader: Reader | None = None) -> Iterator[Entry]:
    """Yield the entries of a log. A reader of the caller's tells afterwards what was outside of them."""
    reader = reader or Reader()
    begins_line = True
    while piece := file.readline(_PIECE_BYTES):
        yield from reader.take(piece, begins_line)
        begins_line = piece.endswith(b"\n")
    yield from reader.end()


class Reader:
    """Puts the lines of one file together to entries."""

    def __init__(self) -> None:
        self.lines_outside = 0
        """Lines that belong to no entry, and are not the server's own."""
        self.header: list[bytes] = []
        self.body: list[bytes] = []
        self.size = 0
        self.tail = b""
        """The last bytes of the body."""
        self.schema = ""
        self.skips = 0
        """The lines behind a server's start that are its own."""

    def take(self, piece: bytes, begins_line: bool) -> Iterator[Entry]:
        """Take a line, or a piece of a long one; yield the entry that it ends."""
        if begins_line and self.skips:
            self.skips -= 1
            if piece.startswith((b"Tcp port:", b"TCP Port:", b"Time ", b"Time\t")):
                return
        if begins_line and piece.startswith(b"#") and not self._is_statement(piece):
            if self.body:
                yield from self.end()
            if len(self.header) < 100:
                self.header.append(piece[:4096])
            return
        if begins_line and _is_start(piece):
            yield from self.end()
            self.schema, self.skips = "", 2
            yield Entry(command="start")
            return
        if not self.header:
            self.lines_outside += begins_line and not piece.isspace()
            return
        self.size += len(piece)
        self.tail = (self.tail + piece)[-3:]
        if self.size <= MOST_STATEMENT_BYTES:
            self.body.append(piece)

    def _is_statement(self, line: bytes) -> bool:
        """Return whether a line that begins with # is a part of the entry's statement."""
        if self.header and (not self.body or self._ended()) and _COMMAND.match(line):
            return True
        if not self.body:
            return False
        return not (_SURELY_FIRST.match(line) or (self._ended() and _FIRST.match(line)))

    def _ended(self) -> bool:
        return self.tail.endswith((b";\n", b";\r\n"))

    def end(self) -> Iterator[Entry]:
        """Yield the entry that has been read, if it is whole."""
        header, body = b"".join(self.header), b"".join(self.body)
        size, ended, had_body = self.size, self._ended(), bool(self.body)
        self.header, self.body, self.size, self.tail = [], [], 0, b""
        fields = {
            name: match[match.lastindex or 0] for name, pattern in _FIELDS.items() if (match := pattern.search(header))
        }
        if "seconds" not in fields:
            return
        unread = ""
        if size > MOST_STATEMENT_BYTES:
            unread = f"longer than {MOST_STATEMENT_BYTES >> 10} KiB"
        elif not ended or not had_body:
            unread = "without an end"
        yield self._entry(fields, body, unread)

    def _entry(self, fields: dict[str, bytes], body: bytes, unread: str) -> Entry:
        text = body.decode("utf-8", "surrogateescape")
        if "schema" in fields:
            self.schema = fields["schema"].decode("utf-8", "surrogateescape").strip()
        at = 0
        if match := _USE.match(text):
            self.schema, at = match[1].strip("`"), match.end()
        if match := _SET.match(text, at):
            at = match.end()
        command = _COMMAND.match(body, len(text[:at].encode("utf-8", "surrogateescape")))
        if not command and not text[at:].strip():
            unread = "without an end"  # The cut came behind the time that the server writes before each statement.
        return Entry(
            session=int(fields["session"]) if "session" in fields else None,
            schema=self.schema,
            seconds=float(fields["seconds"]),
            failed=int(fields.get("error", b"0")) != 0,
            sampled=int(fields.get("limit", b"1")) > 1,
            inside="routine" in fields,
            command=command[1].decode() if command else "",
            sql="" if command or unread else text[at:].rstrip().removesuffix(";"),
            unread="" if command else unread,
        )


def _is_start(line: bytes) -> bool:
    """Return whether a line is the first that a server writes when it starts, or opens its log again."""
    return b", Version: " in line and not line[:1].isspace() and line.rstrip().endswith(b"started with:")
