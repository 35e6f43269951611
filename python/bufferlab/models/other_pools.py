"""Predicts the reads of a measured sweep with pools of other sizes, from the sweep's own page traces.

Points that differ only in their pool form a group. The traced run with the middle pool size predicts the group's reads:
with the pools that were measured, and with pools between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import isqrt

from bufferlab.errors import BufferlabError, DataFileError, Interrupted, SpecError
from bufferlab.models import source
from bufferlab.models.ahead import Ahead, Watch, threads_for
from bufferlab.models.predict import Target, predict_pool, target
from bufferlab.results.page_traces import OtherPool, PoolsOfTrace
from bufferlab.results.store import RunRecord, SweepFolder
from bufferlab.spec import Overrides
from bufferlab.traces.middle_run import groups, middle, pool_bytes_of

MOST_GROUPS = 6
"""The most groups that are replayed: the number of colours in a figure."""
_MOST_BETWEEN = 100_000_000
"""The most accesses to replay for pool sizes between the measured ones: about ten seconds of work."""
_AROUND = (1, 2, 8, 16)
"""The sizes of the predicted pools around a single measured pool, in quarters of its size."""


def other_pools(folder: SweepFolder, before_replay: Callable[[float], None]) -> tuple[list[PoolsOfTrace], list[str]]:
    """Return the predicted reads of other pools, and the reasons, in sentences, why some groups have none.

    Calls `before_replay` ten times a second with the share of the pools that are done. Raises Interrupted if
    `before_replay` does.
    """
    found, why_not = [], []
    of_pools = groups(record for record in folder.runs() if record.ok)
    told = of_pools[:MOST_GROUPS]
    for place, runs in enumerate(told):
        try:
            found.append(_of_group(runs, partial(_in_group, before_replay, place, len(told))))
        except Interrupted:
            raise
        except BufferlabError as error:
            why_not.append(error.what)
    if len(of_pools) > MOST_GROUPS:
        why_not.append(f"of {len(of_pools)} groups of points the first {MOST_GROUPS} were replayed")
    return found, list(dict.fromkeys(why_not))


def _in_group(before_replay: Callable[[float], None], place: int, groups: int, share: float) -> None:
    """Report a group's progress as a share of all groups, as if each group took equally long."""
    before_replay((place + share) / groups)


def _of_group(runs: Sequence[RunRecord], before_replay: Callable[[float], None]) -> PoolsOfTrace:
    """Return the reads of a group's pools. Raises BufferlabError when they cannot be predicted."""
    traced = [run for run in runs if run.run.page_trace and run.run.page_trace.status == "ok"]
    # If no run has a good trace, reading this run's trace below raises an error with the reason.
    chosen = middle(traced or runs)
    read = source.read(chosen.folder)
    of_group = target(read, Overrides(set_knobs=tuple(chosen.run.point.swept.items())))
    measured = sorted({size for run in runs if (size := pool_bytes_of(run))})
    sizes = _sizes(of_group, measured)
    threads, _ = threads_for(len(sizes), of_group.prediction_bytes)
    with Ahead(partial(_predicted, of_group), sizes, threads) as ahead:
        told = [pool for _, pool in ahead.results(before_replay)]
    return PoolsOfTrace(
        model=of_group.manager.name,
        model_version=of_group.manager.version,
        traced=of_group.traced,
        pools=[pool for pool in told if pool],
    )


def _sizes(of_group: Target, measured: Sequence[int]) -> list[int]:
    """Return the pools' sizes in bytes: the measured ones and, unless that takes too long, sizes between or around
    them."""
    page = of_group.source.page_size_bytes
    more = [isqrt(a * b) // page * page for a, b in pairwise(measured)]
    if len(measured) == 1:
        more = [quarters * measured[0] // 4 // page * page for quarters in _AROUND]
    if len(more) * len(of_group.source.trace.table) > _MOST_BETWEEN:
        more = []
    return sorted({*measured, *(size for size in more if size)})


def _predicted(of_group: Target, size_bytes: int, watch: Watch) -> OtherPool | None:
    """Return the reads of a pool; None for a pool that this server cannot have.

    For the traced run's own pool, raise SpecError or DataFileError instead of returning None.
    """
    try:
        return predict_pool(of_group, size_bytes, lambda: watch("", 0.0))
    except (SpecError, DataFileError):
        if size_bytes == of_group.source.pool_bytes:
            raise
        return None
