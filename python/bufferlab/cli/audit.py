"""`bufferlab audit`: compares the numbers in other people's files with the meaning that those files give them."""

from __future__ import annotations

from pathlib import Path

import click

from bufferlab.cli.options import common
from bufferlab.cli.output import draw, print_json, say, write

_WIDTH_WITHOUT_TERMINAL = 120


@click.command("audit")
@click.argument("files", type=click.Path(path_type=Path), metavar="FILE...", nargs=-1, required=True)
@click.option("--html", type=click.Path(path_type=Path), metavar="OUT", help="Write the audit as a page too.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="OUT", help="Write it as Markdown too.")
@common
def command(files: tuple[Path, ...], html: Path | None, markdown: Path | None, as_json: bool, debug: bool) -> int:
    """Find wrong units, wrong columns and impossible numbers in FILEs, and print the corrected tables.

    Each FILE is text: tpcc-mysql's output, SHOW ENGINE INNODB STATUS (with the time in a line above, or several in one
    file), `iostat -x`, blkparse's output, tables of results, or a report that quotes them. Pieces of
    one run may lie in files of the same name up to the first dot. Nothing is measured.

    Exit code 0 also with findings; 65 when a file cannot be read, or nothing in any of them is recognised.

    \b
      bufferlab audit tpcc.log
      bufferlab audit 4k.tpcc.log 4k.status.txt 4k.iostat.txt --html audit.html
    """
    from bufferlab.audit.audit import audit_files
    from bufferlab.audit.page import as_json as document
    from bufferlab.audit.page import as_report, terminal

    audit = audit_files(files)
    for problem in audit.unrecognised:
        say(f"{problem.where}: {problem.what}")
    if html:
        from bufferlab.report.html import render_html

        write(html, "--html", render_html(as_report(audit), ", ".join(map(str, files)), "bufferlab audit"))
    if markdown:
        from bufferlab.report.markdown import render_markdown

        write(markdown, "--markdown", render_markdown(as_report(audit)))
    if as_json:
        print_json(document(audit))
        return 0
    draw(terminal(audit), _WIDTH_WITHOUT_TERMINAL)
    return 0
