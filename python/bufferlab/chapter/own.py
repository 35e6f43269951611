"""What an engine adds to a report: chapters of its own, and an answer in place of the headline's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.blocks import Section
from bufferlab.results.check import MeasuredRun

Chapter = Callable[[Analysis], Section | None]


@dataclass(frozen=True)
class OwnChapters:
    """The chapters of an engine. They take the analysis of a sweep on that engine."""

    answering: tuple[Chapter, ...] = ()
    """Those that answer a question of their own; they come first."""
    inside: tuple[Chapter, ...] = ()
    """What the engine did, after the chapters on what was asked."""
    answer: Callable[[Analysis], list[str]] = lambda analysis: []
    """Sentences in place of those on the headline; none where the sweep asks for nothing else."""
    answers_in: str = ""
    """Id of the section that those sentences tell of."""
    limits: Callable[[Sequence[MeasuredRun]], list[str]] = lambda runs: []
    """What the settings of these runs leave out of an answer, each in a sentence."""
    bytes_written: Callable[[Sequence[MeasuredRun]], list[str]] = lambda runs: []
    """The files whose bytes written are counted together, where they are not the database alone."""
    figure: Callable[[Analysis], str | None] = lambda analysis: None
    """The metric whose figure stands beside the answer, where it is not the headline."""
