"""Starts a worker process, reads its events, and ends it: after its last job, on request, or when it is silent.

A crash of the worker never ends this process. The caller decides what the events mean.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Self

from bufferlab.errors import Failure
from bufferlab.execute.stop import StopRequest

Event = dict[str, Any]

_LOG = logging.getLogger(__name__)

WORKER = "bufferlab.execute.run.worker"
"""The module that does an engine's jobs."""
_POLL_SECONDS = 0.1
_END_SECONDS = 5.0
"""The seconds that a worker may take to exit after closing its output."""
_GRACE_SECONDS = 30.0
"""The seconds that a worker may take to close its database after a request to stop."""
_LOG_BYTES = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """The outcome of a worker's job: a result, a failure, or both if the job was interrupted."""

    result: dict[str, Any] | None
    failure: Failure | None
    log: str
    more: tuple[Mapping[str, str | None], ...] = ()
    """Additional problems found with the failure, each with what, where and hint."""

    @property
    def kind(self) -> str:
        """Return the kind of the job's failure; "ok" without one."""
        return self.failure.kind if self.failure else "ok"


class Worker:
    """A context manager for a worker process, which does one job after another; leaving ends it.

    Its standard error is appended to `log_file`. No process that it started outlives the context, unless it left the
    worker's process group. `module` is the module that runs in the process.
    """

    def __init__(
        self, engine: str, *, log_file: Path, stop: StopRequest, silent_seconds: float, module: str = WORKER
    ) -> None:
        self._engine, self._log_file, self._stop, self._silent_seconds = engine, log_file, stop, silent_seconds
        with log_file.open("ab") as log:
            self._process = _started(engine, log) if module == WORKER else start_module(module, log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._process)

    def do(self, kind: str, job: dict[str, Any], on_event: Callable[[Event], None]) -> Outcome:
        """Have the worker do a job, wait for its end, and return its outcome. After a failure it accepts no more jobs.

        `on_event` gets every event except the last one, in this thread. A request to stop is passed on to the worker,
        which then has 30 s to close its database. A worker that is silent for `silent_seconds` is killed.
        """
        _LOG.debug("%s job for %s: %s", kind, self._engine, json.dumps(job))
        started, process = time.monotonic(), self._process
        watch = _Watch(process, self._stop, self._silent_seconds, on_event)
        _send_job(process, {"kind": kind, "engine": self._engine, "job": job, "parent_pid": os.getpid()})
        watch.until_end()
        if watch.last is None or watch.last["event"] == "error":
            _end(process)  # If the worker sent no last event, its exit code says why.
        outcome = _outcome(process, watch, _tail(self._log_file))
        _LOG.debug("%s ended as %s after %.2f s", kind, outcome.kind, time.monotonic() - started)
        return outcome


def supervise(
    kind: str,
    engine: str,
    job: dict[str, Any],
    *,
    log_file: Path,
    stop: StopRequest,
    silent_seconds: float,
    on_event: Callable[[Event], None],
    module: str = WORKER,
) -> Outcome:
    """Have a new worker do one job, as `Worker.do` does, and return its outcome."""
    with Worker(engine, log_file=log_file, stop=stop, silent_seconds=silent_seconds, module=module) as worker:
        return worker.do(kind, job, on_event)


def _started(engine: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a worker for jobs of that engine (tests/support/forked.py replaces this for the fake engine)."""
    return start_module(WORKER, log, engine)


def start_module(module: str, log: IO[bytes], *arguments: str) -> subprocess.Popen[bytes]:
    """Start a module that does jobs as workers do; its standard error goes to `log`."""
    # -P, because a module in the current folder must not shadow one of Python's. A new session, so that Ctrl-C at the
    # terminal reaches only this process, and the processes that the worker starts can be killed with it.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    )


class _Watch:
    """The reader of a worker's events, until its job or its output ends, or the worker must be killed."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stop: StopRequest,
        silent_seconds: float,
        on_event: Callable[[Event], None],
    ) -> None:
        self.process, self.stop, self.on_event = process, stop, on_event
        self.silent_seconds = silent_seconds
        self.last: Event | None = None
        self.gave_up: str | None = None
        self._heard = time.monotonic()
        self._asked: float | None = None

    def until_end(self) -> None:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        os.set_blocking(descriptor, False)
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while True:
                if selector.select(_POLL_SECONDS):
                    chunk = os.read(descriptor, 1 << 16)
                    if not chunk:
                        return
                    self._heard = time.monotonic()
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        self._hear(line)
                    if self.last is not None:
                        return
                if self._must_end():
                    _kill(self.process)
                    return

    def _hear(self, line: bytes) -> None:
        try:
            event: Event = json.loads(line)
        except ValueError:
            self.gave_up = "the worker said something that is not an event"
            return
        if event.get("event") in ("result", "error"):
            self.last = event
        else:
            self.on_event(event)

    def _must_end(self) -> bool:
        now = time.monotonic()
        if self.gave_up:
            return True
        if self.stop.requested and self._asked is None:
            self._asked = now
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
        if self._asked is not None and (self.stop.impatient or now - self._asked > _GRACE_SECONDS):
            self.gave_up = "it did not stop when asked"
        elif now - self._heard > self.silent_seconds:
            self.gave_up = f"it said nothing for {self.silent_seconds:g} s"
        return self.gave_up is not None


def _send_job(process: subprocess.Popen[bytes], envelope: dict[str, Any]) -> None:
    """Send the worker a job as one line.

    Its standard input stays open: its end would mean that this process is gone.
    """
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # The worker died at once; its log says why.
        process.stdin.write(json.dumps(envelope).encode() + b"\n")
        process.stdin.flush()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the worker and the processes it started: they are the process group that the worker leads."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let the worker exit within 5 s, then kill the rest of its process group, and reap the worker.

    May be called again.
    """
    if process.returncode is not None:
        return
    _close(process.stdin)
    deadline = time.monotonic() + _END_SECONDS
    # The worker is not reaped yet, so no other process group can have its PID.
    while not _has_ended(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    _kill(process)
    process.wait()
    _close(process.stdout)


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with suppress(OSError):
            stream.close()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _outcome(process: subprocess.Popen[bytes], watch: _Watch, log: str) -> Outcome:
    last, stop = watch.last, watch.stop
    if last is not None and last["event"] == "result":
        result: dict[str, Any] = last["result"]
        was_cut = result.get("status") == "interrupted"
        return Outcome(result, interrupted(stop) if was_cut else None, log)
    if last is not None:
        _LOG.debug("the worker's error, with its causes:\n%s", last["causes"])
        failure = Failure.told(last)
        ended = replace(failure, kind="interrupted") if stop.requested else failure
        return Outcome(None, ended, log, tuple(last.get("more", ())))
    if stop.requested:
        return Outcome(None, interrupted(stop, watch.gave_up), log)
    if watch.gave_up:
        hint = "see worker.log; a slow device may need a larger [limits] worker_silent"
        return Outcome(None, Failure(f"the worker was killed: {watch.gave_up}", None, hint, "silent"), log)
    return Outcome(None, _crash(process.returncode, log), log)


def interrupted(stop: StopRequest, besides: str | None = None) -> Failure:
    """Return the failure of a run that a signal stopped; `besides` is added to its sentence."""
    what = f"interrupted by {stop.name or 'a stop request'}" + (f"; {besides}" if besides else "")
    return Failure(what, kind="interrupted")


def _crash(code: int, log: str) -> Failure:
    if code >= 0:
        last_line = log.strip().rsplit("\n", 1)[-1]
        return _crashed(f"the worker ended with code {code} and no result", last_line or "see worker.log")
    name = signal.Signals(-code).name
    hint = {
        -signal.SIGKILL: "the kernel may have run out of memory: see dmesg",
        -signal.SIGBUS: "a file read through a mapping became shorter, or its device failed to read it: see dmesg",
    }.get(code, "see worker.log")
    return _crashed(f"the worker was ended by {name}", hint)


def _crashed(what: str, hint: str) -> Failure:
    return Failure(what, None, hint, "crash")


def _tail(log_file: Path) -> str:
    with log_file.open("rb") as file:
        file.seek(max(0, log_file.stat().st_size - _LOG_BYTES))
        return file.read().decode("utf-8", "replace")
