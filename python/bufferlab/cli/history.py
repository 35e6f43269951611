"""`bufferlab history`: finds from which sweeps on the metrics of one experiment changed, and by how much."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from bufferlab.cli.options import CSV, Grouped, common, fail_if, html_page, require_one_format, text_or_csv
from bufferlab.cli.output import answering, beginning, rules_exit_code, show, write_page

_SECTIONS = {
    "Order of the sweeps": ("order",),
    "Judging": ("rules", "undecided", "since"),
    "Files to write": ("html", "form"),
}
"""Heading of a section of the help -> names of the parameters whose options the section lists."""


@click.command("history", cls=Grouped, sections=_SECTIONS)
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@click.option(
    "--order",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Names in order, one a line, such as `git rev-list --reverse` prints.  [default: the sweeps' dates]",
)
@fail_if(
    "End with code 4 where the whole interval of a change is worse (or higher, lower), and it reaches the limit: "
    'a change of 1-8 % breaks "worse 5%". Repeatable.'
)
@click.option("--since", default="", metavar="NAME", help="Let --fail-if count changes from this sweep on alone.")
@html_page("Write a page with the figure too.")
@text_or_csv("`text`, or `csv`: a line for each sweep, figure and setting.")
@common
def command(
    folders: tuple[str, ...],
    order: Path | None,
    rules: tuple[str, ...],
    undecided: str,
    since: str,
    html: Path | None,
    form: str,
    as_json: bool,
) -> int:
    """Tell where the figures of one experiment change over many sweeps: from which sweep on, and by how much.

    A sweep is a FOLDER, or NAME=FOLDER. Where nothing changes, 2 % of histories tell a change, over all
    figures and settings. Sweeps of another experiment, host, engine or engine option than most are set
    apart by name. Exit code 0 also when figures change, unless --fail-if names the change (4).

    \b
      bufferlab history runs/buffer-size-*
      bufferlab history 3f2a91c=runs/one 8be01d4=runs/two ... --order commits.txt --html history.html
      bufferlab history runs/buffer-size-* --fail-if "reads_per_new_order worse 5%"
    """
    with beginning("reading the sweeps"):
        from bufferlab.report.comparison.fail_if import parse
        from bufferlab.report.comparison.history import history
        from bufferlab.report.comparison.history_page import as_report, values_table
        from bufferlab.report.comparison.history_sweeps import named, read_sweeps

        require_one_format(form, as_json)
        asked = [parse(rule) for rule in rules]
        sweeps = read_sweeps(named(folders), order, [rule.metric for rule in asked])
        told = history(sweeps, asked, since)
        answer = as_report(told)

    with answering(partial(write_page, html, answer, f"{len(folders)} folders", "bufferlab history")):
        show(answer, as_json, values_table(told) if form == CSV else None)
    return rules_exit_code(told.rules, undecided)
