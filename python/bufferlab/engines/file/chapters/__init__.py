"""The chapters that random reads of a bare file add to a report: the cost of a read, and the effect of each factor."""

from __future__ import annotations

from bufferlab.chapter.engine_chapters import EngineChapters
from bufferlab.engines.file.chapters.costs import random_reads
from bufferlab.engines.file.chapters.factors import answer, asked_figure, factors

CHAPTERS = EngineChapters(inside=(factors, random_reads), answer=answer, answers_in="factors", figure=asked_figure)
