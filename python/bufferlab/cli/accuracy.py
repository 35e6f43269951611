"""`bufferlab accuracy`: compares a predicted sweep with a measured one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from bufferlab.cli.options import OutputFile, common, html_page
from bufferlab.cli.output import answering, beginning, show, write_figure, write_page
from bufferlab.registry import open_sweep


@click.command("accuracy")
@click.argument("measured", type=click.Path(path_type=Path), metavar="MEASURED")
@click.argument("predicted", type=click.Path(path_type=Path), metavar="PREDICTED")
@html_page("Write a page with the figure too.")
@click.option("--svg", type=OutputFile(), metavar="FILE", help="Write the figure alone too.")
@common
def command(measured: Path, predicted: Path, html: Path | None, svg: Path | None, as_json: bool) -> int:
    """Tell how far the sweep folder PREDICTED was from the sweep folder MEASURED, point by point.

    Points with the same swept settings are joined; all other settings must be the same. Beside the
    model stands LRU of the same bytes. A point that somebody looked at while the models were
    developed is marked.

    \b
      bufferlab accuracy runs/buffer-size-20260101-120000 runs/buffer-size-20260101-130000
    """
    with beginning("reading both sweeps"):
        from bufferlab.report.comparison.accuracy import accuracy
        from bufferlab.report.comparison.accuracy_page import as_report

        report = as_report(accuracy(open_sweep(measured), open_sweep(predicted)))
    page = partial(write_page, html, report, f"{measured} and {predicted}", "bufferlab accuracy")
    with answering(page, partial(write_figure, svg, report)):
        show(report, as_json)
    return 0
