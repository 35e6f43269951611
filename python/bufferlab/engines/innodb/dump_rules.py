"""Judges the statements of a mysqldump: which are sent to the server, which are skipped, and which refuse the dump.

The rules are an allow-list: they name what mysqldump and mariadb-dump write (client/mysqldump.c of both), and nothing
else is sent. They are the second of two barriers. The first is the account that restores: it has no privileges outside
its schema, and not the privilege FILE. Stored code of the dump (triggers, routines, views) gets that account as its
definer, so that it never runs with other privileges.
"""

from __future__ import annotations

import re
from typing import Literal

from bufferlab.engines.innodb.dump_text import DOUBLE_QUOTED, NAME, STRING, DumpStatement, DumpTextError

_FLAGS = re.IGNORECASE | re.DOTALL
_QUOTED = re.compile(STRING + rb"|" + DOUBLE_QUOTED + rb"|" + NAME, re.DOTALL)
_ROWS = re.compile(
    rb"\s*(?:INSERT|REPLACE)\s+(?:(?:IGNORE|DELAYED|LOW_PRIORITY)\s+)*INTO\s+%b\s*(?:\((?:%b|[\s,])++\)\s*)?VALUES?"
    rb"(?:[\s(),.0-9+\-]++|(?<=[0-9.])[eE](?=[0-9+\-])|%b|%b|\b(?:NULL|DEFAULT|TRUE|FALSE)\b|"
    rb"(?<=\b0)[xX][0-9a-fA-F]++\b|\b_(?:binary|utf8|utf8mb3|utf8mb4|latin1)\b|[xXbBnN](?='))*+"
    % (NAME, NAME, STRING, DOUBLE_QUOTED),
    _FLAGS,
)
"""Matches rows of literals only: they cannot read, wait or call anything, not even a function of the dump named `e`."""

_SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")
_DATABASE = re.compile(
    rb"\s*(USE|(?:CREATE|DROP|ALTER)\s+(?:DATABASE|SCHEMA))(?:\s+IF(?:\s+NOT)?\s+EXISTS)?\s+(`[^`]+`|[\w$]+)(.*)",
    _FLAGS,
)
_SETTABLE = (
    b"CHARACTER_SET_CLIENT|CHARACTER_SET_RESULTS|CHARACTER_SET_CONNECTION|COLLATION_CONNECTION|TIME_ZONE|UNIQUE_CHECKS|"
    b"FOREIGN_KEY_CHECKS|CHECK_CONSTRAINT_CHECKS|SQL_MODE|SQL_NOTES|NOTE_VERBOSITY|AUTOCOMMIT|SQL_QUOTE_SHOW_CREATE"
)
_VALUE = rb"(?:@@?(?:(?:SESSION|GLOBAL)\.)?\w++|''|[-+]?\w++)"
_ASSIGNED = rb"(?:@\w++|(?:@@)?(?:SESSION[.\s]\s*+)?(?:" + _SETTABLE + rb"))\s*+:?=\s*+" + _VALUE + rb"\s*+"
_SET = re.compile(
    rb"SET\s++(?:NAMES\s++\w++(?:\s++COLLATE\s++\w++)?|" + _ASSIGNED + rb"(?:,\s*+" + _ASSIGNED + rb")*+)",
    re.IGNORECASE,
)
"""Matches a SET of settings that a dump may change. The pattern does not backtrack: its time is linear in the list."""
_MISLEADING = re.compile(
    rb"NO_BACKSLASH_ESCAPES|\bANSI|\b(?:ORACLE|MSSQL|DB2|POSTGRESQL|MAXDB)\b|\b(?:gbk|gb18030|gb2312|big5|sjis|cp932|"
    rb"euckr|ujis|eucjpms|ucs2|utf16|utf16le|utf32)",
    re.IGNORECASE,
)
"""Matches settings that change where quotes end compared with dump_text.py, and character sets that can hide quotes."""
_LEFT_OUT = re.compile(
    rb"LOCK\s+TABLES?\b|UNLOCK\s+TABLES?\b|CHANGE\s+(?:MASTER|REPLICATION\s+SOURCE)\s+TO\b|"
    rb"SET\s+(?:@@)?(?:GLOBAL|SESSION)[.\s]\s*(?:GTID_PURGED|GTID_SLAVE_POS|SQL_LOG_BIN)\s*=[^,]*\Z|"
    rb"SET\s+LOCAL\s+SQL_LOG_OFF\s*=\s*\d+\s*,\s*LOCAL\s+LOG_SLOW_QUERY\s*=\s*\d+\s*\Z|"
    rb"CREATE\s+(?:DEFINER\s*=\s*\S+\s+)?EVENT\b|DROP\s+EVENT\b",
    re.IGNORECASE,
)
"""Matches statements on locks, replication, logs or the clock. A restored copy needs none of them."""
_SENT = re.compile(
    rb"DROP\s+(?:TABLE|VIEW|TRIGGER|PROCEDURE|FUNCTION|SEQUENCE)\s+IF\s+EXISTS\s+``\s*\Z|"
    rb"CREATE\s+TABLE\s|CREATE\s+SEQUENCE\s+``|(?:DO|SELECT)\s+SETVAL\s*\(\s*``\s*,[\s\d,-]*\)\s*\Z|"
    rb"ALTER\s+TABLE\s+``\s+(?:(?:DIS|EN)ABLE\s+KEYS\s*\Z|ADD\s+(?:PRIMARY|UNIQUE|KEY|INDEX|FULLTEXT|SPATIAL|CONSTRAINT)\b)|"
    rb"ANALYZE\s+TABLE\s+``|COMMIT\s*\Z|START\s+TRANSACTION\s*\Z|BEGIN\s*\Z",
    re.IGNORECASE,
)
_PART = rb"(?:(?:" + NAME + rb")+|(?:" + STRING + rb")+|[\w.%]+)"
_ACCOUNT = _PART + rb"(?:\s*@\s*" + _PART + rb")?"
_DEFINER = re.compile(rb"\bDEFINER\s*=\s*(?:CURRENT_USER(?:\s*\(\s*\))?|" + _ACCOUNT + rb")\s", _FLAGS)
_CODE = re.compile(
    rb"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:ALGORITHM\s*=\s*\w+\s+)?(?:DEFINER\s*=\s*(?:CURRENT_USER(?:\s*\(\s*\))?|"
    + _ACCOUNT + rb")\s+)?(?:SQL\s+SECURITY\s+\w+\s+)?(?:AGGREGATE\s+)?(?:VIEW|TRIGGER|PROCEDURE|FUNCTION)\b",
    _FLAGS,
)  # fmt: skip
_INVOKER = re.compile(_QUOTED.pattern + rb"|(\bSQL\s+SECURITY\s+)INVOKER\b", _FLAGS)
_FORBIDDEN = re.compile(
    rb"(\b(?:INTO\s+(?:OUTFILE|DUMPFILE)|LOAD\s+(?:DATA|XML|INDEX)|LOAD_FILE|SONAME|(?:DATA|INDEX)\s+DIRECTORY|TABLESPACE|"
    rb"SET\s+(?:GLOBAL|PERSIST))\b|\bCONNECTION\s*=|@@(?:GLOBAL|PERSIST)\b)",
    re.IGNORECASE,
)
_CALL = re.compile(rb"\s*+\(")
_ENGINE = re.compile(rb"\bENGINE\s*+(?:=\s*+)?(\w++|``|''|\"\")", re.IGNORECASE)
_ENGINES = (b"INNODB", b"MYISAM", b"ARIA", b"MEMORY", b"ARCHIVE", b"CSV", b"BLACKHOLE")
"""The storage engines that keep rows only in the server's own files."""
_CLIENTS = re.compile(
    rb"(SOURCE|SYSTEM|CONNECT|EDIT|TEE|NOTEE|PAGER|NOPAGER|CHARSET|PROMPT|DELIMITER|QUIT|EXIT|STATUS|GO|EGO|PRINT|REHASH|"
    rb"WARNINGS|NOWARNING|RESETCONNECTION|QUERY_ATTRIBUTES)\b",
    re.IGNORECASE,
)
_READ_BY_OTHERS = "restore only dumps that mysqldump wrote, of one database, without --flush-privileges"

Kind = Literal["rows", "code", "setting", "other"]


class Rules:
    """The rules applied to one dump; the object remembers the database that the dump names."""

    def __init__(self) -> None:
        self.database: str | None = None

    def judge(self, statement: DumpStatement) -> tuple[Kind, bytes] | None:
        """Return a statement's kind and the text to send; None for a statement that is skipped.

        Raises a DumpTextError that says why the dump is refused.
        """
        if _ROWS.fullmatch(statement.text):
            return "rows", statement.text
        bare = _bare(statement.text)
        if found := _DATABASE.fullmatch(statement.text):
            self._enter(statement, found)
            return None
        if _LEFT_OUT.match(bare):
            return None
        if _SET.fullmatch(bare):
            require_plain_quotes(statement, statement.text)
            return "setting", statement.text
        if forbidden := _FORBIDDEN.search(bare):
            raise _refused(statement, _words(forbidden[1]))
        if _CODE.match(statement.text):
            return "code", _owned(statement.text)
        if not _SENT.match(bare):
            raise _unknown(statement, bare)
        if re.match(rb"CREATE\s+TABLE\b", bare, re.IGNORECASE):
            _require_plain_table(statement, bare)
        return "other", statement.text

    def _enter(self, statement: DumpStatement, found: re.Match[bytes]) -> None:
        name = found[2].strip(b"`").decode("utf-8", "replace")
        if name.lower() in _SYSTEM:
            raise _refused(statement, f"the system's database {name}", "dump your own database alone: mysqldump NAME")
        if self.database not in (None, name):
            what = f"a second database, {name} beside {self.database}"
            raise _refused(statement, what, "dump one database: a run has one")
        self.database = name


def _bare(text: bytes) -> bytes:
    """Return the statement with quoted strings and names emptied, so that only the server's keywords are left."""
    return _QUOTED.sub(_emptied, text).strip()


def _emptied(found: re.Match[bytes]) -> bytes:
    # A server also accepts a function's name in quotes (sql_yacc.yy, function_call_generic).
    if found[0].upper() == b"`LOAD_FILE`" and _CALL.match(found.string, found.end()):
        return b"LOAD_FILE"
    return found[0][:1] * 2


def require_plain_quotes(statement: DumpStatement, settings: bytes) -> None:
    """Raise DumpTextError if a setting changes where a quoted text ends.

    The caller calls this twice: before the statement with its text, and after it with the settings that the server
    reports. The second call is needed because a statement may set a number, a word with a backslash in it, or a
    variable that a trigger of the dump has set.
    """
    if found := _MISLEADING.search(settings):
        raise _refused(
            statement, f"the setting {_words(found[0])}, under which quotes end elsewhere",
            "write the dump with --default-character-set=utf8mb4; code made under such a mode cannot be restored",
        )  # fmt: skip


def _owned(text: bytes) -> bytes:
    """Return stored code without its definer, so that it runs with the privileges of the account that restores."""
    begin = _CODE.match(text)
    end = begin.end() if begin else 0
    return _INVOKER.sub(_as_definer, _DEFINER.sub(b"", text[:end], count=1) + text[end:])


def _as_definer(found: re.Match[bytes]) -> bytes:
    return found[1] + b"DEFINER" if found[1] else found[0]


def _require_plain_table(statement: DumpStatement, bare: bytes) -> None:
    """Raise DumpTextError for a table of a forbidden storage engine, or one created from a query (AS SELECT)."""
    if re.search(rb"\bSELECT\b", bare, re.IGNORECASE):
        raise _refused(statement, "CREATE TABLE of a query")
    for engine in _ENGINE.findall(bare):
        if engine.upper() not in _ENGINES:
            what = f"a table of the engine {_words(engine)}"
            raise _refused(statement, what, "leave it out: mysqldump --ignore-table=DB.TABLE")


def _refused(statement: DumpStatement, what: str, hint: str = _READ_BY_OTHERS) -> DumpTextError:
    return DumpTextError(f"the dump holds {what}", statement.line, hint)


def _unknown(statement: DumpStatement, bare: bytes) -> DumpTextError:
    words = _words(b" ".join(re.findall(rb"\w+", bare[:200])[:3])) or "a statement without words"
    if _CLIENTS.match(bare):
        return _refused(statement, f"a command of the mysql client: {words}")
    return _refused(statement, f"a statement that mysqldump does not write for one database: {words}")


def _words(text: bytes) -> str:
    return " ".join(text.decode("utf-8", "replace").split())[:60]
