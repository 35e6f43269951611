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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

_LIBRARIES = (
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "polars",
    "scipy.special",
    "jinja2",
    "rich.progress",
)
_LAST_WORDS_S = 2.0
_BEGIN_S = 60.0


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


def start(arguments: Sequence[str | Path], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start `bufferlab ARGUMENTS` in this folder, in the background; its output is piped."""
    words = [str(argument) for argument in arguments]
    if os.environ.get("BUFFERLAB_TEST_COMMANDS") == "exec":
        return start_afresh(words, environment)
    (from_out, out), (from_err, err) = os.pipe(), os.pipe()
    try:
        pid = _prepared().start(words, environment, Path.cwd(), out, err)
    finally:
        os.close(out)
        os.close(err)
    return _Started(words, pid, from_out, from_err)


def start_afresh(arguments: Sequence[str | Path], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start the same command from the beginning, as a user does: its workers are programs of their own."""
    return subprocess.Popen(
        [sys.executable, "-m", "bufferlab", *map(str, arguments)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class _Started(subprocess.Popen[str]):
    """A child that this process adopted, in place of one that it started."""

    def __init__(self, arguments: Sequence[str], pid: int, out: int, err: int) -> None:
        self.args, self.pid, self.returncode = ["bufferlab", *arguments], pid, None
        self.stdin, self.stdout, self.stderr = None, os.fdopen(out), os.fdopen(err)
        self.text_mode, self.encoding, self.errors = True, None, None
        self._child_created, self._communication_started, self._input = True, False, None
        self._waitpid_lock, self._sigint_wait_secs = threading.Lock(), 0.25


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
        answers = self._asked([list(arguments), dict(environment), str(folder), str(out), str(err)])
        if not select.select([answers], [], [], timeout_s)[0]:
            for child in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGABRT)  # faulthandler writes the tracebacks of its threads.
            select.select([answers], [], [], _LAST_WORDS_S)
            self.end()
            raise subprocess.TimeoutExpired(["bufferlab", *arguments], timeout_s, out.read_bytes(), err.read_bytes())
        code, peak_kib, seconds = answers.readline().split()
        return Ended(int(code), int(peak_kib) * 1024, float(seconds))

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, out: int, err: int) -> int:
        """Start a command that writes to these descriptors of ours; return its number. It is a child of this process,
        and others can be run beside it."""
        from support.forked import adopt_orphans

        ours = f"/proc/{os.getpid()}/fd"
        adopt_orphans(True)
        try:
            words = [list(arguments), dict(environment), str(folder), f"{ours}/{out}", f"{ours}/{err}", os.getpid()]
            answers = self._asked(words)
            # A fork that fails before its command begins writes no number.
            assert select.select([answers], [], [], _BEGIN_S)[0], f"no process for {words[0]}"
            return int(answers.readline())
        finally:
            adopt_orphans(False)

    def _asked(self, words: list[object]) -> IO[str]:
        asks, answers = self._process.stdin, self._process.stdout
        assert asks
        assert answers
        if not self._is_ready:
            self._is_ready = bool(answers.readline())
        asks.write(json.dumps(words) + "\n")
        asks.flush()
        return answers

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
        if len(words := json.loads(line)) == 6:
            _begin(*words)
            continue
        if decoder is None or decoder.poll() is not None:
            decoder = decoding._started()
            decoding._children[:] = [_Shared(decoder)]  # type: ignore[list-item]
        child = os.fork()
        if child == 0:
            _become(*words)
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


def _begin(arguments: list[str], environment: dict[str, str], folder: str, out: str, err: str, parent: int) -> None:
    """Fork a command that `parent` adopts; it writes its number when its output is open."""
    from bufferlab.results import decoding
    from support.forked import wait_for_parent

    between = os.fork()
    if between == 0:
        if os.fork() == 0:
            wait_for_parent(parent)
            decoding._children.clear()  # Commands that run at once have decoders of their own.
            _become(arguments, environment, folder, out, err, lambda: os.write(1, f"{os.getpid()}\n".encode()))
        os._exit(0)
    os.waitpid(between, 0)


def _become(
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    out: str,
    err: str,
    begun: Callable[[], object] = lambda: None,
) -> None:
    """Run the command in this fork, then end."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    for_writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    opened = [os.open(os.devnull, os.O_RDONLY), os.open(out, for_writing, 0o600), os.open(err, for_writing, 0o600)]
    begun()
    for number, descriptor in enumerate(opened):
        os.dup2(descriptor, number)
        os.close(descriptor)
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
