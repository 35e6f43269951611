"""Runs a server's program to get its version, and finds the program that a script starts.

A program is not trusted: it gets ten seconds, its output is limited in size, and its children are killed. A process of
bufferlab runs each program only once. No database is started.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from bufferlab.engines.servers.child_process import MissingLibraryError, environment, loaded, missing_library
from bufferlab.engines.servers.user import require_runnable, server_user
from bufferlab.errors import EnvironmentLackingError
from bufferlab.procfs import processes, stat_fields

_SECONDS = 10.0
_NAP_SECONDS = 0.02
_MOST_BYTES = 64 << 10
_ELF = b"\x7fELF"
_BLOCKED = "pipe_write"
"""The kernel function in which a process waits that writes to a full pipe.

/proc/PID/wchan shows it; it is anon_pipe_write in later kernels.
"""


def what_it_says(binary: Path, libraries: Path | None, *arguments: str) -> str:
    """Run a binary as the user that servers run as, and return its output.

    Raise EnvironmentLackingError if it cannot be run or takes longer than ten seconds, MissingLibraryError if it lacks
    a shared library.
    """
    if not binary.is_file():
        raise EnvironmentLackingError("this is not a program", str(binary), "name a server's binary, or its folder")
    require_runnable(binary, server_user())
    text = _said(binary, binary.stat().st_mtime_ns, libraries, arguments)
    if library := missing_library(text):
        raise MissingLibraryError(library, binary)
    return text


def program_behind(binary: Path, *arguments: str) -> Path:
    """Return `binary` if it is a program; for a script, return the program that answers if the script gets these
    arguments.

    Raise EnvironmentLackingError for a script that answers itself, or whose program is not found within ten seconds.
    """
    require_runnable(binary, server_user())
    with binary.open("rb") as file:
        if file.read(len(_ELF)) == _ELF:
            return binary
    found = _behind(binary, binary.stat().st_mtime_ns, arguments)
    if found is None:
        what = "this is a script, and which server it starts cannot be told"
        raise EnvironmentLackingError(what, str(binary), "name the server's own binary")
    return found


@cache
def _said(binary: Path, changed_ns: int, libraries: Path | None, arguments: tuple[str, ...]) -> str:
    """Return the output of a program; `changed_ns` distinguishes a file from an earlier one of the same name.

    Raises EnvironmentLackingError if it cannot be run or takes longer than ten seconds.
    """
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as answer, _running(binary, libraries, arguments, writing) as process:
        os.set_blocking(answer.fileno(), False)
        text, deadline_s = b"", time.monotonic() + _SECONDS
        while len(text) < _MOST_BYTES:
            has_ended = process.poll() is not None
            select.select([answer], [], [], 0 if has_ended else _NAP_SECONDS)
            piece = answer.read(_MOST_BYTES)
            if piece == b"" or (has_ended and piece is None):
                # The program has ended, but one of its children may keep the pipe open for ever.
                break
            text += piece or b""
            if time.monotonic() > deadline_s:
                what = f"it did not tell its version in {_SECONDS:.0f} s"
                raise EnvironmentLackingError(what, str(binary), "is this a database server?")
    return text.decode("utf-8", "replace")


@cache
def _behind(script: Path, changed_ns: int, arguments: tuple[str, ...]) -> Path | None:
    """Return the program that writes a script's answer; None if it is not found.

    The script's output is a full pipe, so that the program that answers blocks when it writes, and can be examined.
    """
    reading, writing = os.pipe()
    with open(reading, "rb"):
        _fill(writing)
        with _running(script, None, arguments, writing) as process:
            deadline_s = time.monotonic() + _SECONDS
            while process.poll() is None and time.monotonic() < deadline_s:
                for pid in _group(process.pid):
                    with suppress(OSError):
                        if (Path("/proc") / str(pid) / "wchan").read_text().endswith(_BLOCKED):
                            program = Path(os.readlink(f"/proc/{pid}/exe"))
                            return None if _is_interpreter(program, script) else program
                time.sleep(_NAP_SECONDS)
    return None


@contextmanager
def _running(
    binary: Path, libraries: Path | None, arguments: tuple[str, ...], output: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program as the servers' user, with its output to a pipe, as a context manager; leaving kills its group.

    Raises EnvironmentLackingError if it cannot be run.
    """
    user = server_user()
    uid, gid = user or (None, None)
    try:
        process = subprocess.Popen(
            loaded([str(binary), *arguments], libraries),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment(libraries)),
            user=uid,
            group=gid,
            extra_groups=None if user is None else (),
            start_new_session=True,
        )
    except OSError as error:
        hint = "choose another build, or: bufferlab engines"
        raise EnvironmentLackingError(f"the server cannot be run: {error.strerror}", str(binary), hint) from error
    finally:
        os.close(output)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _fill(pipe: int) -> None:
    """Fill a pipe, so that a process that writes into it blocks."""
    os.set_blocking(pipe, False)
    size_bytes = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe, bytes(size_bytes))
    os.set_blocking(pipe, True)


def _group(leader: int) -> Iterator[int]:
    """Yield the PIDs of the process group that `leader` leads."""
    for pid in processes():
        with suppress(OSError, ValueError, IndexError):
            if int(stat_fields(pid)[2]) == leader:
                yield pid


def _is_interpreter(program: Path, script: Path) -> bool:
    """Return whether this program is the script's interpreter, which means that the script itself answers."""
    with script.open("rb") as file:
        first = file.readline(4096)
    words = first.removeprefix(b"#!").split()
    named = {Path(os.fsdecode(word)).resolve() for word in words if word.startswith(b"/")}
    return not first.startswith(b"#!") or program.resolve() in named
