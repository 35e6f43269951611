"""`--format tpcc-mysql` of `run` and `report`: prints the runs of a sweep as the program tpcc-mysql would have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bufferlab.cli.output import put, say
from bufferlab.errors import RunFailed, SpecError

if TYPE_CHECKING:
    from bufferlab.report.tpcc_mysql import LimitUnit
    from bufferlab.results.store import SweepFolder

_Command = TypeVar("_Command", bound=Callable[..., Any])
TEXT = "text"
TPCC_MYSQL = "tpcc-mysql"


def tpcc_options(**others: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds --format and --tpcc-limits; `others` has name of a further format -> its help."""

    def options(command: _Command) -> _Command:
        command = click.option(
            "--tpcc-limits",
            "limit_unit",
            type=click.Choice(["s", "ms"]),
            default="s",
            help="5/5/5/80/20 in s, as TPC-C means them, or in ms, as tpcc-mysql compares them.  [default: s]",
        )(command)
        told = "tpcc-mysql: print each run of TPC-C as that program does, second by second."
        told += "".join(f" {name}: {does}." for name, does in others.items())
        return click.option(
            "--format",
            "form",
            type=click.Choice([TEXT, TPCC_MYSQL, *others]),
            default=TEXT,
            help=f"{told}  [default: text]",
        )(command)

    return options


def require_printable(form: str, as_json: bool, workload: str | None = None) -> None:
    """Raise SpecError, before anything is measured, if the format `form` does not fit the command.

    With --json it must be text, and tpcc-mysql is only for the workload tpcc.
    """
    if form == TEXT:
        return
    if as_json:
        raise SpecError(f"--format {form} and --json exclude each other", f"--format {form}", "leave one of them out")
    if form == TPCC_MYSQL and workload not in (None, "tpcc"):
        raise SpecError(f"the workload {workload} has no New-Orders", f"--format {form}", "use an experiment on tpcc")


def print_tpcc(folder: SweepFolder, limit_unit: LimitUnit) -> None:
    """Print every good run as tpcc-mysql would; on standard error, name the runs left out and explain the format.

    Raises RunFailed if no run can be printed.
    """
    from bufferlab.report.tpcc_mysql import NothingToPrintError, output_of, render

    printed = 0
    for record in folder.runs():
        if not record.ok:
            say(f"left out: run {record.run_id}, {record.run.status}: {record.reason}")
            continue
        try:
            output = output_of(record, limit_unit)
        except NothingToPrintError as error:
            say(f"left out: run {record.run_id}: {error}")
            continue
        put(render(output))
        printed += 1
    if not printed:
        raise RunFailed(
            "no run can be printed as tpcc-mysql does", str(folder.path), "see the reasons above", kind="usage"
        )
    unit = "seconds" if limit_unit == "s" else "milliseconds, as tpcc-mysql does"
    say(
        f"response-time limits are compared in {unit}; times are in ms; 95%, 99% and max_rt are of single seconds;"
        " what came after the last whole second of a window is left out"
    )
