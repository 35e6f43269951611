"""Estimates each pool size's reads per second, and bounds its writes, from the records of a suitable tier.

If that is impossible, it returns the reason. All functions are pure.

Larger pools are estimated only from reads and evictions, by the list of evicted pages (crates/bufferlab-sim,
ghost_list.rs). If a page is read again at depth `d` of the list, it would still be in a pool with `d` more frames. The
list is empty when recording begins. If it lacks a page, only one fact is known: the page's depth is larger than the
list's length at that moment. Such a read is censored. The fraction of reads that remain with more frames is the
product-limit estimate (Kaplan and Meier: "Nonparametric estimation from incomplete observations", Journal of the
American Statistical Association 53(282), 1958). So a list that is still short adds no false reads.

Reads of any origin count, because read-ahead and prefetches read only pages that are not in the pool, as gets do. A
creation removes its page from the list without a read. Reads through buffer rings of PostgreSQL remain at any size. The
list says nothing about smaller pools.

The bounds of page writes come from the calls that the tier `misses` followed. A larger pool saves at most the writes of
pages that it would not have evicted: pages that the server wrote, evicted and read again, at a depth in the list of
evicted pages within the added frames. Pages that came back without a read have no depth, and count as if any larger
pool had kept them. So a larger pool writes at most as many pages as the present pool, and at least that number minus
the saved writes. Between the two, the server's checkpoints decide: a page that stays in the pool and is changed again
is written when the change is old. A smaller pool evicts a page for each further read, and each of these evictions may
need a write. Writes of the log and of copies (doublewrite buffer) are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines.native import native
from bufferlab.engines.servers.look import NotTold
from bufferlab.live import constants
from bufferlab.live.bounds import (
    Counted,
    Cut,
    Floats,
    PoolFacts,
    SizeEstimate,
    around,
    changing_load,
    cut,
    halves_differ,
    scatter,
)
from bufferlab.live.by_model import by_model
from bufferlab.live.live_trace import Recorded
from bufferlab.traces.page_trace import Columns, number_of
from bufferlab.units import format_bytes, format_count

_BINS = 200
_IDLE = "record while the application works, or longer"


BY_RING = np.iinfo(np.uint32).max


@dataclass(frozen=True)
class Distances:
    """The depth of each read in the list of evicted pages, in time order."""

    depth: NDArray[np.int64]
    """For each read, its page's depth in the list; 0 if the list lacks it, `BY_RING` if a ring evicted it."""
    length: NDArray[np.int64]
    """For each read, the length of the list before it."""
    slice: NDArray[np.int64]
    """For each read, the number of the time slice that contains it."""
    cut: Cut
    second: Floats
    """For each read, its time in seconds since its window began."""
    moved: NDArray[np.bool_]
    """For each read, whether its page's eviction was not recorded.

    The page then counts as evicted just before the read.
    """

    @property
    def cold(self) -> NDArray[np.bool_]:
        """Return, for each read, whether its page was not in the list."""
        return np.equal(self.depth, 0)

    @cached_property
    def longest(self) -> int:
        """Return the largest number of added frames that can be judged: the list was this long at enough reads."""
        least = max(constants.LEAST_READS, int(np.ceil(constants.LONGEST_SHARE * len(self.length))))
        return int(np.sort(self.length)[-least]) if len(self.length) >= least else 0


def distances(windows: Sequence[Recorded], ring_reads: int) -> Distances:
    """Return the depths of all reads; each window begins with an empty list."""
    found, first = cut(windows), 0
    depth, length, number, second, moved = [], [], [], [], []
    for window, ends in zip(windows, found.ends, strict=True):
        told, lengths_told = native().ghost_depths(ring_reads, **window.columns)
        rows = np.flatnonzero(window.columns["kind"] == number_of("read"))
        depth.append(np.frombuffer(told, np.uint32)[rows])
        length.append(np.frombuffer(lengths_told, np.uint32)[rows])
        number.append(first + np.searchsorted(ends, rows, "right"))
        second.append(np.cumsum(window.columns["delta_us"], dtype=np.float64)[rows] / 1e6)
        moved.append(np.zeros(len(rows), bool) if window.moved is None else window.moved[rows])
        first += len(ends)
    depths, lengths, numbers = (np.concatenate(one).astype(np.int64) for one in (depth, length, number))
    return Distances(depths, lengths, numbers, found, np.concatenate(second), np.concatenate(moved))


def remaining(found: Distances, more: int, weights: Floats) -> Floats:
    """Return the fraction of reads that remain with `more` frames, for each row of weights of the slices.

    It is the product-limit estimate over 200 bins of depths up to `more`. A read that is censored within a bin counts
    as at risk for the part of the bin below the list's length. If each bin is a single depth, the estimate is exact.
    """
    slices = len(found.cut.seconds)
    edges = np.unique(np.linspace(0, more, min(_BINS, more) + 1).astype(np.int64))
    bins = len(edges) - 1

    def table(which: NDArray[np.bool_], place: NDArray[np.intp], counts: Floats) -> Floats:
        cells = found.slice[which] * bins + place[which]
        return np.bincount(cells, counts[which], slices * bins).reshape(slices, bins).astype(np.float64)

    # A bin covers the depths above its lower edge, up to and including its upper edge.
    ones = np.ones(len(found.depth))
    hits = table((found.depth > 0) & (found.depth <= more), np.searchsorted(edges, found.depth, "left") - 1, ones)
    place = np.searchsorted(edges, found.length, "right") - 1
    is_censored = found.cold & (found.length < more)
    inside = np.minimum(place, bins - 1)
    not_at_risk = 1.0 - (found.length - edges[inside]) / (edges[inside + 1] - edges[inside])
    censored, partly = table(is_censored, place, ones), table(is_censored, place, not_at_risk)
    hit, lost = weights @ hits, weights @ censored
    at_risk = (weights @ found.cut.reads)[:, None] - np.cumsum(hit + lost, axis=1) + hit + lost - weights @ partly
    with np.errstate(invalid="ignore", divide="ignore"):
        stays = 1.0 - np.minimum(1.0, hit / np.maximum(at_risk, 1e-9))
    return np.asarray(np.prod(stays, axis=1))


def estimates(
    windows: Sequence[Recorded], pool: PoolFacts, counted: Counted, sizes_bytes: Sequence[int]
) -> tuple[SizeEstimate, ...]:
    """Return the estimate for each size by the list of evicted pages; `windows` must contain reads and evictions."""
    found = distances(windows, constants.ring_reads(pool.engine, pool.pool_pages))
    refused = next((one.cannot_say for one in windows if one.cannot_say), None) or _refused(found, counted, pool)
    return tuple(
        SizeEstimate(size, None, None, None, "misses", refused)
        if refused
        else _estimate(windows, found, pool, counted, size)
        for size in sizes_bytes
    )


def _refused(found: Distances, counted: Counted, pool: PoolFacts) -> NotTold | None:
    """Return the reason why no size can be estimated; None if sizes can."""
    reads = found.cut.reads.sum()
    if reads < constants.LEAST_READS:
        return _too_few(reads)
    counted_per_s, recorded_per_s = counted.reads / counted.seconds, found.cut.reads_per_s
    most = constants.COUNTS_DIFFER * counted_per_s
    if counted.recorded_reads is not None:
        recorded_per_s = counted.recorded_reads / counted.seconds
        late_s = constants.LATE_S if pool.engine == "postgres" else 0.0
        most = counted_per_s * (constants.CALLS_DIFFER[pool.engine] + late_s / counted.seconds)
    if abs(recorded_per_s - counted_per_s) > most:
        why = f"{recorded_per_s:,.1f} reads a second were recorded, and the server counted {counted_per_s:,.1f}"
        return NotTold(why, "record again; if it stays, other reads than those of the pool are counted")
    return changing_load(found.cut) or _changing_mix(found)


def _changing_mix(found: Distances) -> NotTold | None:
    """Return a reason if the two halves of the window read pages at different depths; None if they agree."""
    more = found.longest // 4
    # Count only reads at which the list was long enough. For other reads only small depths could be seen.
    known = found.length >= more
    spared = (found.depth > 0) & (found.depth <= more)
    slices = len(found.cut.seconds)
    reads = np.bincount(found.slice[known], minlength=slices)
    enough = reads >= 10
    shares = np.bincount(found.slice[known & spared], minlength=slices)[enough] / reads[enough]
    half = len(shares) // 2
    if more and halves_differ(shares[:half], shares[half:], constants.MIX_SHARE):
        first, second = (f"{100 * part.mean():.0f} %" for part in (shares[:half], shares[half:]))
        why = (
            f"the mix changed while it was recorded: {more:,} frames more would have spared {first} of the reads, then "
            f"{second}"
        )
        return NotTold(why, "record again, over a time in which the application does what it usually does")
    return None


def _estimate(
    windows: Sequence[Recorded], found: Distances, pool: PoolFacts, counted: Counted, size_bytes: int
) -> SizeEstimate:
    more = pool.frames(size_bytes) - pool.pool_pages
    if more < 0:
        why = "what a pool reads and evicts does not tell what a smaller one would read"
        return SizeEstimate(size_bytes, None, None, None, "misses", NotTold(why, "record all accesses: --tier full"))
    if (rings := _rings_end(windows, found, pool.pool_pages + more)) is not None:
        return SizeEstimate(size_bytes, None, None, None, "misses", rings)
    value, low, high = _rate(found, counted, pool, more)
    if more <= found.longest:
        return SizeEstimate(size_bytes, value, low, high, "misses", longest_pages=found.longest)
    present = counted.reads / counted.seconds
    if high <= max(constants.FEW_PER_S, constants.FEW_SHARE * present):
        return SizeEstimate(size_bytes, None, 0.0, high, "misses", longest_pages=found.longest)
    reach_bytes = (found.longest + pool.pool_pages) * pool.page_size_bytes
    why = f"the look was long enough for pools of up to {format_bytes(reach_bytes)}"
    told = NotTold(why, _needed(windows, found, more))
    return SizeEstimate(size_bytes, None, 0.0, high, "misses", told, longest_pages=found.longest)


def _rate(found: Distances, counted: Counted, pool: PoolFacts, more: int) -> tuple[float, float, float]:
    """Return the reads per second with `more` added frames, and their bounds.

    Frames beyond `found.longest` save nothing.
    """
    present = counted.reads / counted.seconds
    scale = present / found.cut.reads_per_s
    used = more * constants.frames_used(pool.engine, pool.version)

    def per_s(weights: Floats, frames: float = used) -> Floats:
        seconds, reads = weights @ found.cut.seconds, weights @ found.cut.reads
        known = min(round(frames), found.longest)
        rest = remaining(found, known, weights) if known else 1.0
        return scale * reads / np.maximum(seconds, 1e-9) * rest

    def without_moved() -> float:
        if not found.moved.any():
            return value
        kept = ~found.moved
        reads = np.bincount(found.slice[kept], minlength=slices).astype(np.float64)
        rest = Distances(
            found.depth[kept], found.length[kept], found.slice[kept], replace(found.cut, reads=reads),
            found.second[kept], found.moved[kept],
        )  # fmt: skip
        known = min(round(used), found.longest)
        return present * float(remaining(rest, known, every)[0]) if known else present

    slices = len(found.cut.seconds)
    every = np.ones((1, slices))
    value, fewer, most = (
        float(per_s(every, used * times)[0]) for times in (1.0, 1 - constants.FRAMES_ERROR, 1 + constants.FRAMES_ERROR)
    )
    method = (
        max(fewer - value, value - most) + constants.LIST_ERROR * value + constants.OF_PRESENT * present
        if more
        else 0.0
    )
    return value, *around(value, scatter(slices, per_s), method + abs(without_moved() - value))


def _rings_end(windows: Sequence[Recorded], found: Distances, frames: int) -> NotTold | None:
    """Return a reason if a table whose scans use a ring now would be scanned without one in a pool of `frames` frames.

    A scan uses a ring if its table is larger than a quarter of the pool (heapam.c, initscan).
    """
    by_ring = found.depth == BY_RING
    if by_ring.sum() <= constants.RING_SHARE * len(by_ring):
        return None
    pages = np.concatenate([window.columns["page"][window.columns["kind"] == number_of("read")] for window in windows])
    window_of = np.repeat(
        np.arange(len(windows)), [np.count_nonzero(one.columns["kind"] == number_of("read")) for one in windows]
    )
    smallest = min(
        _pages_of(one, np.unique(one.object[pages[by_ring & (window_of == number)]]))
        for number, one in enumerate(windows)
        if np.any(by_ring & (window_of == number))
    )
    if smallest > frames // 4:
        return None
    share = f"{100 * by_ring.mean():.0f} %"
    why = (
        f"{share} of the reads are of scans by a ring, and a pool of {format_count(frames)} frames would read their "
        "table without one"
    )
    return NotTold(why, "record all accesses: --tier full")


def _pages_of(window: Recorded, objects: NDArray[np.uint32]) -> int:
    """Return the number of pages of the smallest of these objects, judged by the largest page number of each in the
    window."""
    return min(int(window.page_in_object[window.object == one].max()) + 1 for one in objects)


def _needed(windows: Sequence[Recorded], found: Distances, more: int) -> str:
    """Return in words how long to record so that `more` added frames can be judged."""
    longest = max(window.seconds for window in windows)
    reached = found.second[found.length >= more]
    if len(reached):
        needed = float(reached.min()) / (1 - constants.LONGEST_SHARE)
    else:
        end = int(found.length.max(initial=1))
        before = int(found.length[found.second < 2 / 3 * longest].max(initial=1))
        if end - before <= 0.01 * more:
            return (
                "the list of evicted pages no longer grows: nearly all that the load reads would fit, whatever the size"
            )
        # The depths reached grow as a power of the recording time. Between two observations the exponent was 0.3 to
        # 0.5.
        power = min(np.log(end / before) / np.log(1.5), 0.5)
        needed = longest * (more / end) ** (1 / power) / (1 - constants.LONGEST_SHARE)
    needed = max(needed, 1.25 * longest)
    minutes = int(np.ceil(needed / 60))
    return (
        f"record for {minutes} min at least"
        if needed > 90
        else f"record for {int(np.ceil(needed / 10)) * 10} s at least"
    )


def written_before(columns: Columns) -> NDArray[np.int64]:
    """Return, for each row in which a page enters the pool, how often the page was written in its previous stay; 0 for
    other rows.

    A page enters by a read or a creation. A stay begins when the page enters (or the record begins), and ends with its
    eviction. The number is 0 if no eviction was recorded.
    """
    order = np.argsort(columns["page"], kind="stable")
    page, kind = columns["page"][order], columns["kind"][order]
    row = np.arange(len(page))
    written = np.concatenate(([0], np.cumsum(kind == number_of("write"))))

    def last(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return, for each row, the last marked row up to it; -1 if there is none."""
        found: NDArray[np.int64] = np.maximum.accumulate(np.where(which, row, -1))
        return found

    first = last(np.diff(page.astype(np.int64), prepend=-1) != 0)
    # A stay begins after the row in which the page entered. If it entered before the record began, use the page's first
    # row.
    comes = (kind == number_of("read")) | (kind == number_of("create"))
    came, left = last(comes), last(kind == number_of("evict"))
    begin = np.where(came >= first, came + 1, first)
    rows = row[comes]
    evicted = left[rows]
    writes = written[evicted] - written[begin[evicted]]
    found = np.zeros(len(page), np.int64)
    found[order[rows]] = np.where(evicted >= first[rows], writes, 0)
    return found


@dataclass(frozen=True)
class Stays:
    """The writes of pages that were evicted and came back to the pool, over all windows of the tier `misses`."""

    found: Distances
    before_read: NDArray[np.int64]
    """For each read, the number of writes of its page in the page's previous stay in the pool."""
    before_creation: int
    """The number of writes in the previous stays of all pages that came back without a read."""
    writes: int
    """The number of all recorded write calls of pages."""
    seconds: float

    @classmethod
    def of(cls, windows: Sequence[Recorded], found: Distances) -> Stays:
        """Return the writes in these windows; `found` has the depths of their reads."""
        before = [written_before(one.columns) for one in windows]
        kinds = [one.columns["kind"] for one in windows]

        def of_kind(name: str) -> NDArray[np.int64]:
            return np.concatenate([one[kind == number_of(name)] for one, kind in zip(before, kinds, strict=True)])

        return cls(
            found, of_kind("read"), int(of_kind("create").sum()), len(of_kind("write")), sum(w.seconds for w in windows)
        )

    def spared_per_s(self, more: int, reads_per_s: float) -> float | None:
        """Return an upper bound (97.5 %) of the writes per second that `more` added frames save; None if the windows
        are too short."""
        found = self.found
        if not 0 < more <= found.longest:
            return None
        slices = len(found.cut.seconds)
        # Use only the reads at which the list was long enough to show depths up to `more`.
        is_known = found.length >= more
        is_spared = is_known & (found.depth > 0) & (found.depth <= more * (1 + constants.FRAMES_ERROR))
        spared = np.bincount(found.slice[is_spared], self.before_read[is_spared], slices)
        known = np.bincount(found.slice[is_known], minlength=slices)

        def per_s(weights: Floats) -> Floats:
            return reads_per_s * np.asarray((weights @ spared) / np.maximum(weights @ known, 1e-9))

        by_reads = float(per_s(np.ones((1, slices)))[0]) + scatter(slices, per_s)
        return by_reads + self.before_creation / self.seconds


def with_writes(
    estimates: Sequence[SizeEstimate], stays: Stays | None, pool: PoolFacts, counted: Counted
) -> tuple[SizeEstimate, ...]:
    """Return the estimates with bounds of their writes. `counted` must have a time and the server's writes.

    Without `stays` larger pools have no bounds. Smaller pools have none if evicting a page may also write its
    neighbours.
    """
    assert counted.writes is not None
    present, reads_per_s = counted.writes / counted.seconds, counted.reads / counted.seconds

    def bounded(one: SizeEstimate) -> SizeEstimate:
        more = pool.frames(one.pool_size_bytes) - pool.pool_pages
        if one.cannot_say is not None or one.high is None:
            return one
        if more < 0:
            if pool.engine != "postgres" and pool.settings.get("flush_neighbors") != 0:
                return one
            added = max(0.0, one.high - reads_per_s)
            return replace(one, writes_low_per_s=present, writes_high_per_s=present + added)
        if stays is None or (spared := stays.spared_per_s(more, reads_per_s)) is None:
            return one
        # Assume that a larger pool would save all writes that the calls did not show.
        unseen = max(0.0, present - stays.writes / stays.seconds)
        return replace(one, writes_low_per_s=max(0.0, present - spared - unseen), writes_high_per_s=present)

    return tuple(map(bounded, estimates))


def answer(
    recorded: Sequence[Recorded],
    pool: PoolFacts,
    counted: Counted,
    sizes_bytes: Sequence[int],
    resident: Sequence[int] | None,
) -> tuple[SizeEstimate, ...]:
    """Return an estimate for each size. An object must have the same number in all windows.

    `live_trace.with_one_numbering` gives it that number. `resident` has the pages that the pool held when the first
    window of `full` began, as `object << 32 | page_in_object`, in the order of eviction; None if this was not queried.
    The list of evicted pages, over all windows, estimates the larger sizes that no model estimates, and sizes with the
    pool's present number of frames. Writes have bounds from the windows of `misses`.
    """
    found = _reads(recorded, pool, counted, sizes_bytes, resident)
    if counted.writes is None or counted.seconds <= 0:
        return found
    whole = (one for one in recorded if one.tier == "misses" and one.ended != "lost" and one.seconds > 0)
    followed = [one for one in whole if len(one.columns["page"])]
    depths = distances(followed, constants.ring_reads(pool.engine, pool.pool_pages)) if followed else None
    is_refused = depths is None or any(one.cannot_say for one in followed) or _refused(depths, counted, pool)
    stays = None if depths is None or is_refused else Stays.of(followed, depths)
    return with_writes(found, stays, pool, counted)


def _reads(
    recorded: Sequence[Recorded],
    pool: PoolFacts,
    counted: Counted,
    sizes_bytes: Sequence[int],
    resident: Sequence[int] | None,
) -> tuple[SizeEstimate, ...]:
    """Return the estimates of `answer` without writes."""
    whole = [one for one in recorded if one.ended != "lost" and one.seconds > 0]
    if whole and counted.seconds > 0 and (held := _holds_all(whole, pool, counted, sizes_bytes)) is not None:
        return held
    windows = [one for one in whole if len(one.columns["page"])]
    if not windows or counted.seconds <= 0:
        told = _nothing(recorded)
        return tuple(SizeEstimate(size, None, None, None, "counted", told) for size in sizes_bytes)
    full = [one for one in windows if one.tier == "full"]
    model = by_model(full, pool, counted, resident) if full else None
    found: dict[int, SizeEstimate] = {}
    for size in sizes_bytes:
        more = pool.frames(size) - pool.pool_pages
        if full and not model and more < 0:
            found[size] = SizeEstimate(size, None, None, None, "full", NotTold("there is no model of this server"))
        elif model and more and (by := model.estimate(size)) is not None:
            found[size] = by
    left = [size for size in sizes_bytes if size not in found]
    found |= dict(zip(left, estimates(windows, pool, counted, left) if left else (), strict=True))
    return tuple(found[size] for size in sizes_bytes)


def _holds_all(
    windows: Sequence[Recorded], pool: PoolFacts, counted: Counted, sizes_bytes: Sequence[int]
) -> tuple[SizeEstimate, ...] | None:
    """Return the estimates if the server counted hardly any reads, so that larger pools save nothing; None
    otherwise."""
    # An upper bound of a Poisson count, slightly above the exact one at 97.5 % (Garwood 1936: 3.7 for 0, 11.7 for 5,
    # 48.7 for 35).
    at_most_per_s = (counted.reads + 2 * sqrt(counted.reads) + 4) / counted.seconds
    recorded = sum(int(np.count_nonzero(one.columns["kind"] == number_of("read"))) for one in windows)
    if max(counted.reads, recorded) >= constants.LEAST_READS or at_most_per_s > constants.FEW_PER_S:
        return None
    why = NotTold(
        f"the pool holds all that this load reads ({counted.reads:,.0f} reads in {counted.seconds:,.0f} s), which does "
        "not tell how much less would do",
        "measure: bufferlab run with the same load",
    )
    return tuple(
        # The upper bound is the counted rate: a larger pool would not have read more in this window.
        SizeEstimate(size, None, 0.0, counted.reads / counted.seconds, "counted")
        if pool.frames(size) >= pool.pool_pages
        else SizeEstimate(size, None, None, None, "counted", why)
        for size in sizes_bytes
    )


def _nothing(recorded: Sequence[Recorded]) -> NotTold:
    """Return the reason why these records have no row that counts."""
    if any(one.ended == "lost" for one in recorded):
        return NotTold("records were lost, and a pool cannot be followed through a gap", "record again")
    if (doubt := next((one.cannot_say for one in recorded if one.cannot_say), None)) is not None:
        return doubt
    if reads := sum(len(one.read_s) for one in recorded if one.read_s is not None):
        return _too_few(reads)
    return NotTold("nothing was recorded", "record again")


def _too_few(reads: float) -> NotTold:
    return NotTold(f"{reads:,.0f} reads were recorded, and {constants.LEAST_READS} are needed", _IDLE)
