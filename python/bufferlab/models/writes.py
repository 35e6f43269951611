"""Predicts the pages that a pool writes: one number, or a range with two ends.

In a larger pool of InnoDB fewer dirty pages are written to free their frames, and more of them reach the age at which
the page cleaner writes them, so that this age rises. How far it rises depends on the load's speed: the prediction has
two ends. For another pool of PostgreSQL the prediction has two ends too, because checkpoints follow the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from bufferlab.models.limits import FEW_READS, OWN_WRITES_LIMIT
from bufferlab.models.managers.dirty_buffers import DirtyBuffers
from bufferlab.models.managers.flushing import Flushing, Limit
from bufferlab.models.managers.sqlite import SameWrites
from bufferlab.results.page_traces import WIDEST, PredictedWrites, Replayed, TracedRun, Work, WritesDoubt, WritesEnd

Writing = Flushing | DirtyBuffers | SameWrites | str | None
"""How a traced run wrote pages, or the reason why that is unknown; None for a model without writes."""
_LEAST_CHECKPOINTS = 3
"""With at least this many checkpoints in a window, it hardly matters in which phase of a checkpoint the window
begins."""
_FEW_BY_CHECKPOINTS = 0.02
"""If checkpoints write at most this share of the pages, the load's speed hardly matters: other processes write the
rest."""
_NO_LIMIT = (
    "dirty pages of a larger pool grow older before they are written, and the traced run wrote too few of them for "
    "their age to tell how old"
)


def limits(writing: Writing, frames: int, traced_frames: int, own: Replayed | None) -> Sequence[Limit]:
    """Return the limits of how long pages stay dirty in a pool: none, one, or two.

    InnoDB has two limits in a larger pool, and with another redo log. PostgreSQL has one limit here; `written` derives
    its second one from the reads of a replay.

    `own` is the replay of the traced run's own point; None while that replay itself is made.
    """
    if isinstance(writing, DirtyBuffers):
        return (writing.own,)
    if not isinstance(writing, Flushing):
        return ()
    if own is None or (frames <= traced_frames and writing.has_own_log):
        return (writing.own,)
    return writing.of_other(own.flush_list_writes, has_own_pool=frames == traced_frames) or (writing.own,)


def written(
    writing: Writing,
    traced: TracedRun,
    of_pool: Sequence[Limit],
    frames: int,
    found: Replayed | None,
    at_limit: Callable[[Limit], Replayed],
) -> PredictedWrites | None:
    """Return the predicted writes of a pool with `frames` frames; None if the model has no writes.

    `of_pool` are the pool's limits. `found` is the replay with the first of them, or None if the reads depend on the
    run's speed. `at_limit` is a function that replays the pool with another limit.
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
    if isinstance(writing, DirtyBuffers):
        ends = _by_speed(writing, traced, frames, found, at_limit)
    else:
        first, *others = of_pool
        ends = [end_at(first, found), *(end_at(limit, at_limit(limit)) for limit in others)]
    is_other = isinstance(writing, Flushing) and (frames > traced.pool_frames or not writing.has_own_log)
    lacks_limit = is_other and len(ends) == 1
    doubts, why_not = list(_own(traced)), _NO_LIMIT if lacks_limit else None
    if isinstance(writing, DirtyBuffers):
        fewest = min(writing.checkpoints(end.redo_bytes or 0) for end in ends)
        doubts += few_checkpoints(fewest)
    if wide := too_wide(ends, traced.work, writing.depends_on):
        doubts.append(wide)
        why_not = wide.sentence
    return PredictedWrites(
        ends=ends,
        why_not=why_not,
        copies_per_page=writing.copies_per_page,
        redo_bytes=redo_of_ends(ends) or writing.redo_bytes,
        doubts=doubts,
        **common,
    )


def _by_speed(
    writing: DirtyBuffers, traced: TracedRun, frames: int, found: Replayed, at_limit: Callable[[Limit], Replayed]
) -> list[WritesEnd]:
    """Return the ends of the range for a pool of PostgreSQL, the slower load first.

    The traced run's own pool has one end.
    """

    def end(limit: Limit, found: Replayed) -> WritesEnd:
        return end_at(limit, found).model_copy(update={"redo_bytes": max(0, writing.log_bytes(found.page_images))})

    own = end(writing.own, found)
    if frames == traced.pool_frames or not traced.modelled_reads or found.reads == traced.modelled_reads:
        return [own]
    speed, limit = writing.other(found.reads / traced.modelled_reads)
    # At a slower load, more of the pages written per transaction are written by checkpoints.
    if own.checkpoint_writes <= _FEW_BY_CHECKPOINTS * min(speed, 1.0) * own.pages:
        return [own]
    other = end(limit, at_limit(limit))
    return [other, own] if speed < 1 else [own, other]


def end_at(limit: Limit, found: Replayed) -> WritesEnd:
    """Return the predicted writes at one end of the range: those that a replay with this limit counted."""
    return WritesEnd(
        why=limit.why,
        age_bytes=limit.age_bytes,
        lru_writes=found.lru_writes,
        flush_list_writes=found.flush_list_writes,
        single_page_writes=found.single_page_writes,
        checkpoint_writes=found.checkpoint_writes,
        reads=found.reads,
    )


def redo_of_ends(ends: Sequence[WritesEnd]) -> int | None:
    """Return the geometric mean of the log bytes at the ends of a range; None if these are unknown."""
    found = [end.redo_bytes for end in ends if end.redo_bytes is not None]
    return round(prod(found) ** (1 / len(found))) if found else None


def _own(traced: TracedRun) -> Iterable[WritesDoubt]:
    """Yield a doubt if the model's writes differ from the engine's count at the traced run's own point."""
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


def few_checkpoints(checkpoints: float) -> list[WritesDoubt]:
    """Return a doubt if the window has so few checkpoints that chance decides how many of their writes fall into it."""
    if checkpoints >= _LEAST_CHECKPOINTS:
        return []
    doubt = WritesDoubt(
        name="few_checkpoints",
        sentence=f"the window lasts {checkpoints:.2g} times the time between checkpoints, so the pages they write "
        "depend on where it begins, and pages that wait for the next one are missing; "
        f"{_LEAST_CHECKPOINTS} or more would do",
    )
    return [doubt]


def too_wide(ends: Sequence[WritesEnd], work: Work, depends_on: str) -> WritesDoubt | None:
    """Return a doubt if the range is too wide to be useful, because the unknown speed decides; None otherwise."""
    least, most = min(ends, key=_pages), max(ends, key=_pages)
    if most.pages <= max(WIDEST * least.pages, least.pages + FEW_READS):
        return None
    count = work["transaction"]
    sentence = (
        f"pages written depend on {depends_on}: "
        f"{most.pages / count:.3g} a transaction at {most.why}, {least.pages / count:.3g} at {least.why}"
    )
    return WritesDoubt(name="device_decides", sentence=sentence)


def _pages(end: WritesEnd) -> int:
    return end.pages
