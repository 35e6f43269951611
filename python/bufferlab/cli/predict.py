"""`bufferlab predict`: tells what a traced run would have read with other settings of its pool."""

from __future__ import annotations

from pathlib import Path

import click

from bufferlab.cli.options import SettingValue, SettingValues, common
from bufferlab.cli.output import print_json, put
from bufferlab.spec import Overrides


@click.command("predict")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--sweep", type=SettingValues(), multiple=True, help="Predict these values of a setting. Repeatable.")
@click.option("--set", "set_knobs", type=SettingValue(), multiple=True, help="Set it for all points. Repeatable.")
@common
def command(
    run: Path,
    sweep: tuple[tuple[str, tuple[str, ...]], ...],
    set_knobs: tuple[tuple[str, str], ...],
    as_json: bool,
    debug: bool,
) -> int:
    """Tell what a traced run would have read with other pools, by a model of its buffer manager.

    RUN is the folder of a run that was recorded with --probe page-trace, or of a sweep with one
    such run. Without --sweep the points of its experiment are predicted. A setting that the
    model does not know is refused by name.

    \b
      bufferlab predict runs/buffer-size-20260101-120000
      bufferlab predict runs/buffer-size-20260101-120000 --sweep pool_size=10%,20%,30%,40%,50%
      bufferlab predict runs/scan-depth-20260101-120000 --set pool_size=30% --sweep lru_scan_depth=100,400
    """
    # Reading a run needs the families' metrics, which the registry hands to `results`.
    import bufferlab.engines.registry  # noqa: F401
    from bufferlab.models import source
    from bufferlab.models.predict import predict
    from bufferlab.report import predict_page

    found = predict(source.read(run), Overrides(set_knobs=set_knobs, sweep=sweep))
    if as_json:
        print_json(predict_page.as_json(found))
    else:
        put(predict_page.text(found))
    return 0
