"""Finds first reports of iostat that are averages since the system was started (iostat(1)).

With -y iostat leaves that report out, which the text does not show. So a first report is suspected when it is the only
one, or far outside the scatter of the others in its stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from statistics import mean, stdev

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.iostat import IostatReport, busiest
from bufferlab.stats.student import quantile_of_t
from bufferlab.units import format_percent

NAME = "boot-average"
#: A mean that moves by less than this with the first report left out misleads nobody.
_MATTERS = 0.02
#: With one other report, nothing says which of the two is odd.
_ENOUGH_REPORTS = 2


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each stream whose first report is not like the others."""
    for evidence in case.files:
        streams: dict[int, list[IostatReport]] = {}
        for report in evidence.reports:
            streams.setdefault(report.stream, []).append(report)
        for reports in streams.values():
            if reports[0].since_boot:
                yield from _of_stream(reports)


def _of_stream(reports: list[IostatReport]) -> Iterator[Finding]:
    device = busiest(reports[1:] or reports)
    if device is None or device not in reports[0].devices:
        return
    first = reports[0].devices[device].reads_per_s
    rest = [
        reads
        for report in reports[1:]
        if device in report.devices and (reads := report.devices[device].reads_per_s) is not None
    ]
    if first is None:
        return
    if not rest:
        yield Finding(
            NAME,
            reports[0].place,
            f"the only report ({device}: {first:g} r/s) is the first after iostat's banner",
            "without -y it is an average since the system was started, and says nothing about the run",
            "none: run `iostat -x -y INTERVAL COUNT`",
            {"device": device, "first_reads_per_s": first, "others_mean": None},
        )
        return
    if len(rest) < _ENOUGH_REPORTS:
        return
    with_it, without = mean([first, *rest]), mean(rest)
    moved = with_it / without - 1 if without else float(bool(first))
    # A prediction interval, in which one more report of the same kind would be 99 times of 100.
    reach = quantile_of_t(0.995, len(rest) - 1) * stdev(rest) * sqrt(1 + 1 / len(rest))
    if abs(first - without) <= reach or abs(moved) < _MATTERS:
        return
    yield Finding(
        NAME,
        reports[0].place,
        f"the first report after iostat's banner says {first:g} r/s of {device}, the {len(rest)} others"
        f" {min(rest):g} to {max(rest):g}",
        "without -y the first is an average since the system was started; taken along, it moves the mean by"
        f" {format_percent(abs(moved))}, to {with_it:.4g}",
        f"{without:.4g} r/s without it",
        {"device": device, "first_reads_per_s": first, "others_mean": without, "mean_with_first": with_it},
    )


RULE = Rule(NAME, "Is the average since the start of the system taken for a sample?", check)
