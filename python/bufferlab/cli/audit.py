"""`bufferlab audit`: compares the numbers in other people's files with the meaning that those files give them."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from pathlib import Path

import click

from bufferlab.cli.options import Grouped, OutputFile, common
from bufferlab.cli.output import answering, beginning, say, show, write_markdown, write_page
from bufferlab.errors import EXIT_RULE_BROKEN, SpecError

_ANY = "any"

_SECTIONS = {
    "Judging": ("failing",),
    "Files to write": ("html", "markdown"),
}
"""Heading of a section of the help -> names of the parameters whose options the section lists."""


@click.command("audit", cls=Grouped, sections=_SECTIONS)
@click.argument("files", type=click.Path(path_type=Path), metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--fail-if",
    "failing",
    metavar="RULE",
    multiple=True,
    help='End with code 4 where this rule finds something; "any" for all of them. Repeatable.',
)
@click.option("--html", type=OutputFile(), metavar="OUT", help="Write the audit as a page too.")
@click.option("--markdown", type=OutputFile(), metavar="OUT", help="Write it as Markdown too.")
@common
def command(
    files: tuple[Path, ...],
    failing: tuple[str, ...],
    html: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> int:
    """Find wrong units, wrong columns and impossible numbers in FILEs, and print the corrected tables.

    Each FILE is text: the output of tpcc-mysql, sysbench, pgbench, HammerDB, go-tpc, BenchBase, fio,
    vmstat, `iostat -x` or blkparse, SHOW ENGINE INNODB STATUS (with the time in a line above, or
    several in one file), SHOW GLOBAL STATUS, PostgreSQL's views of statistics, tables of results, or
    a report that quotes them. Pieces of one run may lie in files of the same name up to the first
    dot. Nothing is measured.

    Exit code 0 also with findings, unless --fail-if names their rule (4); 65 when a file cannot be
    opened, or when no file has a number of a run.

    \b
      bufferlab audit tpcc.log
      bufferlab audit 4k.tpcc.log 4k.status.txt 4k.iostat.txt --html audit.html
    """
    with beginning("reading the files"):
        from bufferlab import audit as door

        wanted = _rules(failing, door.RULE_NAMES)
        audit = door.audit_files(files)
    for problem in audit.unrecognised:
        say(f"{problem.where}: {problem.what}")

    answer = door.as_report(audit)
    page = partial(write_page, html, answer, ", ".join(map(str, files)), "bufferlab audit")
    with answering(page, partial(write_markdown, markdown, "--markdown", answer)):
        show(answer, as_json)
    return EXIT_RULE_BROKEN if any(finding.rule in wanted for finding in audit.findings) else 0


def _rules(failing: tuple[str, ...], names: tuple[str, ...]) -> set[str]:
    """Return the names of the rules that --fail-if gives. Raises SpecError for a name that no rule has."""
    for name in failing:
        if name not in (_ANY, *names):
            close = get_close_matches(name, [_ANY, *names], n=1)
            hint = f"did you mean {close[0]}?" if close else f"the rules: {', '.join(sorted(names))}; or {_ANY}"
            raise SpecError(f'no rule "{name}"', f"--fail-if {name}", hint)
    return set(names if _ANY in failing else failing)
