"""`bufferlab report`: makes tables and figures again, from the stored samples. Measures nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from bufferlab.cli.blkparse_format import BLKPARSE, print_traces
from bufferlab.cli.options import common
from bufferlab.cli.tpcc_format import TEXT, TPCC_MYSQL, print_tpcc, require_printable, tpcc_options
from bufferlab.errors import SpecError
from bufferlab.registry import open_sweep


@click.command("report")
@click.argument("sweep", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--html", is_flag=True, help="Write report.html only: one file, no network.")
@click.option("--md", is_flag=True, help="Write report.md and its figures only, for a repository.")
@tpcc_options(BLKPARSE)
@common
def command(
    sweep: Path, html: bool, md: bool, form: str, limit_unit: Literal["s", "ms"], as_json: bool, debug: bool
) -> int:
    """Make the report of RUN (a sweep folder) again: report.html, report.md, and the table printed here."""
    from bufferlab.cli.answer import show_answer, write_reports

    require_printable(form, as_json)
    if form != TEXT and (html or md):
        raise SpecError(f"--format {form} is text", "--html, --md", "leave them out; pages are made without --format")
    folder = open_sweep(sweep)
    if form == TPCC_MYSQL:
        print_tpcc(folder, limit_unit)
    elif form == BLKPARSE:
        print_traces(folder)
    elif html or md:
        write_reports(folder, as_json, html=html, markdown=md)
    else:
        show_answer(folder, as_json)
    return 0
