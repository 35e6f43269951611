"""`bufferlab script-from-slow-log`: makes a script for `run` from a slow query log of MySQL or MariaDB."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bufferlab.cli.options import common
from bufferlab.cli.output import answering, beginning, columns, placing, print_json, put, say, try_place
from bufferlab.errors import SpecError
from bufferlab.report.json_output import printed

if TYPE_CHECKING:
    from bufferlab.slow_log import Made

_SUFFIX = ".sql"
_MOST_ROWS = 20


@click.command("script-from-slow-log")
@click.argument("files", type=click.Path(path_type=Path), metavar="FILE...", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="OUT.sql",
    help="The script to write, which must not exist yet.  [default: FILE's name with .sql, here]",
)
@click.option("--schema", metavar="NAME", help="Take this schema's statements.  [default: the one with most]")
@click.option(
    "--by",
    type=click.Choice(("transaction", "statement")),
    default="transaction",
    help="What a section of the script is: a transaction as its session ran it, or each statement alone, "
    "where transactions are of too many kinds.  [default: transaction]",
)
@click.option("--ansi-quotes", is_flag=True, help='Read "x" as a name, for servers with sql_mode = ANSI_QUOTES.')
@common
def command(
    files: tuple[Path, ...],
    out: Path | None,
    schema: str | None,
    by: str,
    ansi_quotes: bool,
    as_json: bool,
) -> int:
    """Make a script for `bufferlab run` from a slow query log of MySQL, MariaDB or Percona Server.

    The log holds every statement if the server ran with long_query_time = 0. Several FILEs are one
    log that was rotated, the oldest first. The script has the log's transactions with their
    weights, and draws their values from those of the log. It is readable by you alone, because
    it holds these values; what is printed here holds none.

    Exit code 65 when a FILE cannot be read, or when no FILE has a statement that a script can hold.

    \b
      bufferlab script-from-slow-log /var/log/mysql/slow.log -o mine.sql
      bufferlab run mine.sql --engine mysql --server mysql-5.7
    """  # fmt: skip
    path = _path(files[0], out)
    try_place(path, "-o")
    with beginning("reading the log"):
        from bufferlab.slow_log import make_script

        made = make_script(files, "statement" if by == "statement" else "transaction", schema, ansi_quotes=ansi_quotes)
    with answering(partial(_write, path, made.script.text)):
        if as_json:
            print_json({"status": "ok", "script": path, **printed(made)})
        else:
            put(_text(made))
    for note in made.notes:
        say(f"note: {note}")
    return 0


def _path(file: Path, out: Path | None) -> Path:
    """Return the path of the script: by default in the current folder, named after the log.

    Raises SpecError if the path lacks the ending that `run` needs, or if the file exists.
    """
    # The paths "." and "/" have no name.
    path = out or Path(file.name or "slow").with_suffix(_SUFFIX)
    if path.suffix != _SUFFIX:
        raise SpecError(
            f"{path} does not end in {_SUFFIX}", "-o", f"write -o {path.name}{_SUFFIX}: `run` takes such files"
        )
    if os.path.lexists(path):
        raise SpecError(f"{path} exists already", "-o" if out else str(path), "give another with -o, or remove it")
    return path


def _write(path: Path, text: str) -> None:
    """Write a new file that only its owner may read. Raises EnvironmentLackingError if that fails."""
    with placing(path, "-o"):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
        except OSError:
            path.unlink(missing_ok=True)
            raise
    say(f"written: {path} (it holds values of the log; only you may read it)")


def _text(made: Made) -> str:
    """Return the answer as sentences and tables. They contain digests and counts, but no values from the log."""
    from bufferlab.chapter.words import plural

    share = 100 * made.statements_in_script / made.statements if made.statements else 0.0
    of = f" of schema {made.schema}" if made.schema else ""
    head = (
        f"{made.statements_in_script:,} of the log's {made.statements:,} statements ({share:.0f} %){of} are in the "
        f"script, as {plural(made.transactions_in_script, 'transaction')} of {plural(len(made.sections), 'kind')}."
    )
    if others := made.entries - made.statements:
        head += (
            f" Of its {made.entries:,} entries {others:,} are no statements: they begin or end a transaction, or are "
            "commands of a connection."
        )
    rows = [
        [section.name, f"{section.weight:,}", f"{section.kind.seconds:.3f}", _short(section.kind.digests)]
        for section in made.script.sections[:_MOST_ROWS]
    ]
    parts = [head, columns(("transaction", "weight", "seconds", "statements"), rows)]
    if len(made.script.sections) > _MOST_ROWS:
        parts.append(f"... and {len(made.script.sections) - _MOST_ROWS} kinds more; --json has all.")
    if made.left_out:
        lines = [[f"{count:,}", why] for why, count in made.left_out.items()]
        parts.append(columns(("left out", "statements"), lines))
    return "\n\n".join(parts)


def _short(digests: tuple[str, ...]) -> str:
    text = "; ".join(digests)
    return text if len(text) <= 240 else f"{text[:240]}..."
