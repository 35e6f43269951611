"""Answers for each size of a pool what it would read a second: by the tier that can tell it, or why none can. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bufferlab.advise import larger
from bufferlab.advise.by_model import by_model
from bufferlab.advise.recorded import Counted, Estimate, PoolFacts, Recorded
from bufferlab.engines.servers.questions import NotTold


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
    windows = [one for one in recorded if one.ended != "lost" and one.seconds > 0 and len(one.columns["page"])]
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


def _nothing(recorded: Sequence[Recorded]) -> str:
    if any(one.ended == "lost" for one in recorded):
        return "records were lost, and a pool cannot be followed through a gap"
    return "nothing was recorded"
