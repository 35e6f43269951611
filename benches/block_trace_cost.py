"""Measures the cost of a block trace to the traced reads: alternating random reads with and without it.

    PYTHONPATH=python .venv/bin/python benches/block_trace_cost.py [--pairs 20] [--seconds 2] [--path /dev/sdb]
        [--every-step]

Reads of 4 KiB with O_DIRECT and io_uring, at depth 1 and 16. Processor time is that of the whole host in the window,
without idle time and time waiting for I/O: the tracepoints run in any process that makes, issues or completes a
request, and the thread that copies the kernel's pages counts too. So the machine must be otherwise idle. The benchmark
stops if a trace lost an event, or does not have each read once as queued, issued and completed. Prints a Markdown table
with intervals. Needs root. Without --path the device is a loop device over a file of 1 GiB that this program makes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from random_read_fio import FILE_BYTES, job_of, made, ratio, spread

from bufferlab.engines.file import loop_device

SIZE_BYTES = 4096
DEPTHS = (1, 16)
BUFFER_KIB = 8192
AIM_US = 2.0
"""The goal: the most processor time that the trace may add per read, in microseconds."""

_RUN = """
import json, sys
from bufferlab import _native
asked = json.loads(sys.stdin.read())
edges = []
def hear(text):
    event = json.loads(text)
    if event["event"] == "sample" and event["edge"]:
        busy = [row["count"] for row in event["values"] if row["metric"] in asked["busy"]]
        edges.append(sum(us for us in busy if us is not None))
result = json.loads(_native.run("file", json.dumps(asked["job"]), hear))
told = result["recorded"].get("block_trace")
actions = lost = None
if told:
    actions = json.loads(_native.block_trace_decode(told["spool"], told["spool"] + ".records"))["actions"]
    lost = told["lost"]
    told = told["reader_cpu_ns"]
busy_us = edges[1] - edges[0]
print(json.dumps({**result["measured"], "busy_us": busy_us, "actions": actions, "lost": lost, "reader_ns": told}))
"""
_BUSY = [f"cpu_{kind}_us" for kind in ("usr", "nice", "sys", "irq", "soft")]


@dataclass(frozen=True)
class Done:
    """The results of one run."""

    reads_per_s: float
    busy_us: float
    """The host's processor time per read."""
    events: float
    """The trace's events per read."""
    reader_us: float
    """Processor time, per read, of the thread that copies the kernel's pages."""


def main() -> None:
    """Run both sides in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--path", type=Path)
    parser.add_argument("--every-step", action="store_true", help="as `run --trace-steps`")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd())))
        path = arguments.path
        if path is None:
            path = stack.enter_context(loop_device.over(made(folder / "file"), FILE_BYTES)).path
        print(
            "| depth | pairs | reads/s without | with | ratio (95 %) | CPU a read without, us | with, us | "
            "difference (95 %), us | aim, us | of it the reader, us | events a read |\n|---" + "|---:" * 10 + "|"
        )
        for depth in DEPTHS:
            measure(path, folder, depth, arguments)


def measure(path: Path, folder: Path, depth: int, arguments: argparse.Namespace) -> None:
    """Do the pairs of runs at one depth, and print their row."""
    pairs, seconds = arguments.pairs, arguments.seconds
    trace = {
        "spool": str(folder / "spool"),
        "buffer_kib_per_cpu": BUFFER_KIB,
        "every_step": arguments.every_step,
    }
    plain: list[Done] = []
    traced: list[Done] = []
    for pair in range(pairs):
        turns = [lambda: plain.append(run(path, None, depth, seconds)),
                 lambda: traced.append(run(path, trace, depth, seconds))]  # fmt: skip
        for turn in turns if pair % 2 == 0 else reversed(turns):
            turn()
    rate = ratio([b.reads_per_s / a.reads_per_s for a, b in zip(plain, traced, strict=True)])
    more = spread([b.busy_us - a.busy_us for a, b in zip(plain, traced, strict=True)])
    median = statistics.median
    print(
        f"| {depth} | {pairs} | {median(run.reads_per_s for run in plain):,.0f} | "
        f"{median(run.reads_per_s for run in traced):,.0f} | {rate} | {median(run.busy_us for run in plain):.2f} | "
        f"{median(run.busy_us for run in traced):.2f} | {more} | < {AIM_US:g} | "
        f"{median(run.reader_us for run in traced):.2f} | {median(run.events for run in traced):.2f} |",
        flush=True,
    )


def run(path: Path, trace: dict[str, Any] | None, depth: int, seconds: float) -> Done:
    """Do one run in its own process, with a block trace if `trace` has the options of one."""
    job = job_of(path, SIZE_BYTES, depth, seconds)
    asked = {"job": {**job, "probes": {"block_trace": trace}}, "busy": _BUSY}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _RUN], input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(done.stdout)
    reads = found["transactions"]
    if trace:
        if any(found["lost"].values()):
            raise SystemExit(f"the trace lost events: {found['lost']}")
        counts = {action: found["actions"].get(action, 0) for action in "QDC"}
        if set(counts.values()) != {reads}:
            raise SystemExit(f"{reads} reads, and in the trace {counts}")
        shutil.rmtree(trace["spool"])
        Path(f"{trace['spool']}.records").unlink()
    events = sum((found["actions"] or {}).values()) / reads
    return Done(reads / found["seconds"], found["busy_us"] / reads, events, (found["reader_ns"] or 0) / 1000 / reads)


if __name__ == "__main__":
    main()
