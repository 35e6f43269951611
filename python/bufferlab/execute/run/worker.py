"""The worker process: reads one job from standard input, has its engine do it, writes events to standard output.

It never outlives its parent: it ends when standard input does, and it asks the kernel for a signal at its
parent's death. It publishes nothing and decides nothing; `supervise` reads its events.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bufferlab.engines.behaviour import Behaviour

_PR_SET_PDEATHSIG = 1
_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def main() -> int:
    """Do the job on standard input. Return 0 after a result was sent, 1 after an error or without a parent."""
    faulthandler.enable()
    out = take_stdout()
    die_with_parent()
    # Blocked in every thread, so that the thread that waits for these signals gets them, however busy the core is.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    line = sys.stdin.readline()
    if not line:
        return 1  # The parent died before it had sent a job.
    job: dict[str, Any] = json.loads(line)
    if os.getppid() != job["parent_pid"]:
        return 1  # The parent died before this process had asked for a signal at its death.
    threading.Thread(target=watch_lifeline, daemon=True).start()
    engine = engine_of(job)
    threading.Thread(target=_wait_for_stop, args=(engine.cancel,), daemon=True).start()
    lock = threading.Lock()

    def send(line: str) -> None:
        with lock:
            out.write(line + "\n")
            out.flush()

    try:
        result = _do(engine, job["kind"], job["job"], send)
    except Exception as error:  # The parent must hear of every error.
        send(json.dumps({"event": "error", **described(error)}))
        return 1
    send(json.dumps({"event": "result", "result": result}))
    return 0


def take_stdout() -> Any:
    """Return standard output for the events alone, and send everything else that is printed to the log."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def watch_lifeline() -> None:
    """Wait for the end of standard input, which comes when the parent ends, however it ends; then end this process."""
    while os.read(0, 4096):
        pass
    os._exit(1)


def _wait_for_stop(cancel: Callable[[], None]) -> None:
    while True:
        signal.sigwait(_STOP_SIGNALS)
        cancel()


def engine_of(job: Mapping[str, Any]) -> Behaviour:
    """Return the behaviour of the engine that the job names."""
    # Imported only now: from a cold disk it takes seconds, and a worker whose parent has died must not stay so long.
    from bufferlab.engines import registry

    return registry.behaviour(job["engine"])


def _do(engine: Behaviour, kind: str, job: Mapping[str, Any], send: Callable[[str], None]) -> dict[str, Any]:
    """Do the job and return its result. `send` takes each event as a line of JSON. Raises the engine's errors."""
    match kind:
        case "load":
            return engine.load(job, send)
        case "run":
            return engine.run(job, send)
        case "check":
            return engine.check(job, send)
        case "shape":
            return {"shape": engine.shape(Path(job["database"]))}
    raise ValueError(f"no such kind of job: {kind}")


def described(error: Exception) -> dict[str, str | None]:
    """Return the error as the worker's event tells it: kind, what, where, hint, and the traceback of its causes."""
    from bufferlab.engines.behaviour import failure_of
    from bufferlab.errors import causes

    failure, chain = failure_of(error), causes(error)
    if failure.kind == "internal":
        sys.stderr.write(chain + "\n")
    told = {"kind": failure.kind, "what": failure.what, "where": failure.where, "hint": failure.hint}
    return {**told, "causes": chain}


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # The watcher threads are blocked in system calls; an ordinary exit would wait for nothing they do.
    os._exit(code)
