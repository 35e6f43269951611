"""What a sweep tells whoever watches: the stage it is in, how far, and how long is left. No drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bufferlab.errors import Problem


@dataclass(frozen=True)
class Status:
    """Where the sweep is now."""

    stage: str
    """"loading", "copying", "warming up", "measuring", "checking"."""
    run: int
    """From 1; 0 before the first run."""
    runs: int
    label: str
    done: float
    """Share of the whole sweep that is done, 0-1, by time."""
    seconds_left: float


class Progress(Protocol):
    """Told by the sweep; must return quickly."""

    def show(self, status: Status) -> None:
        """The state now; called a few times a second."""
        ...

    def say(self, text: str) -> None:
        """Something worth a line of its own."""
        ...

    def warn(self, problem: Problem) -> None:
        """Something that did not stop the sweep and that the user should know."""
        ...


class Silent:
    """Nobody watches."""

    def show(self, status: Status) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def warn(self, problem: Problem) -> None:
        """Nothing."""


@dataclass
class Pace:
    """How long is left: the estimate for what was not done yet, the clock for what was."""

    load_seconds: float
    run_seconds: float
    runs: int
    finished_s: list[float] = field(default_factory=list)
    by_point_s: dict[int, float] = field(default_factory=dict)

    def finish(self, point: int, seconds: float) -> None:
        """A run of that point took so long."""
        self.finished_s.append(seconds)
        self.by_point_s[point] = seconds

    def expected(self, point: int) -> float:
        """Seconds a run of that point should take: as its last one, else as the mean so far, else as estimated."""
        if point in self.by_point_s:
            return self.by_point_s[point]
        if self.finished_s:
            return sum(self.finished_s) / len(self.finished_s)
        return self.run_seconds

    def left(self, point: int, later: Sequence[int], now_s: float, stage_left_s: float) -> float:
        """Seconds until the sweep ends, `now_s` into a run of `point` whose stage needs `stage_left_s` more.

        A run that takes longer than expected is then expected of those runs too that nothing else is known of.
        """
        this_s = max(self.expected(point), now_s + stage_left_s)
        like_this = not self.finished_s
        return this_s - now_s + sum(this_s if like_this else self.expected(other) for other in later)
