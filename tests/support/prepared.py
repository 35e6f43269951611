"""Runs commands in forks of a process that has imported everything, because imports take most of a short command's
time.

Each command is a separate process with its own environment and files. `./test --all` starts each command from the
beginning instead, as a user does (BUFFERLAB_TEST_COMMANDS=exec), so that it finds a forgotten import.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LIBRARIES = (
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "polars",
    "scipy.special",
    "jinja2",
    "rich.progress",
)
_LAST_WORDS_S = 2.0


def begin() -> None:
    """Start the process that imports everything, so that the first command need not wait for it."""
    if os.environ.get("BUFFERLAB_TEST_COMMANDS") != "exec":
        _prepared()


def run(
    arguments: Sequence[str | Path], environment: Mapping[str, str], timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run `bufferlab ARGUMENTS` in this folder to its end. Raises subprocess.TimeoutExpired."""
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "stdout", Path(folder) / "stderr"
        if os.environ.get("BUFFERLAB_TEST_COMMANDS") == "exec":
            command = [sys.executable, "-m", "bufferlab", *words]
            with out.open("wb") as to_out, err.open("wb") as to_err:
                code = subprocess.run(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=to_out,
                    stderr=to_err,
                    timeout=timeout_s,
                    check=False,
                ).returncode
        else:
            try:
                code = _prepared().run(words, environment, Path.cwd(), out, err, timeout_s).code
            except subprocess.TimeoutExpired:
                _prepared.cache_clear()
                raise
        return subprocess.CompletedProcess(["bufferlab", *words], code, out.read_text(), err.read_text())


@dataclass(frozen=True)
class Ended:
    """The end of a command, and the most memory that it held, including memory shared with the process that forked
    it."""

    code: int
    peak_bytes: int
    seconds: float
    """The elapsed seconds."""


class Prepared:
    """A process that has imported everything and forks commands, one at a time; it ends at the latest with this
    process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._is_ready = False
        atexit.register(self._process.__exit__, None, None, None)  # Closes the process's streams and waits for it.

    def run(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        out: Path,
        err: Path,
        timeout_s: float,
    ) -> Ended:
        """Run a command to its end. After `timeout_s` write the command's tracebacks to `err`, end this process, and
        raise subprocess.TimeoutExpired."""
        asks, answers = self._process.stdin, self._process.stdout
        assert asks
        assert answers
        if not self._is_ready:
            self._is_ready = bool(answers.readline())
        asks.write(json.dumps([list(arguments), dict(environment), str(folder), str(out), str(err)]) + "\n")
        asks.flush()
        if not select.select([answers], [], [], timeout_s)[0]:
            for child in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGABRT)  # faulthandler writes the tracebacks of its threads.
            select.select([answers], [], [], _LAST_WORDS_S)
            self.end()
            raise subprocess.TimeoutExpired(["bufferlab", *arguments], timeout_s, out.read_bytes(), err.read_bytes())
        code, peak_kib, seconds = answers.readline().split()
        return Ended(int(code), int(peak_kib) * 1024, float(seconds))

    @property
    def is_alive(self) -> bool:
        """Whether this process can run further commands."""
        return self._process.poll() is None

    def end(self) -> None:
        """End the process; its children die with it."""
        self._process.kill()
        with suppress(BrokenPipeError), self._process:  # Closing fails if an unsent request is left in the buffer.
            pass


@cache
def _prepared() -> Prepared:
    return Prepared()


def _serve() -> None:
    import bufferlab

    for module in pkgutil.walk_packages(bufferlab.__path__, "bufferlab."):
        if not module.name.endswith(("__main__", "_native")):
            importlib.import_module(module.name)
    for name in _LIBRARIES:
        importlib.import_module(name)
    from bufferlab.report import html
    from bufferlab.results import decoding
    from support import figures, forked

    html._template()  # Compile the template here, once, and not in each command that writes a page.
    forked.install()
    figures.install()
    gc.freeze()
    print("ready", flush=True)
    decoder: subprocess.Popen[str] | None = None
    for line in sys.stdin:
        begun_s = time.monotonic()
        if decoder is None or decoder.poll() is not None:
            decoder = decoding._started()
            decoding._children[:] = [_Shared(decoder)]  # type: ignore[list-item]
        child = os.fork()
        if child == 0:
            _become(*json.loads(line))
        _, status, used = os.wait4(child, 0)
        print(os.waitstatus_to_exitcode(status), used.ru_maxrss, time.monotonic() - begun_s, flush=True)


class _Shared:
    """The process that decodes tables. All commands share it in turn, because starting it takes a quarter of a
    second."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.stdin, self.stdout, self._pid = process.stdin, process.stdout, process.pid

    def poll(self) -> None:
        """Return nothing: a command is not this process's parent, so it cannot see whether the process has ended."""

    def kill(self) -> None:
        """Kill the process; the next command gets a new one."""
        os.kill(self._pid, signal.SIGKILL)

    def communicate(self) -> None:
        """Wait for the end of its output; it stays a zombie until its parent reaps it."""
        assert self.stdout
        self.stdout.read()


def _become(arguments: list[str], environment: dict[str, str], folder: str, out: str, err: str) -> None:
    """Run the command in this fork, then end."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    for path, flags, number in (
        (os.devnull, os.O_RDONLY, 0),
        (out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 1),
        (err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 2),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # Make tempfile look up its folder again, in this environment.
    sys.argv = ["bufferlab", *arguments]
    from bufferlab.cli.entry import main
    from bufferlab.results import decoding

    code = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    if any(isinstance(child, _Shared) for child in decoding._children):
        decoding._children.clear()
    # Do what Python does at its end, except for freeing every module, which takes as long as a short command.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()
