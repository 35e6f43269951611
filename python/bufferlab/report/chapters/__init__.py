"""Chapters of a report, one file each: what a sweep shows beyond its table of numbers.

A chapter takes the analysis and returns a section, or nothing where the sweep has no such data.
"""

from __future__ import annotations

from collections.abc import Callable

from bufferlab.report.analysis import Analysis
from bufferlab.report.chapters.best import best
from bufferlab.report.chapters.block_trace import block_trace
from bufferlab.report.chapters.cost_of_pages import cost_of_pages
from bufferlab.report.chapters.factors import factors
from bufferlab.report.chapters.innodb import innodb
from bufferlab.report.chapters.knee import knee
from bufferlab.report.chapters.latency_rate import latency_rate
from bufferlab.report.chapters.noise_floor import noise_floor
from bufferlab.report.chapters.postgres import postgres
from bufferlab.report.chapters.query_cost import query_cost
from bufferlab.report.chapters.random_reads import random_reads
from bufferlab.report.chapters.scan_depth import scan_depth
from bufferlab.report.chapters.time_series import time_series
from bufferlab.report.chapters.victim_path import victim_path
from bufferlab.report.model import Section

Chapter = Callable[[Analysis], Section | None]

#: In the order in which a report shows them.
CHAPTERS: tuple[Chapter, ...] = (
    knee,
    scan_depth,
    query_cost,
    latency_rate,
    best,
    cost_of_pages,
    factors,
    random_reads,
    victim_path,
    innodb,
    postgres,
    block_trace,
    time_series,
    noise_floor,
)
