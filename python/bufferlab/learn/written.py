"""Compares recorded page changes and page writes with the server's counters and with each other (PostgreSQL).

The server has no counter of changes. Writes and evictions show whether all changes were recorded: the server writes
only pages that were changed since their last write, and writes a changed page before it evicts the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.lesson import Lesson, Page
from bufferlab.learn.recording import Compared, Records, number_of, of_kinds
from bufferlab.learn.windows import Edge
from bufferlab.results.trace_words import page_trace_words
from bufferlab.traces.changed_pages import BY_CHANGE

_UNKNOWN = 0.002
"""The largest fraction of writes whose page is unchanged according to the trace, and of evictions of changed pages.

A hint is recorded before it makes its page dirty. If another process writes the page in between, the page is clean in
the trace but dirty in the server. In a run of TPC-C this happened to 1 of 46,597 writes.
"""
_LEAST = 100
"""The minimum number of writes, of changes to changed pages, and of hints on them; with fewer, nothing is proved."""


@dataclass
class Written:
    """The comparisons of changed and written pages for one run of a private server."""

    compared: list[Compared] = field(default_factory=list)
    of_checkpoints_alone: bool = False
    """Whether `compared` has only the writes of checkpoints, because the server's count of other writes includes pages
    that extend files."""
    writes: int = 0
    """The recorded writes, from the server's start on."""
    writes_of_unchanged: int = 0
    """Writes of pages that were not changed since their last write, according to the trace."""
    evictions_of_changed: int = 0
    """Evictions of pages that were changed since their last write, according to the trace."""
    changed_again: int = 0
    """Changes of pages that were already changed.

    A wrong site, on the path of a page's first change only, records none.
    """
    hinted_again: int = 0
    """Hints in pages that were changed or had a hint already."""
    wrong: list[str] = field(default_factory=list)
    """Sentences on everything that disagrees; empty if the sites of changes and writes are proved."""


def written(records: Records, edges: Sequence[tuple[str, Edge]], lesson: Lesson, build: Build) -> Written:
    """Compare the changes and writes of a run with the server; the recorder was on from the server's start."""
    found = Written(of_checkpoints_alone=not lesson.counts_sessions_writes(build))
    _follow(records, edges, found)
    # The checkpointer gets no page: it takes each buffer by its number.
    sessions = np.unique(of_kinds(records.records, ("get",))["thread"])

    def compared(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return rows[~np.isin(rows["thread"], sessions)] if found.of_checkpoints_alone else rows

    for (_, before), (name, after) in pairwise(edges):
        inside = records.between(before.ended_ns, after.begun_ns)
        around = records.between(before.begun_ns, after.ended_ns)
        assert after.counted.write is not None
        assert before.counted.write is not None
        recorded, at_most = (number_of(compared(rows), ("write",)) for rows in (inside, around))
        counted = after.counted.write - before.counted.write
        found.compared.append(Compared(name, "write", recorded, at_most, counted))
        assert after.counted.change is not None
        assert before.counted.change is not None
        least = after.counted.change - before.counted.change
        changes = of_kinds(around, ("dirty",))
        if (by_change := int((changes["latch"] == BY_CHANGE).sum())) < least:
            found.wrong.append(f"{name}: {by_change:,} changes of pages were recorded, and {least:,} rows changed")
    found.wrong.extend(one.wrong for one in found.compared if one.wrong)
    return found


def _follow(records: Records, edges: Sequence[tuple[str, Edge]], found: Written) -> None:
    """Track which pages are changed and not yet written, from the server's start to the last edge."""
    rows = of_kinds(records.between(0, edges[-1][1].begun_ns), ("dirty", "write", "evict"))
    dirty, write = (page_trace_words().kinds.index(kind) for kind in ("dirty", "write"))
    changed: set[Page] = set()
    evictions = 0
    for kind, latch, page in zip(rows["kind"].tolist(), rows["latch"].tolist(), records.pages(rows), strict=True):
        if kind == dirty:
            again = page in changed
            found.changed_again += again and latch == BY_CHANGE
            found.hinted_again += again and latch != BY_CHANGE
            changed.add(page)
        elif kind == write:
            found.writes += 1
            found.writes_of_unchanged += page not in changed
            changed.discard(page)
        else:
            evictions += 1
            found.evictions_of_changed += page in changed
            changed.discard(page)
    if found.writes_of_unchanged > _UNKNOWN * max(found.writes, 1):
        what = f"{found.writes_of_unchanged:,} of {found.writes:,} writes are of pages that the trace has as unchanged"
        found.wrong.append(what)
    if found.evictions_of_changed > _UNKNOWN * max(evictions, 1):
        what = f"{found.evictions_of_changed:,} of {evictions:,} evictions are of changed pages without a write"
        found.wrong.append(what)
    numbers = {"writes": found.writes, "changes of changed pages": found.changed_again,
               "hints in changed pages": found.hinted_again}  # fmt: skip
    for what, number in numbers.items():
        if number < _LEAST:
            found.wrong.append(f"{number:,} {what} were recorded, which is too few to judge")
