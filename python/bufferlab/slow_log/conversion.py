"""Reads logs, chooses the schema, and reports, without any value, which parts of the log the script has or lacks.

It recognises, by their first lines, files that people mistake for a slow query log. These are the general log of MySQL
and MariaDB (sql/log.cc), and printed rows of their log tables. PostgreSQL's log_line_prefix, csvlog and jsonlog,
compressed files, and the output of mysqlbinlog, mysqldumpslow and pt-query-digest are recognised, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from errno import EINVAL
from pathlib import Path
from stat import S_ISREG
from typing import Any, ClassVar

from bufferlab.chapter.words import plural
from bufferlab.errors import DataFileError, SpecError
from bufferlab.slow_log.entries import Reader, entries
from bufferlab.slow_log.named_tables import OF_ANOTHER_SCHEMA
from bufferlab.slow_log.script import Script, ScriptSection, varies_as_number, write_script
from bufferlab.slow_log.transactions import By, Kind, Tally, Transactions

_HINT = "give a slow query log of MySQL, MariaDB or Percona Server, written as a file (log_output = FILE)"
_OF_PARTS = ("without an end", "in a transaction without an end")
"""Those reasons for leaving out a statement which show that the log lacks statements that the server executed."""


@dataclass(frozen=True)
class Made:
    """A script, and counts of how much of the log it has. Only `script.text` contains values from the log."""

    PRINTED: ClassVar = (
        "schema", "entries", "statements", "statements_in_script", "transactions_in_script", "seconds", "sections",
        "left_out", "digests", "notes",
    )  # fmt: skip

    script: Script
    schema: str
    entries: int
    """The number of the log's entries: statements, begins and ends of transactions, commands of connections."""
    statements: int
    """The number of the log's statements, in the script or left out."""
    seconds: float
    left_out: dict[str, int]
    """Reason -> number of statements that the script lacks for it, the largest number first."""
    digests: dict[str, Tally]
    """Digest -> its counts, for statements that a script can contain. Digests with the most total time come first."""
    notes: tuple[str, ...]

    @property
    def sections(self) -> tuple[ScriptSection, ...]:
        """Return the sections of the script."""
        return self.script.sections

    @property
    def statements_in_script(self) -> int:
        """Return the number of the log's statements whose kind of transaction is a section of the script."""
        return sum(section.kind.count * len(section.kind.statements) for section in self.script.sections)

    @property
    def transactions_in_script(self) -> int:
        """Return the number of the log's transactions whose kind is a section of the script."""
        return sum(section.kind.count for section in self.script.sections)


def make_script(files: Sequence[Path], by: By = "transaction", schema: str | None = None, *,
                ansi_quotes: bool = False) -> Made:  # fmt: skip
    """Return the script made of logs, which are given in the order of time. `schema` is by default the most frequent.

    Raises DataFileError if a file cannot be read or is another kind of file, and if a script can contain no statement
    of the logs. Raises SpecError for a schema that the logs do not have.
    """
    found = Transactions(by, ansi_quotes)
    lines_outside = sum(_read(path, found) for path in files)
    found.end()
    where = ", ".join(map(str, files))
    if not found.entries:
        raise DataFileError("no entry of a slow query log was found", where, _HINT)
    left_out = Counter(found.left_out)
    if not found.kinds:
        raise _nothing_fits(found, left_out, where)
    name = _schema(found.kinds.values(), schema, where)
    kinds = [kind for kind in found.kinds.values() if kind.schema == name]
    script = write_script(kinds)
    held = {id(section.kind) for section in script.sections}
    left_out["in transactions of rare kinds"] += sum(_statements(kind) for kind in kinds if id(kind) not in held)
    left_out[OF_ANOTHER_SCHEMA] += sum(_statements(kind) for kind in found.kinds.values() if kind.schema != name)
    if not script.sections:
        raise _nothing_fits(found, left_out, where)
    ordered = sorted(found.digests.items(), key=lambda item: -item[1].seconds)
    return Made(
        script, name, found.entries, found.statements, found.seconds,
        {why: n for why, n in left_out.most_common() if n}, dict(ordered),
        tuple(_notes(found, script, lines_outside)),
    )  # fmt: skip


def _read(path: Path, found: Transactions) -> int:
    """Add the entries of a file to `found`. Return the number of its lines that belong to no entry.

    Raises DataFileError if the file cannot be read or is another kind of file.
    """
    before = found.entries
    try:
        if not S_ISREG(path.stat().st_mode):
            raise OSError(EINVAL, "a folder, a device or a pipe, not a regular file")
        reader = Reader()
        with path.open("rb") as file:
            for entry in entries(file, reader):
                found.take(entry)
        if found.entries == before and (known := kind_of(path)):
            raise DataFileError(known[0], str(path), known[1])
    except OSError as error:
        raise DataFileError(f"the file cannot be read: {error.strerror}", str(path), _HINT) from error
    return reader.lines_outside


def _nothing_fits(found: Transactions, left_out: Counter[str], where: str) -> DataFileError:
    """Return the error for a log without any statement that a script can contain, with the reasons."""
    reasons = [f"{count:,} {why}" for why, count in left_out.most_common() if count]
    what = f"none of the log's {plural(found.statements, 'statement')} can stand in a script"
    if any(left_out[why] for why in _OF_PARTS):
        hint = "log whole transactions: SET GLOBAL long_query_time = 0"
    else:
        hint = "give a log of the application's own statements: SELECT, INSERT, REPLACE, UPDATE, DELETE on its tables"
    return DataFileError(f"{what}: {', '.join(reasons)}" if reasons else what, where, hint)


def _statements(kind: Kind) -> int:
    return kind.count * len(kind.statements)


def _schema(kinds: Any, asked: str | None, where: str) -> str:
    """Return the requested schema, or else the schema with most statements.

    Raises SpecError if no kind of transaction has it.
    """
    counts: Counter[str] = Counter()
    for kind in kinds:
        counts[kind.schema] += _statements(kind)
    if asked is None:
        return max(counts, key=lambda name: (counts[name], name))
    if asked not in counts:
        known = ", ".join(sorted(name for name in counts if name)[:20]) or "none that the log tells"
        raise SpecError(
            f'the log has no statement in the schema "{asked}"', f"--schema ({where})", f"its schemas: {known}"
        )
    return asked


def _notes(found: Transactions, script: Script, lines_outside: int) -> list[str]:
    """Return the caveats that a user should know before believing a run of the script, as sentences."""
    notes = []
    if found.by == "transaction" and found.without_session:
        notes.append(
            "some entries do not tell their connection, so their statements run one by one, without BEGIN and COMMIT"
        )
    if found.sampled:
        notes.append("the server logged a part of the statements (log_slow_rate_limit): transactions may lack some")
    if found.rollbacks_of_nothing:
        notes.append(
            f"{plural(found.rollbacks_of_nothing, 'ROLLBACK')} without a BEGIN left out, as of a pool: autocommit is "
            "taken to be on, because no SET and no COMMIT of the connection tells otherwise"
        )
    if found.without_autocommit:
        notes.append(
            f"autocommit is taken to be off on {plural(found.without_autocommit, 'connection')}, because a COMMIT "
            "there has no BEGIN: what stands between the ends of transactions is one transaction"
        )
    if any(varies_as_number(section.kind) for section in script.sections):
        notes.append(
            "values written as 0x... are numbers in the script, because they are so beside numbers; write "
            "UNHEX(HEX(:v1)) in place of such a :v1 where the column holds bytes"
        )
    if lines_outside:
        notes.append(f"{plural(lines_outside, 'line')} of no entry: not read")
    seen = sum(section.kind.count for section in script.sections if section.kept)
    kept = sum(section.kept for section in script.sections)
    if kept < seen:
        notes.append(
            f"values of {kept:,} of {seen:,} transactions fit in the script: a run touches fewer pages than the log did"
        )
    return notes


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
