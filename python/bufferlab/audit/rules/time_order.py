"""Finds interval lines and status printouts that stand below later ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from bufferlab.audit.case import Case, RunEvidence, name_of
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.text import Place

NAME = "time-order"

_Back = tuple[Place, str, str, int]
"""The line that is out of order, its time, the time above it, and their difference in seconds."""


def check(case: Case) -> Iterator[Finding]:
    """Yield a finding for each log, and for each run's printouts, in which time runs backwards."""
    for run in case.runs:
        for log in run.logs:
            back = [
                (b.place, f"{b.elapsed_s} s", f"{a.elapsed_s} s", b.elapsed_s - a.elapsed_s)
                for a, b in pairwise(log.intervals)
                if b.elapsed_s <= a.elapsed_s
            ]
            if back:
                order = " ".join(str(at) for at in sorted(interval.elapsed_s for interval in log.intervals))
                yield _finding("interval line", back, f"in order: {order} s")
        if back := list(_printouts(run)):
            yield _finding(f"status printout of {name_of(run)}", back, "rates are taken in the order of the times")


def _printouts(run: RunEvidence) -> Iterator[_Back]:
    for a, b in pairwise(run.dumps):
        if a.place.file != b.place.file:
            continue
        if a.t_s is not None and b.t_s is not None:
            if b.t_s < a.t_s:
                yield b.place, f"{b.t_s:g} s", f"{a.t_s:g} s", round(b.t_s - a.t_s)
        elif a.at is not None and b.at is not None and b.at < a.at:
            yield b.place, f"{b.at}", f"{a.at}", round((b.at - a.at).total_seconds())


def _finding(kind: str, back: list[_Back], corrected: str) -> Finding:
    (place, time, above, seconds), *more = back
    return Finding(
        NAME,
        place,
        f"the {kind} of {time} stands below that of {above}" + (f", and {len(more)} more like it" if more else ""),
        "time runs backwards between them, so no rate can be taken: lines were moved, or a clock was set",
        corrected,
        {"time": time, "above": above, "seconds_back": -seconds, "times": len(back)},
    )


RULE = Rule(NAME, "Do lines and printouts stand in time's order?", check)
