"""Finds traces of a stacked device, where requests are queued and split, but the disks below issue and complete them.

md and device mapper hand bios down; only the members' traces have D and C, and with them latencies.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case
from bufferlab.audit.device_counts import DeviceCounts, device_counts, device_name
from bufferlab.audit.finding import Finding, Rule

NAME = "queued-only"


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each device on which nothing was ever completed."""
    for counts in device_counts(case.files):
        enough = counts.requests.low >= 1000 or not counts.is_counted
        if counts.requests.low > 0 and counts.completed.high == 0 and enough:
            yield _finding(counts)


def _finding(counts: DeviceCounts) -> Finding:
    splits = f", {counts.splits} splits" if counts.splits and counts.splits.high else ""
    return Finding(
        NAME,
        counts.trace.place,
        f"{device_name(counts)}: {counts.requests} requests queued{splits}, none completed",
        "what the disks did, and how long it took, is not in this trace",
        "trace the members of the array too: their events D and C are the disk's",
        {"requests_low": counts.requests.low, "requests_high": counts.requests.high},
    )


RULE = Rule(NAME, "Does the trace see completions?", check)
