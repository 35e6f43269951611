"""Chooses the second client that checks the consistency conditions on an engine's closed files. Runs in the worker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.execute import consistency_by_sqlite3

_SIGN_OF_LIFE_SECONDS = 1.0


def check(engine: str, job: Mapping[str, Any], on_event: Callable[[str], None], stopped: Event) -> dict[str, Any]:
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
