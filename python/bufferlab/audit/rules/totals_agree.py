"""Compares interval lines, raw results, sums and printed percentages: all count the same transactions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.audit.throughput import asked_s, lines_cover_s, slack
from bufferlab.importers.text import Place
from bufferlab.importers.tpcc_mysql import TYPES, Counts, TpccLog

NAME = "totals-agree"
#: Percentages are printed with two decimals; by hand, with one.
_PERCENT = 0.06


def check(case: Case) -> Iterator[Finding]:
    """Yield a finding for each log with counts that disagree."""
    for run in case.runs:
        for log in run.logs:
            found = [*_counts(log), *_percentages(log)]
            if found:
                yield _finding(log, found)


_Contradiction = tuple[str, float, float, float | None, Place | None]
"""The two things, their two numbers, the right one and the line of the second where they are known."""


def _totals(log: TpccLog, at: int) -> list[tuple[str, int]]:
    """Return the counts of one type, each with the name of its place in the log."""
    found = []
    covered = lines_cover_s(log)
    if covered and covered == asked_s(log):
        found.append(("interval lines", sum(interval.counts[at] for interval in log.intervals)))
    for name, block in (("raw results", log.raw), ("sums", log.summed)):
        if counts := block.get(at):
            found.append((name, counts.success + counts.late))
    return found


def _counts(log: TpccLog) -> Iterator[_Contradiction]:
    for at, kind in enumerate(TYPES):
        totals = _totals(log, at)
        numbers = [number for _, number in totals]
        for (one, a), (other, b) in pairwise(totals):
            if abs(a - b) > slack(log, max(a, b)):
                # Two of three that agree are right.
                right = next((x for x, y in combinations(numbers, 2) if abs(x - y) <= slack(log, max(x, y))), None)
                yield f"{kind} in {one} and {other}", a, b, right, None
                break


def _percentages(log: TpccLog) -> Iterator[_Contradiction]:
    blocks = [block for block in (log.raw, log.summed) if len(block) == len(TYPES)]
    for shown, share, words in ((log.mix, _share_of_all, "of all"), (log.response, _share_in_time, "within the limit")):
        for at, kind in enumerate(TYPES):
            found = shown.get(kind)
            shares = [value for block in blocks if (value := share(block, at)) is not None]
            if found and shares and all(abs(found.percent - value) > _PERCENT for value in shares):
                name = f"per cent {words}, {kind}, by counts and printed"
                yield name, shares[0], found.percent, shares[0], found.place


def _share_of_all(block: dict[int, Counts], at: int) -> float | None:
    total = sum(counts.success + counts.late for counts in block.values())
    return 100 * (block[at].success + block[at].late) / total if total else None


def _share_in_time(block: dict[int, Counts], at: int) -> float | None:
    total = block[at].success + block[at].late
    return 100 * block[at].success / total if total else None


def _finding(log: TpccLog, found: list[_Contradiction]) -> Finding:
    listed = "; ".join(f"{name}: {a:,.10g} against {b:,.10g}" for name, a, b, *_ in found)
    where = found[0][-1]
    known = "; ".join(f"{name}: {value:,.6g}" for name, _, _, value, _ in found if value is not None)
    return Finding(
        NAME,
        where or log.tpmc_place or log.place,
        f"{log_name(log)} counts the same transactions differently: {listed}",
        "one of the numbers is not of this run, or was changed; TpmC follows from one of them",
        known or "neither can be told to be right: find the log that each is of, or run it again",
        {
            "what": [one for one, *_ in found],
            "first": [first for _, first, *_ in found],
            "second": [second for _, _, second, *_ in found],
            "right": [value for *_, value, _ in found],
        },
    )


def log_name(log: TpccLog) -> str:
    """Return the name of a log for a sentence."""
    return f"the log of {log.label}" if log.label else "the log"


RULE = Rule(NAME, "Do interval lines, totals and percentages count the same transactions?", check)
