"""Answers for each size of a pool what it would read a second: by the tier that can tell it, or why none can. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from bufferlab.advise import larger, rules
from bufferlab.advise.by_model import by_model
from bufferlab.advise.recorded import Counted, Estimate, PoolFacts, Recorded
from bufferlab.engines.servers.questions import NotTold
from bufferlab.traces.page_trace import number_of


def answer(
    recorded: Sequence[Recorded],
    pool: PoolFacts,
    counted: Counted,
    sizes_bytes: Sequence[int],
    resident: Sequence[int] | None,
) -> tuple[Estimate, ...]:
    """Return an estimate for each size. An object has one number in all windows (`resident.with_one_numbering`).

    `resident` has the pages that the pool held when the first full window began, as `object << 32 | page_in_object`;
    the one that leaves first is first. It is None where the server was not asked. Larger sizes that the model leaves,
    and sizes of as many frames as the pool has, go to the list of evicted pages, in all windows.
    """
    whole = [one for one in recorded if one.ended != "lost" and one.seconds > 0]
    if whole and counted.seconds > 0 and (held := _holds_all(whole, pool, counted, sizes_bytes)) is not None:
        return held
    windows = [one for one in whole if len(one.columns["page"])]
    if not windows or counted.seconds <= 0:
        told = NotTold(_nothing(recorded), "record again")
        return tuple(Estimate(size, None, None, None, "counted", told) for size in sizes_bytes)
    full = [one for one in windows if one.tier == "full"]
    model = by_model(full, pool, counted, resident) if full else None
    found: dict[int, Estimate] = {}
    for size in sizes_bytes:
        more = pool.frames(size) - pool.pool_pages
        if full and not model and more < 0:
            found[size] = Estimate(size, None, None, None, "full", NotTold("there is no model of this server"))
        elif model and more and (by := model.estimate(size)) is not None:
            found[size] = by
    left = [size for size in sizes_bytes if size not in found]
    found |= dict(zip(left, larger.estimates(windows, pool, counted, left) if left else (), strict=True))
    return tuple(found[size] for size in sizes_bytes)


def _holds_all(
    windows: Sequence[Recorded], pool: PoolFacts, counted: Counted, sizes_bytes: Sequence[int]
) -> tuple[Estimate, ...] | None:
    """Return that larger pools bring nothing where hardly a read was counted, None where reads were."""
    # Upper bound of 97.5 % of a Poisson count, a little wide (Garwood 1936: 3.7 of none, 11.7 of 5, 48.7 of 35).
    at_most_per_s = (counted.reads + 2 * sqrt(counted.reads) + 4) / counted.seconds
    recorded = sum(int(np.count_nonzero(one.columns["kind"] == number_of("read"))) for one in windows)
    if max(counted.reads, recorded) >= rules.LEAST_READS or at_most_per_s > rules.FEW_PER_S:
        return None
    why = NotTold(
        f"the pool holds all that this load reads ({counted.reads:,.0f} reads in {counted.seconds:,.0f} s), which does "
        "not tell how much less would do",
        "measure: bufferlab run with the same load",
    )
    return tuple(
        # In this window a larger pool would have read no more.
        Estimate(size, None, 0.0, counted.reads / counted.seconds, "counted")
        if pool.frames(size) >= pool.pool_pages
        else Estimate(size, None, None, None, "counted", why)
        for size in sizes_bytes
    )


def _nothing(recorded: Sequence[Recorded]) -> str:
    if any(one.ended == "lost" for one in recorded):
        return "records were lost, and a pool cannot be followed through a gap"
    return "nothing was recorded"
