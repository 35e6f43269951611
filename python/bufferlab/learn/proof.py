"""Compares the accesses recorded at a build's sites with the server's own counters and its list of resident pages.

Counters cannot reveal a wrong register, but the list can: the pool derived from the recorded reads, creations and
evictions must equal the pool that the server lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.lesson import CHECKPOINT, SCAN, Lesson
from bufferlab.learn.recording import Compared, Records, number_of
from bufferlab.learn.windows import Edge
from bufferlab.learn.written import Written, written
from bufferlab.results.trace_words import page_trace_words
from bufferlab.units import format_percent

Recorder = Literal["inside", "links"]

_CAME_AGAIN = 0.002
"""The largest fraction of reads and creations whose page is already in the pool according to the trace."""
_ABSENT = 0.002
"""The largest fraction of hits whose page is not in the pool according to the trace; it was 0 in trials."""
_RINGS = 0.9
"""At least this fraction of a scan's reads must be recorded with its buffer ring, and of all other accesses without
one.

The session of a scan is new, and first reads the catalogue without a ring: on PostgreSQL 19rc1 5.1 % of 1,900 reads.
"""
_COMES = ("read", "create")
"""The kinds of accesses that bring a page into the pool."""
_RING, _NO_RING, _BULK_READ = 12, 4, 8
"""The bits for the ring in the column `latch`, and two of their values (crates/bufferlab-model/src/trace.rs)."""


@dataclass(frozen=True)
class Resident:
    """The numbers of resident pages at the end of a run."""

    both: int = 0
    """Pages that are in the pool according to both the server's list and the trace."""
    listed: int = 0
    """Pages in the server's list."""
    foretold: int = 0
    """Pages that are in the pool according to the trace: all reads and creations, less the evictions."""


@dataclass
class Proof:
    """The comparisons for one run of a private server."""

    by: Recorder
    """The recorder: code inside the server ("inside"), or the kernel's probes ("links")."""
    compared: list[Compared] = field(default_factory=list)
    resident_pages: Resident = field(default_factory=Resident)
    came_again: int = 0
    """Reads and creations of pages that were in the pool already, according to the trace."""
    absent: int = 0
    """Hits (gets without a read) of pages that were not in the pool, according to the trace."""
    wrong: list[str] = field(default_factory=list)
    """Sentences on everything that disagrees, except changed and written pages; empty for a proved build."""
    written: Written | None = None
    """The comparisons of changed and written pages; None if the run has no sites for them."""

    def told(self) -> dict[str, Any]:
        """Return the comparisons as a dictionary for an entry."""
        return asdict(self)


def proved(
    by: Recorder,
    records: Records,
    edges: Sequence[tuple[str, Edge]],
    lesson: Lesson,
    build: Build,
    *,
    is_empty: bool,
    with_writes: bool = False,
) -> Proof:
    """Compare the records of a run with the server; return the proof.

    `is_empty` is True if the recorder was on from the server's start, so that the pool began empty. `with_writes` is
    True if the changes and writes of pages were recorded too, from the server's start.
    """
    proof = Proof(by)
    _follow(records, edges, proof, lesson, is_empty=is_empty)
    first = edges[0][1].listed
    unlisted = first.nameless if first and not is_empty else 0
    for (_, before), (name, after) in pairwise(edges):
        inside = records.between(before.ended_ns, after.begun_ns)
        around = records.between(before.begun_ns, after.ended_ns)
        for kinds in lesson.compared(build, name):
            now, then = getattr(after.counted, kinds[0]), getattr(before.counted, kinds[0])
            if now is not None:
                recorded, at_most = (number_of(records.counted(rows), kinds) for rows in (inside, around))
                proof.compared.append(Compared(name, " + ".join(kinds), recorded, at_most, now - then, unlisted))
        # In the window with a checkpoint alone, only new sessions get pages, so rings are not checked.
        if lesson.has_rings and name != CHECKPOINT:
            _rings(name, inside, proof)
    whole = records.between(edges[0][1].ended_ns, edges[-1][1].begun_ns)
    for kind, least in lesson.least_recorded.items():
        if (found := number_of(whole, (kind,))) < least:
            proof.wrong.append(f"{found:,} of kind {kind} were recorded, which is too few to judge")
    proof.wrong.extend(one.wrong for one in proof.compared if one.wrong)
    if with_writes:
        proof.written = written(records, edges, lesson, build)
    return proof


def _rings(window: str, records: np.ndarray[Any, Any], proof: Proof) -> None:
    """Add a sentence to the proof if too few accesses of a window were recorded with the buffer ring that they should
    use."""
    # A scan also gets catalogue pages.
    is_scan = window == SCAN
    wanted, what = (_BULK_READ, "the ring of a scan") if is_scan else (_NO_RING, "that they have no ring")
    for kind in ["read"] if is_scan else ["get", "read"]:
        found = records[records["kind"] == page_trace_words().kinds.index(kind)]
        share = float((found["latch"] & _RING == wanted).mean()) if len(found) else 0.0
        if share < _RINGS:
            proof.wrong.append(f"{window}: {format_percent(share)} of the {kind}s show {what}")


def _follow(
    records: Records, edges: Sequence[tuple[str, Edge]], proof: Proof, lesson: Lesson, *, is_empty: bool
) -> None:
    """Compare the pool according to the trace with the server's list at the last edge.

    The server does not count the creation of a page that is already in the pool, so this function does not either.
    """
    first, last = edges[0][1].listed, edges[-1][1].listed
    assert first
    assert last
    kinds = page_trace_words().kinds
    pool = set() if is_empty else set(first.pages)
    numbers = Counter[str]()
    start, end = np.searchsorted(
        records.records["t_ns"], np.asarray([0 if is_empty else first.ended_ns, last.begun_ns], np.uint64)
    )
    followed = records.records[start:end]
    made_again = []
    for number, (code, page) in enumerate(zip(followed["kind"].tolist(), records.pages(followed), strict=True)):
        kind = kinds[code]
        if kind == "create" and page in pool and lesson.makes_resident_pages:
            made_again.append(number)
            continue
        numbers[kind] += 1
        if kind == "evict":
            pool.discard(page)
        elif kind in _COMES:
            proof.came_again += page in pool
            pool.add(page)
        elif kind == "get":
            proof.absent += page not in pool
    followed["kind"][made_again] = kinds.index("drop")
    # The get of a page that is read is recorded before the read, while the page is absent. Subtract these gets.
    proof.absent = max(proof.absent - numbers["read"], 0)
    came = sum(numbers[kind] for kind in _COMES)
    if proof.came_again > _CAME_AGAIN * max(came, 1):
        proof.wrong.append(f"{proof.came_again:,} of {came:,} pages came that the trace has in the pool already")
    if proof.absent > _ABSENT * max(numbers["get"], 1):
        proof.wrong.append(
            f"{proof.absent:,} of {numbers['get']:,} gets are of pages that the trace has not in the pool"
        )
    foretold = {page for page in pool - lesson.never_listed if last.objects is None or page[2] in last.objects}
    proof.resident_pages = Resident(len(foretold & last.pages), len(last.pages), len(foretold))
    # The query for the list may itself move pages.
    meanwhile = records.between(last.begun_ns, last.ended_ns)
    codes = [kinds.index(kind) for kind in (*_COMES, "evict")]
    moved = set(records.pages(meanwhile[np.isin(meanwhile["kind"], codes)]))
    differ = (foretold ^ last.pages) - moved
    # The list does not identify all pages of the pool, but it has the number of those that it does not identify.
    beyond = len(foretold - last.pages - moved)
    if len(differ) > (beyond if beyond <= last.nameless else 0):
        listed = f"{len(last.pages):,} that the server lists"
        proof.wrong.append(f"{len(differ):,} pages differ between the trace's pool and the {listed}")
