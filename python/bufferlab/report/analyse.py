"""Reads a sweep into its analysis, with its workload's question; and finds the chapters that its engine adds."""

from __future__ import annotations

from bufferlab.chapter.analysis import Analysis, Question
from bufferlab.chapter.engine_chapters import EngineChapters
from bufferlab.engines import registry as engines
from bufferlab.results.store import SweepFolder
from bufferlab.workloads import registry as workloads


def analysis_of(sweep: SweepFolder) -> Analysis:
    """Return the analysis of a sweep's runs."""
    return Analysis.of(sweep, _question_of)


def own_chapters(analysis: Analysis) -> EngineChapters:
    """Return the chapters of the engine that ran; none where no run ended well."""
    return engines.chapters(analysis.runs[0].run.engine) if analysis.runs else EngineChapters()


def _question_of(workload: str) -> Question | None:
    return workloads.declaration(workload) if workload in workloads.names() else None
