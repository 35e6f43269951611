"""The progress of a sweep, for its display: the stage, the completed fraction, and the time left. Draws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bufferlab.errors import Problem

if TYPE_CHECKING:
    from bufferlab.results.store import RunRecord, SweepFolder


@dataclass(frozen=True)
class SweepStatus:
    """The state of a sweep at one moment."""

    stage: str
    """The stage in words, such as "copying", "warming up" or "measuring 40%"."""
    run: int
    """The number of the run, from 1; 0 before the first run."""
    runs: int
    label: str
    done: float
    """The completed fraction of the whole sweep by time, 0 to 1."""
    seconds_left: float


@dataclass(frozen=True)
class Standing:
    """The results of a sweep so far: its folder, with the predictions in it, and its runs."""

    folder: SweepFolder
    runs: Sequence[RunRecord]
    seconds_left: float
    silence_s: float
    """The longest expected wait for the next results, in seconds.

    After a longer silence the sweep was probably killed.
    """


class Progress(Protocol):
    """A display of a sweep's progress. Its methods must return quickly."""

    def show(self, status: SweepStatus) -> None:
        """Show the state; the sweep calls this a few times a second."""

    def look(self, standing: Standing) -> None:
        """Show the preliminary answer; the sweep calls this before its first run and between runs."""

    def say(self, text: str) -> None:
        """Show a text on a separate line."""

    def warn(self, problem: Problem) -> None:
        """Show a problem that did not stop the sweep but that the user should know."""


class Silent:
    """A display that shows nothing."""

    def show(self, status: SweepStatus) -> None:
        """Show nothing."""

    def look(self, standing: Standing) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""

    def warn(self, problem: Problem) -> None:
        """Show nothing."""


@dataclass
class Pace:
    """The pace of a sweep, from which the time left is computed: first estimated, then measured on finished runs."""

    load_seconds: float
    run_seconds: float
    runs: int
    finished_s: list[float] = field(default_factory=list)
    by_point_s: dict[int, float] = field(default_factory=dict)

    def finish(self, point: int, seconds: float) -> None:
        """Record how many seconds a finished run of a point took."""
        self.finished_s.append(seconds)
        self.by_point_s[point] = seconds

    def expected(self, point: int) -> float:
        """Return the expected seconds of a run of a point.

        It is the time of the point's last run, else the mean of all runs so far, else the estimate.
        """
        if point in self.by_point_s:
            return self.by_point_s[point]
        if self.finished_s:
            return sum(self.finished_s) / len(self.finished_s)
        return self.run_seconds

    @property
    def longest_s(self) -> float:
        """Return the seconds of the longest run so far; the estimate before any has finished."""
        return max(self.finished_s, default=self.run_seconds)

    def left(self, point: int, later: Sequence[int], now_s: float, stage_left_s: float) -> float:
        """Return the seconds until the sweep ends, `now_s` into a run of `point` whose stage needs `stage_left_s` more.

        Before any run has finished, every later run is expected to take as long as this one.
        """
        this_s = max(self.expected(point), now_s + stage_left_s)
        like_this = not self.finished_s
        return this_s - now_s + sum(this_s if like_this else self.expected(other) for other in later)
