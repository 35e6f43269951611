"""A validated experiment as TOML again: the experiment.toml of a sweep folder, "as run".

Everything is spelt out, defaults included; reading it back gives an equal Experiment.
"""

from __future__ import annotations

import json
from typing import Any

from bufferlab.spec.model import Experiment
from bufferlab.units import canonical_bytes


def to_toml(experiment: Experiment) -> str:
    """The experiment as a TOML text."""
    top = {
        "format_version": experiment.format_version,
        "name": experiment.name,
        "question": experiment.question,
        "engine": experiment.engine,
        "profile": experiment.profile,
    }
    workload = experiment.workload
    tables: dict[str, dict[str, Any]] = {
        "workload": {"name": workload.name, "connections": workload.connections, **workload.parameters},
        "reference": {"page_size": canonical_bytes(experiment.reference.page_size)},
        "knobs": dict(experiment.knobs),
        "sweep": {name: list(values) for name, values in experiment.sweep.items()},
        "warm_up": experiment.warm_up.model_dump(),
        "measure": experiment.measure.model_dump(exclude_none=True),
        "design": experiment.design.model_dump(),
        "limits": experiment.limits.model_dump(),
    }
    lines = ["# The experiment as it was run: profile and flags applied, defaults spelt out.", *_pairs(top)]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_pairs(table)]
    return "\n".join(lines) + "\n"


def _pairs(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    # JSON strings, numbers and booleans are TOML strings, numbers and booleans.
    return json.dumps(value, ensure_ascii=False)
