"""Which workloads there are: one line per workload, nothing else to edit."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from bufferlab.workloads.declaration import WorkloadDeclaration

WORKLOADS: dict[str, str] = {
    "tpcc": "bufferlab.workloads.tpcc",
}


def names() -> list[str]:
    """The workloads' names."""
    return list(WORKLOADS)


def declaration(name: str) -> WorkloadDeclaration:
    """What the workload says about itself. KeyError for an unknown name."""
    return cast(WorkloadDeclaration, import_module(f"{WORKLOADS[name]}.declaration").DECLARATION)
