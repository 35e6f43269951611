"""`bufferlab compare`: finds whether two sweeps, or two settings of one, are the same, and how much they differ."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from bufferlab.cli.options import Grouped, OutputFile, common, fail_if, html_page
from bufferlab.cli.output import answering, beginning, rules_exit_code, show, write_markdown, write_page
from bufferlab.errors import SpecError
from bufferlab.registry import open_sweep

_SECTIONS = {
    "Sides to compare": ("between", "force"),
    "Judging": ("rules", "undecided"),
    "Files to write": ("html", "md"),
}
"""Heading of a section of the help -> names of the parameters whose options the section lists."""


@click.command("compare", cls=Grouped, sections=_SECTIONS)
@click.argument("a", type=click.Path(path_type=Path), metavar="A")
@click.argument("b", type=click.Path(path_type=Path), metavar="[B]", required=False)
@click.option(
    "--between",
    nargs=2,
    metavar="X Y",
    help="Compare two settings of the one sweep A, such as pool_size=10% pool_size=20%.",
)
@click.option("--force", is_flag=True, help="Compare also what is refused: other data, workloads, engines.")
@fail_if(
    "End with code 4 where the whole interval of the change is worse (or higher, lower), and it reaches the limit: "
    'a change of 1-8 % breaks "worse 5%". Repeatable.'
)
@html_page("Write the comparison as a page too.")
@click.option("--md", type=OutputFile(), metavar="FILE", help="Write it as Markdown too.")
@common
def command(
    a: Path,
    b: Path | None,
    between: tuple[str, str] | None,
    force: bool,
    rules: tuple[str, ...],
    undecided: str,
    html: Path | None,
    md: Path | None,
    as_json: bool,
) -> int:
    """Compare sweep folder B with sweep folder A, or two settings of A: the same, different, or not distinguishable.

    Points with the same swept settings are compared, paired by block where both sides did the same
    transactions. Exit code 0 also when they differ, unless --fail-if names the difference (4); 2 when the
    comparison would mean nothing.

    \b
      bufferlab compare runs/before runs/after
      bufferlab compare runs/buffer-size-20260101-120000 --between pool_size=10% pool_size=20%
      bufferlab compare runs/before runs/after --fail-if "reads_per_new_order worse 5%"
    """
    with beginning("reading the sweeps"):
        from bufferlab.report.comparison.compare_metrics import compare_sides
        from bufferlab.report.comparison.compare_page import as_report
        from bufferlab.report.comparison.fail_if import parse
        from bufferlab.report.comparison.sides import of_one_folder, of_two_folders

        if (b is None) == (between is None):
            raise SpecError(
                "compare takes two sweep folders, or one and --between",
                "arguments A, B and --between",
                "see `bufferlab compare --help`",
            )
        first = open_sweep(a)
        if between:
            sides = of_one_folder(first, *between)
        else:
            assert b is not None
            sides = of_two_folders(first, open_sweep(b))
        asked = [parse(rule, sides.a.unit_of_work) for rule in rules]
        compared = compare_sides(sides, force=force, rules=asked)
        answer = as_report(compared)

    names = " and ".join(map(str, filter(None, (a, b))))
    with answering(
        partial(write_page, html, answer, names, "bufferlab compare"), partial(write_markdown, md, "--md", answer)
    ):
        show(answer, as_json)
    return rules_exit_code(compared.rules, undecided)
