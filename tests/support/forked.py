"""Lets workers of the fake engines be forks of the process that supervises them: imports were most of their time.

A fork is a process of its own, with its own session, files, signals and end. The fake engines use no native code, so
that nothing of the core, which its parent may have used, goes with it. Workers of other engines, every worker of a
command that starts from the beginning, and all of `./test --all` (BUFFERLAB_TEST_COMMANDS=exec), start as a user's do.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
import warnings
from typing import IO, Any

from bufferlab.execute.run import supervise, worker
from bufferlab.results import store

_by_exec = supervise._started


def install() -> None:
    """From now on this process forks its workers of the fake engines."""
    if os.environ.get("BUFFERLAB_TEST_COMMANDS") != "exec":
        supervise._started = lambda engine, log: _Worker(log) if engine.startswith("fake") else _by_exec(engine, log)


class _Worker:
    """What `supervise` asks of a subprocess.Popen."""

    def __init__(self, log: IO[bytes]) -> None:
        store._recent = store._Recent()  # The more memory, the slower a fork.
        from_us, to_them = os.pipe()
        from_them, to_us = os.pipe()
        began, begun = os.pipe()
        # A signal that came before the fork has its own handlers would be handled by its parent's.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with warnings.catch_warnings():
            # From Python 3.12 on a fork beside threads warns. The worker needs nothing that another thread may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _become(from_us, to_us, log.fileno(), begun, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for descriptor in (from_us, to_us, begun):
            os.close(descriptor)
        os.read(began, 1)  # It leads its session now: its process group can be killed.
        os.close(began)
        self.stdin, self.stdout = os.fdopen(to_them, "wb"), os.fdopen(from_them, "rb")
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def _become(stdin: int, stdout: int, stderr: int, begun: int, mask: Any) -> None:
    """Be the worker, in this fork, and end."""
    gc.freeze()  # An object of the parent that were freed here would close a file by its number.
    code = 1
    try:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        warnings.simplefilter("ignore")
        os.setsid()
        for number, descriptor in enumerate((stdin, stdout, stderr)):
            os.dup2(descriptor, number)
        os.write(begun, b".")
        os.closerange(3, 1 + max(map(int, os.listdir("/proc/self/fd"))))
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = worker.main()
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)
