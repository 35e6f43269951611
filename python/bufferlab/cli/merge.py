"""`bufferlab merge`: joins folders of several hosts, each with some blocks of one plan. It measures nothing."""

from __future__ import annotations

from pathlib import Path

import click

from bufferlab.cli.options import common
from bufferlab.cli.output import beginning, show_answer


@click.command("merge")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR DIR...")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder to make; nothing may be there yet.",
)
@common
def command(folders: tuple[Path, ...], out: Path, as_json: bool) -> int:
    """Join the sweep folders DIR DIR..., each with other blocks of one plan, and answer its question.

    Each host did some blocks with `bufferlab run --blocks`. Experiment, seed, loaded data and
    versions must be the same in all folders; each is checked as if a stranger had sent it. What
    runs a folder lacks is told, and the command then ends with code 1. The folders stay as they
    are.

    \b
      bufferlab run buffer-size --blocks 1-3         on one host
      bufferlab run buffer-size --blocks 4-5         on another
      bufferlab merge one/buffer-size-20260101-120000 two/buffer-size-20260101-120000 --out runs/both
    """
    with beginning("reading the folders"):
        from bufferlab.cli.progress import PlainProgress
        from bufferlab.execute.merge import merge

        merged, lacking = merge(folders, out)
    for problem in lacking:
        PlainProgress().warn(problem)
    show_answer(merged, as_json)
    return 1 if lacking else 0
