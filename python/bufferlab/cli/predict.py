"""`bufferlab predict`: tells what a traced run would have read with other settings of its pool, as a sweep folder."""

from __future__ import annotations

from pathlib import Path

import click

from bufferlab.cli.options import SettingValue, SettingValues, common
from bufferlab.cli.output import say
from bufferlab.errors import SpecError, interrupted_exit_code
from bufferlab.spec import Overrides

_DEFAULT_OUT = Path("runs")


@click.command("predict")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--sweep", type=SettingValues(), multiple=True, help="Predict these values of a setting. Repeatable.")
@click.option("--set", "set_knobs", type=SettingValue(), multiple=True, help="Set it for all points. Repeatable.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Where sweep folders go.  [default: runs]")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Do the points that this sweep folder lacks; it must come from the same trace and model.",
)
@common
def command(
    run: Path,
    sweep: tuple[tuple[str, tuple[str, ...]], ...],
    set_knobs: tuple[tuple[str, str], ...],
    out: Path | None,
    resume: Path | None,
    as_json: bool,
    debug: bool,
) -> int:
    """Tell what a traced run would have read with other pools, by a model of its buffer manager.

    RUN is the folder of a run that was recorded with --probe page-trace, or of a sweep with one
    such run. Without --sweep the points of its experiment are predicted. A setting that the
    model does not know is refused by name. The answer is a sweep folder with its report;
    `bufferlab accuracy` sets it beside a measured one.

    \b
      bufferlab predict runs/buffer-size-20260101-120000
      bufferlab predict runs/buffer-size-20260101-120000 --sweep pool_size=10%,20%,30%,40%,50%
      bufferlab predict runs/scan-depth-20260101-120000 --set pool_size=30% --sweep lru_scan_depth=100,400
    """
    from bufferlab.cli.answer import show_answer
    from bufferlab.cli.progress import progress
    from bufferlab.execute.predicted_sweep import predict_sweep
    from bufferlab.report import predicted

    if resume is not None and (sweep or set_knobs or out):
        what, where = "a resumed sweep is predicted as it was begun", f"--resume {resume}"
        raise SpecError(what, where, "leave the other options out, or begin a new sweep")
    with progress() as shown:
        outcome = predict_sweep(run, Overrides(set_knobs=set_knobs, sweep=sweep), out or _DEFAULT_OUT, resume, shown)
    folder = outcome.folder
    if outcome.signal_number is not None:
        say(f"interrupted; the results are kept. To do the rest: bufferlab predict {run} --resume {folder.path}")
    show_answer(folder, as_json, predicted.as_json)
    if outcome.signal_number is not None:
        return interrupted_exit_code(outcome.signal_number)
    return 1 if outcome.failed else 0
