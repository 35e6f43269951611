"""Shows a sweep's progress on standard error: a live bar on a terminal, else a plain line every five seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from bufferlab.cli.output import say, unheard
from bufferlab.errors import Problem, runnable
from bufferlab.execute.progress import Progress, Standing, SweepStatus
from bufferlab.texts import printable
from bufferlab.units import format_duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from bufferlab.chapter.elements import Row
    from bufferlab.report.document import Report
    from bufferlab.report.running import Running

_PLAIN_INTERVAL_SECONDS = 5.0
_BAR, _BAR_LINES = 24, 3
"""The width of the bar in characters, and the maximum number of lines of bar and sweep's state together."""
_WIDTH = 80
"""The width, in characters, of the table before the first run if standard error is not a terminal."""


class _SoFar:
    """The maker of a sweep's answers while it runs. It also writes each answer as the page in the sweep's folder."""

    def __init__(self) -> None:
        self._running: Running | None = None

    def answer(self, standing: Standing) -> Report:
        """Return the answer from the runs so far, and write its page."""
        from bufferlab.report.running import Running, write_page  # Imported late, because it loads every metric.

        self._running = self._running or Running()
        answer = self._running.answer(standing.folder, standing.runs, standing.seconds_left)
        write_page(answer, standing.folder, standing.silence_s)
        return answer


@contextmanager
def progress() -> Iterator[Progress]:
    """Context manager for the display of progress: a live bar if standard error is a terminal, else plain lines."""
    if sys.stderr.isatty():
        with _live() as shown:
            yield shown
    else:
        yield PlainProgress()


class PlainProgress:
    """A display in plain lines, for logs: every event, and at most one state per _PLAIN_INTERVAL_SECONDS."""

    def __init__(self) -> None:
        self._last = -_PLAIN_INTERVAL_SECONDS
        self._so_far = _SoFar()

    def show(self, status: SweepStatus) -> None:
        """Print the state, unless one was printed in the last _PLAIN_INTERVAL_SECONDS."""
        now = time.monotonic()
        if now - self._last >= _PLAIN_INTERVAL_SECONDS:
            self._last = now
            self.say(describe(status))

    def look(self, standing: Standing) -> None:
        """Write the page of the answer so far. Before the first run, also print the predictions, if there are any."""
        answer = self._so_far.answer(standing)
        if not standing.runs:
            from bufferlab.report.terminal import text

            if told := text(answer, _WIDTH):
                self.say(told)

    def say(self, text: str) -> None:
        """Print one line."""
        say(text)

    def warn(self, problem: Problem) -> None:
        """Print a warning about a problem that did not stop the sweep."""
        self.say(problem.render().replace("error:", "warning:", 1))


def describe(status: SweepStatus) -> str:
    """Return the state of a sweep in one line."""
    run = f"run {status.run} of {status.runs}: {status.label}: " if status.run else ""
    return f"{run}{status.stage} ({status.done:.0%}, about {format_duration(status.seconds_left)} left)"


@contextmanager
def _live() -> Iterator[Progress]:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    # Redraw only when something has changed: automatic refresh would redraw the same text ten times a second.
    with Live(console=console, transient=True, auto_refresh=False, vertical_overflow="crop") as live:
        yield _LiveProgress(live)


class _LiveProgress:
    """A display of the answer so far and of a bar at the bottom of the terminal; lines scroll above both."""

    def __init__(self, live: Live) -> None:
        self._live, self._plain, self._so_far = live, PlainProgress(), _SoFar()
        self._state = ("starting", 0.0, "")
        self._drawn: tuple[str, str, str] | None = None
        self._answer: RenderableType = ""
        self._rows: Sequence[Row] = ()

    def show(self, status: SweepStatus) -> None:
        run = f"run {status.run}/{status.runs} {status.label}: " if status.run else ""
        description = printable(f"{run}{status.stage}")
        left = f"about {format_duration(status.seconds_left)} left"
        # Redraw if one of these texts changes. The bar's 24 cells change in half steps, so whole per cents are precise
        # enough.
        drawn = (description, f"{status.done:.0%}", left)
        if drawn != self._drawn:
            self._drawn, self._state = drawn, (description, status.done, left)
            self._draw()

    def look(self, standing: Standing) -> None:
        self._answer = self._lines(self._so_far.answer(standing))
        self._draw()

    def say(self, text: str) -> None:
        # rich prints text of this console above the bar.
        with unheard():
            self._live.console.print(printable(runnable(text)), highlight=False, markup=False)

    def warn(self, problem: Problem) -> None:
        self.say(problem.render().replace("error:", "warning:", 1))

    def _draw(self) -> None:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table as Grid
        from rich.text import Text

        description, done, left = self._state
        bar = Grid.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=1.0, completed=done, width=_BAR), Text(f"{100 * done:>3.0f} %  {left}"))
        with unheard():
            self._live.update(Group(self._answer, Text(description), bar), refresh=True)

    def _lines(self, answer: Report) -> RenderableType:
        """Return an answer, rendered once for many redraws.

        If the terminal has too few lines for the table, show the rows around the row that changed.
        """
        from rich.segment import Segment, Segments

        from bufferlab.chapter.elements import Table
        from bufferlab.report.terminal import drawn

        console, (table,) = self._live.console, (one for one in answer.blocks if isinstance(one, Table))
        changed = next((place for place, row in enumerate(table.rows) if row not in self._rows), 0)
        self._rows = table.rows
        rows, lines = len(table.rows), console.render_lines(drawn(answer), pad=False)
        room = console.height - _BAR_LINES
        while len(lines) > room and rows > 1:
            rows = max(1, min(rows - 1, rows * room // len(lines)))
            first = max(0, min(changed - rows // 2, len(table.rows) - rows))
            shown = replace(table, rows=table.rows[first : first + rows])
            part = replace(answer, sections=(replace(answer.sections[0], blocks=(shown,)),))
            lines = console.render_lines(drawn(part), pad=False)
        return "" if len(lines) > room else Segments([one for line in lines for one in (*line, Segment.line())])
