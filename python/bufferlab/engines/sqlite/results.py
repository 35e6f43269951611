"""SQLite's part of the results: its metrics, formulas and checks.

The engine's counters must agree with those of the page pool and with the worker's memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from bufferlab.engines.read_ahead_words import READ_AHEAD_WORDS
from bufferlab.results.check_parts import (
    Check,
    EngineResults,
    MeasuredRun,
    Off,
    not_applicable,
    outcome,
    ratio_off,
    touching,
    worst_of,
)

FETCHES_LIMIT = 0.05
MEMORY_LIMIT = 0.10
MEMORY_MIN_RANGE_BYTES = 4 * 1024**2
#: The memory of a page trace relative to its file: the worker holds it until the run ends, at 5 to 7 bytes for each
#: access, which has 24 bytes in the file.
TRACE_IN_MEMORY = 6 / 24

#: Settings that do not change which pages are requested: only the transactions determine that.
SAME_WORK = frozenset({"pcache"})


@touching("gets", "reads")
def _fetches(runs: Sequence[MeasuredRun]) -> Check:
    """Compare the pager's count of page gets with the pool's fetches. New pages are fetched without a get."""
    name, title = "pool_fetches", "The page pool was asked about as often as SQLite got pages"
    ours = [run for run in runs if run.knob("pcache") == "ours"]
    if not ours:
        return not_applicable(name, title, "SQLite's own page cache does not count fetches")

    def off(run: MeasuredRun) -> Off:
        return ratio_off(run, run.window.change("pool_fetches"), run.window.change("page_gets"))

    return worst_of(name, title, FETCHES_LIMIT, map(off, ours))


@touching("times")
def _bounces(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "bounce_copies", "Reads land in the page frame itself (no bounce copies)"
    ours = [run for run in runs if run.direct and run.knob("pcache") == "ours"]
    if not ours:
        return not_applicable(name, title, "only direct I/O into the aligned frames of our pool promises this")
    counts = [(run.window.change("bounce_reads"), run) for run in ours]
    unknown = next((value.reason for value, _ in counts if value.value is None), None)
    if unknown:
        return not_applicable(name, title, unknown)
    total = sum(value.value or 0 for value, _ in counts)
    return outcome(name, title, total == 0, f"{total:.0f} bounced reads in {len(ours)} runs")


def _memory(runs: Sequence[MeasuredRun]) -> Check:
    """Check that the worker's memory grows by as much as its used frames do: a frame with a page needs memory."""
    name, title = "memory_growth", "The worker's memory grows by what the pool uses"
    pairs = [pair for run in runs if (pair := _memory_pair(run)) is not None]
    used = [used for used, _ in pairs]
    if not pairs or max(used) - min(used) < MEMORY_MIN_RANGE_BYTES:
        return not_applicable(name, title, "the pools' use differs by less than 4 MiB, or is not known")
    mean_used = sum(used) / len(used)
    mean_resident = sum(resident for _, resident in pairs) / len(pairs)
    slope = sum((u - mean_used) * (r - mean_resident) for u, r in pairs) / sum((u - mean_used) ** 2 for u in used)
    detail = f"{slope:.3f} bytes of memory per byte of pool, from {len(pairs)} runs; limit 1 ± {MEMORY_LIMIT}"
    return outcome(name, title, abs(slope - 1) <= MEMORY_LIMIT, detail)


def _memory_pair(run: MeasuredRun) -> tuple[float, float] | None:
    frames, resident = run.window.level("pool_frames_used").value, run.window.level("resident_bytes").value
    page_size = run.knob("page_size")
    if frames is None or resident is None or not isinstance(page_size, int) or run.knob("pcache") == "stock":
        return None
    trace = run.run.page_trace
    of_trace = TRACE_IN_MEMORY * trace.spool_bytes if trace and trace.recorder == "engine" else 0.0
    return frames * page_size, resident - of_trace


CHECKS = (_fetches, _bounces, _memory)


RESULTS = EngineResults(
    pool="pool_size",
    source="SQLite's status counters, bufferlab's VFS and page pool",
    words={
        "page_gets": "SQLite's CACHE_HIT + CACHE_MISS",
        "demand_misses": "CACHE_MISS, of which the WAL may serve some",
    },
    checks=CHECKS,
    same_work=SAME_WORK,
    knob_words={"read_ahead": READ_AHEAD_WORDS},
)
