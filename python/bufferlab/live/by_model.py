"""Estimates the reads of smaller and larger pools: a model of the server replays all accesses at each size.

Windows are replayed one after another, without the pauses between them, so the model misses slightly too often at the
beginning of a window. A pool begins with the pages that the server lists (`resident`), else empty. A pool of the
server's own size that begins with these pages is warm, so its reads count at once. Reads in other pools count after one
turnover. An estimate is the model's reads at a size, multiplied by the server's counted reads per read of the model at
the server's own size. All functions are pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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
    scatter,
)
from bufferlab.live.live_trace import Recorded
from bufferlab.models.limits import FEW_READS, OWN_LIMIT, SPEED_LIMIT
from bufferlab.models.managers.declaration import BufferManager, Pool, Server, Traced
from bufferlab.models.managers.innodb import REVISITS, SMALLER_POOL
from bufferlab.models.predict import MANAGERS
from bufferlab.results.page_traces import PagesOfObject
from bufferlab.results.window import Window
from bufferlab.traces.page_trace import Columns, number_of
from bufferlab.units import format_bytes

_EXCLUSIVE = (2, 4)
"""The values of `latch` for which InnoDB changes a page (sync0types.h)."""
_RING, _BULK_READ, _HELD, _PIN = 12, 8, 2, 3
"""Two bit masks of `latch` in PostgreSQL's traces (_RING, _PIN), each with one value (bufferlab-model/src/trace.rs)."""
_FIRST_PIN = 5


@dataclass(frozen=True)
class _Did:
    """A model's counts in each time slice."""

    reads: Floats
    brought_in: Floats

    def first_counted(self, frames: int, turnovers: float) -> int:
        """Return the number of the first time slice after `turnovers` turnovers of the pool; 0 for zero turnovers."""
        if turnovers == 0:
            return 0
        return int(np.searchsorted(np.cumsum(self.brought_in), turnovers * frames)) + 1


@dataclass(frozen=True)
class Played:
    """The accesses of all windows as one sequence for the models."""

    columns: Columns
    prefix: int
    """The number of artificial rows at the beginning, which fill the pool with the pages that the server's pool
    held."""
    ends: NDArray[np.intp]
    """The index of the first row after each time slice."""
    cut: Cut
    objects: tuple[PagesOfObject, ...]
    """The relations of PostgreSQL that sessions scanned."""
    writes: bool

    @property
    def rows(self) -> int:
        """Return the number of recorded rows, without the prefix."""
        return len(self.columns["page"]) - self.prefix

    def with_late_purge(self, late_rows: int) -> Played:
        """Return the accesses with one more get of each changed page, `late_rows` rows after the change, as if by a
        late purge.

        The trace does not mark the changes by purge itself, so these are repeated too, and the result has too many
        accesses.
        """
        is_change = (self.columns["kind"] == number_of("get")) & np.isin(self.columns["latch"], _EXCLUSIVE)
        changed = np.flatnonzero(is_change[: max(0, len(is_change) - late_rows)])
        changed = changed[changed >= self.prefix]
        again = changed + late_rows
        columns = {
            name: np.insert(column, again, 0 if name == "delta_us" else column[changed])
            for name, column in self.columns.items()
        }
        return replace(self, columns=columns, ends=self.ends + np.searchsorted(again, self.ends, "left"))


def played(windows: Sequence[Recorded], pool: PoolFacts, resident: Sequence[int] | None) -> Played:
    """Return the windows as one sequence of accesses. An object must have the same number in all windows.

    `live_trace.with_one_numbering` gives it that number. `resident` has the pages of the pool as `object << 32 |
    page_in_object`, in the order of eviction. For PostgreSQL it repeats each page once per count of its usage count.
    """
    found = cut(windows)
    keys = [one.object.astype(np.uint64) << np.uint64(32) | one.page_in_object for one in windows]
    keys.append(np.asarray(resident or (), np.uint64))
    known, numbers = np.unique(np.concatenate(keys), return_inverse=True)
    *of_window, of_resident = np.split(numbers.astype(np.uint32), np.cumsum([len(one) for one in keys])[:-1])
    columns = {
        name: np.concatenate(
            [
                of_window[place][one.columns["page"]] if name == "page" else one.columns[name]
                for place, one in enumerate(windows)
            ]
        )
        for name in ("page", "kind", "latch", "thread", "delta_us")
    }
    objects = _scanned(columns, known) if pool.engine == "postgres" else ()
    is_get = columns["kind"] == number_of("get")
    changed = np.isin(columns["latch"], _EXCLUSIVE) & is_get
    first_rows = np.cumsum([0, *(len(one.columns["page"]) for one in windows)])
    ends = np.concatenate([first + own for first, own in zip(first_rows, found.ends, strict=False)])
    prefix = _prefix(of_resident, pool.engine)
    return Played(
        columns={name: np.concatenate((prefix[name], column)) for name, column in columns.items()},
        prefix=len(prefix["page"]),
        ends=ends + len(prefix["page"]),
        cut=found,
        objects=objects,
        writes=bool(pool.engine != "postgres" and changed.sum() > constants.WRITES * max(1, is_get.sum())),
    )


def _prefix(page: NDArray[np.uint32], engine: str) -> Columns:
    """Return accesses that bring these pages into an empty pool in their order.

    For InnoDB they are creations, which insert a page at the head of the LRU list; reads would insert it in the middle.
    """
    count = len(page)
    return {
        "page": page,
        "kind": np.full(count, number_of("get" if engine == "postgres" else "create"), np.uint8),
        "latch": np.full(count, _FIRST_PIN if engine == "postgres" else 1, np.uint8),
        "thread": np.zeros(count, np.uint16),
        "delta_us": np.zeros(count, np.uint32),
    }


def _scanned(columns: Columns, known: NDArray[np.uint64]) -> tuple[PagesOfObject, ...]:
    """Return the relations that sessions scan: through a buffer ring, or with gets of consecutive pages.

    A scanned relation is assumed to be a table, because relations have no names here.
    """
    gets = np.flatnonzero((columns["kind"] == number_of("get")) & (columns["latch"] & _PIN != _HELD))
    order = gets[np.argsort(columns["thread"][gets], kind="stable")]
    page, thread, latch = (columns[name][order].astype(np.int64) for name in ("page", "thread", "latch"))
    objects = (known >> np.uint64(32)).astype(np.int64)
    of_get = objects[page]
    found = []
    for one in np.unique(objects):
        own = np.flatnonzero(of_get == one)
        steps = np.diff(page[own])[np.diff(thread[own]) == 0]
        ahead = int(np.count_nonzero(steps == 1))
        in_rings = bool(np.any(latch[own] & _RING == _BULK_READ))
        if in_rings or (ahead >= constants.SCANNED_LEAST and ahead > constants.SCANNED * np.count_nonzero(steps)):
            pages = np.flatnonzero(objects == one)
            found.append(PagesOfObject(name=f"relation {one}", first_page=int(pages[0]), pages=len(pages)))
    return tuple(found)


@dataclass(frozen=True)
class ByModel:
    """The model of a server, with the server's recorded accesses to replay."""

    played: Played
    pool: PoolFacts
    counted: Counted
    manager: BufferManager
    has_resident: bool

    @cached_property
    def seen(self) -> Traced:
        """Return the facts about the server from which the model gets its settings."""
        return Traced(
            server=Server(self.pool.engine, self.pool.version),
            pool=Pool(self.pool.pool_pages, self.pool.settings),
            edges=Window({}, {}, None),
            transactions=round(self.counted.units),
            connections=len(np.unique(self.played.columns["thread"])),
            objects=self.played.objects,
            ran=self.pool.settings,
            others=tuple,
        )

    @cached_property
    def own(self) -> _Did:
        """Return the model's counts at the server's present size."""
        return self.did(self.pool.pool_pages)

    def did(self, frames: int, time: float = 1.0, late_rows: int = 0) -> _Did:
        """Return the model's counts with `frames` frames, with all times in the trace multiplied by `time`.

        If `late_rows` is not 0, purge is assumed to be that many rows late (`Played.with_late_purge`).
        """
        settings = self.manager.settings(self.seen, Pool(frames, self.settings))
        one = self.played.with_late_purge(late_rows) if late_rows else self.played
        columns = one.columns
        if time != 1.0:
            columns = {**columns, "delta_us": _at_speed(columns["delta_us"], time)}
        ends = [one.prefix, *map(int, one.ends)]
        told = json.loads(
            native().replay_slices(self.manager.name, json.dumps(dict(settings)), frames, ends, **columns)
        )

        def of(*names: str) -> Floats:
            return np.diff([float(sum(one[name] for name in names)) for one in told])

        reads = of("misses", "prefetch_reads")
        return _Did(reads, reads + of("creates") - of("ring_reuses"))

    @cached_property
    def settings(self) -> Mapping[str, int]:
        """Return the settings that the model uses, with the model's defaults for unknown ones."""
        defaults = self.manager.defaults
        return {name: self.pool.settings.get(name, value) for name, value in defaults.items()}

    def first_counted(self, did: _Did, frames: int) -> int:
        """Return the number of the first time slice in which a pool of `frames` frames is warm, so that its reads
        count."""
        if self.has_resident and frames == self.pool.pool_pages:
            return 0
        is_partly_warm = self.has_resident and frames < self.pool.pool_pages
        return did.first_counted(frames, max(constants.TURNOVERS_WARM, 0.0 if is_partly_warm else self.manager.filled))

    @cached_property
    def own_error(self) -> float | None:
        """Return the model's relative error at the server's present size; None if reads are missing, or slices are too
        few.

        An error of at most FEW_READS reads counts as 0.
        """
        first = self.first_counted(self.own, self.pool.pool_pages)
        recorded, modelled = self.played.cut.reads[first:].sum(), self.own.reads[first:].sum()
        if len(self.own.reads) - first < constants.LEAST_SLICES or not recorded:
            return None
        return float(modelled / recorded - 1) if abs(modelled - recorded) > FEW_READS else 0.0

    @cached_property
    def refused(self) -> NotTold | None:
        """Return the reason why the model cannot judge any size; None if it can."""
        reads = self.played.cut.reads.sum()
        if reads < constants.LEAST_READS:
            why = f"{reads:,.0f} reads were recorded, and {constants.LEAST_READS} are needed"
            return NotTold(why, "record while the application works, or longer")
        if (changed := changing_load(self.played.cut)) is not None:
            return changed
        error = self.own_error
        if error is None:
            wanted = 2 * max(constants.TURNOVERS_WARM, self.manager.filled)
            turnovers = float(self.own.brought_in.sum()) / self.pool.pool_pages
            return self._too_short("the pool", turnovers, wanted, ", or let us look inside")
        if abs(error) > constants.OWN_MOST:
            why = (
                f"at the pool's own size the model {self.manager.name} reads {100 * error:+.1f} % of what the server "
                "read: it lacks a rule that matters here"
            )
            return NotTold(why, "measure: bufferlab run with the same load")
        return None

    def estimate(self, size_bytes: int) -> SizeEstimate | None:
        """Return the estimate of a size; None for a larger size that must be estimated by the list of evicted pages
        instead."""
        frames = self.pool.frames(size_bytes)
        is_larger = frames > self.pool.pool_pages
        if self.refused:
            return None if is_larger else SizeEstimate(size_bytes, None, None, None, "full", self.refused)
        if is_larger and abs(self.own_error or 0.0) > OWN_LIMIT:
            return None
        did = self.did(frames)
        turnovers = float(did.brought_in.sum()) / frames
        if is_larger and turnovers < constants.TURNOVERS_LARGER:
            return None
        first = max(self.first_counted(did, frames), self.first_counted(self.own, self.pool.pool_pages))
        if len(did.reads) - first < constants.LEAST_SLICES:
            why = self._too_short("such a pool", turnovers)
            return None if is_larger else SizeEstimate(size_bytes, None, None, None, "full", why)
        by_speed = self._by_speed(frames, did, first)
        if is_larger and by_speed:
            return None
        return self._bounded(size_bytes, {1.0: did, **by_speed}, first, turnovers)

    def _bounded(self, size_bytes: int, replays: Mapping[float, _Did], first: int, turnovers: float) -> SizeEstimate:
        """Return the estimate of a size; its bounds include the replays at other speeds and with a late purge.

        `replays` are the model's counts by the factor on all times; the factor 1.0 gives the value.
        """
        frames = self.pool.frames(size_bytes)
        rates = {time: self._rate(one, frames, first) for time, one in replays.items()}
        worst = max(rates, key=lambda time: rates[time][0])
        low, high = min(one[1] for one in rates.values()), max(one[2] for one in rates.values())
        speed_share = rates[worst][0] / min(rate for rate, *_ in rates.values()) - 1 if len(rates) > 1 else None
        if speed_share is not None and speed_share > constants.SPEED_MOST:
            return SizeEstimate(size_bytes, None, None, None, "full", self._speed_matters(frames, speed_share))
        late_share = None
        for time in {1.0, worst} if self._may_fall_behind(frames) else ():
            late = self.did(frames, time, late_rows=int(self.played.rows / turnovers))
            most, _, high_late = self._rate(late, frames, first)
            late_share, high = max(late_share or 0.0, most / rates[time][0] - 1), max(high, high_late)
        if late_share is not None and late_share > constants.PURGE_LIMIT:
            return SizeEstimate(size_bytes, None, None, None, "full", _purge_matters(late_share))
        return SizeEstimate(
            size_bytes, rates[1.0][0], low, high, "full", own_error=self.own_error, turnovers=turnovers,
            late_purge_share=late_share, speed_share=speed_share,
        )  # fmt: skip

    def _too_short(
        self, which: str, turnovers: float, wanted: float = 2 * constants.TURNOVERS_WARM, instead: str = ""
    ) -> NotTold:
        """Return the reason that a pool turned over too few times, with the recording time that would suffice."""
        why = f"the accesses that were recorded fill {which} {turnovers:.2g} times, and {wanted:g} are needed"
        seconds = self.played.cut.seconds.sum() * wanted / max(turnovers, 1e-9)
        remedy = f"record all accesses for {seconds:,.0f} s (a longer --within, or a larger --max-cpu){instead}"
        return NotTold(why, remedy)

    def _rate(self, did: _Did, frames: int, first: int) -> tuple[float, float, float]:
        present = self.counted.reads / self.counted.seconds
        seconds, recorded = self.played.cut.seconds[first:], self.played.cut.reads[first:]
        own, reads = self.own.reads[first:], did.reads[first:]
        scale = present / (recorded.sum() / seconds.sum())

        def per_s(weights: Floats) -> Floats:
            share = (weights @ reads) / np.maximum(weights @ own, 1e-9)
            return np.asarray(scale * (weights @ recorded) / np.maximum(weights @ seconds, 1e-9) * share)

        value = float(per_s(np.ones((1, len(own))))[0])
        method = constants.model_error(self.pool.pool_pages, frames, self.own_error or 0.0) * value
        return value, *around(value, scatter(len(own), per_s), method + constants.OF_PRESENT * present)

    def _by_speed(self, frames: int, did: _Did, first: int) -> Mapping[float, _Did]:
        """Return the model's counts by the factor on all times, if reads depend on the load's speed; {} if they do not.

        One factor is 0.5, for twice the speed. The other is for a slow load that only waits for its reads: its time
        grows in proportion to them, and slowness may raise them by `SPEED_MOST`. This factor is at least 2.
        """
        if self.manager.by_speed(Pool(frames, self.settings)) is None:
            return {}
        own, own_speed = (float(one.reads[first:].sum()) for one in (self.own, did))
        slowest = max(2.0, (1 + constants.SPEED_MOST) * own_speed / max(1.0, own))
        found = {time: self.did(frames, time) for time in (0.5, slowest)}
        reads = [own_speed, *(float(one.reads[first:].sum()) for one in found.values())]
        return found if max(reads) - min(reads) > max(SPEED_LIMIT * min(reads), FEW_READS) else {}

    def _speed_matters(self, frames: int, share: float) -> NotTold:
        size = format_bytes(frames * self.pool.page_size_bytes)
        return NotTold(
            f"innodb_{self.manager.by_speed(Pool(frames, self.settings))}, and at {size} reads then depend on how fast "
            f"the load runs: by {100 * share:.0f} % between a slower load and twice the speed",
            "measure: bufferlab run with the same load",
        )

    def _may_fall_behind(self, frames: int) -> bool:
        is_small = frames < SMALLER_POOL * self.pool.pool_pages
        return is_small and self.played.writes and self.seen.server.is_in(REVISITS)


def by_model(
    windows: Sequence[Recorded], pool: PoolFacts, counted: Counted, resident: Sequence[int] | None
) -> ByModel | None:
    """Return the model of a server with the windows of the tier `full`; None if the server has no model."""
    server = Server(pool.engine, pool.version)
    named = [one for one in MANAGERS if one.name == pool.model]
    if not named:
        return None
    manager = next((one for one in named if server.is_in(one.servers)), named[0])
    return ByModel(played(windows, pool, resident), pool, counted, manager, bool(resident))


def _purge_matters(share: float) -> NotTold:
    why = (
        "purge of this server goes back to each changed row, and may not keep up with less than two thirds of the pool:"
        f" if it were late there, up to {100 * share:.0f} % more pages would be read"
    )
    return NotTold(why, "measure: bufferlab run with the same load")


def _at_speed(delta_us: NDArray[np.uint32], time: float) -> NDArray[np.uint32]:
    # Round times, not their differences, whose errors would add up.
    times = np.floor(np.cumsum(delta_us, dtype=np.float64) * time)
    return np.minimum(np.diff(times, prepend=0.0), np.iinfo(np.uint32).max).astype(np.uint32)
