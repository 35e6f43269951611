"""`bufferlab list`: what there is, with units and limits. Reads declarations only; drives nothing."""

from __future__ import annotations

from typing import Any

import click

from bufferlab.cli.options import common
from bufferlab.cli.output import columns, print_json
from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.results import metrics
from bufferlab.spec import builtin_experiments, load
from bufferlab.workloads import registry as workloads

KINDS = ("experiments", "engines", "workloads", "metrics")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS), required=False)
@click.option("--all", "everything", is_flag=True, help="Also what exists for tests.")
@common
def command(kind: str | None, everything: bool, as_json: bool, debug: bool) -> int:
    """What there is: experiments, engines with their knobs, workloads, metrics."""
    if as_json:
        print_json({name: _DATA[name](everything) for name in ([kind] if kind else KINDS)})
    elif kind:
        print(_TEXT[kind](everything))
    else:
        print("\n\n".join(_TEXT[name](everything) for name in KINDS if name != "metrics"))
        print(f"\n{len(metrics.everything())} metrics: bufferlab list metrics")
    return 0


def _experiments(everything: bool) -> list[dict[str, Any]]:
    found = []
    for name, file in builtin_experiments().items():
        experiment = load(file)
        found.append(
            {
                "name": name,
                "question": experiment.question,
                "engine": experiment.engine,
                "workload": experiment.workload.name,
                "sweep": {knob: list(values) for knob, values in experiment.sweep.items()},
                "file": str(file),
            }
        )
    return found


def _engines(everything: bool) -> list[dict[str, Any]]:
    return [
        {
            "name": engine.name,
            "meaning": engine.meaning,
            "connections_max": engine.max_connections,
            "notes": list(engine.notes),
            "knobs": [
                {
                    "name": knob.name,
                    "native_name": knob.native_name,
                    "unit": knob.unit,
                    "default": knob.default,
                    "values": knob.range_text(),
                    "meaning": knob.meaning,
                }
                for knob in engine.knobs
            ],
        }
        for engine in map(engines.declaration, engines.names(hidden=everything))
    ]


def _workloads(everything: bool) -> list[dict[str, Any]]:
    return [
        {
            "name": workload.name,
            "version": workload.version,
            "meaning": workload.meaning,
            "caveat": workload.caveat,
            "transaction_types": list(workload.transaction_types),
            "parameters": [
                {
                    "name": parameter.name,
                    "unit": parameter.unit,
                    "default": parameter.default,
                    "minimum": parameter.minimum,
                    "maximum": parameter.maximum,
                    "meaning": parameter.meaning,
                }
                for parameter in workload.parameters
            ],
        }
        for workload in map(workloads.declaration, workloads.names())
    ]


def _metrics(everything: bool) -> list[dict[str, Any]]:
    return [
        {
            "name": metric.name,
            "unit": metric.unit,
            "kind": metric.kind,
            "better": metric.better,
            "probe": metric.probe,
            "meaning": metric.meaning,
            "source": metric.source,
        }
        for metric in metrics.everything()
    ]


def _experiments_text(everything: bool) -> str:
    rows = [
        [row["name"], row["engine"], row["workload"], ", ".join(row["sweep"]), row["question"]]
        for row in _experiments(everything)
    ]
    return columns(("experiment", "engine", "workload", "sweeps", "question"), rows)


def _engines_text(everything: bool) -> str:
    return "\n\n".join(_engine_text(engines.declaration(name)) for name in engines.names(hidden=everything))


def _engine_text(engine: EngineDeclaration) -> str:
    rows = [[f"  {knob.name}", knob.default, f"{knob.meaning} ({knob.range_text()})"] for knob in engine.knobs]
    return f"engine {engine.name}: {engine.meaning}\n" + columns(("  knob", "default", "meaning (values)"), rows)


def _workloads_text(everything: bool) -> str:
    parts = []
    for workload in map(workloads.declaration, workloads.names()):
        rows = [[f"  {parameter.name}", str(parameter.default), parameter.meaning] for parameter in workload.parameters]
        head = f"workload {workload.name}: {workload.meaning}"
        parts.append(f"{head}\n{columns(('  parameter', 'default', 'meaning'), rows)}\n  {workload.caveat}")
    return "\n\n".join(parts)


def _metrics_text(everything: bool) -> str:
    rows = [[metric.name, metric.unit, metric.kind, metric.meaning] for metric in metrics.everything()]
    return columns(("metric", "unit", "kind", "meaning"), rows)


_DATA = {"experiments": _experiments, "engines": _engines, "workloads": _workloads, "metrics": _metrics}
_TEXT = {
    "experiments": _experiments_text,
    "engines": _engines_text,
    "workloads": _workloads_text,
    "metrics": _metrics_text,
}
