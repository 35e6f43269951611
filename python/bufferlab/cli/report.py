"""`bufferlab report`: tables and figures again, from the stored samples. Measures nothing."""

from __future__ import annotations

from pathlib import Path

import click

from bufferlab.cli.options import common
from bufferlab.results.store import SweepFolder


@click.command("report")
@click.argument("sweep", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--html", is_flag=True, help="Write report.html only: one file, no network.")
@click.option("--md", is_flag=True, help="Write report.md and its figures only, for a repository.")
@common
def command(sweep: Path, html: bool, md: bool, as_json: bool, debug: bool) -> int:
    """Make the report of RUN (a sweep folder) again: report.html, report.md, and the table printed here."""
    from bufferlab.cli.answer import show_answer, write_reports

    folder = SweepFolder.open(sweep)
    if html or md:
        write_reports(folder, as_json, html=html, markdown=md)
    else:
        show_answer(folder, as_json)
    return 0
