"""Describes the method of a sweep in sentences: varied and constant settings, repetitions, order, window, statistics.

Every sentence is made from the stored plan and runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.report import predicted
from bufferlab.report.chapters.without_a_run import TITLE as WITHOUT_RUN
from bufferlab.report.chapters.without_a_run import without_run
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.units import UnitError, format_duration, parse_duration

#: The words for the reason why a warm-up ended, by the gate that ended it.
_GATES = {
    "pool_turnover": "a turned-over pool",
    "flat_misses": "flat misses",
    "no_new_pages": "no new pages",
    "cap": "its cap",
    "fixed": "a fixed length",
}
_COLD: Final = "cold"
"""The gate of runs that do not warm up."""


def varied(analysis: Analysis) -> str:
    """Return a sentence with the varied settings and their values; "" for a sweep of one point."""
    values: dict[str, dict[str, None]] = {}
    for point in analysis.points:
        for name, value in point.swept.items():
            values.setdefault(name, {})[analysis.value_label(name, value)] = None
    told = [f"{name.replace('_', ' ')} ({', '.join(found)})" for name, found in values.items() if len(found) > 1]
    return f"Varied: {words.listing(told)}." if told else ""


def method(analysis: Analysis) -> list[str]:
    """Return the method as a list of texts of one or two sentences."""
    whose = predicted.said(analysis)
    found = [varied(analysis), *_held(analysis), *_repeated(analysis), whose or _window(analysis), *_sampled(analysis)]
    return list(filter(None, [_foretold(analysis), *found, _statistics(analysis)]))


def _foretold(analysis: Analysis) -> str:
    """Return the sentence on the predictions that were made before the first run; "" if there are none."""
    if without_run(analysis) is None:
        return ""
    return f"Before the first run a model predicted the reads of the points. Discussion has them under “{WITHOUT_RUN}”."


def _held(analysis: Analysis) -> Iterator[str]:
    """Yield the sentences on the constant conditions of all points: settings, and the data at the start."""
    if len(analysis.points) > 1:
        yield "Held constant: every other setting; the chapter on the set-up has their values as asked for and as run."
    for check in analysis.checks:
        if check.name == "same_start" and check.status == "passed":
            yield f"{check.title}: {check.detail}."


def _repeated(analysis: Analysis) -> Iterator[str]:
    """Yield the sentences on how often each point was run, and in which order."""
    planned, points = analysis.sweep.planned_cells, len(analysis.points)
    blocks = sorted({block for _, block in planned})
    ended = len(analysis.runs)
    done = "were predicted" if predicted.said(analysis) else "ended well"
    runs = f"{ended} of {words.plural(len(planned), 'planned run')} {done}"
    counts = sorted({len(point.ok) for point in analysis.points})
    n = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    each = "a run of each point" if points > 1 else "one run"
    yield f"{words.plural(len(blocks), 'block')}, each of {each}: {n} runs a point ({runs})."
    seed = analysis.sweep.plan.get("seed")
    if predicted.said(analysis):
        return
    if points > 1:
        yield f"Within a block the points were run in a random order, drawn from the design's seed {seed}."
    seeds: dict[int, set[int]] = {}
    for run in analysis.runs:
        seeds.setdefault(run.run.block, set()).add(run.run.seed)
    if seeds and points > 1 and len(blocks) > 1 and all(len(found) == 1 for found in seeds.values()):
        yield "All runs of a block share a seed, so the same work is compared: differences between points are paired."


def _window(analysis: Analysis) -> str:
    """Return the sentences on the warm-ups and the measured windows; "" without runs."""
    runs = analysis.runs
    if not runs:
        return ""
    warm_ups = Counter[str](run.run.warm_up.gate for run in runs if run.run.warm_up)
    cold = warm_ups.pop(_COLD, 0)
    told = []
    if cold:
        told.append(f"{'Each run' if cold == len(runs) else words.plural(cold, 'run')} began on an empty pool.")
    if gates := [f"{count} by {_GATES[gate]}" for gate, count in sorted(warm_ups.items())]:
        which = "the other runs" if cold else "each run"
        told.append(f"Before its window {which} warmed up; what ended the warm-up: {words.listing(gates)}.")
    return " ".join(filter(None, [*told, _measured(runs)]))


def _measured(runs: Sequence[MeasuredRun]) -> str:
    """Return a sentence on the length of the measured windows, in transactions and seconds; "" if unknown."""
    told = [run.run.measured for run in runs if run.run.measured]
    if not told:
        return ""
    counts = sorted({one.transactions for one in told if one.transactions is not None})
    seconds = sorted(one.seconds for one in told if one.seconds is not None)
    length = []
    if counts:
        fewest = f"{counts[0]:,} to " if counts[0] != counts[-1] else ""
        length.append(f"had {fewest}{words.plural(counts[-1], 'transaction')}")
    if seconds and seconds[-1] > 0:
        ends = dict.fromkeys(map(words.number, (seconds[0], seconds[-1])))
        length.append(f"took {' to '.join(ends)} s")
    return f"The measured window {' and '.join(length)}." if length else ""


def _sampled(analysis: Analysis) -> Iterator[str]:
    """Yield a sentence on when counters were read."""
    measure = analysis.sweep.asked.get("measure")
    told = measure.get("sample_interval") if isinstance(measure, dict) else None
    if told is None or not analysis.runs or predicted.said(analysis):
        return
    try:
        seconds = parse_duration(told) if isinstance(told, str) else float(told)
    except (UnitError, TypeError, ValueError, OverflowError):
        return
    every = f", and every {format_duration(seconds)} between" if 0 < seconds < math.inf else ""
    yield f"Counters were read at both edges of the window{every}; numbers are differences between the edges."


def _statistics(analysis: Analysis) -> str:
    """Return the sentences on how means and steps are judged; "" for a sweep of one block, which claims nothing."""
    if len({run.run.block for run in analysis.runs}) < 2:
        return ""
    return (
        "Tables have means with 95 % intervals for the mean of many such runs. Steps between neighbouring points are "
        "judged by intervals that hold together for all steps of one metric (Šidák); n counts the runs of a point."
    )
