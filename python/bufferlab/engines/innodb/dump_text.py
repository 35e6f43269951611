"""Splits the text of a mysqldump into statements, without executing or judging any (dump_rules.py judges).

It follows the server's lexer (sql/sql_lex.cc, lex_one_token: quotes, comments, versions in comments) and the client's
parsing of DELIMITER (client/mysql.cc). A statement is returned without comments. If this server would execute the
contents of a version comment (/*!50001 ... */), they become part of the statement; otherwise they are left out. So the
server gets no comment, and cannot parse the statement in another way than this file did. Text is handled as bytes:
dump_rules.py refuses the settings with which a quote's byte could be part of a character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from bufferlab.engines.servers.builds import Flavour

MOST_STATEMENT_BYTES = 64 << 20
"""The longest statement of a dump, in bytes. mysqldump writes 1 MB, or one row (its max_allowed_packet is 24 MB)."""
_CHUNK_BYTES = 1 << 20
_MARGIN_BYTES = 16
"""The bytes that must be in the buffer from a special character on.

The longest case is the beginning of a version comment.
"""
_DELIMITERS = (b";", b";;")
"""The delimiters that mysqldump writes."""

STRING = rb"'(?:[^'\\]++|\\.)*+'"
DOUBLE_QUOTED = rb'"(?:[^"\\]++|\\.)*+"'
NAME = rb"`[^`]*+`"
_PLAIN = re.compile(
    rb"(?:[^'\"`;/#\-\\*]++|" + STRING + rb"|" + DOUBLE_QUOTED + rb"|" + NAME + rb"|-(?!-)|/(?!\*)|\*(?!/))++",
    re.DOTALL,
)
"""Matches text up to a semicolon, a comment's beginning or end, a backslash outside quotes, or an unclosed quote."""
_DELIMITER = re.compile(rb"[ \t]*delimiter[ \t]+([^\s]+)[^\n]*(?:\n|\Z)", re.IGNORECASE)
_VERSION = re.compile(rb"/\*(M?)!([0-9]{5,6})?")
_BLANK = re.compile(rb"\s*+")
_CUT_SHORT = "it was cut short: write it again"
_OF_MYSQLDUMP = "restore only dumps that mysqldump wrote"
_NAMES = {b"'": "string", b'"': "string", b"`": "name"}


@dataclass(frozen=True)
class DumpStatement:
    """One statement of a dump, without comments."""

    line: int
    text: bytes


class DumpTextError(Exception):
    """The error for text that is not a complete dump: the fault, and its line."""

    def __init__(self, what: str, line: int, hint: str) -> None:
        super().__init__(what, line, hint)
        self.what, self.line, self.hint = what, line, hint


def version_id(version: tuple[int, ...]) -> int:
    """Return a server's version in the form that version comments use: 50722 for 5.7.22."""
    major, minor, patch = (*version, 0, 0, 0)[:3]
    return major * 10_000 + minor * 100 + patch


class _NeedMoreError(Exception):
    """The error for a buffer that ends too early to decide what comes next."""


class Splitter:
    """An iterator over a dump's statements. It holds one statement and a chunk of the file in memory.

    Iterating raises DumpTextError for a client's command, for text that ends inside a quote, a comment or a statement,
    and for a statement that is too long.
    """

    def __init__(self, file: BinaryIO, flavour: Flavour, version_id: int) -> None:
        """`version_id` is the server's version in the form that version comments use: 50722 for 5.7.22."""
        self._file, self._flavour, self._version_id = file, flavour, version_id
        self._buffer = b""
        self._place = 0
        self._ended = False
        self._line = 1
        self._delimiter = b";"

    def __iter__(self) -> Iterator[DumpStatement]:
        while (statement := self._next()) is not None:
            yield statement

    def _next(self) -> DumpStatement | None:
        """Return the next statement that is not blank; None at the end of the file."""
        while True:
            try:
                begin, end, text = self._read()
            except _NeedMoreError:
                self._read_more()
                continue
            if end == self._place and self._ended:
                return None
            line = self._line + self._buffer.count(b"\n", self._place, begin)
            self._line += self._buffer.count(b"\n", self._place, end)
            self._place = end
            if text.strip():
                return DumpStatement(line, text)

    def _read_more(self) -> None:
        """Double the buffer by reading from the file, so that each byte is examined about twice in all.

        Raises DumpTextError for a statement that is too long.
        """
        if self._place:
            self._buffer, self._place = self._buffer[self._place :], 0
        if len(self._buffer) > MOST_STATEMENT_BYTES:
            what = f"a statement has more than {MOST_STATEMENT_BYTES >> 20} MiB"
            raise DumpTextError(what, self._line, "write the dump with --net-buffer-length=1M")
        more = self._file.read(max(_CHUNK_BYTES, len(self._buffer)))
        self._ended = not more
        self._buffer += more

    def _read(self) -> tuple[int, int, bytes]:
        """Return begin, end and text of the next statement; the text is "" for a comment, a DELIMITER or the end."""
        buffer = self._buffer
        place = begin = _skip_blank(buffer, self._place)
        if (command := self._delimiter_at(place)) is not None:
            return place, command, b""
        parts: list[bytes] = []
        opened, is_blank = 0, True
        while True:
            if plain := _PLAIN.match(buffer, place):
                if plain.end() == len(buffer) and not self._ended:
                    raise _NeedMoreError
                if is_blank:
                    begin = _skip_blank(buffer, place)
                parts.append(plain[0])
                is_blank = is_blank and not plain[0].strip()
                place = plain.end()
            if len(buffer) - place < _MARGIN_BYTES and not self._ended:
                raise _NeedMoreError
            if place == len(buffer):
                return self._at_end(opened, place, is_blank=is_blank)
            if not opened and buffer.startswith(self._delimiter, place):
                return begin, place + len(self._delimiter), b"".join(parts)
            part, place, change = self._special(place, opened)
            parts.append(part)
            is_blank = is_blank and not part.strip()
            opened += change
            if not opened and is_blank:
                return place, place, b""  # A comment before the statement may be long; DELIMITER may follow it.

    def _special(self, place: int, opened: int) -> tuple[bytes, int, int]:
        """Return the replacement of the text at `place`, the position at which to continue, and the change in open
        comments.

        The change is 1, 0 or -1. Raises DumpTextError for text that mysqldump does not write, or that is cut short.
        """
        buffer = self._buffer
        if buffer.startswith(b"*/", place):
            if not opened:
                raise self._error("a comment ends that did not begin", place, _OF_MYSQLDUMP)
            return b" ", place + 2, -1
        if buffer.startswith(b"/*", place):
            end, is_opened = self._comment(place)
            return b" ", end, int(is_opened)
        sign = buffer[place : place + 1]
        if sign == b"#" or _is_line_comment(buffer, place):
            return b" ", self._end_of_line(place), 0
        if sign == b"-":
            # Two dashes begin a comment. Removing a comment between two single dashes must not join them.
            return b"- ", place + 1, 0
        if sign == b";":
            return b";", place + 1, 0
        if sign == b"\\":
            what = "a backslash outside quotes, which the mysql client takes for a command"
            raise self._error(what, place, _OF_MYSQLDUMP)
        raise self._cut_short(f"the dump ends inside a {_NAMES[sign]}", place)

    def _comment(self, place: int) -> tuple[int, bool]:
        """Return the position after the beginning of a comment, and whether this server executes its contents."""
        version = _VERSION.match(self._buffer, place)
        if version and self._executes(version[1] == b"M", int(version[2] or 0)):
            return version.end(), True
        end = self._buffer.find(b"*/", place + 2)
        if end < 0:
            raise self._cut_short("the dump ends inside a comment", place)
        return end + 2, False

    def _executes(self, of_mariadb: bool, version_id: int) -> bool:
        """Return whether this server executes what a version comment holds (sql_lex.cc, at MY_LEX_LONG_COMMENT)."""
        if self._flavour == "mysql":
            return not of_mariadb and version_id <= self._version_id
        # MariaDB ignores version comments for MySQL 5.7 and later.
        return version_id <= self._version_id and (of_mariadb or not 50700 <= version_id <= 99999)

    def _end_of_line(self, place: int) -> int:
        end = self._buffer.find(b"\n", place)
        if end < 0:
            if not self._ended:
                raise _NeedMoreError
            return len(self._buffer)
        return end

    def _delimiter_at(self, place: int) -> int | None:
        """Apply a DELIMITER command at `place`; return its end, or None without such a command.

        Raises DumpTextError for a delimiter that mysqldump does not write.
        """
        if len(self._buffer) - place < 256 and not self._ended:
            raise _NeedMoreError
        command = _DELIMITER.match(self._buffer, place)
        if command is None:
            return None
        if command.end() == len(self._buffer) and not self._ended:
            raise _NeedMoreError
        if command[1] not in _DELIMITERS:
            raise self._error("DELIMITER with another word than ;; or ;", place, "mysqldump writes no other")
        self._delimiter = command[1]
        return command.end()

    def _at_end(self, opened: int, place: int, *, is_blank: bool) -> tuple[int, int, bytes]:
        if opened:
            raise self._error("the dump ends inside a comment", place, _CUT_SHORT)
        if not is_blank:
            raise self._error("the dump ends inside a statement", place, _CUT_SHORT)
        return place, place, b""

    def _cut_short(self, what: str, place: int) -> Exception:
        """Return the error for text that is cut short; if the file has more bytes, the error that requests them."""
        return self._error(what, place, _CUT_SHORT) if self._ended else _NeedMoreError()

    def _error(self, what: str, place: int, hint: str) -> DumpTextError:
        return DumpTextError(what, self._line + self._buffer.count(b"\n", self._place, place), hint)


def _skip_blank(buffer: bytes, place: int) -> int:
    blank = _BLANK.match(buffer, place)
    return blank.end() if blank else place


def _is_line_comment(buffer: bytes, place: int) -> bool:
    """Return whether the "--" at `place` begins a comment: a blank, a control character or the end must follow it."""
    return buffer.startswith(b"--", place) and (place + 2 == len(buffer) or buffer[place + 2] <= 0x20)
