"""Chooses the run of a sweep whose page trace represents the others.

Among points that differ only in their pool, it is the traced run with the middle pool. The report predicts other pools
from this run, and commands that read one trace take the same run of a sweep's folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bufferlab.engines import registry as engines
from bufferlab.results.schema import StoredSetting
from bufferlab.results.store import RunRecord


def pool_bytes_of(record: RunRecord) -> int | None:
    """Return the bytes of a run's pool; None if run.json lacks them."""
    value = record.run.settings.get(_pool(record), StoredSetting()).value
    return value if isinstance(value, int) else None


def groups(runs: Iterable[RunRecord]) -> list[list[RunRecord]]:
    """Return the runs in groups whose points differ only in their pool, in the order of each group's first run."""
    found: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
    for record in runs:
        others = tuple((name, value) for name, value in record.run.point.swept.items() if name != _pool(record))
        found.setdefault(others, []).append(record)
    return list(found.values())


def middle(group: Sequence[RunRecord]) -> RunRecord:
    """Return the run with the middle pool size of a group: of two middle sizes the larger, and of several runs with it
    the first."""
    sizes = sizes_of(group)
    return next(run for run in group if (pool_bytes_of(run) or 0) == sizes[len(sizes) // 2])


def sizes_of(group: Sequence[RunRecord]) -> list[int]:
    """Return the pool sizes of a group in bytes, each once, the smallest first; 0 for an unknown one."""
    return sorted({pool_bytes_of(run) or 0 for run in group})


def _pool(record: RunRecord) -> str:
    """Return the name of the setting that sizes the pool; "" for an unknown engine."""
    engine = record.run.engine
    return engines.declaration(engine).results.pool if engine in engines.names(hidden=True) else ""
