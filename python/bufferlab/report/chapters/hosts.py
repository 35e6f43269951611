"""The chapter on the hosts of a merged sweep.

It shows how much figures differ from host to host. This effect cancels in the differences between points.
"""

from __future__ import annotations

from collections.abc import Hashable

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Row, Section, Table
from bufferlab.report.chapters.concurrency import asks_for_throughput
from bufferlab.results.blocks import said
from bufferlab.stats.hosts import HostsCompared, compare_hosts


def hosts(analysis: Analysis) -> Section | None:
    """Return the chapter; None if only one host measured."""
    if not analysis.across_hosts:
        return None
    numbered = list(enumerate(analysis.sweep.hosts, 1))
    who = "; ".join(f"host {number}: {said(one.blocks)}" for number, one in numbered)
    others = [number for number, _ in numbered[1:]]
    ratios = (f"Host {number} / host 1" for number in others)
    heads = ("<Figure", *ratios, "Most between hosts", "Most between points")
    rows = tuple(_row(analysis, metric, found, others) for metric, found in compared(analysis))
    caption = (
        "Ratios of means over all points, with 95 % intervals over blocks. Without an interval, each host has one "
        "block, whose transactions differ too, or its blocks gave the same numbers."
    )
    told = differ_more(analysis) if rows else ["No figure has what tells them apart."]
    intro = " ".join([f"Each host measured every point of its blocks ({who}).", *told])
    table = Table.of("hosts-as-a-factor", "Hosts as a factor", heads, rows, caption)
    return Section("hosts", "Hosts", intro, (table,) if rows else ())


def compared(analysis: Analysis) -> list[tuple[str, HostsCompared]]:
    """Return (metric, how far hosts differ in it) for each metric on which claims are allowed."""
    host_of: dict[Hashable, Hashable] = {
        block: number for number, one in enumerate(analysis.sweep.hosts, 1) for block in one.blocks
    }
    found = []
    for metric in dict.fromkeys([*analysis.compared, analysis.work_per_s]):
        cells = [cell for point in analysis.points for cell in point.values(metric)]
        if not analysis.claim_blocked(metric) and (one := compare_hosts(cells, host_of)):
            found.append((metric, one))
    return found


def differ_more(analysis: Analysis) -> list[str]:
    """Return [a sentence] if hosts differ more than points in the answer's metric, else []."""
    if not analysis.across_hosts:
        return []
    asked = analysis.work_per_s if asks_for_throughput(analysis) else analysis.headline
    return [
        f"Hosts differ more than points in {words.lowered(analysis.metric(metric).label)} (up to "
        f"{_times(found.hosts_factor)} between hosts, {_times(found.points_factor)} between points): "
        "differences between points are taken within blocks and stand, means are of these hosts alone."
        for metric, found in compared(analysis)
        if metric == asked and found.differ_more
    ]


def _row(analysis: Analysis, metric: str, found: HostsCompared, others: list[int]) -> Row:
    ratios = [words.ratio(found.ratios[number]) if number in found.ratios else words.NOTHING for number in others]
    factors = (_times(found.hosts_factor), _times(found.points_factor))
    return Row((analysis.metric(metric).label, *ratios, *factors), "differs" if found.differ_more else "")


def _times(factor: float) -> str:
    return f"{words.number(factor)} times"
