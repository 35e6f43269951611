"""Measures and predicts like the commands, with the same options and folders, and with progress on standard error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from bufferlab.api.sweep import Sweep
from bufferlab.cli.options import server_setting
from bufferlab.cli.progress import progress
from bufferlab.errors import Interrupted, SpecError
from bufferlab.execute.predicted_sweep import predict_sweep
from bufferlab.execute.probes.page_trace_probe import TraceWish
from bufferlab.execute.resume import open_for_resume
from bufferlab.execute.sweep import SweepOptions, run_sweep
from bufferlab.execute.sweep_runs import SweepOutcome
from bufferlab.report.build import publish
from bufferlab.results.blocks import KeepTraces, parse_blocks
from bufferlab.results.store import PREDICTED_FROM
from bufferlab.spec import Overrides, load

Setting = str | int | float
_ALONE = "leave the other arguments out"


def run(
    experiment: str | Path | None = None,
    *,
    engine: str | None = None,
    server: str | None = None,
    settings: Mapping[str, Setting] | None = None,
    sweep: Mapping[str, Sequence[Setting]] | None = None,
    profile: Literal["quick", "full"] | None = None,
    repetitions: int | Literal["auto"] | None = None,
    blocks: str | None = None,
    transactions: int | None = None,
    duration: str | None = None,
    seed: int | None = None,
    page_trace: bool | None = None,
    keep_traces: KeepTraces | None = None,
    out: Path | str = "runs",
    data_dir: Path | str | None = None,
    resume: Path | str | None = None,
) -> Sweep:
    """Run an experiment and return its results, which also stay in a new sweep folder below `out`.

    `experiment` is the name of a built-in experiment, or the path of a TOML file or a script. `settings` has the
    settings of `--set`, `sweep` those of `--sweep`. If only `resume` is given, the folder of an earlier sweep, run does
    the missing runs of that sweep. `blocks` is a value of `--blocks`, such as "1,3-4": other hosts do the other blocks,
    and `bufferlab merge` joins the folders. By default runs write a page trace if they can. If `page_trace` is True,
    the sweep fails if they cannot; if it is False, they write none. `keep_traces` names the blocks whose traces are
    kept. A failed run is a row of the results with the reason. Raises a BufferlabError if the sweep cannot begin.
    Ctrl-C keeps finished runs, and raises a BufferlabError that names the folder to resume.
    """
    overrides = replace(
        _overrides(settings, sweep, server),
        profile=profile,
        engine=engine,
        repetitions=repetitions,
        transactions=transactions,
        duration=duration,
        seed=seed,
    )
    if resume is not None:
        if experiment is not None or blocks is not None or overrides != Overrides():
            raise SpecError("a resumed sweep is run as it was begun", "bl.run(resume=...)", _ALONE)
        _, wanted = open_for_resume(Path(resume))
    elif experiment is None:
        raise SpecError("no experiment given", "bl.run", "see `bufferlab list experiments`")
    else:
        begun = load(str(experiment), overrides)
        wanted = begun.with_fixed_blocks if blocks is not None else begun
    wish = TraceWish(bool(page_trace), unwanted=page_trace is False, keep=keep_traces)
    options = SweepOptions(
        Path(data_dir) if data_dir else None,
        page_trace=wish,
        blocks=parse_blocks(blocks, wanted.design.most) if blocks is not None else None,
    )
    with progress() as shown:
        outcome = run_sweep(wanted, Path(out), Path(resume) if resume else None, shown, options)
    return _ended(outcome, "bl.run(")


def predict(
    run: Path | str | None = None,
    *,
    engine: str | None = None,
    server: str | None = None,
    settings: Mapping[str, Setting] | None = None,
    sweep: Mapping[str, Sequence[Setting]] | None = None,
    profile: Literal["quick", "full"] | None = None,
    seed: int | None = None,
    out: Path | str = "runs",
    resume: Path | str | None = None,
) -> Sweep:
    """Predict the points of a traced run's experiment, or of an experiment without a run, as a new sweep below `out`.

    `run` is the folder of a run with a page trace, or of a sweep with such runs. Or it is the name or path of an
    experiment, which `engine`, `server`, `profile` and `seed` may change. With `resume`, the folder of an earlier
    prediction, the missing points of that are predicted; a prediction from a traced run also needs `run` again. The
    result's `predictions` have the reasons to doubt them. Raises a BufferlabError for a run that cannot be replayed, a
    server without a model, an experiment whose page accesses cannot be generated, or a setting that the model lacks.
    After Ctrl-C it raises a BufferlabError that names the folder to resume.
    """
    overrides = replace(_overrides(settings, sweep, server), engine=engine, profile=profile, seed=seed)
    asked = Path(run) if run is not None else None
    with progress() as shown:
        outcome = predict_sweep(asked, overrides, Path(out), Path(resume) if resume else None, shown)
    # To resume a sweep predicted without a run, no experiment is needed: the sweep's folder has it.
    generated = "rules" in outcome.folder.plan[PREDICTED_FROM]
    return _ended(outcome, "bl.predict(" if run is None or generated else f'bl.predict("{run}", ')


def _overrides(
    settings: Mapping[str, Setting] | None, sweep: Mapping[str, Sequence[Setting]] | None, server: str | None = None
) -> Overrides:
    given = tuple((name, str(value)) for name, value in (settings or {}).items())
    swept = tuple((name, tuple(map(str, values))) for name, values in (sweep or {}).items())
    return Overrides(set_knobs=(*given, *server_setting(server)), sweep=swept)


def _ended(outcome: SweepOutcome, call: str) -> Sweep:
    """Write the sweep's report and return its results. After a signal, raise Interrupted, which names the folder."""
    publish(outcome.folder)
    if outcome.signal_number is not None:
        path = outcome.folder.path
        hint = f'{call}resume="{path}") does the rest'
        raise Interrupted(outcome.signal_number, f"interrupted; the results are in {path}", hint)
    return Sweep(outcome.folder)
