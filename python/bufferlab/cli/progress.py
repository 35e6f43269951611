"""Shows a sweep's progress on standard error: a live bar on a terminal, else a plain line every five seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from bufferlab.cli.output import say, unheard
from bufferlab.errors import Problem, runnable
from bufferlab.execute.progress import SweepStatus
from bufferlab.texts import printable
from bufferlab.units import format_duration

_PLAIN_INTERVAL_SECONDS = 5.0


class _Shown(Protocol):
    def show(self, status: SweepStatus) -> None: ...
    def say(self, text: str) -> None: ...
    def warn(self, problem: Problem) -> None: ...


@contextmanager
def progress() -> Iterator[_Shown]:
    """Context manager for the display of progress: a live bar if standard error is a terminal, else plain lines."""
    if sys.stderr.isatty():
        with _live() as shown:
            yield shown
    else:
        yield PlainProgress()


class PlainProgress:
    """A display in plain lines, as for a log: at most one state every five seconds, and every event."""

    def __init__(self) -> None:
        self._last = -_PLAIN_INTERVAL_SECONDS

    def show(self, status: SweepStatus) -> None:
        """Print the state, unless one was printed in the last five seconds."""
        now = time.monotonic()
        if now - self._last >= _PLAIN_INTERVAL_SECONDS:
            self._last = now
            self.say(describe(status))

    def say(self, text: str) -> None:
        """Print one line."""
        say(text)

    def warn(self, problem: Problem) -> None:
        """Print a problem that did not stop the sweep."""
        self.say(problem.render().replace("error:", "warning:", 1))


def describe(status: SweepStatus) -> str:
    """Return the state in one line."""
    run = f"run {status.run} of {status.runs}: {status.label}: " if status.run else ""
    return f"{run}{status.stage} ({status.done:.0%}, about {format_duration(status.seconds_left)} left)"


@contextmanager
def _live() -> Iterator[_Shown]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[left]}"),
        console=console,
        transient=True,
        # Every redraw is asked for when something changed; a clock would redraw the same text ten times a second.
        auto_refresh=False,
    )
    with bar:
        yield _LiveProgress(bar, bar.add_task("starting", total=1.0, left=""), PlainProgress())


class _LiveProgress:
    """A live bar at the bottom of the terminal; lines scroll above it."""

    def __init__(self, bar: object, task: object, plain: PlainProgress) -> None:
        from rich.progress import Progress, TaskID

        assert isinstance(bar, Progress)
        assert isinstance(task, int)
        self._bar, self._task, self._plain = bar, TaskID(task), plain
        self._drawn: tuple[str, str, str] | None = None

    def show(self, status: SweepStatus) -> None:
        run = f"run {status.run}/{status.runs} {status.label}: " if status.run else ""
        description = printable(f"{run}{status.stage}")
        left = f"about {format_duration(status.seconds_left)} left"
        # The bar's 24 cells move in halves, which are coarser than the per cents after it.
        drawn = (description, f"{status.done:.0%}", left)
        if drawn != self._drawn:
            self._drawn = drawn
            with unheard():
                self._bar.update(self._task, completed=status.done, description=description, left=left, refresh=True)

    def say(self, text: str) -> None:
        # rich prints text from its own console above the bar.
        with unheard():
            self._bar.console.print(printable(runnable(text)), highlight=False, markup=False)

    def warn(self, problem: Problem) -> None:
        self.say(problem.render().replace("error:", "warning:", 1))
