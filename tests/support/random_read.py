"""Random reads in a separate process: through the core alone, or through the engine with its host settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bufferlab.engines.file.behaviour import core_reads
from support import core

_ENGINE = """
import json, sys
from pathlib import Path
from bufferlab.engines import registry
job = json.load(sys.stdin)
events = []
try:
    answer = registry.behaviour("file").run(job, events.append)
    print(json.dumps({"answer": answer, "events": [json.loads(event) for event in events]}))
except Exception as error:
    print(json.dumps({"error": [getattr(error, "kind", type(error).__name__), *map(str, error.args)]}))
"""

#: io_uring_setup is number 425 on every architecture; this filter of linux/seccomp.h refuses it and allows the rest.
_WITHOUT_IO_URING = """
import ctypes, os, struct, sys
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050000 | 1), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""


def workload(**changed: Any) -> dict[str, Any]:
    """Return a workload of reads of 8 KiB, one at a time, at any offset."""
    return {
        "name": "random_read", "io_size_bytes": 8192, "alignment": "512", "offsets": "random", "zipf": 0.9,
        "queue_depth": 1, "threads": 1, "load_seed": 1, "seed": 7, **changed,
    }  # fmt: skip


def reads(**changed: Any) -> dict[str, Any]:
    """Return the same workload in the form that the core takes."""
    return core_reads(workload(**changed))


def make(path: Path, size_bytes: int, seed: int = 1) -> Path:
    """Make a file of random bytes that is not in the page cache."""
    core.call("load", "file", {"path": str(path), "bytes": size_bytes, "seed": seed})
    return path


def core_job(path: Path, range_bytes: int, reads: int = 2000, **knobs: Any) -> dict[str, Any]:
    """Return a job for the core."""
    settings = {"io_mode": "direct", "advise_random": False, "cache": "cold", "backend": "auto", **knobs}
    return {
        "path": str(path),
        "range_bytes": range_bytes,
        "below": [],
        **settings,
        "reads": core_reads(workload()),
        "warm_up": {"max_transactions": 100, "max_seconds": 5.0},
        "measure": {"transactions": reads, "max_seconds": 60.0},
        "sample_interval_ms": 100,
    }


def engine_job(path: Path, reads: int = 2000, *, of: dict[str, Any] | None = None, **knobs: Any) -> dict[str, Any]:
    """Return a job for the engine: as `core_job`, with the knobs that change the host."""
    settings = {
        "path": "own", "io_mode": "buffered", "read_ahead": "as_is", "advice": "none", "cache": "cold",
        "backend": "auto", "device": "as_is",
    }  # fmt: skip
    return {
        "database": str(path),
        "knobs": {**settings, **knobs},
        "workload": workload(**(of or {})),
        "load": {"mode": "closed"},
        "warm_up": {"max_transactions": 100, "max_seconds": 5.0},
        "measure": {"transactions": reads, "max_seconds": 60.0},
        "phases": [],
        "sample_interval_ms": 100,
    }


@dataclass
class Read:
    """A finished run: its answer, and each metric at the two edges, summed over its subjects."""

    answer: dict[str, Any]
    start: dict[str, float]
    end: dict[str, float]
    events: list[dict[str, Any]]

    def delta(self, metric: str) -> float:
        """Return the growth of a counter over the window."""
        return self.end[metric] - self.start[metric]


def of_events(answer: dict[str, Any], events: list[dict[str, Any]]) -> Read:
    """Return the run with its edges put together: values computed after the run come as further rows of the same
    edge."""
    edges: dict[str, dict[str, float]] = {"start": {}, "end": {}}
    for event in events:
        if event.get("edge"):
            for row in event["values"]:
                number = row["value"] if row["count"] is None else row["count"]
                if number is not None:
                    at = edges[event["edge"]]
                    at[row["metric"]] = at.get(row["metric"], 0) + number
    return Read(answer, edges["start"], edges["end"], events)


def run_core(job: dict[str, Any]) -> Read:
    """Run the job through the core alone. Raises CoreError if it fails."""
    return of_events(*core.call("run", "file", job))


def command(*, without_io_uring: bool = False) -> list[str]:
    """Return the command of a process that runs the engine's job from its standard input."""
    if without_io_uring:
        return [sys.executable, "-c", _WITHOUT_IO_URING, _ENGINE]
    return [sys.executable, "-c", _ENGINE]


def environment() -> dict[str, str]:
    """Return an environment in which Python finds the package."""
    return {**os.environ, "PYTHONPATH": str(core.ROOT / "python")}


def run_engine(job: dict[str, Any], *, without_io_uring: bool = False, prefix: tuple[str, ...] = ()) -> Any:
    """Run the job through the engine; return its answer, or the error's parts if it fails."""
    done = subprocess.run(
        [*prefix, *command(without_io_uring=without_io_uring)],
        input=json.dumps(job),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told["error"] if "error" in told else of_events(told["answer"], told["events"])
