"""Chapters of a report: the findings of a sweep beyond its table of numbers.

A chapter takes the analysis and returns a section, or None where the sweep has no such data.
"""

from __future__ import annotations

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.engine_chapters import Chapter
from bufferlab.chapter.time_series import time_series
from bufferlab.engines import registry as engines
from bufferlab.report.chapters.best import best
from bufferlab.report.chapters.block_trace import block_trace
from bufferlab.report.chapters.concurrency import concurrency
from bufferlab.report.chapters.cost_of_pages import cost_of_pages, query_cost
from bufferlab.report.chapters.expected_reads import expected_reads
from bufferlab.report.chapters.hosts import hosts
from bufferlab.report.chapters.knee import knee
from bufferlab.report.chapters.latency_rate import latency_rate
from bufferlab.report.chapters.noise_floor import noise_floor
from bufferlab.report.chapters.other_pools import other_pools
from bufferlab.report.chapters.without_a_run import without_a_run
from bufferlab.report.predicted import predicted, predictions


def chapters_of(analysis: Analysis) -> tuple[Chapter, ...]:
    """Return every chapter, in the order in which a report shows them, with those of the engine that ran.

    A predicted sweep has only its own chapter: the others are about time, writes, and differences between runs.
    """
    if predictions(analysis):
        return (predicted,)
    own = engines.chapters(analysis.engine)
    return (
        knee,
        concurrency,
        *own.answering,
        *(query_cost, expected_reads, latency_rate, best, other_pools, without_a_run, cost_of_pages),
        *own.inside,
        *(hosts, block_trace, time_series, noise_floor),
    )
