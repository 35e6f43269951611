"""Sends signs of life while a server works on one long statement, because a silent worker is treated as dead.

A sign of life is an event that only shows that the worker runs. `listen` checks whether the server runs too; without it
a worker would wait for a hung server for ever.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bufferlab.engines.behaviour import EngineFailure, OnEvent

_SECONDS = 1.0

OnWait = Callable[[str], None]
"""A function that is called repeatedly during a wait, with the awaited step, such as "starting".

It raises to end the wait.
"""


def patience(on_event: OnEvent, cancelled: Callable[[], bool]) -> OnWait:
    """Return a function to call during a wait: it sends a sign of life once a second.

    It raises EngineFailure if `cancelled`, except while a server is stopping: only then are its data complete.
    """
    started = last = time.monotonic()

    def wait(what: str) -> None:
        nonlocal last
        if cancelled() and what != "stopping":
            raise EngineFailure("interrupted", f"stopped on request, while {what}")
        now = time.monotonic()
        if now - last >= _SECONDS:
            last = now
            on_event(_alive(what, now - started))

    return wait


@contextmanager
def signs_of_life(on_event: OnEvent, what: str, listen: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Context manager that sends a sign of life and calls `listen` once a second, in a thread, while the block runs.

    `listen` raises EngineFailure for a hung server that it cannot kill. The signs then end, so that the supervisor ends
    this worker.
    """
    done = threading.Event()
    started = time.monotonic()

    def beat() -> None:
        while not done.wait(_SECONDS):
            on_event(_alive(what, time.monotonic() - started))
            try:
                listen()
            except EngineFailure:
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _alive(what: str, seconds: float) -> str:
    return json.dumps({"event": "alive", "phase": what, "t_s": seconds})
