"""An engine's additions to a report: its chapters, and an answer that replaces the headline metric's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Section
from bufferlab.results.check_parts import MeasuredRun

Chapter = Callable[[Analysis], Section | None]


@dataclass(frozen=True)
class EngineChapters:
    """An engine's chapters and other additions. The functions take the analysis, or the runs, of a sweep on it."""

    answering: tuple[Chapter, ...] = ()
    """Chapters that answer other questions than the headline metric does; they come first."""
    inside: tuple[Chapter, ...] = ()
    """Chapters on the engine's internal work; they follow the chapters that answer the experiment's question."""
    answer: Callable[[Analysis], list[str]] = lambda analysis: []
    """Return sentences that replace those on the headline metric; [] if the sweep examines only that metric."""
    answers_in: Callable[[Analysis], str] = lambda analysis: ""
    """Return the id of the section with the figures that belong to the sentences of `answer`."""
    limits: Callable[[Sequence[MeasuredRun]], list[str]] = lambda runs: []
    """Return the limits of an answer, in sentences, that follow from the settings of these runs."""
    bytes_written: Callable[[Sequence[MeasuredRun]], list[str]] = lambda runs: []
    """Return the kinds of files whose written bytes are counted together; [] if only the database's are counted."""
    figure: Callable[[Analysis], str | None] = lambda analysis: None
    """Return the name of the metric whose figure the answer shows; None for the headline metric's."""
