"""The worker process: one job from standard input, events on standard output, then it ends.

It never outlives its parent: standard input stays open as a lifeline, and the kernel is asked for a death
signal besides. It publishes nothing and decides nothing; `supervise` reads what it says.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.errors import BufferlabError
from bufferlab.execute.block_trace import run_traced
from bufferlab.execute.checkers import check
from bufferlab.execute.storage import is_full

_PR_SET_PDEATHSIG = 1
_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def main() -> int:
    """Do the job on standard input; 0 when a result was sent, 1 when an error was."""
    faulthandler.enable()
    out = _take_stdout()
    _die_with_parent()
    # Blocked in every thread, so that the one waiting for them gets them, however busy the core is.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    job: dict[str, Any] = json.loads(sys.stdin.readline())
    if os.getppid() != job["parent_pid"]:
        return 1  # The parent died before the death signal was set.
    threading.Thread(target=_watch_lifeline, daemon=True).start()
    engine = engines.behaviour(job["engine"])
    stopped = threading.Event()
    threading.Thread(target=_wait_for_stop, args=(stopped, engine.cancel), daemon=True).start()
    lock = threading.Lock()

    def send(line: str) -> None:
        with lock:
            out.write(line + "\n")
            out.flush()

    try:
        result = _do(job, send, stopped)
    except Exception as error:  # Whatever it is, the parent must hear of it.
        send(json.dumps({"event": "error", **_described(error)}))
        return 1
    send(json.dumps({"event": "result", "result": result}))
    return 0


def _do(job: dict[str, Any], send: Callable[[str], None], stopped: threading.Event) -> dict[str, Any]:
    engine = engines.behaviour(job["engine"])
    match job["kind"]:
        case "load":
            return engine.load(job["job"], send)
        case "run":
            return run_traced(engine, job["job"], send)
        case "check":
            return check(job["engine"], job["job"], send, stopped)
        case "shape":
            return {"shape": engine.shape(Path(job["job"]["database"]))}
        case kind:
            raise ValueError(f"no such kind of job: {kind}")


def _described(error: Exception) -> dict[str, str | None]:
    """kind, what, where, hint of the core's error, an engine's, ours, or a surprise."""
    if isinstance(error, BufferlabError):
        return {"kind": "environment", "what": error.what, "where": error.where, "hint": error.hint}
    if isinstance(error, OSError):
        disk = "full_disk" if is_full(error) else "io"
        return {"kind": disk, "what": str(error.strerror or error), "where": error.filename, "hint": None}
    kind = getattr(error, "kind", None)
    if isinstance(kind, str):
        return {"kind": kind, **{name: getattr(error, name, None) for name in ("what", "where", "hint")}}
    if len(error.args) == 4 and all(isinstance(part, str | None) for part in error.args):
        return dict(zip(("kind", "what", "where", "hint"), error.args, strict=True))
    import traceback

    traceback.print_exc()
    return {"kind": "internal", "what": f"{type(error).__name__}: {error}", "where": None, "hint": None}


def _take_stdout() -> Any:
    """The event stream, for us alone: what anything else prints goes to the log."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


def _die_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _watch_lifeline() -> None:
    """Standard input ends when the parent does, however it ends."""
    while os.read(0, 4096):
        pass
    os._exit(1)


def _wait_for_stop(stopped: threading.Event, cancel: Callable[[], None]) -> None:
    while True:
        signal.sigwait(_STOP_SIGNALS)
        stopped.set()
        cancel()


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # The watcher threads are blocked in system calls; an ordinary exit would wait for nothing they do.
    os._exit(code)
