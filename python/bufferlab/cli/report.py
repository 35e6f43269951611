"""`bufferlab report`: makes tables and figures again from the stored samples. It measures nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from bufferlab.cli.options import Grouped, common, strict
from bufferlab.cli.output import beginning, put, say, show_answer, strict_exit_code, write_reports, write_tables
from bufferlab.cli.tpcc_format import TEXT, TPCC_MYSQL, print_tpcc, require_printable, tpcc_options
from bufferlab.errors import RunFailed, SpecError
from bufferlab.registry import open_sweep
from bufferlab.texts import printable

if TYPE_CHECKING:
    from bufferlab.results.store import SweepFolder

_BLKPARSE, _CSV, _PDF = "blkparse", "csv", "pdf"

#: The most letters that a message names as missing in all fonts.
_MOST_NAMED = 5

_SECTIONS = {
    "Files to write": ("html", "md"),
    "Other formats": ("form", "limit_unit"),
    "On a PDF's first page": ("authors", "course", "date"),
}
"""Heading of a section of the help -> names of the parameters whose options the section lists."""


@click.command("report", cls=Grouped, sections=_SECTIONS)
@click.argument("sweep", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--html", is_flag=True, help="Write report.html only: one file, no network.")
@click.option("--md", is_flag=True, help="Write report.md and its figures only, for a repository.")
@tpcc_options(
    blkparse="print the block traces as that program does",
    csv="write every table to a file in RUN/tables",
    pdf="write RUN/report.pdf, a lab report on A4 (needs bufferlab[pdf])",
)
@click.option("--author", "authors", multiple=True, metavar="NAME", help="Of a PDF: who hands it in. Repeatable.")
@click.option("--course", default="", metavar="TEXT", help="Of a PDF: the course that it is for.")
@click.option("--date", default="", metavar="TEXT", help="Of a PDF: the date on which it is handed in.")
@strict
@common
def command(
    sweep: Path,
    html: bool,
    md: bool,
    form: str,
    limit_unit: Literal["s", "ms"],
    authors: tuple[str, ...],
    course: str,
    date: str,
    strict: bool,
    as_json: bool,
) -> int:
    """Make the report of RUN (a sweep folder) again: report.html, report.md, and the table printed here.

    --format csv writes RUN/tables/*.csv and RUN/figures/*.csv alone, --format pdf RUN/report.pdf, and prints the paths.
    """
    require_printable(form, as_json)
    if form != TEXT and (html or md):
        raise SpecError(
            f"--format {form} is no page", "--html, --md", "leave them out; pages are made without --format"
        )
    if form != _PDF and (authors or course or date):
        raise SpecError(
            "names and dates of those who hand a report in are shown by a PDF alone",
            "--author, --course, --date",
            "add --format pdf, or leave them out",
        )
    with beginning("reading the sweep"):
        folder = open_sweep(sweep)
    if form == TPCC_MYSQL:
        print_tpcc(folder, limit_unit)
    elif form == _BLKPARSE:
        print_traces(folder)
    elif form == _CSV:
        write_tables(folder)
    elif form == _PDF:
        print_pdf(folder, authors, course, date)
    elif html or md:
        write_reports(folder, as_json, html=html, markdown=md)
    else:
        show_answer(folder, as_json)
    return strict_exit_code(folder) if strict else 0


def print_pdf(folder: SweepFolder, authors: tuple[str, ...], course: str, date: str) -> None:
    """Write the lab report of a sweep as a PDF and print its path. Print letters that no font has on standard error.

    Raises EnvironmentLackingError if Typst is not installed or the file cannot be written, and InternalError if Typst
    refuses the report.
    """
    with beginning("making the PDF"):
        from bufferlab.report.lab.content import Submission
        from bufferlab.report.lab.pdf import write_pdf

    path, chosen = write_pdf(folder, Submission(tuple(filter(None, authors)), course, date))
    if chosen.missing:
        numbers = ", ".join(f"U+{ord(letter):04X}" for letter in sorted(chosen.missing)[:_MOST_NAMED])
        more = ", and others" if len(chosen.missing) > _MOST_NAMED else ""
        say(f"no font here has {numbers}{more}: the PDF has these numbers in their places")
        say("apt-get install fonts-noto-core fonts-noto-cjk brings most letters")
    put(str(path))


def print_traces(folder: SweepFolder) -> None:
    """Print every complete trace in the format of blkparse.

    On standard error print the name of each run, the reason for each run left out, and what the units mean. Raises
    RunFailed if no run has a trace.
    """
    from bufferlab.report.blkparse import render

    printed = 0
    for record in folder.runs():
        told = record.run.block_trace
        trace = record.block_trace()
        if trace is None or told is None:
            reason = "it was not traced" if told is None else f"its trace failed: {told.reason}"
            say(f"left out: run {record.run_id}: {reason}")
            continue
        say(f"run {record.run_id}: {record.run.point.label}, block {record.run.block + 1}")
        if told.pids_are_the_hosts:
            say("processes have the host's numbers: the run was in a PID namespace (a container)")
        sys.stdout.writelines(f"{printable(line)}\n" for line in render(trace, told.partitions, told.names))
        sys.stdout.flush()
        printed += 1
    if not printed:
        raise RunFailed(
            "no run of this sweep has a block trace",
            str(folder.path),
            "measure with: bufferlab run ... --probe block-trace",
        )
    say("KiB are of 1,024 bytes; the kernel's tracepoints do not tell a timer's unplugs from the others")
