"""Reads logs, chooses the schema, and tells what the script has of the log and what it lacks, without any value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from errno import EINVAL
from pathlib import Path
from stat import S_ISREG
from typing import Any

from bufferlab.chapter.words import plural
from bufferlab.errors import DataFileError, SpecError
from bufferlab.slow_log.entries import entries
from bufferlab.slow_log.script import Script, write_script
from bufferlab.slow_log.transactions import By, Kind, Tally, Transactions

_HINT = "give a slow query log of MySQL, MariaDB or Percona Server, written as a file (log_output = FILE)"


@dataclass(frozen=True)
class Made:
    """A script, and what it has of the log. Only `script.text` holds values."""

    script: Script
    schema: str
    entries: int
    """The statements of the log that neither begin nor end a transaction."""
    seconds: float
    left_out: tuple[tuple[str, int], ...]
    """Statements that the script lacks, by reason, the most first."""
    digests: tuple[tuple[str, Tally], ...]
    """The digests of the statements that a script can hold, those that took longest first."""
    notes: tuple[str, ...]

    @property
    def statements(self) -> int:
        """Return the number of the log's statements whose kind is a section of the script."""
        return sum(section.kind.count * len(section.kind.statements) for section in self.script.sections)

    @property
    def transactions(self) -> int:
        """Return the number of the log's transactions whose kind is a section of the script."""
        return sum(section.kind.count for section in self.script.sections)


def make_script(files: Sequence[Path], by: By = "transaction", schema: str | None = None, *,
                ansi_quotes: bool = False) -> Made:  # fmt: skip
    """Return the script of logs, which follow each other in the order given.

    Raises DataFileError when a file cannot be read or a script can hold nothing of them, SpecError for a schema that
    the log has not.
    """
    found = Transactions(by, ansi_quotes)
    read = 0
    for path in files:
        try:
            if not S_ISREG(path.stat().st_mode):
                raise OSError(EINVAL, "a folder, a device or a pipe, not a regular file")
            with path.open("rb") as file:
                for entry in entries(file, found.left_out):
                    read += not entry.command
                    found.take(entry)
        except OSError as error:
            raise DataFileError(f"the file cannot be read: {error.strerror}", str(path), _HINT) from error
    found.end()
    where = ", ".join(map(str, files))
    if not read:
        raise DataFileError("no entry of a slow query log was found", where, _HINT)
    if not found.kinds:
        what = f"none of the log's {plural(read, 'statement')} can stand in a script"
        raise DataFileError(what, where, "log whole transactions: SET GLOBAL long_query_time = 0")
    name = _schema(found.kinds.values(), schema, where)
    kinds = [kind for kind in found.kinds.values() if kind.schema == name]
    script = write_script(kinds)
    left_out = Counter(found.left_out)
    held = {id(section.kind) for section in script.sections}
    left_out["in transactions of rare kinds"] += sum(_statements(kind) for kind in kinds if id(kind) not in held)
    left_out["of another schema"] += sum(_statements(kind) for kind in found.kinds.values() if kind.schema != name)
    ordered = sorted(found.digests.items(), key=lambda item: -item[1].seconds)
    return Made(
        script, name, found.statements, found.seconds, tuple((why, n) for why, n in left_out.most_common() if n),
        tuple(ordered), tuple(_notes(found, script)),
    )  # fmt: skip


def _statements(kind: Kind) -> int:
    return kind.count * len(kind.statements)


def _schema(kinds: Any, asked: str | None, where: str) -> str:
    """Return the schema asked for, or the one with most statements."""
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


def _notes(found: Transactions, script: Script) -> list[str]:
    """Return what the reader must know before believing a run of the script."""
    notes = []
    if found.by == "transaction" and found.without_session:
        notes.append(
            "some entries do not tell their connection, so their statements run one by one, without BEGIN and COMMIT"
        )
    if found.sampled:
        notes.append("the server logged a part of the statements (log_slow_rate_limit): transactions may lack some")
    seen = sum(section.kind.count for section in script.sections if section.kept)
    kept = sum(section.kept for section in script.sections)
    if kept < seen:
        notes.append(
            f"values of {kept:,} of {seen:,} transactions fit in the script: a run touches fewer pages than the log did"
        )
    return notes


def as_json(made: Made, path: Path) -> dict[str, Any]:
    """Return the JSON document of `script-from-slow-log`."""
    return {
        "status": "ok",
        "script": str(path),
        "database_schema": made.schema,
        "statements": made.entries,
        "statements_in_script": made.statements,
        "transactions_in_script": made.transactions,
        "query_seconds": made.seconds,
        "sections": [
            {
                "name": section.name,
                "weight": section.weight,
                "seen": section.kind.count,
                "query_seconds": section.kind.seconds,
                "digests": list(section.kind.digests),
                "values_of_transactions": section.kept,
            }
            for section in made.script.sections
        ],
        "digests": [
            {"digest": digest, "count": tally.count, "query_seconds": tally.seconds} for digest, tally in made.digests
        ],
        "left_out": [{"statements": count, "why": why} for why, count in made.left_out],
        "notes": list(made.notes),
    }
