"""`bufferlab list`: lists experiments, engines, workloads, load settings and metrics, with units and limits.

It reads declarations, and for `list runs` the folders of past sweeps. It starts no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bufferlab import catalog
from bufferlab.cli.options import common
from bufferlab.cli.output import columns, print_json, put
from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.errors import SpecError, runnable
from bufferlab.knob import AUTO, CONNECTIONS, LOAD_KNOBS, Knob, KnobKind
from bufferlab.versions import in_words
from bufferlab.workloads import registry as workloads

if TYPE_CHECKING:
    from bufferlab.results.metrics import Metric

_LONG = 40
"""The most characters of a default that is shown. A longer one would make its column too wide."""
KINDS = ("experiments", "engines", "workloads", "load", "metrics")
_RUNS = "runs"


@click.command("list")
@click.argument("kind", type=click.Choice([*KINDS, _RUNS]), required=False)
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", required=False)
@click.option("--all", "everything", is_flag=True, help="Also what exists for tests.")
@common
def command(kind: str | None, folder: Path | None, everything: bool, as_json: bool) -> int:
    """List experiments, engines with their knobs, workloads, load settings and metrics.

    `runs` lists the sweeps in DIR, with their answers; without DIR those in runs/.

    \b
      bufferlab list engines
      bufferlab list runs
      bufferlab list runs elsewhere --json
    """
    if folder is not None and kind != _RUNS:
        raise SpecError("only sweeps are in a folder", f"argument {folder}", f"bufferlab list {_RUNS} {folder}")
    if kind == _RUNS:
        _show_runs(folder or Path(_RUNS), as_json)
    elif as_json:
        print_json({name: _DATA[name](everything) for name in ([kind] if kind else KINDS)})
    elif kind:
        put(_TEXT[kind](everything))
    else:
        for name in filter("metrics".__ne__, KINDS):
            put(f"{_TEXT[name](everything)}\n")
        put(runnable("metrics: bufferlab list metrics"))
    return 0


def _show_runs(folder: Path, as_json: bool) -> None:
    from bufferlab.cli.past_runs import as_text, past

    sweeps = past(folder)
    if as_json:
        print_json({"runs": sweeps})
    else:
        put(as_text(sweeps))


def _experiments(everything: bool) -> list[dict[str, Any]]:
    from bufferlab.spec import load  # Imported late, because it loads the whole schema, which only --json needs.

    found = []
    for name, file in catalog.builtin_experiments().items():
        experiment = load(file)
        found.append(
            {
                "name": name,
                "question": experiment.question,
                "engine": experiment.engine,
                "workload": experiment.workload.name,
                "sweep": {knob: list(map(str, values)) for knob, values in experiment.sweep.items()},
                "file": str(file),
            }
        )
    return found


def _experiments_text(everything: bool) -> str:
    rows = [[head.name, head.engine, head.workload, ", ".join(head.sweep), head.question] for head in catalog.heads()]
    return columns(("experiment", "engine", "workload", "sweeps", "question"), rows)


def _engines_text(everything: bool) -> str:
    return "\n\n".join(_engine_text(engines.declaration(name)) for name in engines.names(hidden=everything))


def _engine_text(engine: EngineDeclaration) -> str:
    text = f"engine {engine.name}: {engine.meaning}\n{_settings_text('knob', engine.knobs)}"
    if engine.passes_through:
        text += (
            f"\n  {engine.passes_through}NAME sets any other variable of the server; auto is the server's own default"
        )
    return text


def _workloads_text(everything: bool) -> str:
    parts = []
    for workload in map(workloads.declaration, workloads.names()):
        head = f"workload {workload.name}: {workload.meaning}"
        parts.append(f"{head}\n{_settings_text('parameter', workload.parameters)}\n  {workload.caveat}")
    return "\n\n".join(parts)


def _load_text(everything: bool) -> str:
    return f"load, of every workload: how transactions arrive\n{_settings_text('setting', (*LOAD_KNOBS, CONNECTIONS))}"


def _settings_text(what: str, knobs: Sequence[Knob]) -> str:
    rows = [
        [f"  {knob.name}", _default(knob), f"{knob.meaning} ({knob.range_text()}){_versions(knob)}"] for knob in knobs
    ]
    return columns((f"  {what}", "default", "meaning (values)"), rows)


def _default(knob: Knob) -> str:
    """Return a knob's default in the form that users write; for "auto", also the value that it stands for.

    Return "an example" for a long default of the kind TEXT, and "none" without a default.
    """
    if knob.kind is KnobKind.TEXT and len(knob.default) > _LONG:
        return "an example"
    return f"{knob.default}: {knob.auto}" if knob.auto and knob.default == AUTO else knob.default or "none"


def _versions(knob: Knob) -> str:
    """Return in words the server versions that have a knob and its values; "" if all versions have them."""
    limited = any(sign in knob.versions for sign in "<>")
    values = "".join(f"; {value}: {in_words(versions)}" for value, versions in knob.value_versions)
    return (f"; {in_words(knob.versions)}" if limited else "") + values


def _metrics(everything: bool) -> list[Metric]:
    from bufferlab.registry import registry  # Imported late: it loads all engines' metrics, which no other list shows.

    return registry().everything()


def _metrics_text(everything: bool) -> str:
    rows = [[metric.name, metric.unit, metric.kind, metric.meaning] for metric in _metrics(everything)]
    return columns(("metric", "unit", "kind", "meaning"), rows)


_DATA: dict[str, Callable[[bool], object]] = {
    "experiments": _experiments,
    "engines": lambda everything: [*map(engines.declaration, engines.names(hidden=everything))],
    "workloads": lambda _: [*map(workloads.declaration, workloads.names())],
    "load": lambda _: (*LOAD_KNOBS, CONNECTIONS),
    "metrics": _metrics,
}
_TEXT = {
    "experiments": _experiments_text,
    "engines": _engines_text,
    "workloads": _workloads_text,
    "load": _load_text,
    "metrics": _metrics_text,
}
