"""Signs of life while a server works at one long statement: a worker that says nothing is taken for dead.

They say that the worker lives. That the server does is asked beside (`listen`), or a stopped one would be waited for
for ever.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bufferlab.engines.behaviour import EngineFailure, OnEvent
from bufferlab.engines.servers.boot import OnWait

_SECONDS = 1.0


def patience(on_event: OnEvent, cancelled: Callable[[], bool]) -> OnWait:
    """What to do while a server starts or stops: say once a second that we live, and give up when asked to.

    A server that is stopping is waited for all the same: its data is only whole once it has stopped.
    """
    started = last = time.monotonic()

    def wait(what: str) -> None:
        nonlocal last
        if cancelled() and what != "stopping":
            raise EngineFailure("interrupted", f"stopped while the server was {what}")
        now = time.monotonic()
        if now - last >= _SECONDS:
            last = now
            on_event(_alive(what, now - started))

    return wait


@contextmanager
def signs_of_life(on_event: OnEvent, what: str, listen: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Says once a second that we live, and listens whether the server does, in a thread beside the block.

    Where a silent server cannot be ended, `listen` raises EngineFailure: then we say nothing more, and are ended.
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
