"""Streams of page accesses, and the record that a server with a pool of a given size would make of them; naive and
slow."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines.native import native
from bufferlab.live.bounds import Counted, PoolFacts
from bufferlab.live.live_trace import Recorded
from bufferlab.traces.page_trace import Columns, number_of

PAGE_BYTES = 16_384
GET, READ, EVICT, CREATE = (number_of(name) for name in ("get", "read", "evict", "create"))


def skewed(seed: int, pages: int, accesses: int, power: float = 1.1) -> NDArray[np.uint32]:
    """Return accesses in which few pages are wanted often, by a power law; these pages have random numbers."""
    random = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, pages + 1) ** power
    ranks = random.choice(pages, accesses, p=shares / shares.sum())
    return random.permutation(pages).astype(np.uint32)[ranks]


def columns_of(
    rows: Sequence[tuple[int, int]] | NDArray[np.int64], *, delta_us: int | NDArray[np.uint32] = 1000, latch: int = 1
) -> dict[str, NDArray[np.generic]]:
    """Return a trace's columns from rows of page and kind."""
    table = np.asarray(rows, np.int64).reshape(-1, 2)
    count = len(table)
    return {
        "page": table[:, 0].astype(np.uint32),
        "kind": table[:, 1].astype(np.uint8),
        "latch": np.full(count, latch, np.uint8),
        "thread": np.zeros(count, np.uint16),
        "delta_us": np.broadcast_to(np.asarray(delta_us, np.uint32), count).copy(),
    }


def recorded(columns: Columns, tier: str = "misses", seconds: float | None = None, ended: str = "whole") -> Recorded:
    """Return these columns as a recorded window in which all pages belong to one object."""
    pages = int(columns["page"].max()) + 1 if len(columns["page"]) else 0
    whole = float(columns["delta_us"].sum()) / 1e6
    numbers = np.arange(pages, dtype=np.uint32)
    return Recorded(tier, columns, np.full(pages, 7, np.uint32), numbers, seconds or whole, ended)  # type: ignore[arg-type]


def lru_misses(pages: Sequence[int], frames: int, *, warm: int = 0, step_us: int = 1000) -> Recorded:
    """Return the reads and evictions that an LRU pool would record after the first `warm` accesses."""
    pool: OrderedDict[int, None] = OrderedDict()
    rows: list[tuple[int, int, int]] = []
    for number, page in enumerate(map(int, pages)):
        if page in pool:
            pool.move_to_end(page)
            continue
        if len(pool) == frames:
            left, _ = pool.popitem(last=False)
            rows.append((left, EVICT, number))
        rows.append((page, READ, number))
        pool[page] = None
    kept = np.array([row for row in rows if row[2] >= warm], np.int64).reshape(-1, 3)
    delta = np.diff(kept[:, 2] - warm, prepend=0).astype(np.uint32) * np.uint32(step_us)
    return recorded(columns_of(kept[:, :2], delta_us=delta), seconds=(len(pages) - warm) * step_us / 1e6)


def lru_reads(pages: Sequence[int], frames: int, warm: int = 0) -> int:
    """Return the number of reads of an LRU pool after the first `warm` accesses."""
    pool: OrderedDict[int, None] = OrderedDict()
    reads = 0
    for number, page in enumerate(map(int, pages)):
        if page in pool:
            pool.move_to_end(page)
            continue
        reads += number >= warm
        if len(pool) == frames:
            pool.popitem(last=False)
        pool[page] = None
    return reads


def with_reads(model: str, settings: dict[str, object], frames: int, columns: Columns) -> Columns:
    """Return the accesses, with a read inserted before each access that the model misses, as a server would record
    them."""
    rows = len(columns["page"])
    told = json.loads(native().replay_slices(model, json.dumps(settings), frames, list(range(rows + 1)), **columns))
    reads = np.diff([one["misses"] + one["prefetch_reads"] for one in told]) > 0
    places = np.flatnonzero(reads)
    found = {name: np.insert(column, places, column[places]) for name, column in columns.items()}
    of_reads = places + np.arange(len(places))
    found["kind"][of_reads] = READ
    found["delta_us"][of_reads + 1] = 0
    return found


def facts(frames: int, engine: str = "mysql", model: str = "innodb57", **further: object) -> PoolFacts:
    """Return the facts of a pool with `frames` frames."""
    told = {"settings": {}, "page_size_bytes": PAGE_BYTES, "pool_pages": frames, "version": "", **further}
    return PoolFacts(engine=engine, model=model, **told)  # type: ignore[arg-type]


def counted(window: Recorded, *, times: float = 1.0) -> Counted:
    """Return the counts that the server would report for a window, with its reads multiplied by `times`."""
    reads = float(np.count_nonzero(window.columns["kind"] == READ)) * times
    return Counted(window.seconds, reads, 10 * reads, 100.0, "transaction")
