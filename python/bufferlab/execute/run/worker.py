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
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bufferlab.engines.behaviour import Behaviour

_PR_SET_PDEATHSIG = 1
_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def main() -> int:
    """Do the job on standard input. Return 0 after a result was sent, 1 after an error or without a parent."""
    # Blocked in every thread, so that the thread that waits for these signals gets them, however busy the core is.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    parent = Parent.heard()
    if parent is None:
        return 1
    job = parent.envelope
    engine = engine_of(job)
    threading.Thread(target=_wait_for_stop, args=(engine.cancel,), daemon=True).start()
    return parent.tell(lambda: _do(engine, job["kind"], job["job"], parent.send_line))


class Parent:
    """The parent of this process, which has sent a job and hears its events."""

    def __init__(self, envelope: dict[str, Any], out: IO[str]) -> None:
        self.envelope = envelope
        """The job, with what the parent says of itself."""
        self._out, self._lock = out, threading.Lock()

    @classmethod
    def heard(cls) -> Parent | None:
        """Read the job from standard input; from then on this process ends with its parent. None without a parent.

        Standard output is for events alone from now on: everything else that is printed goes to the log.
        """
        faulthandler.enable()
        out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        # The kernel kills this process when its parent ends.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        line = sys.stdin.readline()
        if not line:
            return None  # The parent died before it had sent a job.
        envelope: dict[str, Any] = json.loads(line)
        if os.getppid() != envelope["parent_pid"]:
            return None  # The parent died before this process had asked for a signal at its death.
        threading.Thread(target=_watch_lifeline, daemon=True).start()
        return cls(envelope, out)

    def send_line(self, line: str) -> None:
        """Send an event, a line of JSON. Any thread may."""
        with self._lock:
            self._out.write(line + "\n")
            self._out.flush()

    def send(self, event: Mapping[str, Any]) -> None:
        """Send an event. Any thread may."""
        self.send_line(json.dumps(event))

    def tell(
        self, work: Callable[[], Mapping[str, Any]], more: Callable[[Exception], Mapping[str, Any]] = lambda _: {}
    ) -> int:
        """Do the work and send its result, or its error with `more` of it. Return the exit code."""
        try:
            result = work()
        except Exception as error:  # The parent must hear of every error.
            self.send({"event": "error", **described(error), **more(error)})
            return 1
        self.send({"event": "result", "result": result})
        return 0


def _watch_lifeline() -> None:
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
