"""Makes workers of the fake engines forks of a process that has imported everything: imports took most of their time.

In a lane of tests a small process that does nothing else forks them. (A fork of the lane itself would copy, page by
page, what tests have left in memory.) In a test's command they are forks of the command. The fake engines use no native
code, so a fork inherits no state of the core that a command may have used. Workers of other engines, workers of
commands that start from the beginning, and all workers of `./test --all` (BUFFERLAB_TEST_COMMANDS=exec) start as a
user's do.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from typing import IO, Any

from bufferlab.engines import registry
from bufferlab.execute.run import supervise, worker

_by_exec = supervise._started
_PR_SET_CHILD_SUBREAPER = 36
_PARENT_DIED_S = 10.0


def install(*, in_lane: bool = False) -> None:
    """Make this process fork its workers of the fake engines from now on; with `in_lane` a small process forks them."""
    if os.environ.get("BUFFERLAB_TEST_COMMANDS") == "exec":
        return
    begin: Callable[[tuple[int, int, int]], int] = (lambda of: _small().begin(of)) if in_lane else _forked

    def started(engine: str, log: IO[bytes]) -> Any:
        return _Worker(log, begin) if engine.startswith("fake") else _by_exec(engine, log)

    supervise._started = started


class _Worker:
    """The methods of subprocess.Popen that `supervise` calls."""

    def __init__(self, log: IO[bytes], begin: Callable[[tuple[int, int, int]], int]) -> None:
        from_us, to_them = os.pipe()
        from_them, to_us = os.pipe()
        # Before the fork has its own handlers, its parent's handlers would handle a signal: block signals until then.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid = begin((from_us, to_us, log.fileno()))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for descriptor in (from_us, to_us):
            os.close(descriptor)
        self.stdin, self.stdout = os.fdopen(to_them, "wb"), os.fdopen(from_them, "rb")
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def _forked(descriptors: tuple[int, int, int]) -> int:
    """Fork a worker of this process; return its process number once its process group can be killed."""
    from bufferlab.results import store

    store._recent = store._Recent()  # A fork takes longer the more memory the process has.
    began, begun = os.pipe()
    with warnings.catch_warnings():
        # From Python 3.12 on a fork in a process with threads warns. The worker needs no lock that another thread may
        # hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        gc.freeze()  # Freeing one of the parent's objects in the fork would close a file descriptor by its number.
        _be_worker(descriptors, lambda: os.write(begun, b"."))
    os.close(begun)
    os.read(began, 1)
    os.close(began)
    return pid


class _Small:
    """A small process that forks workers for this one: this process adopts them when the process between the two
    ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        atexit.register(self._end)

    def begin(self, descriptors: tuple[int, int, int]) -> int:
        told = {"environment": dict(os.environ), "folder": os.getcwd(), "parent": os.getpid()}
        with self._lock:
            adopt_orphans(True)
            try:
                socket.send_fds(self._ours, [json.dumps(told).encode()], descriptors)
                return int(self._ours.recv(64))
            finally:
                adopt_orphans(False)

    def _end(self) -> None:
        self._ours.close()
        self._process.wait()


@cache
def _small() -> _Small:
    return _Small()


def adopt_orphans(wanted: bool) -> None:
    """Have orphans among the processes below this one become its children, or no longer."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def _serve(descriptor: int) -> None:
    """Run the small process's loop."""
    for name in ("fake", "fake_server"):
        registry.behaviour(name)
    gc.freeze()
    lane = socket.socket(fileno=descriptor)
    while True:
        said, descriptors, _, _ = socket.recv_fds(lane, 1 << 20, 3)
        if not said:
            return
        between = os.fork()
        if between == 0:
            if os.fork() == 0:
                told = json.loads(said)
                wait_for_parent(told["parent"])
                os.chdir(told["folder"])
                os.environ.clear()
                os.environ.update(told["environment"])
                _be_worker(tuple(descriptors), lambda: lane.send(str(os.getpid()).encode()))
            os._exit(0)
        for one in descriptors:
            os.close(one)
        os.waitpid(between, 0)


def wait_for_parent(pid: int) -> None:
    """Wait until that process has adopted this one; end where it does not."""
    deadline = time.monotonic() + _PARENT_DIED_S
    while os.getppid() != pid:
        if time.monotonic() > deadline:
            os._exit(1)
        time.sleep(0.0002)


def _be_worker(descriptors: tuple[int, ...], begun: Callable[[], object]) -> None:
    """Run the worker in this fork, then end."""
    code = 1
    try:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        warnings.simplefilter("ignore")
        os.setsid()
        for place, descriptor in enumerate(descriptors):
            os.dup2(descriptor, place)
        begun()  # The worker leads its own session now, so its process group can be killed.
        os.closerange(3, 1 + max(map(int, os.listdir("/proc/self/fd"))))
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        code = worker.main()
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
