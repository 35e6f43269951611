"""Does one job in a worker, through the engine that the job names; puts its errors into words for the parent.

The conditions of an engine's closed files are checked by a second client, where there is one.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import EngineFailure, failure_of
from bufferlab.errors import causes
from bufferlab.execute.data import consistency_by_sqlite3

_SIGN_OF_LIFE_SECONDS = 1.0


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
            return _check(job["engine"], job["job"], send, stopped)
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


def _check(engine: str, job: Mapping[str, Any], on_event: Callable[[str], None], stopped: Event) -> dict[str, Any]:
    """Check the workload's conditions on the job's closed database, and return {seconds, conditions}.

    `on_event` gets a sign of life once a second. Raises EngineFailure when the check was stopped.
    """
    if engines.declaration(engine).file_format == "own":
        return engines.behaviour(engine).check(job, on_event)

    return consistency_by_sqlite3.check(
        Path(job["database"]), job["workload"], job["delivered_orders"], interrupt=_interrupt(on_event, stopped)
    )


def _interrupt(on_event: Callable[[str], None], stopped: Event) -> Callable[[], None]:
    """Return a function that ends the check if it was asked to stop, and sends a sign of life once a second."""
    last = started = time.monotonic()

    def interrupt() -> None:
        nonlocal last
        if stopped.is_set():
            raise EngineFailure("interrupted", "the check was stopped")
        now = time.monotonic()
        if now - last >= _SIGN_OF_LIFE_SECONDS:
            last = now
            on_event(json.dumps({"event": "alive", "phase": "checking", "t_s": now - started}))

    return interrupt
