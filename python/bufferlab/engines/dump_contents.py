"""Finds out what a dump contains, and refuses one that cannot be a run's database, before any server is started.

Of a mysqldump only the beginnings of lines are examined, which takes no longer than reading the file; mysqldump writes
a newline within a row as \\n. If these lines suggest that the dump must be refused, the whole dump is split into
statements, which are judged as for a restore; that judgement decides. Of pg_dump's custom format the table of contents
is read (dump_head.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from bufferlab.engines.innodb.dump_rules import Rules
from bufferlab.engines.innodb.dump_text import DumpTextError, Splitter, version_id
from bufferlab.engines.servers.dump_head import CutArchiveError, DumpHead, entries_of
from bufferlab.errors import SpecError
from bufferlab.versions import numbers

_CHUNK_BYTES = 4 << 20
_MARGIN_BYTES = 512
"""The bytes that must be in the buffer after the beginning of a line before the line is examined."""
_LINE = re.compile(
    rb"\n(?:(?P<delimiter>DELIMITER +;;?)|(?P<table>CREATE TABLE )|(?P<rows>(?:INSERT|REPLACE) )|"
    rb"(?:USE |CREATE DATABASE (?:/\*!32312 IF NOT EXISTS\*/ )?)`(?P<database>[^`\n]{1,256})`)"
)
_TABLE = re.compile(rb"\s*CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(`[^`]+`|[\w$]+)", re.IGNORECASE)
_VIEW = re.compile(rb"\s*CREATE\b(?:(?!\bAS\b)[^(])*?\bVIEW\s+(`[^`]+`|[\w$]+)", re.IGNORECASE)
_OF_POSTGRES = "write the whole database: pg_dump -Fc --file=app.dump app"
_OF_MYSQL = "write the whole database: mysqldump --single-transaction app > app.sql"


@dataclass
class _Found:
    """The contents of a dump. `view` and `rows` are the line numbers of the first view and row, 0 if unknown."""

    tables: set[bytes] = field(default_factory=set)
    view: int | None = None
    rows: int | None = None
    databases: set[bytes] = field(default_factory=set)


def has_rows(path: Path, head: DumpHead) -> bool:
    """Return whether a dump holds rows.

    Raises SpecError if it holds several databases, views without their tables, rows without their tables, or no table,
    and if it cannot be read or is cut short. If all statements had to be judged, also raises SpecError for a statement
    that a restore would refuse.
    """
    try:
        with path.open("rb") as file:
            if head.flavour == "postgres":
                found = _of_archive(file)
                return found is None or _judged(found, head, path)
            found = _of_lines(file)
            if found.rows is None or not found.tables or len(found.databases) > 1:
                file.seek(0)
                found = _of_statements(file, head, path)
            return _judged(found, head, path)
    except OSError as error:
        raise SpecError(f"the dump cannot be read: {error.strerror}", str(path), "give the path of a dump") from error


def _judged(found: _Found, head: DumpHead, path: Path) -> bool:
    """Return whether the dump holds rows. Raise SpecError, with the reason, if it creates no table."""
    if not found.tables:
        what, line = "the dump holds no table", None
        if found.rows is not None:
            what, line = "the dump holds rows without their tables (--no-create-info, --data-only)", found.rows
        elif found.view is not None:
            what, line = "the dump holds views alone, and the tables that they read are missing", found.view
        hint = _OF_POSTGRES if head.flavour == "postgres" else _OF_MYSQL
        raise SpecError(what, f"{path}:{line}" if line else str(path), hint)
    return found.rows is not None


def _of_lines(file: BinaryIO) -> _Found:
    """Find a dump's contents from the beginnings of its lines.

    Stored code, which is between two DELIMITER commands, is ignored.
    """
    found, in_code = _Found(), False
    for line in _lines(file):
        if line["delimiter"]:
            in_code = line["delimiter"].endswith(b";;")
        elif in_code:
            continue
        elif line["table"]:
            found.tables.add(b"")
        elif line["rows"]:
            found.rows = found.rows or 0
        else:
            found.databases.add(line["database"])
    return found


def _lines(file: BinaryIO) -> Iterator[re.Match[bytes]]:
    """Yield the lines that show a dump's contents.

    The last bytes of a chunk are examined together with the next chunk.
    """
    kept, chunk = b"", b"\n"
    while chunk:
        text = kept + chunk
        chunk = file.read(_CHUNK_BYTES)
        end = len(text) - (_MARGIN_BYTES if chunk else 0)
        for line in _LINE.finditer(text):
            if line.start() >= end:
                break
            yield line
        kept = text[max(0, end) :]


def _of_statements(file: BinaryIO, head: DumpHead, path: Path) -> _Found:
    """Find a dump's contents by splitting and judging all its statements.

    Raises SpecError, with the line, as a restore would.
    """
    found, rules = _Found(), Rules()
    try:
        for statement in Splitter(file, head.flavour, version_id(numbers(head.version))):
            judged = rules.judge(statement)
            if judged is None:
                continue
            kind, text = judged
            if kind == "rows":
                found.rows = found.rows or statement.line
            elif kind == "code" and (view := _VIEW.match(text)):
                found.view = found.view or statement.line
                found.tables.discard(view[1].strip(b"`"))  # Until 5.6 a dump creates a table in place of a view first.
            elif table := _TABLE.match(text):
                found.tables.add(table[1].strip(b"`"))
    except DumpTextError as error:
        raise SpecError(error.what, f"{path}:{error.line}", error.hint) from error
    return found


def _of_archive(file: BinaryIO) -> _Found | None:
    """Find an archive's contents from its table of contents.

    Return None if the table cannot be read: then only pg_restore judges the archive. Raises SpecError if the archive
    ends within the table.
    """
    try:
        kinds = entries_of(file)
    except CutArchiveError as error:
        what, hint = "the dump ends within its table of contents", "copy the whole file, or write it again"
        raise SpecError(what, file.name, hint) from error
    if kinds is None:
        return None
    return _Found(
        tables={b""} if kinds & {"TABLE", "MATERIALIZED VIEW", "FOREIGN TABLE", "EXTENSION"} else set(),
        view=0 if "VIEW" in kinds else None,
        rows=0 if kinds & {"TABLE DATA", "MATERIALIZED VIEW DATA"} else None,
    )
