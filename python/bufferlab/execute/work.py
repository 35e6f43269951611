"""Does one job in a worker, through the engine that the job names; puts its errors into words for the parent."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import failure_of
from bufferlab.errors import causes
from bufferlab.execute.checkers import check


def canceller(job: dict[str, Any]) -> Callable[[], None]:
    """Return the function that asks the job's engine to stop its load or run."""
    return engines.behaviour(job["engine"]).cancel


def do(job: dict[str, Any], send: Callable[[str], None], stopped: threading.Event) -> dict[str, Any]:
    """Do the job and return its result. `send` takes each event as a line of JSON.

    Raises the engine's errors, which `described` puts into words.
    """
    engine = engines.behaviour(job["engine"])
    match job["kind"]:
        case "load":
            return engine.load(job["job"], send)
        case "run":
            return engine.run(job["job"], send)
        case "check":
            return check(job["engine"], job["job"], send, stopped)
        case "shape":
            return {"shape": engine.shape(Path(job["job"]["database"]))}
        case kind:
            raise ValueError(f"no such kind of job: {kind}")


def described(error: Exception) -> dict[str, str | None]:
    """Return the error as the worker's event tells it: kind, what, where, hint, and the traceback of its causes."""
    failure = failure_of(error)
    chain = causes(error)
    if failure.kind == "internal":
        sys.stderr.write(chain + "\n")
    told = {"kind": failure.kind, "what": failure.what, "where": failure.where, "hint": failure.hint}
    return {**told, "causes": chain}
