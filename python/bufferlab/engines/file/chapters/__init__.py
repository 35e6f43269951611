"""What random reads of a bare file add to a report: what a read costs, and which factor does what."""

from __future__ import annotations

from bufferlab.chapter.own import OwnChapters
from bufferlab.engines.file.chapters.costs import random_reads
from bufferlab.engines.file.chapters.factors import answer, asked_figure, factors

CHAPTERS = OwnChapters(inside=(factors, random_reads), answer=answer, answers_in="factors", figure=asked_figure)
