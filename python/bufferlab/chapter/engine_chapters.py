"""An engine's additions to a report: its chapters, and an answer in place of the headline's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Section
from bufferlab.results.check import MeasuredRun

Chapter = Callable[[Analysis], Section | None]


@dataclass(frozen=True)
class EngineChapters:
    """The chapters of an engine. They take the analysis of a sweep on that engine."""

    answering: tuple[Chapter, ...] = ()
    """Chapters that answer another question than the headline's; they come first."""
    inside: tuple[Chapter, ...] = ()
    """Chapters on the engine's own work; they follow the chapters that answer the experiment's question."""
    answer: Callable[[Analysis], list[str]] = lambda analysis: []
    """Return sentences in place of those on the headline; none where the sweep asks only for the headline."""
    answers_in: str = ""
    """Id of the section that holds the figures of those sentences."""
    limits: Callable[[Sequence[MeasuredRun]], list[str]] = lambda runs: []
    """Return sentences on the parts of an answer that the settings of these runs leave out."""
    bytes_written: Callable[[Sequence[MeasuredRun]], list[str]] = lambda runs: []
    """Return the files whose bytes written are counted together, where they are more than the database."""
    figure: Callable[[Analysis], str | None] = lambda analysis: None
    """Return the metric whose figure the answer shows, where it is not the headline."""
