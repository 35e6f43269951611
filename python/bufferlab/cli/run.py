"""`bufferlab run`: runs an experiment (or a script) on an engine, from its file to the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import click

from bufferlab.cli import complete
from bufferlab.cli.options import (
    Grouped,
    Repetitions,
    SettingValue,
    SettingValues,
    common,
    look_seconds,
    parsed,
    server_setting,
    strict,
)
from bufferlab.cli.output import beginning, say, show_answer, strict_exit_code
from bufferlab.cli.tpcc_format import TPCC_MYSQL, require_printable, tpcc_options
from bufferlab.errors import SpecError, interrupted_exit_code
from bufferlab.results.blocks import KeepTraces

if TYPE_CHECKING:
    from bufferlab.execute.probes.block_trace_probe import BlockTraceAsked
    from bufferlab.execute.probes.page_trace_probe import TraceWish
    from bufferlab.execute.sweep import SweepOptions
    from bufferlab.execute.sweep_runs import SweepOutcome
    from bufferlab.spec import Experiment, Overrides
    from bufferlab.spec.profiles import Profile

_DEFAULT_OUT = Path("runs")
BLOCK_TRACE = "block-trace"
PAGE_TRACE = "page-trace"
_LEAST_LIMIT_BYTES = 1 << 20

_SECTIONS = {
    "Engine and server": ("engine", "server"),
    "Settings and size": (
        "set_knobs",
        "sweep",
        "repetitions",
        "precision",
        "blocks",
        "ray",
        "transactions",
        "duration",
        "warm_up_min",
        "warm_up_max",
        "warm_up_time",
        "warehouses",
        "connections",
        "seed",
        "profile",
    ),
    "Your own data": ("dump", "keep_data"),
    "Folders and device": ("out", "data_dir", "resume", "share_device", "wait"),
    "Traces": ("probes", "no_page_trace", "trace_limit", "keep_traces", "trace_buffer", "trace_steps"),
}
"""Heading of a section of the help -> names of the parameters whose options the section lists."""


@click.command("run", cls=Grouped, sections=_SECTIONS)
@click.argument("experiment", required=False, shell_complete=complete.experiments)
@click.option("--engine", shell_complete=complete.engine_names, help="Use another engine than the experiment's.")
@click.option(
    "--server",
    metavar="BUILD",
    shell_complete=complete.servers,
    help="A name of `bufferlab engines`, the path of a binary or folder, or the URL of a server that runs already "
    "(docs/existing-server.md). Short for --set server=BUILD.",
)
@click.option("--set", "set_knobs", type=SettingValue(), multiple=True, help="Set anything for all points. Repeatable.")
@click.option("--sweep", type=SettingValues(), multiple=True, help="Sweep anything over these values. Repeatable.")
@click.option(
    "--repetitions",
    type=Repetitions(),
    metavar="N|auto",
    help="Runs per point; more make the intervals narrower. auto: as many as resolve the steps of the headline.",
)
@click.option(
    "--precision",
    metavar="SHARE",
    help='With "auto": go on until each mean\'s interval is within this share of the mean too, such as 3%.',
)
@click.option(
    "--blocks",
    metavar="LIST",
    help="Do these blocks (repetitions) of the plan alone, such as 1,3-4; other hosts do the others, and `bufferlab "
    "merge` joins them (docs/fleet.md).",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Do the blocks on the nodes of the Ray cluster whose head is at HOST:PORT, and merge them here "
    "(docs/fleet.md). Needs pip install 'bufferlab[fleet]'.",
)
@click.option("--transactions", type=int, metavar="N", help="Measure this many transactions per run (the rule).")
@click.option("--duration", metavar="TIME", help='Measure for a time instead, such as "60s" or "10min".')
@click.option(
    "--warm-up-min",
    type=int,
    metavar="N",
    help="Warm up for N transactions at least, also where the pool is warm before.",
)
@click.option(
    "--warm-up-max", type=int, metavar="N", help="Let a warm-up take up to N transactions, with --resume too."
)
@click.option("--warm-up-time", metavar="TIME", help="Let a warm-up take up to this time, such as 10min.")
@click.option("--warehouses", type=int, metavar="N", help="Scale of TPC-C's data: about 75 MB each.")
@click.option("--connections", type=int, metavar="N", help="Connections to a server (SQLite: 1).  [default: 8]")
@click.option("--seed", type=int, metavar="N", help="Another order of runs and other transactions; the same data.")
@click.option("--quick", "profile", flag_value="quick", help="A look, in seconds; differences may stay unresolved.")
@click.option("--full", "profile", flag_value="full", help="The source document's size; takes hours.")
@click.option("--smoke", "profile", flag_value="smoke", hidden=True)
@click.option(
    "--load",
    "dump",
    metavar="DUMP",
    help="Of a script: restore this mysqldump, or pg_dump -Fc, into a private server, and run the script on it "
    "(docs/scripts.md). Short for --set data=dump --set dump=DUMP.",
)
@click.option(
    "--keep-data",
    is_flag=True,
    help="With --load: keep the restored database in the cache when the sweep ends; it is removed otherwise.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Where sweep folders go.  [default: runs]")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The directory, and so the device, to measure.  [default: $BUFFERLAB_DATA, or that of --out]",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Do what this sweep folder lacks: missing, failed and interrupted runs. Of a point whose settings "
    "were refused one run is tried first.",
)
@click.option("--share-device", is_flag=True, help="Run although another sweep uses the same device.")
@click.option(
    "--wait", metavar="TIME", help="Wait up to this time, such as 30min, for a device that another sweep uses."
)
@click.option(
    "--probe",
    "probes",
    type=click.Choice([BLOCK_TRACE, PAGE_TRACE]),
    multiple=True,
    help="block-trace: record every block request of the measured window (root only). page-trace: record every access"
    " to a page of the pool, or fail.",
)
@click.option(
    "--no-page-trace",
    is_flag=True,
    help="Record no page accesses. By default runs on SQLite and on private servers of known builds do"
    " (docs/page-trace.md).",
)
@click.option(
    "--trace-limit",
    metavar="SIZE",
    help="The most that the file of a run's page accesses may take, 24 bytes each; a trace that reaches it ends.  "
    "[default: 2GiB, a tenth of the free space at most]",
)
@click.option(
    "--keep-traces",
    type=click.Choice(get_args(KeepTraces)),
    help="The blocks of which page traces stay in the sweep's folder.  [default: one]",
)
@click.option(
    "--trace-buffer",
    metavar="SIZE",
    help="Kernel buffer of each processor for the block trace; larger when events are lost.  [default: 8MiB]",
)
@click.option(
    "--trace-steps",
    is_flag=True,
    help="Block trace: also how each request was allocated, plugged and inserted (G, P, I), which costs more.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan with its time and space, and touch nothing.")
@tpcc_options()
@strict
@common
def command(
    experiment: str | None,
    engine: str | None,
    server: str | None,
    set_knobs: tuple[tuple[str, str], ...],
    sweep: tuple[tuple[str, tuple[str, ...]], ...],
    repetitions: int | Literal["auto"] | None,
    precision: str | None,
    blocks: str | None,
    ray: str | None,
    transactions: int | None,
    duration: str | None,
    warm_up_min: int | None,
    warm_up_max: int | None,
    warm_up_time: str | None,
    warehouses: int | None,
    connections: int | None,
    seed: int | None,
    profile: Profile | None,
    dump: str | None,
    keep_data: bool,
    out: Path | None,
    data_dir: Path | None,
    resume: Path | None,
    share_device: bool,
    wait: str | None,
    probes: tuple[str, ...],
    no_page_trace: bool,
    trace_limit: str | None,
    keep_traces: KeepTraces | None,
    trace_buffer: str | None,
    trace_steps: bool,
    dry_run: bool,
    form: str,
    limit_unit: Literal["s", "ms"],
    strict: bool,
    as_json: bool,
) -> int:
    """Measure: run EXPERIMENT (a built-in name, the path of a TOML, or that of a script ending in
    .sql) and answer its question.

    Results go to a new sweep folder; loaded databases are kept in $BUFFERLAB_CACHE (default:
    ~/.cache/bufferlab) for the next time. Ctrl-C ends cleanly: what was measured is kept, and
    --resume does the rest.

    Every setting that `bufferlab list` shows can be set and swept: of the engine, the workload
    and the load (how transactions arrive).

    \b
      bufferlab run buffer-size                      4 minutes: 2 to 6, by the disk
      bufferlab run buffer-size --quick              seconds
      bufferlab run buffer-size --set page_size=8k --sweep pool_size=16MiB,64MiB
      bufferlab run buffer-size --set pool_size=20% --sweep rate=500,1000,2000
      bufferlab run buffer-size --engine mysql --server mysql-8.0
      bufferlab run scan-depth --sweep server=mysql-5.7,mysql-8.0
      bufferlab run buffer-size --quick --probe block-trace
      bufferlab run buffer-size --blocks 1,3-4       on one of several hosts (docs/fleet.md)
      bufferlab run buffer-size --ray 10.0.0.1:6379  on the nodes of a Ray cluster (docs/fleet.md)
      bufferlab run my.sql                           your own statements (docs/scripts.md)
      bufferlab run my.sql --load app.sql            your own statements on your own data
      bufferlab run --resume runs/buffer-size-20260101-120000
    """
    with beginning("reading the experiment"):
        from bufferlab.spec import Overrides  # Imported late: wrong usage and --help need no schema.

        overrides = Overrides(
            profile=profile,
            engine=engine,
            set_knobs=(*set_knobs, *server_setting(server)),
            sweep=sweep,
            repetitions=repetitions,
            precision=precision,
            transactions=transactions,
            duration=duration,
            warm_up_min=warm_up_min,
            warm_up_max=warm_up_max,
            warm_up_time=warm_up_time,
            warehouses=warehouses,
            connections=connections,
            seed=seed,
            dump=dump,
        )
        if precision is not None and (blocks is not None or ray is not None):
            what = "hosts that share blocks do a fixed number of them, and cannot go on until means are precise"
            raise SpecError(what, f"--precision {precision}", "leave --precision out")
        if ray is not None and wait is not None:
            raise SpecError("a cluster's hosts wait for their devices anyway", f"--wait {wait}", "leave --wait out")
        _require_kind(resume, ray, experiment is not None or blocks is not None or overrides != Overrides())
        if resume is not None and out is not None:
            hint = "a resumed sweep stays where it is"
            raise SpecError("--out and --resume exclude each other", f"--out {out}", hint)
        if ray is None or resume is None:
            wanted, chosen = _experiment(experiment, overrides, resume, blocks)
        else:
            from bufferlab.execute.fleet.gathering import Gathering

            gathering = Gathering.open(resume)
            wanted, chosen = gathering.experiment, gathering.blocks
        require_printable(form, as_json, wanted.workload.name)
        if keep_data and wanted.workload.dump is None:
            raise SpecError("no data are restored that could be kept", "--keep-data", "add --load DUMP")
        requests = _trace_asked(probes, trace_buffer, trace_steps)
        wait_s = look_seconds(wait, "--wait", 1.0) if wait is not None else 0.0
        wish = _page_trace_wish(probes, no_page_trace, trace_limit, keep_traces)
        from bufferlab.execute.sweep import SweepOptions  # Imported after all refusals: it loads the models.

    options = SweepOptions(
        data_dir,
        share_device,
        (requests,) if requests else (),
        wish,
        keeps_restored=keep_data,
        blocks=chosen,
        device_wait_s=wait_s,
    )
    if ray is not None and resume is not None and options != SweepOptions(blocks=chosen):
        hint = "leave the options of data, device and traces out, or begin a new sweep"
        raise SpecError("a resumed sweep is run as it was begun", f"--resume {resume}", hint)
    if dry_run:
        from bufferlab.cli.plan_text import show_plan

        show_plan(wanted, options, as_json)
        return 0
    lacks_blocks = False
    if ray is not None:
        outcome, lacks_blocks = _on_cluster(wanted, ray, out or _DEFAULT_OUT, resume, options)
    else:
        outcome = _measure(wanted, out or _DEFAULT_OUT, resume, options)
    code = _answer(outcome, as_json, form, limit_unit, strict=strict)
    return 1 if lacks_blocks else code


def _experiment(
    name: str | None, overrides: Overrides, resume: Path | None, blocks: str | None
) -> tuple[Experiment, tuple[int, ...] | None]:
    """Return the experiment and the blocks to do (None for all); with --resume, both from the folder.

    Raises SpecError if no experiment is named, if it cannot be loaded, and for wrong --blocks. With --resume, raises it
    for another experiment than the folder's, for blocks that the folder does not have, and for options of an
    experiment.
    """
    from bufferlab.results.blocks import parse_blocks
    from bufferlab.spec import Overrides, load  # Imported late, as in `command`.

    if resume is None:
        if name is None:
            raise SpecError("no experiment given", "argument EXPERIMENT", "see `bufferlab list experiments`")
        begun = load(name, overrides)
        if blocks is None:
            return begun, None
        # Fix the number of blocks: a host does not see the blocks of other hosts, so it cannot decide when they are
        # enough.
        return begun.with_fixed_blocks, parse_blocks(blocks, begun.design.most)
    from bufferlab.execute.resume import blocks_to_do, open_for_resume, require_same_experiment, with_longer_warm_up

    folder, stored = open_for_resume(resume)
    others = replace(overrides, warm_up_max=None, warm_up_time=None)
    if name is not None:
        given = load(name, others)
        require_same_experiment(stored, given.with_fixed_blocks if "blocks" in folder.plan else given, resume)
    elif others != Overrides():
        raise SpecError(
            "a resumed sweep is run as it was begun",
            f"--resume {resume}",
            "leave all options out but --warm-up-max and --warm-up-time, or begin a new sweep",
        )
    asked = parse_blocks(blocks, stored.design.most) if blocks is not None else None
    return with_longer_warm_up(folder, stored, overrides), blocks_to_do(folder, asked)


def _require_kind(resume: Path | None, ray: str | None, given: bool) -> None:
    """Raise SpecError if a cluster's sweep is resumed without --ray, and if --resume with --ray has an experiment."""
    if resume is None:
        return
    from bufferlab.execute.fleet.gathering import FILE  # Imported late: a run on this host needs no cluster.

    if ray is None and (resume / FILE).exists():
        hint = f"bufferlab run --resume {resume} --ray HOST:PORT"
        raise SpecError("this sweep was begun on a cluster, which must do the rest", f"--resume {resume}", hint)
    if ray is not None and given:
        hint = "leave EXPERIMENT and its options out, or begin a new sweep"
        raise SpecError("a resumed sweep is run as it was begun", f"--resume {resume}", hint)


def _page_trace_wish(probes: tuple[str, ...], unwanted: bool, limit: str | None, keep: KeepTraces | None) -> TraceWish:
    """Return the options on page traces from the command line. Raises SpecError for a wrong --trace-limit."""
    from bufferlab.execute.probes.page_trace_probe import TraceWish
    from bufferlab.units import format_bytes, parse_bytes

    limit_bytes = None if limit is None else parsed(parse_bytes, limit, f"--trace-limit {limit}")
    if limit_bytes is not None and limit_bytes < _LEAST_LIMIT_BYTES:
        what = f"a page trace takes {format_bytes(_LEAST_LIMIT_BYTES)} at least"
        raise SpecError(what, f"--trace-limit {limit}", "write a size such as 2GiB, or --no-page-trace")
    return TraceWish(PAGE_TRACE in probes, unwanted, limit_bytes, keep)


def _trace_asked(probes: tuple[str, ...], buffer: str | None, every_step: bool) -> BlockTraceAsked | None:
    """Return the options of the block trace that the command line requests; None if it requests none.

    Raises SpecError for a wrong size of the buffer, and for options of a trace without a trace.
    """
    from bufferlab.execute.probes.block_trace_probe import BlockTraceAsked
    from bufferlab.units import GIB, parse_bytes

    if BLOCK_TRACE not in probes:
        if buffer is not None:
            raise SpecError("there is no trace to have a buffer", "--trace-buffer", "add --probe block-trace")
        if every_step:
            raise SpecError("there is no trace to have steps", "--trace-steps", "add --probe block-trace")
        return None
    if buffer is None:
        return BlockTraceAsked(every_step=every_step)
    size_bytes = parsed(parse_bytes, buffer, f"--trace-buffer {buffer}")
    if not 4096 <= size_bytes <= GIB:
        raise SpecError("a trace's buffer has 4 KiB to 1 GiB", f"--trace-buffer {buffer}", "write a size such as 32MiB")
    return BlockTraceAsked(size_bytes, every_step)


def _measure(experiment: Experiment, out: Path, resume: Path | None, options: SweepOptions) -> SweepOutcome:
    from bufferlab.cli.progress import progress
    from bufferlab.execute.sweep import run_sweep

    with progress() as shown:
        return run_sweep(experiment, out, resume, shown, options)


def _on_cluster(
    experiment: Experiment, address: str, out: Path, resume: Path | None, options: SweepOptions
) -> tuple[SweepOutcome, bool]:
    """Measure on the nodes of a cluster; return the outcome, and whether blocks lack runs, after a warning for each."""
    from bufferlab.cli.progress import PlainProgress, progress
    from bufferlab.execute.fleet.fleet_sweep import resume_on_cluster, run_on_cluster
    from bufferlab.execute.sweep_runs import SweepOutcome

    with progress() as shown:
        if resume is not None:
            merged, lacking = resume_on_cluster(resume, address, shown)
        else:
            merged, lacking = run_on_cluster(experiment.with_fixed_blocks, out, address, shown, options)
    for problem in lacking:
        PlainProgress().warn(problem)
    return SweepOutcome(merged), bool(lacking)


def _answer(outcome: SweepOutcome, as_json: bool, form: str, limit_unit: Literal["s", "ms"], *, strict: bool) -> int:
    """Print the sweep's answer and return the exit code."""
    from bufferlab.cli.tpcc_format import print_tpcc
    from bufferlab.report.build import publish

    path = outcome.folder.path
    if outcome.signal_number is not None:
        say(f"interrupted; the results are kept. To do the rest: bufferlab run --resume {path}")
    if form == TPCC_MYSQL:
        publish(outcome.folder)
        print_tpcc(outcome.folder, limit_unit)
    else:
        show_answer(outcome.folder, as_json)
    if outcome.signal_number is not None:
        return interrupted_exit_code(outcome.signal_number)
    if outcome.failed:
        longer = outcome.longer_warm_ups
        if mendable := outcome.failed - outcome.refused:
            say(f"{_runs(mendable)} failed; to try again: {' '.join((f'bufferlab run --resume {path}', *longer))}")
        if outcome.refused:
            why = "settings or statements were refused, which trying again does not mend"
            say(f"{_runs(outcome.refused)} failed because {why}")
        return 1
    return strict_exit_code(outcome.folder) if strict else 0


def _runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"
