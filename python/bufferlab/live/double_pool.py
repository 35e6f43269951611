"""Computes, from SQL alone, an upper bound for the misses of a pool of twice the size, given the size of the data.

docs/observe.md derives the formula. `bound` refuses to use it if the observation contradicts its assumptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bufferlab.engines.servers.look import DataSize, NotTold
from bufferlab.live import constants, doubts, free_pages
from bufferlab.live.look_result import Seen, TwiceThePool
from bufferlab.units import format_bytes, format_percent

_DAY_S = 86_400
_OTHERWISE = "bufferlab advise, as root on the server's host"


def misses_at_most(data: float, held: float, added: float) -> float:
    """Return the most misses of a larger pool, as a fraction of the present misses, if its miss curve is convex.

    `data` is everything that can be read, `held` the part in the pool, `added` the added room, all in one unit. A pool
    that holds everything misses nothing. Between the present pool and that one, a convex curve is below the straight
    line.

    >>> misses_at_most(300, 100, 100), misses_at_most(200, 100, 100), misses_at_most(50, 100, 100)
    (0.5, 0.0, 0.0)
    """
    missing = data - held
    return max(0.0, missing - added) / missing if missing > 0 else 0.0


def bound(seen: Seen) -> TwiceThePool | NotTold:
    """Return the bound for a pool of twice the size, or the first reason why there is none."""
    if isinstance(seen.inside.data, NotTold):
        return seen.inside.data
    begin, end = seen.inside.data
    judged: tuple[Callable[[], NotTold | None], ...] = (
        lambda: next(iter(doubts.doubts(seen)), None),
        lambda: _missing(seen),
        lambda: _unfilled(seen),
        lambda: _scanned(seen, begin, end),
        lambda: _changed(seen, begin, end),
    )
    if why := next((found for rule in judged if (found := rule())), None):
        return why
    page, pool_bytes = seen.facts.page_size_bytes, seen.facts.pool_size_bytes
    held = min(values.get("data_pages", pool_bytes / page) for values in _ends(seen)) * page
    if end.size_bytes < held:
        return NotTold("the files that the server lists are smaller than what its pool holds")
    ratio = misses_at_most(end.size_bytes, held, pool_bytes)
    return TwiceThePool(2 * pool_bytes, end.size_bytes, ratio, ratio * (seen.rate("misses") or 0.0))


def _ends(seen: Seen) -> list[Mapping[str, float]]:
    return [one.values for one in (seen.begin, seen.end) if one]


def _missing(seen: Seen) -> NotTold | None:
    if seen.unpublished.sessions:
        return NotTold("the counts of sessions are missing that work in older transactions")
    return None if seen.window.totals["misses"] else NotTold("nothing was missed")


def _unfilled(seen: Seen) -> NotTold | None:
    """Return the reason that the pool is not full, or not known to be full; else None.

    The misses of a pool that is not full are first reads of pages, which no pool can avoid.
    """
    why = "the pool is not full: its misses are first reads"
    if seen.facts.flavour != "postgres":
        return NotTold(why, "ask again once it is") if free_pages.was_never_filled(seen) else None
    if (evicted := seen.window.totals.get("evicted_pages")) is None:
        version = f"{seen.facts.engine} {seen.facts.numbers[0]}"
        return NotTold(
            f"{version} counts no evictions, so it is not known whether the pool is full", "PostgreSQL 16 does"
        )
    is_full = evicted >= constants.EVICTED_SHARE * seen.window.totals["misses"]
    return None if is_full else NotTold(why, "ask again once it is")


def _scanned(seen: Seen, begin: DataSize, end: DataSize) -> NotTold | None:
    """Return the reason that an object larger than the pool may have been scanned; else None.

    The reason is given if buffer rings caused too large a fraction of the misses, or if as many rows of one table or
    index were read as the pool can hold.
    """
    totals = seen.window.totals
    if totals.get("ring_pages_read", 0) > constants.SCANNED_SHARE * totals["misses"]:
        return NotTold("tables were scanned that are larger than a quarter of the pool", _OTHERWISE)
    for name, last in end.larger.items():
        read = last.rows_read - (begin.larger[name].rows_read if name in begin.larger else 0)
        if read >= last.pool_rows:
            why = f"{name} is larger than the pool, and {read:,} rows were read that may be those of a scan of it"
            return NotTold(why, f"{last.remedy or 'a shorter --duration'}; or {_OTHERWISE}")
    return None


def _changed(seen: Seen, begin: DataSize, end: DataSize) -> NotTold | None:
    """Return the reason that the data will soon have another size, because they shrank or grow fast; else None."""
    least = constants.GROWTH_PAGES * seen.facts.page_size_bytes
    grown = end.size_bytes - begin.size_bytes
    if -grown > least:
        return NotTold(f"{format_bytes(-grown)} of data were dropped or truncated in the window", "ask again")
    # Files grow in steps, and new pages may use free space within a file. So the smaller of both growths counts.
    created = seen.window.totals.get("pages_created")
    if created is not None:
        grown = min(grown, int(created) * seen.facts.page_size_bytes)
    per_day = grown / seen.window.seconds * _DAY_S / end.size_bytes
    if grown <= least or per_day <= constants.GROWTH_PER_DAY:
        return None
    return NotTold(f"the data grow by {format_percent(per_day)} a day", _OTHERWISE)
