"""Runs of any workload on the real core, in closed or open loop, and the counts of each of their windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.core import ROOT, call

MIB = 1 << 20

_SETTINGS = {
    "page_size_bytes": 4096,
    "pool_size_bytes": 8 * MIB,
    "io_mode": "direct",
    "pcache": "ours",
    "synchronous": "off",
    "wal_autocheckpoint_bytes": MIB,
    "locking_mode": "normal",
}

_FOLLOWED = """
import json, sys
from bufferlab import _native
job = json.loads(sys.stdin.readline())
stop_at = json.loads(sys.stdin.readline())

def on_event(event):
    print(event, flush=True)
    if stop_at and json.loads(event).get("edge") == stop_at:
        _native.cancel()

if stop_at == "before":
    _native.cancel()
answer = _native.run("sqlite", json.dumps(job), on_event)
print(json.dumps({"answer": json.loads(answer)}), flush=True)
"""


@dataclass(frozen=True)
class Window:
    """The metrics at the two edges of a measured window or a phase, by metric and subject."""

    start: dict[tuple[str, str], float]
    end: dict[tuple[str, str], float]
    seconds: float

    def delta(self, metric: str, subject: str = "") -> float:
        """Return the growth of one counter."""
        return self.end[metric, subject] - self.start[metric, subject]

    def total(self, metric: str) -> float:
        """Return the growth of a counter, summed over its subjects."""
        return sum(self.delta(name, subject) for name, subject in self.end if name == metric)


@dataclass(frozen=True)
class Run:
    """The core's answer and all events before it."""

    answer: dict[str, Any]
    events: list[dict[str, Any]]

    def window(self, phase: str = "measure") -> Window:
        """Return the window of this name."""
        edges = {e["edge"]: e for e in self.events if e.get("edge") and e["phase"] == phase}
        start, end = (_by_metric(edges[edge]["values"]) for edge in ("start", "end"))
        return Window(start, end, edges["end"]["t_s"] - edges["start"]["t_s"])

    def latency(self, time: str, transaction_type: str) -> dict[str, Any]:
        """Return the latencies of one kind of time and one transaction type."""
        (found,) = [
            entry
            for entry in self.answer["latency"]
            if (entry["time"], entry["transaction_type"]) == (time, transaction_type)
        ]
        return dict(found)


def count_above(latency: dict[str, Any], us: float) -> int:
    """Return the number of records of a latency that are surely above `us`."""
    return sum(count for low, _, count in latency["buckets"] if low > us)


def _by_metric(values: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    known = [value for value in values if value["reason"] is None]
    return {(row["metric"], row["subject"]): row["value"] if row["count"] is None else row["count"] for row in known}


def script(text: str, *, source: str = "my.sql", seed: int = 7, **variables: float) -> dict[str, Any]:
    """Return a script as a run's workload."""
    return {"name": "script", "source": source, "text": text, "seed": seed, "variables": variables}


def load_script(database: Path, text: str, *, source: str = "my.sql", **variables: float) -> dict[str, Any]:
    """Load a database by a script's setup section."""
    workload = {"name": "script", "source": source, "text": text, "variables": variables, "data": None}
    job = {"database": str(database), "page_size_bytes": 4096, "workload": workload, "threads": 1}
    return call("load", "sqlite", job)[0]


def job(database: Path, workload: dict[str, Any], *, transactions: int = 2000, **parts: Any) -> dict[str, Any]:
    """Return a run's job: a short warm-up, and a window of `transactions` transactions, 20 s at most."""
    return {
        "target": {"path": str(database), "knobs": _SETTINGS},
        "frames": 8 * MIB // 4096,
        "workload": workload,
        "warm_up": {"max_transactions": 1000, "max_seconds": 10},
        "measure": {"transactions": transactions, "max_seconds": 20},
        "sample_interval_ms": 200,
        **parts,
    }


def run(database: Path, workload: dict[str, Any], **parts: Any) -> Run:
    """Do one run on `database` itself."""
    return Run(*call("run", "sqlite", job(database, workload, **parts)))


class Followed:
    """A run in progress, whose events are read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []

    def until_edge(self, edge: str) -> None:
        """Read events until this edge of the measured window has been sampled."""
        for event in self._events():
            if event.get("edge") == edge:
                return
        raise AssertionError(f"the run ended before the {edge} of its window")

    def finish(self) -> Run:
        """Wait for the end of the run; return it."""
        for event in self._events():
            if "answer" in event:
                return Run(event["answer"], self.events)
        raise AssertionError(f"the run ended without an answer, with code {self.process.wait()}")

    def _events(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.events.append(event)
            yield event


@contextmanager
def followed(one_job: dict[str, Any], *, stop_at: str | None = None) -> Iterator[Followed]:
    """Start a run in a separate process; if `stop_at` is given, cancel it "before" its start or at that edge. It ends
    with the block."""
    with subprocess.Popen(
        [sys.executable, "-c", _FOLLOWED],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(one_job) + "\n" + json.dumps(stop_at) + "\n")
            process.stdin.flush()
            yield Followed(process)
        finally:
            process.kill()
