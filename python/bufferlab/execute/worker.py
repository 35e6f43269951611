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
from typing import Any

_PR_SET_PDEATHSIG = 1
_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def main() -> int:
    """Do the job on standard input; 0 when a result was sent, 1 when an error was."""
    faulthandler.enable()
    out = _take_stdout()
    _die_with_parent()
    # Blocked in every thread, so that the one waiting for them gets them, however busy the core is.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    line = sys.stdin.readline()
    if not line:
        return 1  # The parent died before it had sent a job.
    job: dict[str, Any] = json.loads(line)
    if os.getppid() != job["parent_pid"]:
        return 1  # It died before the death signal was set.
    threading.Thread(target=_watch_lifeline, daemon=True).start()
    # Only now: from a cold disk these imports take seconds, and a worker whose parent has died must not stay for them.
    from bufferlab.execute import work

    stopped = threading.Event()
    cancel = work.canceller(job)
    threading.Thread(target=_wait_for_stop, args=(stopped, cancel), daemon=True).start()
    lock = threading.Lock()

    def send(line: str) -> None:
        with lock:
            out.write(line + "\n")
            out.flush()

    try:
        result = work.do(job, send, stopped)
    except Exception as error:  # Whatever it is, the parent must hear of it.
        send(json.dumps({"event": "error", **work.described(error)}))
        return 1
    send(json.dumps({"event": "result", "result": result}))
    return 0


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
