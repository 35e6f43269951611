"""Predicts the pages written of a pool: one number where its dirty pages reach the age that the traced run held.

In a larger pool fewer dirty pages are written for their frames, and more of them reach the age at which the page
cleaner writes them, so that the age rises. How far it rises depends on the load's speed: the prediction has two ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bufferlab.models.limits import FEW_READS, OWN_WRITES_LIMIT
from bufferlab.models.managers.flushing import Flushing, Limit
from bufferlab.models.managers.same_writes import SameWrites
from bufferlab.results.page_traces import Replayed, TracedRun
from bufferlab.results.predicted_writes import WIDEST, PredictedWrites, WritesDoubt, WritesEnd

Writing = Flushing | SameWrites | str | None
"""How a traced run wrote pages, or the reason why that is unknown; None for a model without writes."""
_NO_LIMIT = (
    "dirty pages of a larger pool grow older before they are written, and the traced run wrote too few of them for "
    "their age to tell how old"
)


def limits(writing: Writing, frames: int, traced_frames: int, own: Replayed | None) -> Sequence[Limit]:
    """Return the limits up to which pages stay dirty in a pool: none, one, or two for a larger pool.

    `own` is the replay of the traced run's own point; None for this replay itself.
    """
    if not isinstance(writing, Flushing):
        return ()
    of_larger = writing.of_larger(own.flush_list_writes) if own and frames > traced_frames else None
    return of_larger or (writing.own,)


def written(
    writing: Writing,
    traced: TracedRun,
    of_pool: Sequence[Limit],
    frames: int,
    found: Replayed | None,
    at_limit: Callable[[Limit], Replayed],
) -> PredictedWrites | None:
    """Return the writes with a pool of `frames` and its limits; None if the model knows no writes.

    `found` is the replay with the first of the limits; None if it depends on the speed of the run. `at_limit` replays
    the pool with another limit.
    """
    if writing is None:
        return None
    common: dict[str, Any] = {"page_size_bytes": traced.page_size_bytes}
    if isinstance(writing, str):
        return PredictedWrites(ends=[], why_not=writing, **common)
    if found is None:
        why = "reads depend on the speed of the run, and writes with them"
        return PredictedWrites(ends=[], why_not=why, **common)
    if isinstance(writing, SameWrites):
        end = WritesEnd(why=writing.why, checkpoint_writes=writing.pages, reads=found.reads)
        return PredictedWrites(ends=[end], copies_per_page=0.0, redo_bytes=writing.log_bytes, **common)
    first, *others = of_pool
    ends = [_end(first, found), *(_end(limit, at_limit(limit)) for limit in others)]
    doubts, why_not = list(_own(traced)), _NO_LIMIT if frames > traced.pool_frames and not others else None
    if wide := _wide(ends, traced):
        doubts.append(wide)
        why_not = wide.sentence
    return PredictedWrites(
        ends=ends,
        why_not=why_not,
        copies_per_page=writing.copies_per_page,
        redo_bytes=writing.redo_bytes,
        doubts=doubts,
        **common,
    )


def _end(limit: Limit, found: Replayed) -> WritesEnd:
    return WritesEnd(
        why=limit.why,
        age_bytes=limit.age_bytes,
        lru_writes=found.lru_writes,
        flush_list_writes=found.flush_list_writes,
        single_page_writes=found.single_page_writes,
        reads=found.reads,
    )


def _own(traced: TracedRun) -> Iterable[WritesDoubt]:
    """Yield the doubt that the model misses the count at the traced run's own point."""
    counted, modelled, error = traced.measured_writes, traced.modelled_writes, traced.own_writes_error
    if counted is None or modelled is None or error is None:
        return
    if abs(error) > OWN_WRITES_LIMIT and abs(modelled - counted) > FEW_READS:
        work = traced.work["transaction"]
        yield WritesDoubt(
            name="own_writes",
            sentence=f"at the traced run's own point the model writes {modelled / work:.4g} pages a transaction and "
            f"the engine counted {counted / work:.4g} ({100 * error:+.1f} %): the model lacks a rule that matters here",
        )


def _wide(ends: list[WritesEnd], traced: TracedRun) -> WritesDoubt | None:
    """Return the doubt that the device decides the writes: the ends are too far apart for a prediction."""
    least, most = min(ends, key=_pages), max(ends, key=_pages)
    if most.pages <= max(WIDEST * least.pages, least.pages + FEW_READS):
        return None
    work = traced.work["transaction"]
    sentence = (
        "pages written depend on the age that dirty pages reach, and so on the device: "
        f"{most.pages / work:.3g} a transaction at {most.why}, {least.pages / work:.3g} at {least.why}"
    )
    return WritesDoubt(name="device_decides", sentence=sentence)


def _pages(end: WritesEnd) -> int:
    return end.pages
