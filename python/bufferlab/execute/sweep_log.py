"""Writes bufferlab.log in a sweep's folder: the decisions during its runs and the messages, with the time.

Entries made before the folder exists are buffered, and written first. The log is for people; no command reads it.
`--debug` shows the same entries, and more, on the terminal.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import MemoryHandler
from pathlib import Path
from typing import TextIO

from bufferlab.errors import EnvironmentLackingError, Problem
from bufferlab.execute.progress import Progress, Standing, SweepStatus
from bufferlab.texts import printable, without_password

NAME = "bufferlab.log"
LOG = logging.getLogger("bufferlab")
_HELD = 1000
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LoggedProgress:
    """A progress display whose lines are also logged."""

    def __init__(self, shown: Progress, handler: MemoryHandler) -> None:
        self._shown, self._handler, self._has_failed = shown, handler, False

    def keep_in(self, folder: Path) -> None:
        """Write the entries so far, and later ones, to the end of the folder's log.

        Raises EnvironmentLackingError if it cannot be written.
        """
        try:
            descriptor = os.open(folder / NAME, _APPEND, 0o666)
        except OSError as error:
            what = f"the sweep's log cannot be written: {error.strerror}"
            raise EnvironmentLackingError(what, str(folder / NAME), "move what is there away") from error
        lines = _Lines(os.fdopen(descriptor, "a", encoding="utf-8", errors="replace"))
        lines.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self._handler.setTarget(lines)
        self._handler.flush()
        self._handler.capacity = 0  # From now on write each line at once: the process may be killed.

    def show(self, status: SweepStatus) -> None:
        """Show the state of the sweep on the display; it is not logged."""
        self._shown.show(status)

    def look(self, standing: Standing) -> None:
        """Show the preliminary answer. If that fails, the sweep goes on, and a warning is shown once."""
        try:
            self._shown.look(standing)
        except Exception as error:
            LOG.debug("the answer so far:", exc_info=True)
            if not self._has_failed:
                self._has_failed = True
                self.warn(Problem(f"the answer so far cannot be shown: {error}", str(standing.folder.path), None))

    def say(self, text: str) -> None:
        """Log a text, and show it on a separate line."""
        LOG.info("%s", text)
        self._shown.say(text)

    def warn(self, problem: Problem) -> None:
        """Log and show a problem that did not stop the sweep."""
        LOG.info("warning: %s (%s)", problem.what, problem.where)
        self._shown.warn(problem)


class _Lines(logging.StreamHandler[TextIO]):
    """A logging handler that writes a line for each record, without passwords."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(without_password(super().format(record))).replace("\n", " ")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name.
        """Drop the line: a full disk must not cost a run."""


@contextmanager
def sweep_log(progress: Progress) -> Iterator[LoggedProgress]:
    """Context manager for the log of one sweep, which collects entries from now on; yields the display that logs."""
    handler = MemoryHandler(_HELD, flushLevel=logging.CRITICAL + 1)
    handler.setLevel(logging.INFO)
    level = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(min(LOG.getEffectiveLevel(), logging.INFO))
    try:
        yield LoggedProgress(progress, handler)
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
        lines = handler.target
        handler.close()
        if isinstance(lines, _Lines):
            lines.stream.close()
