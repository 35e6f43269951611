"""The worker process: has its engine do one job, and stops it when asked. `serve` takes the job and sends its events.

It publishes nothing and decides nothing; `supervise` reads its events.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bufferlab.execute.run.child import Tell, leave, serve

if TYPE_CHECKING:
    from bufferlab.engines.behaviour import Behaviour

_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def main() -> int:
    """Do the job on standard input. Return 0 after a result was sent, 1 after an error or without a parent."""
    # Blocked in every thread, so that the thread that waits for these signals gets them, however busy the core is.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    return serve(_do)


def _do(envelope: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Do the job and return its result. `tell` gets each event as a line of JSON. Raises the engine's errors."""
    engine = engine_of(envelope)
    threading.Thread(target=_wait_for_stop, args=(engine.cancel,), daemon=True).start()
    kind, job = envelope["kind"], envelope["job"]
    match kind:
        case "load":
            return engine.load(job, tell)
        case "run":
            return engine.run(job, tell)
        case "check":
            return engine.check(job, tell)
        case "shape":
            return {"shape": engine.shape(Path(job["database"]))}
    raise ValueError(f"no such kind of job: {kind}")


def _wait_for_stop(cancel: Callable[[], None]) -> None:
    while True:
        signal.sigwait(_STOP_SIGNALS)
        cancel()


def engine_of(job: Mapping[str, Any]) -> Behaviour:
    """Return the behaviour of the engine that the job names."""
    # Imported only now: from a cold disk it takes seconds, and a worker whose parent has died must not stay so long.
    from bufferlab.engines import registry

    return registry.behaviour(job["engine"])


if __name__ == "__main__":
    leave(main())
