"""What a worker does: one job of some kind, by the engine it names; and what went wrong, in words for the parent."""

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
    """What asks the job's engine to stop where it is."""
    return engines.behaviour(job["engine"]).cancel


def do(job: dict[str, Any], send: Callable[[str], None], stopped: threading.Event) -> dict[str, Any]:
    """Do the job; what it comes to. Raises what the engine raises, which `described` puts into words."""
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
