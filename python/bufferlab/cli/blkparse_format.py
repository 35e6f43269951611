"""`--format blkparse` of `report`: prints the traces of a sweep's runs as blkparse would have."""

from __future__ import annotations

import sys

from bufferlab.cli.output import say
from bufferlab.errors import RunFailed
from bufferlab.results.store import SweepFolder
from bufferlab.texts import printable

BLKPARSE = "blkparse"


def print_traces(folder: SweepFolder) -> None:
    """Print every good trace. Standard error tells which runs were left out, and how to read the others.

    Raises RunFailed when no run has a trace.
    """
    from bufferlab.report.blkparse import render

    printed = 0
    for record in folder.runs():
        told = record.run.block_trace
        trace = record.block_trace()
        if trace is None or told is None:
            reason = "it was not traced" if told is None else f"its trace failed: {told.reason}"
            say(f"left out: run {record.run_id}: {reason}")
            continue
        say(f"run {record.run_id}: {record.run.point.label}, block {record.run.block + 1}")
        if told.pids_are_the_hosts:
            say("processes have the host's numbers: the run was in a PID namespace (a container)")
        sys.stdout.writelines(f"{printable(line)}\n" for line in render(trace, told.partitions, told.names))
        sys.stdout.flush()
        printed += 1
    if not printed:
        raise RunFailed(
            "no run of this sweep has a block trace",
            str(folder.path),
            "measure with: bufferlab run ... --probe block-trace",
        )
    say("KiB are of 1,024 bytes; the kernel's tracepoints do not tell a timer's unplugs from the others")
