"""Names the lines that begin as blkparse's do and cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.chapter.words import plural
from bufferlab.importers.read import FileEvidence

NAME = "unread-lines"
_MOST_LISTED = 12


def check(case: Case) -> Iterator[Finding]:
    """Yield a finding for each file with such lines."""
    for evidence in case.files:
        if evidence.unread:
            yield _finding(evidence)


#: An event that is broken into several lines has pieces without a mark of their own.
_REACH = 4


def _ranges(numbers: Sequence[int]) -> list[str]:
    """Return ascending numbers as ranges; near numbers share one."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number <= found[-1][-1] + _REACH:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    return ["-".join(map(str, one)) for one in found]


def _finding(evidence: FileEvidence) -> Finding:
    lines = [place.line for place in evidence.unread]
    listed = _ranges(lines)
    where = ", ".join(listed[:_MOST_LISTED]) + (", …" if len(listed) > _MOST_LISTED else "")
    return Finding(
        NAME,
        evidence.unread[0],
        f"{plural(len(lines), 'line')} of blkparse's cannot be read ({where}): columns or digits are broken",
        "their events and counters are in no table and no other finding",
        "none: give the text that blkparse printed",
        {"lines": lines},
    )


RULE = Rule(NAME, "Could every line of a block trace be read?", check)
