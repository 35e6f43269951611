"""SQLite's own part of its results: its words and its checks."""

from __future__ import annotations

from bufferlab.engines.read_ahead_knob import READ_AHEAD_WORDS
from bufferlab.engines.sqlite import checks
from bufferlab.results.check import EngineResults

RESULTS = EngineResults(
    pool="pool_size",
    source="SQLite's status counters, bufferlab's VFS and page pool",
    words={
        "page_gets": "SQLite's CACHE_HIT + CACHE_MISS",
        "demand_misses": "CACHE_MISS, of which the WAL may serve some",
    },
    checks=checks.CHECKS,
    same_work=checks.SAME_WORK,
    knob_words={"read_ahead": READ_AHEAD_WORDS},
)
