"""The worker process of a run, and the common code of all processes that work for a parent process.

Such a process does one job after another, sends events, and ends each job with a result. An error ends the process. It
never outlives its parent: it ends when its standard input is closed, and the kernel kills it when its parent dies. The
worker lets its engine do the job, and stops the engine on request. The worker publishes and decides nothing. The
parent's side is supervise.py.

Few modules are imported at the top: imports take seconds, and a process whose parent has died must not stay so long.
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
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from bufferlab.engines.behaviour import Behaviour

_PR_SET_PDEATHSIG = 1
_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}

Tell = Callable[[str], None]
"""A function that sends one event, a line of JSON, to the parent. Any thread may call it."""


def main(engine: str | None = None) -> int:
    """Do the jobs that come on standard input.

    Return 1 after an error, or if the parent has died. At the end of the input the process exits with 0.


    `engine` is the engine of the jobs; it is imported while the process waits for the first job.
    """
    # Block these signals in every thread, so that the thread that waits for them gets them even if the Rust core is
    # busy.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    return serve(_do, partial(_prepare, engine) if engine else lambda: None)


def _prepare(engine: str) -> None:
    with suppress(Exception):  # Ignore errors here: the job will raise the same error, and report it.
        engine_of({"engine": engine})


def _do(envelope: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Do the job, send its events as lines of JSON, and return its result. Raises the engine's errors."""
    engine = engine_of(envelope)
    _stop_when_asked(engine)
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


@cache
def _stop_when_asked(engine: Behaviour) -> None:
    """Start a thread that waits for signals that request a stop, and passes them on to the engine."""

    def wait() -> None:
        while True:
            signal.sigwait(_STOP_SIGNALS)
            engine.cancel()

    threading.Thread(target=wait, daemon=True).start()


def engine_of(job: Mapping[str, Any]) -> Behaviour:
    """Return the behaviour of the engine that the job names."""
    # Import late: from a cold disk it takes seconds, and a process whose parent has died must not stay so long.
    from bufferlab.engines import registry

    return registry.behaviour(job["engine"])


def serve(
    do: Callable[[Mapping[str, Any], Tell], Mapping[str, Any]], prepare: Callable[[], None] = lambda: None
) -> int:
    """Read jobs from standard input, call `do` for each, and send the result that it returns, or the error it raises.

    `do` gets the envelope that `supervise` sends: kind, engine and job. `prepare` is called before the first job.
    Return 1 after an error, and without output if the parent has died. The end of standard input ends this process.
    Everything that is printed goes to the log.
    """
    faulthandler.enable()
    out = _take_stdout()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    jobs, idle, telling = SimpleQueue[bytes](), threading.Event(), threading.Lock()
    threading.Thread(target=_hear_parent, args=(jobs, idle), daemon=True).start()
    prepare()

    def tell(event: str) -> None:
        with telling:
            out.write(event + "\n")
            out.flush()

    while True:
        envelope: dict[str, Any] = json.loads(jobs.get())
        idle.clear()
        if os.getppid() != envelope["parent_pid"]:
            return 1  # The parent died before this process had requested its death signal.
        try:
            result = do(envelope, tell)
        except Exception as error:  # Every error must be reported to the parent.
            tell(json.dumps({"event": "error", **described(error), "more": _more(error)}))
            return 1
        idle.set()
        tell(json.dumps({"event": "result", "result": result}))


def leave(code: int) -> NoReturn:
    """End this process at once, without waiting for threads that are blocked in system calls."""
    sys.stderr.flush()
    os._exit(code)


def described(error: Exception) -> dict[str, str | None]:
    """Return the error as the fields of an event: kind, what, where, hint, and the traceback of its causes."""
    from bufferlab.engines.behaviour import failure_of
    from bufferlab.errors import causes

    failure, chain = failure_of(error), causes(error)
    if failure.kind == "internal":
        sys.stderr.write(chain + "\n")
    told = {"kind": failure.kind, "what": failure.what, "where": failure.where, "hint": failure.hint}
    return {**told, "causes": chain}


def _more(error: Exception) -> list[dict[str, str | None]]:
    """Return the other problems of an error of bufferlab after its first; [] for any other error."""
    from bufferlab.errors import BufferlabError

    return [problem.as_dict() for problem in error.problems[1:]] if isinstance(error, BufferlabError) else []


def _take_stdout() -> Any:
    """Return standard output for events only, and redirect everything else that is printed to the log."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


def _hear_parent(jobs: SimpleQueue[bytes], idle: threading.Event) -> None:
    """Pass on the lines of standard input.

    When the parent ends in any way, standard input ends, and this process exits.


    The exit code is 0 if a job was done and none is running (`idle`), else 1.
    """
    rest = b""
    while chunk := os.read(0, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            jobs.put(line)
    os._exit(0 if idle.is_set() else 1)


if __name__ == "__main__":
    leave(main(*sys.argv[1:]))
