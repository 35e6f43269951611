"""Writes a validated experiment as TOML: the experiment.toml of a sweep folder, "as run".

Everything is spelt out, defaults included. Reading the TOML back gives an equal Experiment.
"""

from __future__ import annotations

import json
from typing import Any

from bufferlab.spec.experiment import Experiment, Script, Workload
from bufferlab.units import canonical_bytes


def to_toml(experiment: Experiment) -> str:
    """Return the experiment as a TOML text."""
    top = {
        "format_version": experiment.format_version,
        "name": experiment.name,
        "question": experiment.question,
        "engine": experiment.engine,
        "profile": experiment.profile,
    }
    workload, reference = experiment.workload, experiment.reference.page_size
    tables: dict[str, dict[str, Any]] = {
        "workload": {"name": workload.name, **_connections(workload), **workload.parameters},
        **({"workload.script": _script(workload.script)} if workload.script else {}),
        "reference": {"page_size": reference if isinstance(reference, str) else canonical_bytes(reference)},
        "knobs": dict(experiment.knobs),
        "sweep": {name: list(values) for name, values in experiment.sweep.items()},
        "warm_up": experiment.warm_up.model_dump(),
        "measure": experiment.measure.model_dump(exclude_none=True),
    }
    for phase in experiment.phases:
        tables[f"phases.{phase.name}"] = {"transactions": phase.transactions, "max_duration": phase.max_duration}
        tables[f"phases.{phase.name}.script"] = _script(phase.script)
    tables |= {"design": experiment.design.model_dump(), "limits": experiment.limits.model_dump()}
    lines = ["# The experiment as it was run: profile and flags applied, defaults spelt out.", *_pairs(top)]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_pairs(table)]
    return "\n".join(lines) + "\n"


def _connections(workload: Workload) -> dict[str, int]:
    return {} if workload.connections is None else {"connections": workload.connections}


def _script(script: Script) -> dict[str, Any]:
    return {"source": script.source, "text": _LongText(script.text)}


class _LongText(str):
    """A text of many lines, which is written as a multi-line string."""


def _pairs(table: dict[str, Any]) -> list[str]:
    # A variable's name, such as var.innodb_x, has a dot. Unquoted, TOML reads it as a table; merge.py flattens it.
    return [f"{key} = {_value(value)}" for key, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, _LongText):
        return _long_text(value)
    # JSON strings, numbers and booleans are TOML strings, numbers and booleans.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _long_text(text: str) -> str:
    """Return a multi-line basic string. Of the control characters, only line feeds are written as themselves."""
    lines = [json.dumps(line, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f") for line in text.split("\n")]
    # Quotes read better without escapes; they need them where three meet or where the last would end the string.
    body = "\n".join(line.replace('\\"', '"') if _may_bare(line) else line for line in lines)
    return f'"""\n{body}"""'


def _may_bare(line: str) -> bool:
    return "\\\\" not in line and '\\"\\"' not in line and not line.endswith('\\"')
