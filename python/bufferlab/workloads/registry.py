"""The registry of workloads, with one line per workload."""

from __future__ import annotations

from dataclasses import replace

from bufferlab.workloads.declaration import WorkloadDeclaration
from bufferlab.workloads.hot_rows import declaration as hot_rows
from bufferlab.workloads.index_scan import declaration as index_scan
from bufferlab.workloads.program import declaration as program
from bufferlab.workloads.random_read import declaration as random_read
from bufferlab.workloads.script import declaration as script
from bufferlab.workloads.tpcc import declaration as tpcc

WORKLOADS: dict[str, WorkloadDeclaration] = {
    module.DECLARATION.name: module.DECLARATION for module in (tpcc, hot_rows, index_scan, script, random_read, program)
}


def names() -> list[str]:
    """Return the workloads' names."""
    return list(WORKLOADS)


def declaration(name: str) -> WorkloadDeclaration:
    """Return the workload's declaration. Raises KeyError for an unknown name."""
    return WORKLOADS[name]


def on_data(workload: WorkloadDeclaration, data: str) -> WorkloadDeclaration:
    """Return `workload` with the parameters and sizes of the data of another workload, named `data`.

    Return it unchanged if `data` is not the name of a workload: then it has its own data.
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
