"""Predicts the pages written in generated runs, without a trace.

SQLite's log and checkpoints follow from the pages that each transaction changes. InnoDB writes a page to free its
frame, or because the page has been dirty for long. Without a run this age is unknown, so the prediction is a range
between two ages. PostgreSQL's checkpoints follow the clock, so its range is one between two speeds of the load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bufferlab.errors import SpecError
from bufferlab.models.access_rules import AccessRules
from bufferlab.models.managers.declaration import BufferManager, Traced
from bufferlab.models.managers.flushing import Limit
from bufferlab.models.managers.untraced import AgeWriting, LogWriting, UntracedWriting, uncalibrated
from bufferlab.models.writes import end_at, few_checkpoints, redo_of_ends, too_wide
from bufferlab.results.page_traces import GeneratedRun, PredictedWrites, Replayed, WritesEnd
from bufferlab.spec import Experiment, Overrides
from bufferlab.versions import SERVERS


def writing_of(manager: BufferManager, rules: AccessRules, seen: Traced, workload: str) -> UntracedWriting:
    """Return how a server writes pages in a generated run of a workload, or why that is unknown."""
    server = seen.server
    if workload not in rules.written or manager.untraced_writing is None:
        return uncalibrated(f"{workload} on {SERVERS.get(server.engine, server.engine)} {server.version}")
    found: UntracedWriting = manager.untraced_writing(seen)
    return found


def require_written(
    writing: UntracedWriting, manager: BufferManager, experiment: Experiment, overrides: Overrides
) -> None:
    """Raise SpecError if settings that change only writes are set or swept, but writes cannot be predicted."""
    of_writes = (*manager.only_writes, *manager.untraced_settings)
    asked = dict.fromkeys((*experiment.sweep, *(name for name, _ in overrides.set_knobs)))
    only = [name for name in asked if name in of_writes]
    if only and isinstance(writing, str):
        raise refusal_of_writes(only, writing, experiment)


def refusal_of_writes(names: Sequence[str], why: str, experiment: Experiment) -> SpecError:
    """Return the error that refuses settings which change only writes; `why` is the reason."""
    what = f"{' and '.join(names)} changes writes alone, and {why}"
    hint = "`bufferlab run` it, then `bufferlab predict` one of its runs"
    return SpecError(what, f"experiment {experiment.name}", hint)


def job_of(writing: UntracedWriting) -> dict[str, Any]:
    """Return the fields of the core's job that make it count writes to a log; {} if the server has none to count."""
    return {"checkpoint_frames": writing.checkpoint_frames} if isinstance(writing, LogWriting) else {}


def notes_of(writing: UntracedWriting) -> tuple[str, ...]:
    """Return sentences that state under which conditions the predicted writes are valid."""
    return writing.notes if isinstance(writing, AgeWriting) else ()


def pools_of(writing: UntracedWriting) -> list[tuple[Mapping[str, Any], float]]:
    """Return, for each end of the range, the model's settings and the factor on times of the generator's clock."""
    if not isinstance(writing, AgeWriting):
        return []
    return [(limit.settings, time) for limit, time in zip(writing.ends, writing.times, strict=True)]


def written(
    writing: UntracedWriting,
    run: GeneratedRun,
    answer: Mapping[str, Any],
    pool_frames: int,
    found: Replayed | None,
    at_ends: Sequence[Replayed],
) -> PredictedWrites:
    """Return the predicted writes of a generated run.

    `answer` is the core's answer for the model's pool. `found` has the counts in it, or is None if reads depend on the
    run's speed. `at_ends` has the counts at the two ends of `writing`; it is empty if only a part of the database is
    simulated.
    """
    if isinstance(writing, str):
        return _unknown(writing, run)
    if found is None:
        return _unknown("reads depend on the speed of the run, and writes with them", run)
    if isinstance(writing, LogWriting):
        return _of_log(writing, run, answer, pool_frames, found)
    if not at_ends:
        return _unknown("only a part of the database was simulated", run)
    return _of_ages(writing, run, answer, at_ends)


def _unknown(why: str, run: GeneratedRun) -> PredictedWrites:
    return PredictedWrites(ends=[], why_not=why, page_size_bytes=run.page_size_bytes)


def _of_log(
    writing: LogWriting, run: GeneratedRun, answer: Mapping[str, Any], pool_frames: int, found: Replayed
) -> PredictedWrites:
    most, log_bytes = answer["most_changed_pages"], answer["log_bytes"]
    if most > writing.most_share * pool_frames:
        why = f"a transaction changes up to {most:,} pages, and a pool of {pool_frames:,} frames writes some of them "
        return _unknown(f"{why}before the commit", run)
    return PredictedWrites(
        ends=[WritesEnd(why=writing.why, checkpoint_writes=answer["checkpointed_pages"], reads=found.reads)],
        page_size_bytes=run.page_size_bytes,
        copies_per_page=0.0,
        redo_bytes=log_bytes,
        doubts=few_checkpoints(log_bytes / (writing.checkpoint_frames * writing.frame_bytes)),
    )


def _of_ages(
    writing: AgeWriting, run: GeneratedRun, answer: Mapping[str, Any], at_ends: Sequence[Replayed]
) -> PredictedWrites:
    log = writing.log_bytes

    def end(limit: Limit, counts: Replayed) -> WritesEnd:
        redo_bytes = log(answer["changes"], counts) if log else None
        return end_at(limit, counts).model_copy(update={"redo_bytes": redo_bytes})

    ends = [end(limit, counts) for limit, counts in zip(writing.ends, at_ends, strict=True)]
    wide, log_bytes = too_wide(ends, run.work, writing.depends_on), redo_of_ends(ends)
    checkpoints = writing.checkpoints
    doubts = few_checkpoints(min(checkpoints(one.redo_bytes or 0) for one in ends)) if checkpoints else []
    return PredictedWrites(
        ends=ends,
        why_not=wide.sentence if wide else None,
        page_size_bytes=run.page_size_bytes,
        copies_per_page=writing.copies_per_page,
        redo_bytes=log_bytes,
        doubts=[*doubts, *([wide] if wide else [])],
    )
