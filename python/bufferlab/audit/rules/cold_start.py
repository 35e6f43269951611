"""Finds windows whose first part is far below the rest: counting began while the pool was cold."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean, median, stdev

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.audit.throughput import lines_cover_s
from bufferlab.importers.tpcc_mysql import TpccLog, spacing_s
from bufferlab.units import format_percent

NAME = "cold-start"
_ENOUGH_LINES = 6
#: Lines this far below the later ones, and outside their scatter, are slow; one line alone must be further.
_FAR, _FAR_ALONE, _DEVIATIONS = 0.3, 0.5, 2.5
#: A throughput that moves by less misleads nobody.
_MATTERS = 0.02


def check(case: Case) -> Iterator[Finding]:
    """Yield a finding for each log that begins far below its later level."""
    for run in case.runs:
        for log in run.logs:
            if len(log.intervals) >= _ENOUGH_LINES and lines_cover_s(log):
                yield from _judge(log)


def _judge(log: TpccLog) -> Iterator[Finding]:
    lines = sorted(log.intervals, key=lambda interval: interval.elapsed_s)
    counts = [interval.counts[0] for interval in lines]
    later = counts[len(counts) // 2 :]
    settled, scatter = median(later), stdev(later)
    bar = settled - max(_FAR * settled, _DEVIATIONS * scatter)
    slow = next((at for at, count in enumerate(counts) if count >= bar), len(counts))
    if not 0 < slow <= len(counts) // 2 or (slow == 1 and counts[0] >= _FAR_ALONE * settled):
        return
    whole, rest = mean(counts), mean(counts[slow:])
    if 1 - whole / rest < _MATTERS:
        return
    per_minute = 60 / (spacing_s(log) or 1)
    ramp = log.parameters.get("rampup")
    said = f" after a ramp-up of {ramp} s" if ramp is not None else ""
    yield Finding(
        NAME,
        lines[0].place,
        f"until {lines[slow - 1].elapsed_s} s{said} {min(counts[:slow])} to {max(counts[:slow])} New-Orders a line,"
        f" later {min(counts[slow:])} to {max(counts[slow:])}",
        f"the pool was filling: TpmC mixes two states, and is {format_percent(1 - whole / rest)} below the second",
        f"{rest * per_minute:.1f} TpmC after {lines[slow - 1].elapsed_s} s, not {whole * per_minute:.1f}; a ramp-up"
        " must last until throughput is level",
        {
            "rampup_s": ramp,
            "cold_s": lines[slow - 1].elapsed_s,
            "cold_counts": counts[:slow],
            "tpmc": whole * per_minute,
            "tpmc_settled": rest * per_minute,
        },
    )


RULE = Rule(NAME, "Had throughput settled when counting began?", check)
