"""Calls the core in a separate process, as the worker does: SQLite's page cache can be chosen only once per process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Variables with which tests start ./bufferlab. With them it uses the core that ./test built; without them it would
#: build a core that is optimised across crates.
OF_A_CLONE = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_DEBUG": "0"}
_CACHE = os.environ.get("BUFFERLAB_CACHE")

_CALL = """
import json, sys
from bufferlab import _native
call = json.load(sys.stdin)
events = []
try:
    # Kept as texts: parsed, the events of a slow machine's long run would show in the process's own memory.
    answer = getattr(_native, call["function"])(call["engine"], json.dumps(call["job"]), events.append)
    print(json.dumps({"answer": json.loads(answer), "events": [json.loads(event) for event in events]}))
except _native.NativeError as error:
    print(json.dumps({"error": error.args}))
"""


class CoreError(Exception):
    """A NativeError of the subprocess: kind, what, where, hint."""

    def __init__(self, kind: str, what: str, where: str, hint: str) -> None:
        super().__init__(f"{kind}: {what} ({where}); {hint}")
        self.kind, self.what, self.where, self.hint = kind, what, where, hint


def call(function: str, engine: str, job: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return answer and events of one call of the core. Raises CoreError if the call fails."""
    done = subprocess.run(
        [sys.executable, "-c", _CALL],
        input=json.dumps({"function": function, "engine": engine, "job": job}),
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"the core died with {done.returncode}: {done.stderr}"
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise CoreError(*answer["error"])
    return answer["answer"], answer["events"]


@dataclass
class Measured:
    """A finished run: the core's answer, and each metric at the window's two edges."""

    answer: dict[str, Any]
    start: dict[tuple[str, str], float]
    end: dict[tuple[str, str], float]
    events: list[dict[str, Any]]

    def delta(self, metric: str, subject: str = "") -> float:
        """Return the growth of a counter over the measured window."""
        return self.end[metric, subject] - self.start[metric, subject]

    def new_orders(self) -> float:
        """Return the number of completed New-Orders, including those rolled back."""
        return self.delta("transactions_committed", "new_order") + self.delta("transactions_rolled_back", "new_order")


def load(
    database: Path, *, warehouses: int = 1, page_size_bytes: int = 4096, seed: int = 1, threads: int = 1
) -> dict[str, Any]:
    """Load a new TPC-C database."""
    workload = {"name": "tpcc", "warehouses": warehouses, "load_seed": seed}
    job = {"database": str(database), "page_size_bytes": page_size_bytes, "workload": workload}
    return call("load", "sqlite", {**job, "threads": threads})[0]


def run(
    database: Path,
    *,
    pool_size_bytes: int,
    transactions: int = 2000,
    warehouses: int = 1,
    seed: int = 7,
    warm_up: int = 2000,
    **knobs: Any,
) -> Measured:
    """Do one run on `database` itself, which the run changes."""
    settings = {
        "page_size_bytes": 4096,
        "io_mode": "direct",
        "pcache": "ours",
        "synchronous": "off",
        "wal_autocheckpoint_bytes": 1 << 20,
        "locking_mode": "normal",
        **knobs,
        "pool_size_bytes": pool_size_bytes,
    }
    job = {
        "target": {"path": str(database), "knobs": settings},
        "frames": pool_size_bytes // settings["page_size_bytes"],
        "workload": {"name": "tpcc", "warehouses": warehouses, "seed": seed, "load_seed": 1},
        "warm_up": {"max_transactions": warm_up, "max_seconds": 60},
        "measure": {"transactions": transactions, "max_seconds": 120},
        "sample_interval_ms": 200,
    }
    answer, events = call("run", "sqlite", job)
    edges = {event["edge"]: _by_metric(event["values"]) for event in events if event.get("edge")}
    return Measured(answer, edges["start"], edges["end"], events)


@contextmanager
def usual_cache() -> Iterator[None]:
    """Context manager in which the cache is that of the whole test run, even if the test set a temporary cache."""
    with pytest.MonkeyPatch.context() as patch:
        if _CACHE is None:
            patch.delenv("BUFFERLAB_CACHE", raising=False)
        else:
            patch.setenv("BUFFERLAB_CACHE", _CACHE)
        yield


def _by_metric(values: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    known = [value for value in values if value["reason"] is None]
    return {(row["metric"], row["subject"]): row["value"] if row["count"] is None else row["count"] for row in known}


def environment(disk: Path) -> dict[str, str]:
    """Return the environment of commands on real engines: one cache of loaded databases, on the measured disk."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUFFERLAB_CACHE": str(disk / "cache")}


def copy(database: Path, to: Path) -> Path:
    """Copy a database so that the copy is on the disk and not in the page cache."""
    shutil.copyfile(database, to)
    with to.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return to
