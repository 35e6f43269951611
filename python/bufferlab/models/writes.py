"""Predicts the pages written of a pool: one number where its dirty pages reach the age that the traced run held.

In a larger pool fewer dirty pages are written for their frames, and more of them reach the age at which the page
cleaner writes them. How far this age rises hangs on the device: the prediction has two ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bufferlab.models.limits import FEW_READS, OWN_WRITES_LIMIT
from bufferlab.models.managers.flushing import Age, Flushing
from bufferlab.models.managers.same_writes import SameWrites
from bufferlab.results.page_traces import Replayed, TracedRun
from bufferlab.results.predicted_writes import WIDEST, PredictedWrites, WritesDoubt, WritesEnd


def written(
    flushing: Flushing | SameWrites | str | None,
    traced: TracedRun,
    frames: int,
    found: Replayed | None,
    at_age: Callable[[Age], Replayed],
) -> PredictedWrites | None:
    """Return the writes with a pool of `frames`; None if the model knows no writes.

    `found` is the replay at the traced run's own age; None if it depends on the speed of the run. `at_age` replays the
    pool with another age.
    """
    if flushing is None:
        return None
    page_size_bytes = traced.page_size_bytes
    if isinstance(flushing, str):
        return PredictedWrites(ends=[], why_not=flushing, page_size_bytes=page_size_bytes)
    if found is None:
        why = "reads depend on the speed of the run, and writes with them"
        return PredictedWrites(ends=[], why_not=why, page_size_bytes=page_size_bytes)
    if isinstance(flushing, SameWrites):
        end = WritesEnd(why=flushing.why, checkpoint_writes=flushing.pages, reads=found.reads)
        same = {"copies_per_page": 0.0, "redo_bytes": flushing.log_bytes}
        return PredictedWrites(ends=[end], page_size_bytes=page_size_bytes, **same)
    ends, why_not = [_end(flushing.own, found)], None
    if frames > traced.pool_frames:
        if flushing.latest is None:
            why_not = (
                "dirty pages of a larger pool grow older before they are written, and the traced run does not tell "
                "the age at which the server would flush them at any cost"
            )
        elif flushing.latest.bytes > flushing.own.bytes:
            ends.append(_end(flushing.latest, at_age(flushing.latest)))
    doubts = list(_own(traced))
    if wide := _wide(ends, traced):
        doubts.append(wide)
        why_not = wide.sentence
    return PredictedWrites(
        ends=ends,
        why_not=why_not,
        page_size_bytes=page_size_bytes,
        copies_per_page=flushing.copies_per_page,
        redo_bytes=flushing.redo_bytes,
        doubts=doubts,
    )


def _end(age: Age, found: Replayed) -> WritesEnd:
    return WritesEnd(
        age_bytes=age.bytes,
        why=age.why,
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
    least, most = (of(end.pages for end in ends) for of in (min, max))
    if most <= max(WIDEST * least, least + FEW_READS):
        return None
    work, (own, latest) = traced.work["transaction"], ends
    sentence = (
        "pages written depend on the age that dirty pages reach, and so on the device: "
        f"{most / work:.3g} a transaction at {own.why} ({_mb(own)} MB), {least / work:.3g} at {latest.why} "
        f"({_mb(latest)} MB), and no prediction"
    )
    return WritesDoubt(name="device_decides", sentence=sentence)


def _mb(end: WritesEnd) -> str:
    return f"{(end.age_bytes or 0) / 1e6:.3g}"
