"""One call of the command line in this process, judged by the promises that the documents make for every command.

Promised are a documented exit code, no traceback, no control characters on the terminal, an end in bounded time and
memory, and JSON that can be parsed.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
import signal
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from bufferlab.cli import app

CPU_SECONDS = 10.0
MORE_MEMORY_BYTES = 2 << 30
DOCUMENTED = (0, 1, 2, 3, 65)
# Tab and line feed belong to text; every other control character of ISO 6429 can control a terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BUG = re.compile(r"a bug in bufferlab: (\w+)")


class TooLong(BaseException):
    """The processor time of one call is used up. This is not an Exception, so that no command catches it."""


@dataclass(frozen=True)
class Outcome:
    """The end of one call: its exit code, None if an exception escaped, and its faults."""

    code: int | None
    wrong: tuple[str, ...] = ()
    detail: str = ""


def limit_memory() -> None:
    """Allow this process a fixed amount of memory more than it has mapped now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + MORE_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def call(arguments: Sequence[str], cpu_seconds: float = CPU_SECONDS) -> Outcome:
    """Run `bufferlab ARGUMENTS` in this process and judge how it ended."""
    out, err = io.StringIO(), io.StringIO()
    code: int | None = None
    wrong: list[str] = []
    detail = ""
    before = signal.signal(signal.SIGPROF, _too_long)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
            try:
                code = app.run(arguments)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
    except TooLong as error:
        wrong, detail = [f"took more than {cpu_seconds:g} s of processor time{_place(error)}"], traceback.format_exc()
    except BaseException as error:
        # The exception may be a Rust panic, a SystemExit or a RecursionError.
        wrong, detail = [f"{type(error).__name__} came out of the command{_place(error)}"], traceback.format_exc()
    finally:
        signal.signal(signal.SIGPROF, before)
    wrong += faults(code, out.getvalue(), err.getvalue(), as_json="--json" in arguments)
    return Outcome(code, tuple(wrong), f"{detail}\n--- stdout\n{out.getvalue()}\n--- stderr\n{err.getvalue()}")


def faults(code: int | None, out: str, err: str, *, as_json: bool = False) -> list[str]:
    """Return the faults of a finished command: in its exit code and both of its streams."""
    wrong = []
    if code is not None and code not in DOCUMENTED:
        bug = _BUG.search(err)
        where = re.search(r"where: \S*?([^/\s]+/[^/\s]+:\d+)", err)
        wrong.append(f"exit {code}" + (f": {bug[1]} at {where[1]}" if bug and where else ""))
    if "Traceback (most recent call last)" in err or "panicked at" in err:
        wrong.append("a traceback on standard error")
    for stream, text in (("standard output", out), ("standard error", err)):
        if _CONTROL.search(text):
            wrong.append(f"a control character on {stream}")
    if as_json and code == 0:
        try:
            json.loads(out)
        except ValueError:
            wrong.append("standard output is not JSON")
    return wrong


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise TooLong


def _place(error: BaseException) -> str:
    """Return the innermost line of bufferlab in a traceback, so that equal findings have equal names."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/python/bufferlab/" in frame.filename]
    if not frames:
        return ""
    file = frames[-1].filename
    return f" at {file[file.rindex('/bufferlab/') + 1 :]}:{frames[-1].lineno}"
