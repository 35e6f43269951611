"""`bufferlab predict`: predicts the reads of pools, from a traced run or without a run, as a sweep folder."""

from __future__ import annotations

import importlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import click

from bufferlab.cli import complete
from bufferlab.cli.options import Grouped, SettingValue, SettingValues, common, server_setting
from bufferlab.cli.output import beginning, say, show_answer
from bufferlab.errors import SpecError, interrupted_exit_code

if TYPE_CHECKING:
    from bufferlab.spec.profiles import Profile

_DEFAULT_OUT = Path("runs")

_OF_THE_REPORT = ("matplotlib.figure", "matplotlib.backends.backend_svg", "scipy.special", "jinja2")
"""The modules that only the report needs. Importing them takes half a second of processor time."""

_SECTIONS = {
    "Settings": ("sweep", "set_knobs"),
    "Of an experiment alone": ("engine", "server", "warehouses", "transactions", "seed", "profile"),
    "Folders": ("out", "resume"),
}
"""Heading of a section of the help -> names of the parameters whose options the section lists."""


@click.command("predict", cls=Grouped, sections=_SECTIONS)
@click.argument(
    "run",
    required=False,
    type=click.Path(path_type=Path),
    metavar="[RUN|EXPERIMENT]",
    shell_complete=complete.experiments,
)
@click.option("--sweep", type=SettingValues(), multiple=True, help="Predict these values of a setting. Repeatable.")
@click.option("--set", "set_knobs", type=SettingValue(), multiple=True, help="Set it for all points. Repeatable.")
@click.option("--engine", shell_complete=complete.engine_names, help="Use another engine than the experiment's.")
@click.option(
    "--server",
    metavar="BUILD",
    shell_complete=complete.servers,
    help="A name of `bufferlab engines`, whose version is taken; the server need not be here. Or a path.",
)
@click.option("--warehouses", type=int, metavar="N", help="Scale of TPC-C's data: about 75 MB each.")
@click.option("--transactions", type=int, metavar="N", help="Predict a window of this many transactions, as of `run`.")
@click.option("--seed", type=int, metavar="N", help="Other transactions; the same data.")
@click.option("--quick", "profile", flag_value="quick", help="The sizes of a look.")
@click.option("--full", "profile", flag_value="full", help="The source document's sizes.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Where sweep folders go.  [default: runs]")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Do the runs that this sweep folder lacks; it must come from the same trace, or experiment, and model.",
)
@common
def command(
    run: Path | None,
    sweep: tuple[tuple[str, tuple[str, ...]], ...],
    set_knobs: tuple[tuple[str, str], ...],
    engine: str | None,
    server: str | None,
    warehouses: int | None,
    transactions: int | None,
    seed: int | None,
    profile: Profile | None,
    out: Path | None,
    resume: Path | None,
    as_json: bool,
) -> int:
    """Tell what pools would read, by a model of a server's buffer manager.

    RUN is the folder of a run that was recorded with --probe page-trace, or of a sweep with such
    runs: the page accesses of one are replayed. Or RUN is an experiment, by its name or the path of
    its TOML: nothing is run, no server need be here, and page accesses are generated. --engine,
    --server, --warehouses, --transactions, --seed, --quick and --full are for experiments. A folder
    wins over an experiment.

    Without --sweep the points of the experiment are predicted. A setting that the model does not
    know is refused by name. The answer is a sweep folder with its report; `bufferlab accuracy`
    sets it beside a measured one.

    \b
      bufferlab predict runs/buffer-size-20260101-120000
      bufferlab predict runs/buffer-size-20260101-120000 --sweep pool_size=10%,20%,30%,40%,50%
      bufferlab predict runs/scan-depth-20260101-120000 --set pool_size=30% --sweep lru_scan_depth=100,400
      bufferlab predict buffer-size --engine mysql --server mysql-5.7 --warehouses 100
    """
    with beginning("reading the run or experiment"):
        from bufferlab.cli.progress import progress
        from bufferlab.execute.predicted_sweep import predict_sweep
        from bufferlab.results.store import PREDICTED_FROM
        from bufferlab.spec import Overrides

    knobs = (*set_knobs, *server_setting(server))
    of_experiment = Overrides(
        profile=profile, engine=engine, warehouses=warehouses, transactions=transactions, seed=seed
    )
    overrides = replace(of_experiment, set_knobs=knobs, sweep=sweep)
    if resume is not None and out is not None:
        raise SpecError("--out and --resume exclude each other", f"--out {out}", "a resumed sweep stays where it is")
    # Import the report's modules while the core decodes, generates and replays: Python only waits then.
    Thread(target=_import_for_the_report).start()
    with progress() as shown:
        outcome = predict_sweep(run, overrides, out or _DEFAULT_OUT, resume, shown)
    folder = outcome.folder
    if outcome.signal_number is not None:
        # To resume a sweep predicted without a run, the user names no experiment: the sweep's folder has it.
        again = "predict" if "rules" in folder.plan[PREDICTED_FROM] else f"predict {run}"
        say(f"interrupted; the results are kept. To do the rest: bufferlab {again} --resume {folder.path}")
    show_answer(folder, as_json)
    if outcome.signal_number is not None:
        return interrupted_exit_code(outcome.signal_number)
    return 1 if outcome.failed else 0


def _import_for_the_report() -> None:
    for name in _OF_THE_REPORT:
        with suppress(ImportError):
            importlib.import_module(name)
