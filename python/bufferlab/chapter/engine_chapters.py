"""An engine's additions to a report: its chapters, and an answer in place of the headline's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Section
from bufferlab.results.check_parts import MeasuredRun

Chapter = Callable[[Analysis], Section | None]


@dataclass(frozen=True)
class EngineChapters:
    """An engine's chapters and other additions; its functions take the analysis, or the runs, of a sweep on it."""

    answering: tuple[Chapter, ...] = ()
    """Chapters that answer another question than the headline's; they come first."""
    inside: tuple[Chapter, ...] = ()
    """Chapters on the engine's own work; they follow the chapters that answer the experiment's question."""
    answer: Callable[[Analysis], list[str]] = lambda analysis: []
    """Return sentences in place of those on the headline; none if the sweep asks only for the headline."""
    answers_in: Callable[[Analysis], str] = lambda analysis: ""
    """Return the id of the section that holds the figures for the sentences of `answer`."""
    limits: Callable[[Sequence[MeasuredRun]], list[str]] = lambda runs: []
    """Return sentences on the parts of an answer that the settings of these runs leave out."""
    bytes_written: Callable[[Sequence[MeasuredRun]], list[str]] = lambda runs: []
    """Return the files whose written bytes are counted together; none if they are only those of the database."""
    figure: Callable[[Analysis], str | None] = lambda analysis: None
    """Return the metric whose figure the answer shows; None for the headline's figure."""
