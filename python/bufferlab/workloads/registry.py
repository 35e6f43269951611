"""The registry of workloads: one line for each."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import cast

from bufferlab.workloads.declaration import WorkloadDeclaration

WORKLOADS: dict[str, str] = {
    "tpcc": "bufferlab.workloads.tpcc",
    "hot_rows": "bufferlab.workloads.hot_rows",
    "index_scan": "bufferlab.workloads.index_scan",
    "script": "bufferlab.workloads.script",
    "random_read": "bufferlab.workloads.random_read",
    "program": "bufferlab.workloads.program",
}


def names() -> list[str]:
    """Return the workloads' names."""
    return list(WORKLOADS)


def declaration(name: str) -> WorkloadDeclaration:
    """Return the workload's declaration. Raises KeyError for an unknown name."""
    return cast(WorkloadDeclaration, import_module(f"{WORKLOADS[name]}.declaration").DECLARATION)


def on_data(workload: WorkloadDeclaration, data: str) -> WorkloadDeclaration:
    """Return the workload on the data of the workload `data`, with the parameters and sizes of those data.

    Return the workload itself when `data` is not the name of a workload: it then brings its own data.
    """
    if data not in WORKLOADS or not workload.data_parameter:
        return workload
    other = declaration(data)
    added = tuple(knob for knob in other.parameters if knob.decides_file)
    return replace(
        workload,
        parameters=(*workload.parameters, *added),
        estimate_bytes=other.estimate_bytes,
        estimate_shape=other.estimate_shape,
    )
