"""The chapters of a report: the findings of a sweep beyond its main table of numbers.

A chapter is a function that takes the analysis and returns a section, or None if the sweep lacks the data for it.
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
from bufferlab.report.chapters.io_latency import io_latency
from bufferlab.report.chapters.knee import knee
from bufferlab.report.chapters.latency_rate import latency_rate
from bufferlab.report.chapters.noise_floor import noise_floor
from bufferlab.report.chapters.other_pools import other_pools
from bufferlab.report.chapters.without_a_run import without_a_run
from bufferlab.report.predicted import predicted, predictions


def chapters_of(analysis: Analysis) -> tuple[Chapter, ...]:
    """Return all chapters, with those of the sweep's engine, in the order in which a report shows them.

    A predicted sweep has only the chapter `predicted`: the other chapters report times, writes and measured runs.
    """
    if predictions(analysis):
        return (predicted,)
    own = engines.chapters(analysis.engine)
    return (
        knee,
        concurrency,
        *own.answering,
        io_latency,
        *(query_cost, expected_reads, latency_rate, best, other_pools, without_a_run, cost_of_pages),
        *own.inside,
        *(hosts, block_trace, time_series, noise_floor),
    )
