"""Evaluates a trace of block requests: blkparse's counts, and the times from queueing or issue to completion.

The functions take rows of block-trace.parquet and return values. The letters of actions are blktrace's: Q queued, X
split, A remapped, G got a request, M/F merged after/before another, I inserted, D issued to the driver, R requeued,
C completed, P/U plugged/unplugged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import polars as pl

SECTOR_BYTES = 512


class Span(NamedTuple):
    """One event of a trace: its sectors [first, end), time and action. `row` is its row in the trace.

    `place` is the disk and the direction: "read", "write" or "discard".
    """

    row: int
    t_ns: int
    action: str
    place: tuple[str, str]
    first: int
    end: int


class _Piece(NamedTuple):
    """A range of sectors of an open span that are not completed yet. Pieces are sorted by first sector, then by age."""

    first: int
    age: int
    end: int
    row: int


@dataclass
class _Open:
    """The open pieces of one disk and one direction (read, write or discard)."""

    pieces: list[_Piece] = field(default_factory=list)
    longest: int = 0

    def add(self, piece: _Piece) -> None:
        insort(self.pieces, piece)
        self.longest = max(self.longest, piece.end - piece.first)

    def at(self, sector: int) -> int | None:
        """Return the index of the open piece that a completion of this sector closes; None if there is none.

        It is the oldest piece that begins at the sector, else the oldest piece that contains it.
        """
        place = bisect_left(self.pieces, (sector,))
        if place < len(self.pieces) and self.pieces[place].first == sector:
            return place
        best = None
        for earlier in range(bisect_left(self.pieces, (sector - self.longest,)), place):
            piece = self.pieces[earlier]
            if piece.end > sector and (best is None or piece.age < self.pieces[best].age):
                best = earlier
        return best

    def next_from(self, sector: int, end: int) -> int:
        """Return the first sector of the next open piece after `sector`, or `end` if that is smaller."""
        place = bisect_right(self.pieces, (sector, float("inf")))
        return min(end, self.pieces[place].first) if place < len(self.pieces) else end


@dataclass
class Matched:
    """The times of completed spans, and the numbers of spans whose opening or completion is missing."""

    latency_ns: dict[int, int] = field(default_factory=dict)
    """Row of the opening event -> nanoseconds until its last sector was completed."""
    unfinished: int = 0
    """The number of spans that were opened, but not completed before the trace ended."""
    cancelled: int = 0
    unopened: int = 0
    """The number of completion events with at least one sector that no earlier event of the trace opened.

    Their requests began before the trace, or on another device.
    """


def match(spans: Iterable[Span], opens: str, cancels: str = "") -> Matched:
    """Match events of the action `opens` with the completions (C) of the same sectors, and return their times.

    A split request has several completions, a merged request several openings. So spans are matched sector by sector:
    each completed sector closes one open sector. An event of the action `cancels` removes an open span.
    """
    matched, ages = Matched(), count()
    places: dict[tuple[str, str], _Open] = {}
    left: dict[int, tuple[int, int]] = {}
    """Row of an open span -> (number of sectors not yet completed, time of opening in ns)."""
    for span in spans:
        if span.first >= span.end:
            continue
        opened = places.setdefault(span.place, _Open())
        if span.action == opens:
            left[span.row] = (span.end - span.first, span.t_ns)
            opened.add(_Piece(span.first, next(ages), span.end, span.row))
        elif span.action == "C":
            _close(span, opened, left, matched)
        elif cancels and span.action == cancels:
            _cancel(span, opened, left, matched)
    matched.unfinished = len(left)
    return matched


def _close(span: Span, opened: _Open, left: dict[int, tuple[int, int]], matched: Matched) -> None:
    at, unopened = span.first, False
    while at < span.end:
        place = opened.at(at)
        if place is None:
            at, unopened = opened.next_from(at, span.end), True
            continue
        piece = opened.pieces.pop(place)
        end = min(piece.end, span.end)
        if piece.first < at:
            opened.add(piece._replace(end=at))
        if end < piece.end:
            opened.add(piece._replace(first=end))
        sectors, t_ns = left[piece.row]
        if sectors > end - at:
            left[piece.row] = (sectors - (end - at), t_ns)
        else:
            del left[piece.row]
            matched.latency_ns[piece.row] = span.t_ns - t_ns
        at = end
    matched.unopened += unopened


def _cancel(span: Span, opened: _Open, left: dict[int, tuple[int, int]], matched: Matched) -> None:
    """Remove the open span of a request that the driver gives back to the queue, to be issued again later."""
    place = opened.at(span.first)
    if place is None:
        return
    row = opened.pieces[place].row
    opened.pieces = [piece for piece in opened.pieces if piece.row != row]
    del left[row]
    matched.cancelled += 1


def is_write(flags: str | None) -> bool:
    """Return whether the RWBS flags of an event name a write. Discards and flushes count as writes, as in blkparse.

    >>> is_write("WFS"), is_write("RA"), is_write("D"), is_write("FF")
    (True, False, True, True)
    """
    return "R" not in (flags or "W")


def spans(trace: pl.DataFrame, partitions: Mapping[str, str], actions: str) -> list[Span]:
    """Return the events of these actions that have sectors. Events of a partition count as events of its disk."""
    rows = trace.with_row_index("row").filter(trace["action"].is_in(list(actions)) & (trace["sectors"] > 0))
    columns = ("row", "t_ns", "action", "device", "flags", "sector", "sectors")
    found = []
    for row, t_ns, action, device, flags, sector, sectors in zip(*(rows[name] for name in columns), strict=True):
        way = "discard" if "D" in (flags or "") else "write" if is_write(flags) else "read"
        found.append(Span(row, t_ns, action, (partitions.get(device, device), way), sector, sector + sectors))
    return found


@dataclass
class Way:
    """The counters of one direction, reads or writes: numbers of events and of their sectors."""

    queued: int = 0
    queued_sectors: int = 0
    issued: int = 0
    issued_sectors: int = 0
    requeued: int = 0
    completed: int = 0
    completed_sectors: int = 0
    merges: int = 0
    merged_sectors: int = 0
    depth_max: int = 0


@dataclass
class Counters:
    """The counters of one disk that blkparse prints at its end, but unrounded: in events and sectors."""

    device: str
    read: Way = field(default_factory=Way)
    write: Way = field(default_factory=Way)
    splits: int = 0
    remaps: int = 0
    inserts: int = 0
    unplugs: int = 0
    unplugged_requests: int = 0
    events: int = 0
    first_ns: int | None = None
    last_ns: int | None = None


_FIELDS = {
    "Q": ("queued", "queued_sectors"),
    "D": ("issued", "issued_sectors"),
    "C": ("completed", "completed_sectors"),
    "M": ("merges", "merged_sectors"),
    "F": ("merges", "merged_sectors"),
    "R": ("requeued", None),
}


def counters(trace: pl.DataFrame, partitions: Mapping[str, str]) -> list[Counters]:
    """Return the counters of each disk in a trace, partitions included, in the order of major:minor numbers."""
    import polars as pl

    disk = pl.col("device").replace(dict(partitions)).alias("disk")
    known = trace.with_columns(disk).filter(pl.col("disk").is_not_null())
    found: dict[str, Counters] = {}
    grouped = known.group_by("disk", "action", "flags").agg(
        pl.len().alias("n"), pl.col("sectors").sum(), pl.col("requests").sum()
    )
    for device, action, flags, n, sectors, requests in grouped.iter_rows():
        one = found.setdefault(device, Counters(device))
        one.events += n
        way = one.write if is_write(flags) else one.read
        if action in _FIELDS:
            events, size = _FIELDS[action]
            setattr(way, events, getattr(way, events) + n)
            if size:
                setattr(way, size, getattr(way, size) + (sectors or 0))
        elif action == "U":
            one.unplugs, one.unplugged_requests = one.unplugs + n, one.unplugged_requests + (requests or 0)
        elif action in "XAI":
            name = {"X": "splits", "A": "remaps", "I": "inserts"}[action]
            setattr(one, name, getattr(one, name) + n)
    for device, first, last in (
        known.group_by("disk").agg(pl.col("t_ns").min().alias("first"), pl.col("t_ns").max().alias("last")).iter_rows()
    ):
        found[device].first_ns, found[device].last_ns = first, last
        for direction in ("read", "write"):
            getattr(found[device], direction).depth_max = _depth(known, device, direction)
    return sorted(found.values(), key=lambda one: [int(part) for part in one.device.split(":")])


def _depth(known: pl.DataFrame, device: str, direction: str) -> int:
    """Return the maximum number of requests in the driver: issued, and neither completed nor requeued."""
    import polars as pl

    writes = {flags: is_write(flags) for flags in known["flags"].unique().to_list()}
    mine = [flags for flags, writing in writes.items() if writing == (direction == "write") and flags is not None]
    step = pl.col("action").replace_strict({"D": 1, "C": -1, "R": -1}, default=0, return_dtype=pl.Int64)
    steps = known.filter((pl.col("disk") == device) & pl.col("flags").is_in(mine)).select(step.alias("step"))["step"]
    depth = highest = 0
    for change in steps.filter(steps != 0):
        depth = max(0, depth + change)  # The trace has completions of requests that were issued before it began.
        highest = max(highest, depth)
    return highest
