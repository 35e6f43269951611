"""Measures, as `bufferlab run` does: the same options, the same progress on standard error, the same folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from bufferlab.api.sweep import Sweep
from bufferlab.cli.options import server_setting
from bufferlab.cli.progress import progress
from bufferlab.errors import Interrupted, SpecError
from bufferlab.execute.page_trace_probe import PageTraceAsked
from bufferlab.execute.resume import open_for_resume
from bufferlab.execute.sweep import SweepOptions, run_sweep
from bufferlab.report.publish import publish
from bufferlab.spec import Overrides, load

Setting = str | int | float


def run(
    experiment: str | Path | None = None,
    *,
    engine: str | None = None,
    server: str | None = None,
    settings: Mapping[str, Setting] | None = None,
    sweep: Mapping[str, Sequence[Setting]] | None = None,
    profile: Literal["quick", "full"] | None = None,
    repetitions: int | None = None,
    transactions: int | None = None,
    duration: str | None = None,
    seed: int | None = None,
    page_trace: bool = False,
    out: Path | str = "runs",
    data_dir: Path | str | None = None,
    resume: Path | str | None = None,
) -> Sweep:
    """Run an experiment and return its results, which also stay in a new sweep folder below `out`.

    `experiment` is the name of a built-in one, or the path of a TOML file or of a script. `settings` are those that
    `--set` takes, `sweep` those that `--sweep` takes. With `resume`, the folder of an earlier sweep and nothing else,
    what it lacks is done. A run that fails is a row of the results with its reason. Raises a BufferlabError when the
    sweep cannot begin; after Ctrl-C, which keeps what was measured, the one that names the folder to resume.
    """
    overrides = Overrides(
        profile=profile,
        engine=engine,
        set_knobs=(*((name, str(value)) for name, value in (settings or {}).items()), *server_setting(server)),
        sweep=tuple((name, tuple(map(str, values))) for name, values in (sweep or {}).items()),
        repetitions=repetitions,
        transactions=transactions,
        duration=duration,
        seed=seed,
    )
    if resume is not None:
        if experiment is not None or overrides != Overrides():
            raise SpecError(
                "a resumed sweep is run as it was begun", "bl.run(resume=...)", "leave the other arguments out"
            )
        _, wanted = open_for_resume(Path(resume))
    elif experiment is None:
        raise SpecError("no experiment given", "bl.run", "see `bufferlab list experiments`")
    else:
        wanted = load(str(experiment), overrides)
    options = SweepOptions(Path(data_dir) if data_dir else None, probes=(PageTraceAsked(),) if page_trace else ())
    with progress() as shown:
        outcome = run_sweep(wanted, Path(out), Path(resume) if resume else None, shown, options)
    publish(outcome.folder)
    if outcome.signal_number is not None:
        path = outcome.folder.path
        raise Interrupted(
            outcome.signal_number, f"interrupted; the results are in {path}", f'bl.run(resume="{path}") does the rest'
        )
    return Sweep(outcome.folder)
