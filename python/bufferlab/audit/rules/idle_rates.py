"""Finds "0.00 reads/s" in the status text while its counters moved: such rates cannot be used.

The rates cover the time since anybody's previous printout (`buf_refresh_io_stats`); the counters are totals.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case, Rates, RunEvidence, name_of
from bufferlab.audit.finding import Finding, Rule

NAME = "idle-rates"
_RATES = ("reads_per_s", "creates_per_s", "writes_per_s")


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each file with such a printout."""
    for runs in case.runs_by_file.values():
        found = [(run, segment) for run in runs for segment in run.segments() if _idle(segment)]
        if found:
            yield _finding(found)


def _idle(segment: Rates) -> bool:
    """Return whether the later printout claims that nothing was read, created and written, while pages were read."""
    fields = segment.end.fields
    return (
        segment.read_per_s > 0.005
        and all(fields.get(name) == 0 for name in _RATES if name in fields)
        and ("reads_per_s" in fields)
    )


def _finding(found: list[tuple[RunEvidence, Rates]]) -> Finding:
    run, segment = max(found, key=lambda one: one[1].read_per_s)
    change = segment.end.fields["pages_read"] - segment.start.fields["pages_read"]
    n = "1 printout says" if len(found) == 1 else f"{len(found)} printouts say"
    return Finding(
        NAME,
        found[0][1].end.place,
        f'{n} "0.00 reads/s" while Pages read went on, by {change:,.0f} in {segment.seconds:.0f} s at most'
        f" ({name_of(run)})",
        "the rates on these lines, and the hit rate below them, are of another stretch of time, or of none",
        "; ".join(
            f"{name_of(run)} until {_until(segment)}: {segment.read_per_s:.1f} reads/s" for run, segment in found
        ),
        {
            "printouts": len(found),
            "reads_per_s": [segment.read_per_s for _, segment in found],
            "pages_read_change": change,
            "seconds": segment.seconds,
        },
    )


def _until(segment: Rates) -> str:
    return f"{segment.end.t_s:.0f} s" if segment.end.t_s is not None else f"{segment.end.at}"


RULE = Rule(NAME, "Do printed rates agree with the counters above them?", check)
